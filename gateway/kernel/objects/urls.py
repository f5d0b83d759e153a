"""`url.scheme`, `url.host`, `url.port`, `url.path`, `url.on_host`, `url.private`: a URL that every reader reads alike.

The readings of RFC 3986 (what libraries do) and of the WHATWG (what browsers and Node do) part at user names,
backslashes, tabs, missing slashes and numbers for hosts, and attacks live in between: those URLs have no answer.
[Orange Tsai, "A New Era of SSRF", 2017.] Names are not looked up: a public name can lead to a private address.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from gateway.kernel.objects.hosts import Host, is_private, number_is_private, read_host
from gateway.kernel.objects.judged import Function, Unjudged, any_of, bounded, hides, texts

MAX_URL = 16_384

PORTS: Mapping[str, int] = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}
"""Schemes whose URLs name a host, and the port that is meant where none stands."""
_SCHEME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789+-.")


class Url(NamedTuple):
    """The parts of a URL that have one reading."""

    scheme: str
    host: str
    """As it stands; `read_host` reads it."""
    port: int
    path: str


def scheme(url: str) -> str:
    """The scheme, in lower case."""
    bounded(url, "the URL", MAX_URL)
    found, colon, _ = url.partition(":")
    found = found.lower()
    if not colon or not found[:1].isalpha() or not _SCHEME.issuperset(found):
        raise Unjudged("the URL names no scheme")
    if hides(url) or " " in url or "\\" in url:
        raise Unjudged("the URL has spaces, backslashes or characters that cannot be seen")
    return found


def read(url: str) -> Url:
    """The parts of a URL that names a host."""
    found = scheme(url)
    rest = url[len(found) + 1 :]
    if found not in PORTS or not rest.startswith("//") or rest.startswith("///"):
        raise Unjudged("the URL names no host")
    try:
        split = urlsplit(url)
    except ValueError:
        raise Unjudged("the URL cannot be read") from None
    if "@" in split.netloc:
        raise Unjudged("the URL has a user name before its host")
    if "%" in split.netloc or any(char in split.netloc for char in '<>"{}|^`'):
        raise Unjudged("the host of the URL has characters that no host has")
    host, port = _host_and_port(split.netloc)
    return Url(found, host, PORTS[found] if port is None else port, split.path or "/")


def _host_and_port(netloc: str) -> tuple[str, int | None]:
    bracket = netloc.rfind("]") + 1
    host, colon, port = netloc[bracket:].partition(":")
    if not colon or not port:
        return netloc[:bracket] + host, None
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535):  # noqa: PLR2004 - 16 bits
        raise Unjudged("the port of the URL is no number")
    return netloc[:bracket] + host, int(port)


def host(url: str) -> str:
    """The host, in lower case and in its ASCII form; addresses in their canonical form, without brackets."""
    return str(read_host(read(url).host))


def port(url: str) -> int:
    """The port, also where it is only meant."""
    return read(url).port


def path(url: str) -> str:
    """The path as it stands, `/` if there is none, without query and fragment."""
    found = read(url).path
    low = found.lower()
    if any(coded in low for coded in ("%2e", "%2f", "%5c", "%00")) or any(s in {".", ".."} for s in found.split("/")):
        raise Unjudged("the path of the URL has dots or slashes that readers resolve differently")
    return found


def on_host(url: str, hosts: str | list[str]) -> bool:
    """Whether the host is one of these; `*.example.org` is every name below it, and not itself."""
    patterns = [_pattern(one) for one in ([hosts] if isinstance(hosts, str) else texts(hosts, "hosts"))]
    found = host(url)
    return any_of(lambda one: found.endswith(one[1:]) if one.startswith("*.") else found == one, patterns)


@lru_cache(maxsize=256)  # hosts stand in policies: a few, asked about at every call
def _pattern(pattern: str) -> str:
    star = "*." if pattern.startswith("*.") else ""
    try:
        read = read_host(pattern.removeprefix("*."))
    except Unjudged as why:
        raise Unjudged(f"in the list of hosts: {why.reason}") from None
    if star and not isinstance(read, str):
        raise Unjudged("in the list of hosts: nothing is below an address")
    return f"{star}{read}"


def private(url: str) -> bool:
    """Whether the host is this machine, in a network of one's own, or no public place, by its name or address."""
    found = read(url).host
    try:
        read_: Host = read_host(found)
    except Unjudged:
        return number_is_private(found)
    return is_private(read_)


def _hosts(constant: object) -> None:
    for one in [constant] if isinstance(constant, str) else constant if isinstance(constant, list) else []:
        _pattern(str(one))


_READS = ((("string",), "string"),)

FUNCTIONS = (
    Function("url.scheme", _READS, scheme),
    Function("url.host", _READS, host),
    Function("url.port", ((("string",), "int"),), port),
    Function("url.path", _READS, path),
    Function(
        "url.on_host",
        ((("string", "string"), "bool"), (("string", "list(string)"), "bool")),
        on_host,
        {1: _hosts},
    ),
    Function("url.private", ((("string",), "bool"),), private),
)
