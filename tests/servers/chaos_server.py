"""The misbehaving server of `fault_server.py`, with work that takes its time beside each fault, so that a fault can be
seen to harm nobody else.

    python tests/servers/chaos_server.py LOG [--era legacy|modern|both] [--http PORT]

`work {seconds, ...}` gives its arguments back after that time. Over stdio too, every call has a thread of its own.
"""

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.servers import fault_server
from tests.servers.fault_http import serve_http


class Server(fault_server.Server):
    """The faults, and honest work."""

    def do_work(self, call_id: Any, arguments: dict[str, Any]) -> Iterator[bytes]:
        """What it was given, after its time."""
        time.sleep(arguments["seconds"])
        yield fault_server.text(call_id, "done", structuredContent=arguments)

    def do_half_line(self, _: Any, __: dict[str, Any]) -> Iterator[bytes]:
        """An answer that breaks off in the middle of its line, and the server with it."""
        os.write(1, b'{"jsonrpc":"2.0","id":')
        yield from self.do_exit(None, {})


def serve_stdio(server: Server) -> None:
    """Each message of stdin is answered in a thread of its own, until stdin ends."""
    lock = threading.Lock()

    def serve(message: dict[str, Any]) -> None:
        for answer in server.answers(message):
            with lock:
                sys.stdout.buffer.write(answer + b"\n")
                sys.stdout.buffer.flush()

    for line in sys.stdin.buffer:
        threading.Thread(target=serve, args=(json.loads(line),), daemon=True).start()


def main() -> None:
    """Serve on stdin and stdout, or on a port of 127.0.0.1, which is then said on stdout."""
    parser = argparse.ArgumentParser()
    parser.add_argument("log", type=Path)
    parser.add_argument("--era", choices=["legacy", "modern", "both"], default="legacy")
    parser.add_argument("--http", type=int, metavar="PORT")
    options = parser.parse_args()
    log = fault_server.Log(options.log)
    log.append(started=os.getpid())
    server = Server(log, options.era)
    server.extra += ["work", "half_line"]
    if options.http is None:
        serve_stdio(server)
    else:
        serve_http(server, options.http)


if __name__ == "__main__":
    main()
