"""What one person connected is to everybody else as if it never was; and who may only connect sees nothing else.

All pages are found in the table by which they are served, so that nothing new goes untried.
"""

import re

import pytest
from starlette.routing import Route

from gateway.inbound.console.pages import Live, pages
from gateway.inbound.console.paths import CONNECTIONS
from gateway.model.review import NO_QUESTION, Reviewer
from gateway.outbound.redaction import DetectingRedactor
from tests.console.office import BOSS, PRESSED, Office, fill, office
from tests.credentials.consenting import Consulted, consented
from tests.upstream.http1_server import serving
from tests.world import ToldClock

pytestmark = pytest.mark.anyio

OLGA = Reviewer("other", "olga", frozenset({"dba", "owner"}), via="link")
GUEST = Reviewer("local", "gast", via="link", approval=NO_QUESTION)


def routes_of(at: Office) -> list[Route]:
    made = pages(at.desk, at.it.book, at.it.upstreams, lambda: (True, {}), Live(at.desk), DetectingRedactor())
    return [one for one in made if isinstance(one, Route)]


@pytest.mark.parametrize("who", [OLGA, BOSS, GUEST, Reviewer("other", "ann", via="link")], ids=lambda one: one.id)
async def test_what_another_connected_is_to_everybody_else_as_if_it_never_was(who: Reviewer) -> None:
    provider = Consulted()
    async with serving(provider.script) as served:
        provider.served = served
        mail = consented(provider, ToldClock().monotonic)
        async with office(consented=[mail]) as at:
            browser = await at.visitor(who)
            csrf = re.search(r'name="csrf" value="([^"]*)"', await browser.read("/connections"))
            mine = [one for one in routes_of(at) if one.path.startswith(CONNECTIONS)]
            assert len(mine) == 4
            assert csrf is not None
            told: list[list[tuple[int, str]]] = []
            for _ in range(2):  # before Ann has connected hers, and after
                answers = []
                for route in mine:
                    path = route.path.replace("{upstream}", "mail")
                    posts = {"data": {"csrf": csrf[1]}, "headers": PRESSED}
                    gets = "GET" in (route.methods or ())
                    found = await (browser.get(path) if gets else browser.http.post(f"/console{path}", **posts))  # type: ignore[arg-type]
                    answers.append((found.status_code, re.sub(r"(state|challenge)=[\w-]+", "", found.text)))
                told.append(answers)
                said = dict(provider.agree(mail.flow.address("s", "v" * 43), "anns"))
                await mail.connect("acme", "ann", said["code"], "v" * 43)
            assert told[0] == told[1]
            assert (await mail.connected("acme", "ann")).state == "connected"


async def test_who_came_to_connect_accounts_sees_no_other_page() -> None:
    async with office(consented=[consented(Consulted(), ToldClock().monotonic)]) as at:
        await fill(at)
        browser = await at.visitor(GUEST)
        assert (await browser.get("/")).headers["location"] == "/console/connections"
        page = await browser.read("/connections")
        (nav,) = re.findall(r"<nav.*?</nav>", page, re.DOTALL)
        assert nav.count("<li>") == 1
        csrf = re.search(r'name="csrf" value="([^"]*)"', page)
        assert csrf is not None
        state = await at.it.book.state_of("run_1")
        names = {"name": at.asked["pay"], "run": "run_1", "step": "1", "digest": str(state.policy), "number": "1"}
        before = len(await at.it.ledger.log())
        for route in routes_of(at):
            if route.path in {"/", "/static/{name}", "/events"} or route.path.startswith(CONNECTIONS):
                continue
            path = re.sub(r"\{(\w+)(?::int)?\}", lambda found: names[found[1]], route.path)
            if "GET" in (route.methods or ()):
                told = await browser.get(path)
            else:
                fields = {"csrf": csrf[1], "action": "x", "served": "x", "reason": "r", "approval": names["name"]}
                told = await browser.http.post(f"/console{path}", data=fields, headers=PRESSED)
            nothing = route.path == "/results"  # of what was answered together, which is nothing
            assert told.status_code in {400, 404} or nothing, (route.path, told.status_code)
            assert "Refund" not in told.text, route.path
        assert len(await at.it.ledger.log()) == before
