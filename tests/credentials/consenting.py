"""A provider at which people agree, with refresh tokens that are good for once, and gateways that share a ledger."""

import base64
import hashlib
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html import escape
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import anyio
import pytest
from pydantic import SecretStr

from gateway.model.consent import Holder
from gateway.model.party import Behalf
from gateway.outbound.credentials import own, vault
from gateway.outbound.credentials.consent_flow import ConsentFlow
from gateway.outbound.credentials.consented import Consented
from gateway.outbound.credentials.credential import NoToken
from gateway.outbound.credentials.endpoint import OAuthClient
from gateway.outbound.credentials.vault import Vault
from gateway.outbound.ledger import MemoryLedger
from gateway.outbound.payload_keys import Keyring
from tests.credentials.authority import CLIENT, SECRET, Authority, response
from tests.upstream.http1_server import Asked, serving
from tests.world import ToldClock

PAGE = "https://review.example/console/connections"
OLD_KEY, KEY = b"o" * 32, b"k" * 32
ISSUER = "https://login.example"
VERIFIER = "v" * 43
ANN = Holder("acme", "ann", "mail")
CONNECT = f"`ann` has not connected an account there: connect it at {PAGE}"
AGAIN = f"what `ann` agreed to there has ended or was taken back: connect it again at {PAGE}"


@dataclass
class Consulted(Authority):
    """As `Authority`, and people agree there."""

    codes: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """Whose each code is, with the challenge and the address that it is bound to."""
    refreshing: dict[str, str] = field(default_factory=dict)
    """Whose each refresh token is that is good still."""
    revoked: list[str] = field(default_factory=list)
    renews: bool = True
    """Whether it gives refresh tokens."""
    scope: str | None = "mail.read"
    _number: Any = field(default_factory=lambda: itertools.count(1))

    @property
    def authorization_url(self) -> str:
        return f"http://127.0.0.1:{self.served.port}/authorize?tenant=1"

    @property
    def revocation_url(self) -> str:
        return f"http://127.0.0.1:{self.served.port}/revoke"

    def agree(self, address: str, whose: str) -> list[tuple[str, str]]:
        """Somebody opens the address and agrees; the query with which they are sent back."""
        asked = dict(parse_qsl(urlsplit(address).query))
        assert asked["response_type"] == "code"
        assert asked["code_challenge_method"] == "S256"
        code = f"code-cAnArY-{next(self._number)}-{whose}"
        self.codes[code] = whose, asked["code_challenge"], asked["redirect_uri"]
        return [("code", code), ("state", asked["state"]), ("iss", ISSUER)]

    def _page(self, path: str) -> bytes:
        """What somebody sees there, in a browser."""
        query = urlencode(self.agree(path, "whoever-sits-there"))
        there = f"{dict(parse_qsl(urlsplit(path).query))['redirect_uri']}?{query}"
        body = f'<!doctype html><title>Agree</title><a href="{escape(there)}">Agree</a>'.encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {len(body)}\r\n\r\n"
        return head.encode() + body

    def _answered(self, asked: Asked) -> bytes:
        if asked.head.startswith(b"GET /authorize"):
            return self._page(asked.head.split(b" ")[1].decode())
        if asked.head.startswith(b"GET "):
            return response(404, {})
        form = {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}
        if b" /revoke " in asked.head:
            self.revoked.append(form["token"])
            self.refreshing.pop(form["token"], None)
            return response(200, b"")
        if form.get("grant_type") not in {"authorization_code", "refresh_token"}:
            return super()._answered(asked)
        self.forms.append(form)
        whose = self._by_code(form) if "code" in form else self.refreshing.pop(form["refresh_token"], None)
        if whose is None:
            return response(400, {"error": "invalid_grant", "error_description": f"{form}"})
        number = next(self._number)
        token = f"access-cAnArY-{number}-for-{whose}"
        self.good[token] = whose
        said = {"access_token": token, "token_type": "Bearer"}
        if self.renews:
            said["refresh_token"] = f"refresh-cAnArY-{number}-for-{whose}"
            self.refreshing[said["refresh_token"]] = whose
        lasts = {} if self.lasts_s is None else {"expires_in": self.lasts_s}
        return response(200, {**said, **lasts, **({} if self.scope is None else {"scope": self.scope})})

    def _by_code(self, form: Mapping[str, str]) -> str | None:
        whose, challenge, redirect = self.codes.pop(form["code"], ("", "", ""))
        shown = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        return whose if (challenge, redirect) == (shown, form["redirect_uri"]) else None


@dataclass
class Shared:
    """A provider, a ledger, and the gateways that share it."""

    provider: Consulted
    clock: ToldClock = field(default_factory=ToldClock)
    ledger: MemoryLedger = field(default_factory=MemoryLedger)
    ended: list[tuple[str, str]] = field(default_factory=list)
    """Whose connections were to end, at any gateway."""

    def gateway(self, owner: str = "gw_1", keys: tuple[bytes, ...] = (KEY,), **more: Any) -> Consented:
        """One of them, as it knows the upstream `mail`."""
        made = consented(self.provider, self.clock.monotonic, **more)
        vault = Vault(self.ledger.consents, Keyring(keys), self.clock, owner)
        made.open(vault, lambda tenant, principal: self.ended.append((tenant, principal)))
        return made

    async def connected(self, gateway: Consented, who: str = "ann", tenant: str = "acme") -> None:
        """That principal agrees, and comes back to that gateway."""
        said = dict(self.provider.agree(gateway.flow.address("s", VERIFIER), f"{tenant}-{who}"))
        await gateway.connect(tenant, who, said["code"], VERIFIER)


def consented(
    provider: Consulted,
    monotonic: Callable[[], float],
    upstream: str = "mail",
    page: str = PAGE,
    **more: Any,
) -> Consented:
    """As a gateway knows the upstream."""
    told = {"scope": "mail.read offline_access", "resource": "https://mail.example/mcp", "secret": SECRET, **more}
    revocation_url, issuer = told.pop("revocation_url", provider.revocation_url), told.pop("issuer", ISSUER)
    secret, client_id = told.pop("secret"), told.pop("client_id", CLIENT)
    client = OAuthClient(provider.url, client_id, None if secret is None else SecretStr(secret), **told)
    flow = ConsentFlow(client, provider.authorization_url, f"{page}/{upstream}/callback", issuer)
    return Consented(upstream, flow, page, revocation_url, monotonic, lambda: 0.5)


def behalf(who: str = "ann", tenant: str = "acme") -> Behalf:
    """Somebody who came in, by a key."""
    return Behalf(tenant, who, by_token=False)


@asynccontextmanager
async def shared(**more: Any) -> AsyncIterator[Shared]:
    """A provider while it runs, and gateways that share a ledger and look into it often; all of it bounded in time."""
    with anyio.fail_after(10), pytest.MonkeyPatch.context() as patch:
        patch.setattr(own, "LOOK_S", 0.001)
        patch.setattr(vault, "AGAIN_S", 0.001)
        async with serving((at := Consulted(**more)).script) as served:
            at.served = served
            yield Shared(at)


async def why(gateway: Consented, who: str = "ann", tenant: str = "acme") -> str:
    """Why there is no token for them."""
    with pytest.raises(NoToken) as told:
        await gateway.token(behalf(who, tenant))
    return str(told.value)


async def kept(at: Shared, holder: Holder = ANN) -> Any:
    """The consent as the store has it."""
    return await at.ledger.consents.read(holder)
