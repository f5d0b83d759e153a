"""(text) -> the addresses in it, with the host that one would reach. They are looked at, and never made into links."""

import re
from collections.abc import Iterator

from gateway.inbound.console.shown.layers import Range

_URL = re.compile(r"\b([a-z][a-z0-9+.\-]{1,20}://)([^\s/?#\"'<>`()\[\]{}…]*)([^\s\"'<>`]*)", re.IGNORECASE)


def addresses(text: str) -> tuple[Range, ...]:
    """The parts of every address in the text."""
    return tuple(one for found in _URL.finditer(text) for one in _parts(found)) if "://" in text else ()


def _parts(found: re.Match[str]) -> Iterator[Range]:
    yield Range(*found.span(1), "url-scheme")
    start, end = found.span(2)
    user, at, host = found.group(2).rpartition("@")
    if at:
        yield Range(start, start + len(user) + 1, "url-user danger", "a user name stands before the host")
        start += len(user) + 1
    encoded = any(label.lower().startswith("xn--") for label in host.split("."))
    unlike = not host.isascii() or encoded
    yield Range(start, end, "url-host odd-host" if unlike else "url-host", _spelled(host) if unlike else "the host")
    yield Range(*found.span(3), "url-rest")


def _spelled(host: str) -> str:
    try:
        other = host.encode("ascii").decode("idna") if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        return "a host with letters beyond ASCII, which no rule allows"
    return f"the host, which is spelled `{other}` elsewhere"
