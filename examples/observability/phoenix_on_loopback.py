"""Phoenix as `phoenix serve` starts it, its gRPC door on 127.0.0.1 too: it opens `[::]` whatever PHOENIX_HOST says.

    FOLDER/phoenix/bin/python phoenix_on_loopback.py

To be run by the Python of the venv that Phoenix is in.
"""

import sys
from typing import Any

import grpc.aio
from phoenix.server.main import main

_server = grpc.aio.server


def _on_loopback(*given: Any, **more: Any) -> grpc.aio.Server:
    """A gRPC server whose addresses without a host are 127.0.0.1's."""
    made = _server(*given, **more)
    add = made.add_insecure_port
    made.add_insecure_port = lambda address: add(address.replace("[::]", "127.0.0.1"))
    return made


if __name__ == "__main__":
    grpc.aio.server = _on_loopback
    sys.argv = ["phoenix", "serve"]
    main()
