"""What a server did: one JSON object a line, on disk before its answer goes out."""

import json
import os
from pathlib import Path
from typing import Any


class Log:
    """An append-only file of effects."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def append(self, effect: str, **details: Any) -> None:
        """The effect has happened: it is on disk."""
        line = json.dumps({"effect": effect, **details}) + "\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lines(self) -> list[dict[str, Any]]:
        """All that happened, in its order."""
        return [json.loads(line) for line in self._path.read_text().splitlines()] if self._path.exists() else []
