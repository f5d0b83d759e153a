"""Nothing is changed in a reviewer's name but by a page of ours, in their session; and nobody frames or keeps it."""

import asyncio
from collections.abc import Mapping
from typing import Any

import anyio
import pytest
from starlette.types import Message

from gateway.inbound.console.bodies import MAX_BYTES
from gateway.inbound.console.sessions import IDLE_S, LONGEST_S
from tests.console.ground import BOB, FOLLOWED, OPENED, PRESSED, URL, Standing, consoles, ticket_of

pytestmark = pytest.mark.anyio

SESSION = "counterfoil-session-8321"
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


async def test_every_answer_says_that_nobody_may_frame_keep_or_reinterpret_it(it: Standing) -> None:
    browser = await it.entered()
    answers = [
        await browser.get("/console"),
        await browser.get("/console/nowhere"),
        await browser.get("/console/door.css"),
        await browser.get("/console", host="evil.example"),
        await it.browser().get("/console"),
        await it.browser().get(it.link()),
        await it.browser().enter(it.link()),
        await browser.press("/console/decide", {}),
    ]
    assert [one.status_code for one in answers] == [200, 404, 200, 421, 401, 200, 303, 403]
    for one in answers:
        said = one.headers
        assert said["content-security-policy"] == POLICY
        assert (said["x-frame-options"], said["x-content-type-options"]) == ("DENY", "nosniff")
        assert (said["referrer-policy"], said["cache-control"]) == ("no-referrer", "no-store")
        assert said["cross-origin-opener-policy"] == said["cross-origin-resource-policy"] == "same-origin"


async def test_a_decision_by_a_form_of_ours_is_taken(it: Standing) -> None:
    browser = await it.entered()
    csrf = (await browser.who() or {})["csrf"]
    fields = {"csrf": csrf, "decision": "approved"}
    own = {**PRESSED, "origin": URL}
    without_fetch_metadata = {"origin": URL}
    for headers in (PRESSED, own, without_fetch_metadata):
        assert (await browser.press("/console/decide", fields, headers)).status_code == 200
    by_script = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "x-csrf-token": csrf, "origin": URL}
    assert (await browser.press("/console/decide", {"decision": "approved"}, by_script)).status_code == 200
    assert it.decided == [("anna", "approved")] * 4


EVIL = "http://evil.example"
NEIGHBOUR = "http://127.0.0.1:9999"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "null"},
        {"origin": EVIL},
        {"origin": NEIGHBOUR},
        {"origin": "https://127.0.0.1:8321"},
        {"origin": "http://localhost:8321"},
        {**PRESSED, "sec-fetch-site": "cross-site"},
        {**PRESSED, "sec-fetch-site": "same-site"},
        {**PRESSED, "sec-fetch-site": "none"},
        {**PRESSED, "origin": EVIL},
        {**PRESSED, "origin": NEIGHBOUR},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "origin": URL},
    ],
)
async def test_a_form_that_is_not_on_a_page_of_ours_is_refused_though_its_token_is_right(
    it: Standing, headers: Mapping[str, str]
) -> None:
    browser = await it.entered()
    csrf = (await browser.who() or {})["csrf"]
    assert (await browser.press("/console/decide", {"csrf": csrf, "decision": "approved"}, headers)).status_code == 403
    assert (await browser.press("/console/leave", {"csrf": csrf}, headers)).status_code == 403
    assert (await it.browser().press("/console/enter", {"ticket": ticket_of(it.link())}, headers)).status_code == 403
    assert it.decided == []
    assert await browser.who() is not None


async def test_a_form_needs_the_token_of_its_very_session(it: Standing) -> None:
    browser, other, again = await it.entered(), await it.entered(BOB), await it.entered()
    others = [(await one.who() or {})["csrf"] for one in (other, again)]
    mine = (await browser.who() or {})["csrf"]
    for said in ("", "x", mine[:-1], mine.swapcase(), *others):
        assert (await browser.press("/console/decide", {"csrf": said, "decision": "approved"})).status_code == 403
    assert (await browser.press("/console/decide", {"decision": "approved"})).status_code == 403
    twice = await browser.http.post("/console/decide", content=f"csrf={mine}&csrf={mine}", headers={
        **PRESSED, "content-type": "application/x-www-form-urlencoded",
    })  # fmt: skip
    assert twice.status_code == 403
    in_the_address = await browser.press(f"/console/decide?csrf={mine}", {"decision": "approved"})
    assert in_the_address.status_code == 403
    as_json = await browser.http.post("/console/decide", json={"csrf": mine}, headers=PRESSED)
    assert as_json.status_code == 403
    assert it.decided == []


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "ODD"])
async def test_no_method_that_changes_something_goes_without(it: Standing, method: str) -> None:
    browser = await it.entered()
    assert (await browser.http.request(method, "/console/decide", headers=PRESSED)).status_code == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8321", "127.0.0.1.evil.example", "", "a, 127.0.0.1"])
