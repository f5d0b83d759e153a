"""Logs that another process writes while a test reads them."""

from pathlib import Path


def whole_lines(log: Path, after: int = 0) -> list[bytes]:
    """The lines from byte `after` on that are written to their end, which the one being written now is not yet.

    None if there is no such file.
    """
    if not log.exists():
        return []
    with log.open("rb") as file:
        file.seek(after)
        *whole, _ = file.read().split(b"\n")
    return [line for line in whole if line]
