"""Our cookies: unseen by scripts, sent by no other site's requests, and only over TLS where there is TLS.

Browsers do not tell ports apart, so the port is in the name: two gateways on one machine do not sign each other's
reviewers out.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import cookie_parser

from gateway.inbound.console.access import Access
from gateway.inbound.console.paths import ROOT


@dataclass(frozen=True, slots=True)
class Cookie:
    """One cookie of ours."""

    name: str
    _attributes: str

    def written(self, value: str, lives_s: float) -> str:
        """The header that has the browser keep the value."""
        return f"{self.name}={value}; Max-Age={max(0, int(lives_s))}; {self._attributes}"

    def cleared(self) -> str:
        """The header that has the browser forget it."""
        return self.written("", 0)

    def read(self, headers: list[str]) -> str | None:
        """The value, from the request's `Cookie` headers; None where there is none, or more than one."""
        found = [value for header in headers for value in _values(header, self.name)]
        return found[0] if len(found) == 1 and found[0] else None


def _values(header: str, name: str) -> list[str]:
    if header.count(f"{name}=") > 1:
        return ["", ""]  # somebody else has set one too, for a longer path or a wider domain: which is ours?
    value = cookie_parser(header).get(name)
    return [] if value is None else [value]


def cookie(access: Access, use: str) -> Cookie:
    """The cookie for that use, at that gateway."""
    if access.secure:
        # `__Host-` cannot be set by another host of the domain, and has to be for all paths [RFC 6265bis, 4.1.3.2].
        return Cookie(f"__Host-counterfoil-{use}", "Path=/; HttpOnly; SameSite=Lax; Secure")
    port = urlsplit(access.url).port or 80
    return Cookie(f"counterfoil-{use}-{port}", f"Path={ROOT}; HttpOnly; SameSite=Lax")