async def test_a_name_that_was_rebound_to_us_is_not_ours(it: Standing, host: str) -> None:
    browser = await it.entered()
    cookie = {"cookie": f"{SESSION}={browser.cookies[SESSION]}"}
    own = {**OPENED, "sec-fetch-site": "same-origin", "host": host, **cookie}
    for answer in (
        await it.browser().get("/console", own),
        await it.browser().get(it.link(), own),
        await it.browser().press("/console/enter", {"ticket": ticket_of(it.link())}, own),
    ):
        assert answer.status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1:8321", "localhost:8321", "[::1]:8321", "localhost"])
async def test_loopback_by_any_of_its_names_is_ours(it: Standing, host: str) -> None:
    browser = it.browser(f"http://{host}")
    assert (await browser.enter(f"http://{host}/console/enter?ticket={ticket_of(it.link())}")).status_code == 303
    csrf = (await browser.who() or {})["csrf"]
    own = {"origin": f"http://{host}"}
    assert (await browser.press("/console/decide", {"csrf": csrf, "decision": "x"}, own)).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (FOLLOWED, 200),
        ({**FOLLOWED, "sec-fetch-site": "same-site"}, 200),
        ({**FOLLOWED, "sec-fetch-dest": "iframe"}, 403),
        ({**FOLLOWED, "sec-fetch-dest": "embed"}, 403),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}, 403),
        (
            {"sec-fetch-site": "same-site", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty", "origin": NEIGHBOUR},
            403,
        ),
        ({"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}, 200),
        ({"origin": EVIL}, 403),
    ],
)
async def test_links_lead_here_and_no_page_frames_or_reads_it(
    it: Standing, headers: Mapping[str, str], status: int
) -> None:
    browser = await it.entered()
    assert (await browser.get("/console", headers)).status_code == status


# --- sessions -------------------------------------------------------------------------------------------------------


async def test_coming_in_makes_a_new_session_whatever_the_browser_had(it: Standing) -> None:
    planted = await it.entered(BOB)
    victim = it.browser()
    victim.http.cookies.set(SESSION, planted.cookies[SESSION], domain="127.0.0.1", path="/console")
    assert (await victim.who() or {})["id"] == "bob"
    await victim.enter(it.link())
    mine, theirs = await victim.who() or {}, await planted.who() or {}
    assert (mine["id"], theirs["id"]) == ("anna", "bob")
    assert mine["csrf"] != theirs["csrf"]
    assert victim.cookies[SESSION] != planted.cookies[SESSION]


async def test_two_cookies_of_our_name_are_nobodys(it: Standing) -> None:
    mine, other = (await it.entered()).cookies[SESSION], (await it.entered(BOB)).cookies[SESSION]
    for said in (f"{SESSION}={other}; {SESSION}={mine}", f"{SESSION}={mine}; {SESSION}={mine}"):
        assert (await it.browser().get("/console", cookie=said)).status_code == 401


async def test_a_cookie_is_taken_as_it_was_given_or_not_at_all(it: Standing) -> None:
    browser = await it.entered()
    whole = browser.cookies[SESSION]
    flipped = whole[:40] + ("A" if whole[40] != "A" else "B") + whole[41:]
    for said in (whole[:-2], flipped, whole[::-1], "x", "%", "a" * 9000, whole + "!!"):
        shown = await it.browser().get("/console", cookie=f"{SESSION}={said}")
        assert shown.status_code == 401
    assert whole.isascii()
    assert "anna" not in whole


async def test_what_is_sealed_for_one_use_is_no_session(it: Standing) -> None:
    for use in ("sign-in", "x"):
        sealed = it.access.sessions.sealed.seal(use, ["s", "c", 0, 2**40, "acme", "anna", [], "link", True, None, None])
        assert (await it.browser().get("/console", cookie=f"{SESSION}={sealed}")).status_code == 401


async def test_a_session_is_over_when_nobody_used_it_and_after_its_day(it: Standing) -> None:
    browser = await it.entered()
    it.clock.tell(IDLE_S)
    assert await browser.who() is None
    busy = await it.entered()
    for _ in range(int(LONGEST_S // (IDLE_S / 2)) - 1):
        it.clock.tell(IDLE_S / 2)
        assert await busy.who() is not None
    it.clock.tell(IDLE_S / 2)
    assert await busy.who() is None


async def test_what_a_page_asks_by_itself_keeps_no_session_alive(it: Standing) -> None:
    browser = await it.entered()
    by_itself = {"sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", "sec-fetch-dest": "empty"}
    it.clock.tell(IDLE_S / 2)
    polled = await browser.get("/console", by_itself)
    assert (polled.status_code, polled.headers.get("set-cookie")) == (200, None)
    it.clock.tell(IDLE_S / 2)
    assert (await browser.get("/console", by_itself)).status_code == 401


async def test_who_leaves_has_left_though_somebody_kept_the_cookie(it: Standing) -> None:
    browser, thief = await it.entered(), it.browser()
    thief.http.cookies.set(SESSION, browser.cookies[SESSION], domain="127.0.0.1", path="/console")
    csrf = (await browser.who() or {})["csrf"]
    left = await browser.press("/console/leave", {"csrf": csrf})
    assert (left.status_code, left.headers["location"]) == (303, "/console/")
    assert SESSION not in browser.cookies
    assert await thief.who() is None
    assert "you have signed out" in (await thief.get("/console", accept="application/json")).json()["error"]


async def test_two_gateways_on_one_machine_do_not_sign_each_others_reviewers_out() -> None:
    async with consoles("memory:") as (one,), consoles("memory:", url="http://127.0.0.1:8400") as (other,):
        browser = await one.entered()
        elsewhere = other.browser()
        elsewhere.http.cookies = browser.http.cookies
        await elsewhere.enter(other.link(BOB))
        assert ((await browser.who() or {})["id"], (await elsewhere.who() or {})["id"]) == ("anna", "bob")


# --- bodies ---------------------------------------------------------------------------------------------------------


async def test_a_body_is_bounded_and_read_by_whom_it_is_for(it: Standing) -> None:
    browser = await it.entered()
    csrf = (await browser.who() or {})["csrf"]
    long = await browser.press("/console/decide", {"csrf": csrf, "decision": "x" * MAX_BYTES})
    assert long.status_code == 413
    odd = "ünïcode & more"
    assert (await browser.press("/console/decide", {"csrf": csrf, "decision": odd})).status_code == 200
    assert it.decided == [("anna", odd)]


async def asked(it: Standing, scope: Mapping[str, Any], *messages: Message) -> list[Message]:
    said: list[Message] = []
    coming = list(messages)

    async def receive() -> Message:
        return coming.pop(0) if coming else await asyncio.Future()

    async def send(message: Message) -> None:
        said.append(dict(message))

    with anyio.fail_after(5):
        await it.app({"type": "http", "method": "POST", "query_string": b"", "root_path": "", **scope}, receive, send)
    return said


async def test_a_body_that_is_broken_off_changes_nothing(it: Standing) -> None:
    browser = await it.entered()
    headers = [
        (b"host", b"127.0.0.1:8321"),
        (b"cookie", f"{SESSION}={browser.cookies[SESSION]}".encode()),
        (b"x-csrf-token", (await browser.who() or {})["csrf"].encode()),
        (b"sec-fetch-site", b"same-origin"),
    ]
    begun = {"type": "http.request", "body": b"decision=appr", "more_body": True}
    scope = {"path": "/console/decide", "headers": headers}
    said = await asked(it, scope, begun, {"type": "http.disconnect"})
    assert said[0]["status"] == 400
    assert it.decided == []


async def test_a_body_that_could_end_in_two_places_is_not_read(it: Standing) -> None:
    host = (b"host", b"127.0.0.1:8321")
    for framing in (
        [(b"transfer-encoding", b"chunked"), (b"content-length", b"5")],
        [(b"transfer-encoding", b"gzip, chunked")],
    ):
        said = await asked(it, {"path": "/console/enter", "headers": [host, *framing]})
        assert said[0]["status"] == 400
        assert (b"connection", b"close") in said[0]["headers"]


async def test_web_sockets_and_endless_headers_are_turned_away(it: Standing) -> None:
    said = await asked(it, {"type": "websocket", "path": "/console", "headers": []})
    assert said == [{"type": "websocket.close", "code": 1008}]
    long = await it.browser().http.get("/console", headers={"x-long": "a" * 40_000})
    assert long.status_code == 431
