"""A console over a ledger, with two pages behind its door; and browsers that come to it as real ones do."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from gateway.inbound.console import Access, Keys, Links, console_app, csrf_of, link_of, reviewer_of
from gateway.model.review import Reviewer
from gateway.outbound.ledger import open_ledger
from gateway.ports import Ledger
from gateway.runtime.book import Book, Options
from gateway.runtime.desk import Desk
from gateway.runtime.policies import Policies
from tests import world

RUN_KEY = b"r" * 32
KEYS = Keys.of(RUN_KEY)
URL = "http://127.0.0.1:8321"
ANNA = Reviewer(tenant="acme", id="anna", roles=frozenset({"finance"}), via="link")
BOB = Reviewer(tenant="acme", id="bob", roles=frozenset({"ops"}), via="link")

OPENED = {"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
"""What a browser says of an address that somebody typed, or a bookmark."""
FOLLOWED = {**OPENED, "sec-fetch-site": "cross-site"}
"""… of a link on another site."""
PRESSED = {**OPENED, "sec-fetch-site": "same-origin", "origin": "null"}
"""… of a form on a page of ours: it has no referrer, hence no origin."""


async def home(request: Request) -> Response:
    by = reviewer_of(request)
    said = {name: getattr(by, name) for name in ("id", "tenant", "via", "everywhere", "approval")}
    return JSONResponse({**said, "roles": sorted(by.roles), "csrf": csrf_of(request), "link": link_of(request)})


@dataclass
class Browser:
    """One browser: it keeps cookies, and says where its requests come from."""

    http: httpx2.AsyncClient

    async def get(self, path: str, headers: Mapping[str, str] = OPENED, **more: str) -> httpx2.Response:
        """The page is opened."""
        return await self.http.get(path, headers={**headers, **more})

    async def press(
        self, path: str, fields: Mapping[str, str], headers: Mapping[str, str] = PRESSED
    ) -> httpx2.Response:
        """A form is sent."""
        return await self.http.post(path, data=dict(fields), headers=dict(headers))

    async def enter(self, link: str) -> httpx2.Response:
        """The link is opened, and its button pressed."""
        offered = await self.get(link)
        assert offered.status_code == 200, offered.text
        return await self.press("/console/enter", {"ticket": ticket_of(link)})

    async def who(self) -> dict[str, Any] | None:
        """Whom the console takes this browser for."""
        shown = await self.get("/console")
        return shown.json() if shown.status_code == 200 else None

    @property
    def cookies(self) -> dict[str, str]:
        return {one.name: one.value or "" for one in self.http.cookies.jar}


@dataclass
class Standing:
    """A console of one gateway."""

    access: Access
    clock: world.ToldClock
    app: ASGIApp
    decided: list[tuple[str, str]] = field(default_factory=list)

    def link(self, reviewer: Reviewer = ANNA, lives_s: float = 900) -> str:
        """A link for them, as the gateway's own commands make it."""
        return Links(KEYS, self.access.url, self.clock.now).link_for(reviewer, lives_s=lives_s)

    def browser(self, url: str | None = None, **more: Any) -> Browser:
        """A new one, which knows the console by that address."""
        transport = httpx2.ASGITransport(self.app)
        return Browser(httpx2.AsyncClient(transport=transport, base_url=url or self.access.url, **more))

    async def entered(self, reviewer: Reviewer = ANNA) -> Browser:
        """A browser with that reviewer before it."""
        browser = self.browser()
        assert (await browser.enter(self.link(reviewer))).status_code == 303
        return browser


def standing(ledger: Ledger, clock: world.ToldClock | None = None, **more: Any) -> Standing:
    """The console of a gateway with that ledger."""
    clock = clock or world.ToldClock()
    access = replace(Access(keys=KEYS, now=clock.now, once=ledger.once, said=ledger.said, url=URL), **more)
    decided: list[tuple[str, str]] = []

    async def decide(request: Request) -> Response:
        decided.append((reviewer_of(request).id, str((await request.form()).get("decision"))))
        return PlainTextResponse("decided")

    desk = Desk(Book(ledger, Policies(ledger, {}, ""), world.ToldClock(), Options(owner="gw")))
    pages = [Route("/", home), Route("/decide", decide, methods=["POST"])]
    return Standing(access, clock, console_app(desk, access, pages=pages, api=()), decided)


@asynccontextmanager
async def consoles(*urls: str, **more: Any) -> AsyncIterator[list[Standing]]:
    """A gateway's console for each of these ledgers, which may be the same."""
    ledgers = [await open_ledger(url) for url in urls]
    try:
        yield [standing(ledger, **more) for ledger in ledgers]
    finally:
        for ledger in ledgers:
            await ledger.close()


def ticket_of(link: str) -> str:
    return parse_qs(urlsplit(link).query)["ticket"][0]
