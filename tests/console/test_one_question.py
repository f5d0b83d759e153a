"""Who comes by a link for one question sees and decides that one, at the real desk, and nothing beside it."""

from dataclasses import replace

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from gateway.inbound.console import console_app, desk_of, link_of, reviewer_of
from gateway.model.review import Answer, Refused, Reviewer
from tests.console.ground import URL, Browser, standing
from tests.runtime.office import asking, office

pytestmark = pytest.mark.anyio

ANN = Reviewer(tenant="local", id="local:ann", roles=frozenset({"boss"}), via="link")


async def inbox(request: Request) -> Response:
    page = await desk_of(request).inbox(reviewer_of(request))
    return PlainTextResponse(" ".join(row.name for row in page.rows))


async def question(request: Request) -> Response:
    found = await desk_of(request).packet(request.path_params["name"], reviewer_of(request))
    return PlainTextResponse("there is none" if found is None else found.question, 404 if found is None else 200)


async def decide(request: Request) -> Response:
    said = {name: str(value) for name, value in (await request.form()).items()}
    answer = Answer(
        approval=request.path_params["name"],
        action=said["action"],
        decision="approved",
        reason="seen",
        link=link_of(request),
    )
    try:
        await desk_of(request).decide(answer, reviewer_of(request))
    except Refused as refused:
        return PlainTextResponse(refused.check, 409)
    return PlainTextResponse("decided")


PAGES = [
    Route("/", inbox),
    Route("/approvals/{name}", question, methods=["GET"]),
    Route("/approvals/{name}", decide, methods=["POST"]),
]


async def test_a_link_for_one_question_tells_of_another_only_where_that_one_is_asked_again() -> None:
    async with office(transitions=asking()) as it:
        await it.calls({"n": 1, "secret": "of another matter"})
        first = await it.asked()
        await it.calls({"n": 2})
        second = await it.asked()
        here = replace(ANN, approval=second.id)
        whole, alone = await it.desk.packet(second.id, ANN), await it.desk.packet(second.id, here)
        assert whole is not None
        assert alone is not None
        assert whole.before is not None, "who may see both sees what is other than in the question before"
        assert (alone.before, alone.changes) == (None, ())
        assert "of another matter" not in alone.model_dump_json()
        await it.says("rejected", of=first.id)
        again = await it.desk.packet(second.id, here)
        assert again is not None
        assert again.before is not None
        assert (again.before.approval, again.before.state) == (first.id, "rejected")


async def test_a_link_for_one_question_opens_no_other() -> None:
    async with office(transitions=asking()) as it:
        for number in (1, 2):
            assert await it.calls({"n": number}) == "needs_approval"
        run = await it.it.book.fresh_state_of("run_1")
        one, other = sorted(run.approvals.values(), key=lambda each: each.seq)
        door = standing(it.it.ledger, it.it.clock)
        app = console_app(it.desk, replace(door.access, now=it.it.clock.now), pages=PAGES, api=())
        http = httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=URL)
        browser = Browser(http)
        entered = await browser.enter(door.link(replace(ANN, approval=one.id)))
        assert entered.headers["location"] == f"/console/approvals/{one.id}"
        assert (await browser.get("/console")).text == one.id
        seen = [(await browser.get(f"/console/approvals/{each.id}")).status_code for each in (one, other)]
        assert seen == [200, 404]
        csrf = door.access.sessions.read(browser.cookies["counterfoil-session-8321"], it.it.clock.now())
        assert csrf is not None
        for each, status in ((other, 409), (one, 200)):
            form = {"csrf": csrf.csrf, "action": each.action}
            assert (await browser.press(f"/console/approvals/{each.id}", form)).status_code == status
        after = await it.it.book.fresh_state_of("run_1")
        assert [after.approvals[each.id].decision for each in (one, other)] == ["approved", None]
