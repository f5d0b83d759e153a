"""The values of the corpus, as bytes; each line of a file is a name and a JSON text."""

from pathlib import Path

HERE = Path(__file__).parent


def _of(name: str) -> dict[str, bytes]:
    lines = (HERE / name).read_bytes().split(b"\n")
    pairs = (line.partition(b": ") for line in lines if line)
    return {key.decode(): text for key, _, text in pairs}


VALUES = _of("values.txt")
"""What must arrive as it was sent."""
ALL = b"{%b}" % b",".join(b'"%b":%b' % (name.encode(), text) for name, text in VALUES.items())
"""All of them in one."""
REFUSED = _of("refused.txt")
"""What no two readers need agree on, and nobody may be sent."""


def nested(levels: int) -> bytes:
    """Lists within lists."""
    return b"[" * levels + b"]" * levels
