"""One consent: away to the provider of a server, and back with a code that is worth nothing to anybody else.

`state` ties the way back to the browser and the session that went, PKCE the code to us [RFC 9700, 2.1.1], and an
address of its own for each server the answer to that server's provider [RFC 9700, 4.4.2].
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode, urlsplit

from pydantic import SecretStr

from gateway.outbound.credentials.credential import NoToken
from gateway.outbound.credentials.endpoint import ERRORS, Granted, OAuthClient, granted
from gateway.outbound.credentials.sealed_grants import Grant
from gateway.outbound.oidc.flow import MAX_CODE_CHARS, challenge

ASKED = frozenset({"client_id", "code_challenge", "code_challenge_method", "redirect_uri", "response_type", "state"})
"""What the address at which people agree always says by us, and by nobody else."""

_ONCE = ("state", "code", "iss", "error")


class NotConsented(Exception):
    """Nothing was given to us. The message says why, and shows no token and no code."""


@dataclass(frozen=True, slots=True)
class ConsentFlow:
    """The authorization code flow with the provider of one server, from one address of ours."""

    client: OAuthClient
    authorization_url: str
    redirect: str
    """Where the provider sends people back to; of this server alone."""
    issuer: str | None = None
    """What the provider calls itself in its answer [RFC 9207]; None: it need not."""

    @property
    def host(self) -> str:
        """Whom people go to."""
        return urlsplit(self.authorization_url).netloc

    def address(self, state: str, verifier: str) -> str:
        """Where the person agrees."""
        client = self.client
        asked = {
            "response_type": "code",
            "client_id": client.client_id,
            "redirect_uri": self.redirect,
            "scope": client.scope,
            "audience": client.audience,
            "resource": client.resource,
            "state": state,
            "code_challenge": challenge(verifier),
            "code_challenge_method": "S256",
        }
        join = "&" if "?" in self.authorization_url else "?"
        return f"{self.authorization_url}{join}{urlencode({k: v for k, v in asked.items() if v is not None})}"

    def code(self, said: Sequence[tuple[str, str]]) -> str:
        """The code in the query with which they came back, whose state was found right.

        Raises: NotConsented.
        """
        names = [name for name, _ in said]
        if any(names.count(name) > 1 for name in _ONCE):
            raise NotConsented("the provider's answer says one thing twice")
        found = dict(said)
        if self.issuer is not None and found.get("iss") != self.issuer:
            raise NotConsented("the answer is from another provider")
        if "error" in found:
            known = found["error"] if found["error"] in ERRORS else None
            if known == "access_denied":
                raise NotConsented("you did not agree there")
            raise NotConsented(
                "the provider gave nothing" if known is None else f"the provider gave nothing (`{known}`)"
            )
        code = found.get("code", "")
        if not code or len(code) > MAX_CODE_CHARS:
            raise NotConsented("the provider gave no code")
        return code

    async def grant(self, code: str, verifier: str, now: float) -> Grant:
        """What the provider gives for that code.

        Raises: NotConsented.
        """
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect,
            "code_verifier": verifier,
        }
        try:
            given = await granted(unscoped(self.client), form)
        except NoToken as error:
            raise NotConsented(str(error)) from None
        return _granted(self.client, given, now)


def unscoped(client: OAuthClient) -> OAuthClient:
    """The client as it asks for what was agreed to, whatever that is: a person may have agreed to less."""
    return replace(client, scope=None)


def _granted(client: OAuthClient, given: Granted, now: float) -> Grant:
    return Grant(
        provider=(client.token_url, client.client_id),
        since=now,
        scope=given.scope or client.scope or "",
        access=SecretStr(given.token),
        refresh=given.refresh,
        got_at=now,
        until=None if given.lasts_s is None else now + given.lasts_s,
    )
