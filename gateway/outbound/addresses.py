"""Which addresses are of this machine, and at which secrets may be sent and answers believed."""

import ipaddress
from urllib.parse import urlsplit


def is_safe(url: str) -> bool:
    """Whether nobody on the way can read or change what is said there: TLS, or this very machine."""
    try:
        parsed = urlsplit(url)
        host, _ = parsed.hostname or "", parsed.port
    except ValueError:
        return False
    if not url.isprintable() or any(map(str.isspace, url)):
        return False  # readers of addresses differ in what they make of these
    guarded = parsed.scheme == "https" or (parsed.scheme == "http" and is_local(host))
    return bool(host) and parsed.username is None and guarded


def is_local(host: str) -> bool:
    """Whether only this machine can reach it; a name other than `localhost` may mean anything."""
    return host == "localhost" or is_loopback(host)


def is_loopback(host: str) -> bool:
    """Whether it is an address of this very machine; no name is."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
