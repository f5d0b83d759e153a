"""Addresses at which secrets may be sent and answers believed."""

import ipaddress
from urllib.parse import urlsplit


def is_safe(url: str) -> bool:
    """Whether nobody on the way can read or change what is said there: TLS, or this very machine."""
    try:
        parsed = urlsplit(url)
        host, _ = parsed.hostname or "", parsed.port
        local = host == "localhost" or (bool(host) and is_loopback(host))
    except ValueError:
        return False
    return bool(host) and parsed.username is None and (parsed.scheme == "https" or (parsed.scheme == "http" and local))


def is_loopback(host: str) -> bool:
    """Whether it is an address of this very machine; no name is."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
