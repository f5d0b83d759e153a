"""An honest pipe in front of a stdio server, which can be told to lose one answer.

    python lossy.py FLAG -- COMMAND...

While the file FLAG exists, the next answer to a `tools/call` is not passed on: the server has done what was asked, and
nobody hears of it. FLAG goes with it, so it happens once. All else passes byte for byte. It needs only the standard
library, and is started by its path, so it is there in an instant.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any


class Pipe:
    """What stands between whoever started us and the server."""

    def __init__(self, flag: Path) -> None:
        self._flag = flag
        self._asked: set[str] = set()

    def requests(self, source: IO[bytes], server: IO[bytes]) -> None:
        """Each line has reached the server, until there are no more; then the server is told so."""
        with contextlib.suppress(BrokenPipeError), server:
            for line in iter(source.readline, b""):
                message = _read(line)
                if message.get("method") == "tools/call" and "id" in message:
                    self._asked.add(json.dumps(message["id"]))
                server.write(line)
                server.flush()

    def answers(self, server: IO[bytes], sink: IO[bytes]) -> None:
        """Each line has reached whoever started us, but for the one that is to be lost."""
        with contextlib.suppress(BrokenPipeError):
            for line in iter(server.readline, b""):
                if not self._lost(line):
                    sink.write(line)
                    sink.flush()

    def _lost(self, line: bytes) -> bool:
        message = _read(line)
        name = json.dumps(message.get("id"))
        if "method" in message or name not in self._asked:
            return False
        self._asked.discard(name)
        try:
            self._flag.unlink()
        except FileNotFoundError:
            return False
        return True


def _read(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError:
        return {}  # not ours to judge
    return message if isinstance(message, dict) else {}


def main() -> None:
    """The server has run to its end, with us in front of it; its exit code is ours."""
    match sys.argv[1:]:
        case [flag, "--", *command] if command:
            pipe = Pipe(Path(flag))
        case _:
            sys.exit("usage: lossy.py FLAG -- COMMAND...")
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - as we were asked to
    assert server.stdin is not None  # noqa: S101 - for the type checker: both are pipes
    assert server.stdout is not None  # noqa: S101 - as above
    signal.signal(signal.SIGTERM, lambda *_: server.terminate())
    up = threading.Thread(target=pipe.requests, args=(sys.stdin.buffer, server.stdin), daemon=True)
    down = threading.Thread(target=pipe.answers, args=(server.stdout, sys.stdout.buffer), daemon=True)
    up.start()
    down.start()
    code = server.wait()
    down.join()
    os._exit(code if code >= 0 else 128 - code)  # a thread that still reads stdin would hold up an ordinary end


if __name__ == "__main__":
    main()
