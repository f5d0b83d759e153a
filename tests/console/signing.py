"""A console at whose provider people sign in, and their ways there and back."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import httpx2
from pydantic import SecretStr

from gateway.outbound.oidc.flow import Flow
from gateway.outbound.oidc.people import OidcSettings
from gateway.outbound.oidc.provider import Provider
from gateway.outbound.system_trust import system_trust
from tests.console.ground import FOLLOWED, Browser, Standing, standing
from tests.console.provider import CLIENT, SECRET, OpenId

SIGN_IN = "counterfoil-sign-in-8321"


@dataclass
class Signing:
    """A console at whose provider people sign in."""

    console: Standing
    openid: OpenId

    async def there(self, browser: Browser, to: str = "") -> str:
        """The browser goes to the provider, and its owner signs in; the address to which it is sent back."""
        gone = await browser.get(f"/console/login?to={to}")
        assert gone.status_code == 303, gone.text
        async with httpx2.AsyncClient(verify=system_trust()) as elsewhere:
            return str((await elsewhere.get(gone.headers["location"])).headers["location"])

    async def signed_in(self, to: str = "") -> tuple[Browser, httpx2.Response]:
        """A browser that went there and came back, and what it is told."""
        browser = self.console.browser()
        return browser, await browser.get(await self.there(browser, to), FOLLOWED)

    async def refused(self) -> str:
        """Why somebody who came back is not let in."""
        browser, answer = await self.signed_in()
        assert answer.status_code == 401, answer.text
        assert await browser.who() is None
        return answer.text.partition("<h1>")[2].partition("</h1>")[0]


def settings(openid: OpenId, **more: Any) -> OidcSettings:
    told = OidcSettings(
        issuer=openid.url,
        client_id=CLIENT,
        client_secret=SecretStr(SECRET),
        tenant_claim="org",
        roles_claim="groups",
        roles_map={"fin": ("finance", "payments")},
        allowed_tenants=("acme",),
    )
    return replace(told, **more)


def at(console: Standing, openid: OpenId, **more: Any) -> Signing:
    """The same console, as one that has that provider."""
    flow = Flow(Provider(settings(openid, **more), console.clock.monotonic), f"{console.access.url}/console/callback")
    ledger = console.access.once.__self__  # type: ignore[attr-defined]
    return Signing(standing(ledger, console.clock, oidc=flow), openid)


SigningMaker: TypeAlias = Callable[..., AbstractAsyncContextManager[Signing]]
