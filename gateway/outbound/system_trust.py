"""The certificate authorities that this machine trusts."""

import ssl
from functools import cache


@cache
def system_trust() -> ssl.SSLContext:
    """For HTTP/1.1 with any server that they vouch for. Made once: it takes some 20 ms of CPU."""
    trust = ssl.create_default_context()
    trust.set_alpn_protocols(["http/1.1"])
    return trust
