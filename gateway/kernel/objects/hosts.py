"""A host as it stands in a URL or after the `@` of an address: one name, or no answer."""

import unicodedata
from functools import cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from types import ModuleType
from typing import TypeAlias

from gateway.kernel.objects.judged import Unjudged, hides

Host: TypeAlias = str | IPv4Address | IPv6Address

MAX_HOST = 253
_LABEL = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_")


@cache
def _idna() -> ModuleType:
    import idna  # noqa: PLC0415 - 10 ms, and only for names beyond ASCII

    return idna


def read_host(host: str) -> Host:
    """An address, or a name in lower case, in its ASCII form, without the last dot."""
    if host.startswith("[") and host.endswith("]"):
        return _six(host[1:-1])
    name = _ascii(host) if not host.isascii() else host.lower()
    name = name.removesuffix(".")
    if not name or len(name) > MAX_HOST:
        raise Unjudged("the host is empty or too long")
    labels = name.split(".")
    if not all(_is_label(label) for label in labels):
        raise Unjudged("the host is no name and no address")
    return _four(name) if _is_number(labels[-1]) else name


def _is_label(label: str) -> bool:
    return 0 < len(label) <= 63 and _LABEL.issuperset(label) and not label.startswith("-") and not label.endswith("-")  # noqa: PLR2004 - [RFC 1035, 2.3.4]


def _ascii(host: str) -> str:
    """What every reader makes of a name beyond ASCII; those of IDNA 2003 and 2008 do not agree on all."""
    folded = unicodedata.normalize("NFKC", host.lower())
    if hides(host) or folded != host.lower() or "\u3002" in host or len(host) > MAX_HOST:
        raise Unjudged("the host has characters that are replaced by others")
    idna = _idna()
    try:
        new = idna.encode(folded, uts46=True).decode()
        old = folded.encode("idna").decode()
    except (UnicodeError, ValueError):
        raise Unjudged("the host is no name that can be looked up") from None
    if new != old:
        raise Unjudged("the host is another one to older readers")
    return str(new).lower()


def _is_number(label: str) -> bool:
    """Whether readers take a host that ends so for an IPv4 address [WHATWG URL, "ends in a number"]."""
    return label.isdigit() or (label.startswith("0x") and all(char in "0123456789abcdef" for char in label[2:]))


def _four(host: str) -> IPv4Address:
    try:
        return IPv4Address(host)  # four decimals without leading zeros, and nothing else
    except ValueError:
        raise Unjudged("the host is a number that readers take differently") from None


def _six(host: str) -> IPv6Address:
    if "%" in host:
        raise Unjudged("the host names a zone of the network")
    try:
        return IPv6Address(host)
    except ValueError:
        raise Unjudged("the host is no address") from None


# --- where it leads -------------------------------------------------------------------------------------------------

_HERE = (
    "localhost",
    "local",
    "internal",
    "intranet",
    "private",
    "lan",
    "corp",
    "home",
    "svc",
    "home.arpa",
    "localdomain",
)
"""Endings of names that mean something only in one network [RFC 6761, 6762, 8375; ICANN on `internal`]."""
_MIRRORS = ("nip.io", "sslip.io", "xip.io", "localtest.me", "lvh.me", "vcap.me", "lacolhost.com", "yoogle.com")
"""Public names that lead to whatever private address stands in front of them, or to this machine."""
_NOT_PUBLIC = tuple(
    map(
        ip_network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/3",
            "168.63.129.16/32",
        ),
    )
)
"""All IPv4 that is not plain unicast [IANA special-purpose registry], and what Azure answers for itself."""
_PUBLIC_SIX = IPv6Network("2000::/3")
_NOT_PUBLIC_SIX = tuple(ip_network(one) for one in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
"""Within the public space: tunnels, which carry any IPv4 address, and what is only for documents."""


def is_private(host: Host) -> bool:
    """Whether it leads into a network of one's own, to this machine, or to no public place. Nothing is looked up."""
    if isinstance(host, str):
        return "." not in host or any(host == end or host.endswith(f".{end}") for end in (*_HERE, *_MIRRORS))
    if isinstance(host, IPv4Address):
        return any(host in network for network in _NOT_PUBLIC)
    if host.ipv4_mapped is not None:
        return is_private(host.ipv4_mapped)
    return host not in _PUBLIC_SIX or any(host in network for network in _NOT_PUBLIC_SIX)


def number_is_private(host: str) -> bool:
    """Whether a host like `2130706433`, `0x7f.1` or `0177.0.0.1` leads to a private address under every reading."""
    readings = {_number(host, octal=octal) for octal in (True, False)} - {None}
    if readings and all(is_private(ip_address(one)) for one in readings if one is not None):
        return True
    raise Unjudged("the host is a number that readers take differently")


def _number(host: str, *, octal: bool) -> int | None:
    """As `inet_aton` reads it: up to four numbers, of which the last fills what is left."""
    parts = host.lower().removesuffix(".").split(".")
    if len(parts) > 4 or not host.isascii():  # noqa: PLR2004 - bytes of an address
        return None
    found = [_part(part, octal=octal) for part in parts]
    *heads, last = [one if one is not None else -1 for one in found]
    if last < 0 or last >= 256 ** (5 - len(parts)) or not all(0 <= head < 256 for head in heads):  # noqa: PLR2004
        return None
    return sum(head << (8 * (3 - place)) for place, head in enumerate(heads)) + last


def _part(part: str, *, octal: bool) -> int | None:
    base = 16 if part.startswith("0x") else 8 if octal and len(part) > 1 and part.startswith("0") else 10
    try:
        return int(part, base) if part.isalnum() and len(part) <= 16 else None  # noqa: PLR2004
    except ValueError:
        return None
