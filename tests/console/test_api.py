"""What a reviewer's program can do: see what is theirs, decide what they were shown, and be told why not."""

import asyncio
import json
from typing import Any

import anyio
import httpx2
import pytest

from gateway.model.principal import Principal
from gateway.model.tool import Silence
from tests import world
from tests.console.reviewing import (
    ANN,
    API,
    BOB,
    BOUND_S,
    EVE,
    ROOT_USER,
    Reviewing,
    elsewhere,
    paying,
    problem,
    reviewing,
    served,
)

pytestmark = pytest.mark.anyio


async def decide(at: Reviewing, who: Any, approval: str, decision: str, **more: Any) -> httpx2.Response:
    body = {"action": await at.action_of(approval), "decision": decision, **more}
    async with at.as_(who) as client:
        return await client.post(f"{API}/approvals/{approval}/decision", json=body)


async def test_a_question_is_found_shown_and_approved_and_the_agents_next_call_goes_through() -> None:
    async with reviewing() as at:
        asked = await at.ask(5)
        async with at.as_(ANN) as client:
            inbox = (await client.get(f"{API}/approvals")).json()
            shown = (await client.get(f"{API}/approvals/{asked}")).json()
            decided = await client.post(
                f"{API}/approvals/{asked}/decision",
                json={"action": shown["packet"]["action"], "decision": "approved", "active_s": 12.5},
            )
            after = (await client.get(f"{API}/approvals")).json()
        [row] = inbox["rows"]
        assert (row["name"], row["tool"], row["risk"], row["roles"], inbox["total"]) == (
            asked,
            "pay",
            "high",
            ["finance"],
            1,
        )
        assert shown["packet"]["arguments"] == {"amount": 5}
        assert shown["approval"]["reuse"] == {"times": 3, "for_s": 600.0, "varies": [], "within": []}
        assert (decided.status_code, decided.json()["complete"]) == (200, True)
        assert (after["rows"], after["total"]) == ([], 0)
        assert (await at.it.call("pay", {"amount": 5})).refusal is None
        kinds = [record.event.kind for record, _ in await at.it.ledger.read("run_1")]
        assert kinds.count("approval.seen") == 1


async def test_each_reason_for_which_a_decision_is_refused_has_its_status_and_its_word() -> None:
    async with reviewing() as at:
        asked = await at.ask(5)
        other = await at.ask(6)
        forged = "c1:" + "0" * 64
        async with at.as_(ANN) as client:
            path = f"{API}/approvals/{asked}/decision"
            assert problem(await client.post(path, json={"action": forged, "decision": "approved"})) == (409, "action")
            mixed = {"action": await at.action_of(other), "decision": "approved"}
            assert problem(await client.post(path, json=mixed)) == (409, "action")
        assert problem(await decide(at, ANN, asked, "rejected")) == (422, "reason")
        assert problem(await decide(at, ANN, asked, "approved", times=4)) == (422, "reuse")
        assert problem(await decide(at, ROOT_USER, asked, "approved")) == (403, "role")
        assert problem(await decide(at, EVE, asked, "approved")) == (404, "unknown")
        assert (await decide(at, ANN, asked, "rejected", reason="too much")).status_code == 200
        assert problem(await decide(at, ANN, asked, "approved")) == (409, "decided")
        at.it.clock.tell(86_400)
        assert problem(await decide(at, ANN, other, "approved")) == (409, "expired")


async def test_whoever_asks_may_not_answer() -> None:
    async with reviewing(**paying()) as at:
        asked = await at.ask(5)
        mine = type(ANN)(world.USER.tenant, world.USER.id, via="token")
        assert problem(await decide(at, mine, asked, "approved")) == (403, "self_review")


async def test_who_has_decided_too_much_is_told_when_they_may_again() -> None:
    async with reviewing(**paying(load={"decisions": 1, "window": "hour"})) as at:
        first, second = await at.ask(5), await at.ask(6)
        assert (await decide(at, ANN, first, "approved")).status_code == 200
        full = await decide(at, ANN, second, "approved")
        assert problem(full) == (429, "load")
        assert int(full.headers["retry-after"]) > 0
        assert (await decide(at, BOB, second, "approved")).status_code == 200


async def test_what_is_not_there_and_what_is_not_theirs_are_answered_alike() -> None:
    async with reviewing() as at:
        asked = await at.ask(5)
        async with at.as_(EVE) as client:
            for path in ("approvals", "attempts", "runs"):
                theirs = {"approvals": asked, "attempts": "run_1.1", "runs": "run_1"}[path]
                answers = [await client.get(f"{API}/{path}/{name}") for name in (theirs, "nothing", "%00", "a" * 300)]
                assert len({one.content for one in answers}) == 1
                assert problem(answers[0]) == (404, "unknown")
            assert (await client.get(f"{API}/approvals")).json() == {"rows": [], "total": 0, "next": None}
            assert (await client.get(f"{API}/runs")).json() == {"rows": [], "next": None}
            assert (await client.get(f"{API}/reviews")).json()["all"]["asked"] == 0
            batch = {"approval": asked, "action": await at.action_of(asked), "decision": "approved"}
            [one] = (await client.post(f"{API}/decisions", json={"answers": [batch]})).json()["results"]
            assert one["problem"]["check"] == "unknown"


async def test_who_came_for_one_question_sees_and_decides_that_one_alone() -> None:
    async with reviewing() as at:
        first, second = await at.ask(5), await at.ask(6)
        guest = elsewhere(ANN, approval=first)
        async with at.as_(guest) as client:
            assert [row["name"] for row in (await client.get(f"{API}/approvals")).json()["rows"]] == [first]
            for path in (f"approvals/{second}", "runs/run_1", "runs/run_1/timeline", "attempts/run_1.1"):
                assert problem(await client.get(f"{API}/{path}")) == (404, "unknown")
            assert (await client.get(f"{API}/runs")).json()["rows"] == []
            assert (await client.get(f"{API}/reviews")).json()["all"]["asked"] == 1
        assert problem(await decide(at, guest, second, "approved")) == (404, "unknown")
        assert (await decide(at, guest, first, "approved")).status_code == 200


async def test_a_ledger_that_is_gone_is_said_and_when_to_come_again() -> None:
    async with reviewing() as at, at.as_(ANN) as client:
        await at.it.ledger.close()
        at.it.clock.tell(2)
        gone = await client.get(f"{API}/approvals")
        assert problem(gone) == (503, "ledger")
        assert int(gone.headers["retry-after"]) > 0


async def test_nobody_comes_in_without_a_reviewers_token_and_an_agents_opens_nothing() -> None:
    async with reviewing() as at:
        asked = await at.ask(5)
        for headers, status in (
            ({}, 401),
            ({"Authorization": "Bearer nonsense"}, 401),
            ({"Authorization": f"Bearer {at.token(ANN, lives_s=-1)}"}, 401),
            ({"Authorization": f"Bearer {at.token(ANN)}", "Counterfoil-Run": "x"}, 403),
            ({"Mcp-Session-Id": "abc"}, 403),
        ):
            async with at.as_(None) as client:
                for method, path in (("GET", "approvals"), ("GET", "openapi.json"), ("GET", f"approvals/{asked}")):
                    told = await client.request(method, f"{API}/{path}", headers=headers)
                    assert problem(told)[0] == status
                told = await client.post(f"{API}/approvals/{asked}/decision", headers=headers, json={})
                assert problem(told)[0] == status


BAD: tuple[tuple[bytes, str, tuple[int, str], list[str]], ...] = (
    (b'{"action":1,"action":2,"decision":"approved"}', "application/json", (400, "json"), []),
    (b'{"action": NaN}', "application/json", (400, "json"), []),
    (b"{", "application/json", (400, "json"), []),
    (b"\xff", "application/json", (400, "json"), []),
    (b"{}", "text/plain", (415, "content_type"), []),
    (b"[]", "application/json", (422, "body"), [""]),
    (b'{"decision":"approved"}', "application/json", (422, "body"), ["/action"]),
    (b'{"action":"c1:%s","decision":"maybe"}' % (b"0" * 64), "application/json", (422, "body"), ["/decision"]),
    (b'{"action":"c1:%s","decision":"approved","by":"ann"}' % (b"0" * 64), "application/json", (422, "body"), ["/by"]),
    (
        b'{"action":"c1:%s","decision":"approved","times":"3"}' % (b"0" * 64),
        "application/json",
        (422, "body"),
        ["/times"],
    ),
    (b'"' + b"x" * 300_000 + b'"', "application/json", (413, "size"), []),
)


@pytest.mark.parametrize(
    ("body", "kind", "told", "places"),
    BAD,
    ids=["twice", "nan", "broken", "no UTF-8", "text", "list", "lacking", "choice", "more", "type", "long"],
)
async def test_a_body_that_is_not_what_is_asked_for_is_refused_with_its_place(
    body: bytes, kind: str, told: tuple[int, str], places: list[str]
) -> None:
    async with reviewing() as at:
        asked = await at.ask(5)
        async with at.as_(ANN) as client:
            answer = await client.post(
                f"{API}/approvals/{asked}/decision", content=body, headers={"Content-Type": kind}
            )
        assert problem(answer) == told
        assert [one["at"] for one in answer.json().get("errors", [])] == places


async def test_parameters_are_as_strict_as_bodies() -> None:
    async with reviewing() as at, at.as_(ANN) as client:
        for query in ("limit=0", "limit=x", "limit=5&limit=6", "colour=red", "risk=huge"):
            assert problem(await client.get(f"{API}/approvals?{query}")) == (422, "query")
        assert problem(await client.get(f"{API}/nothing")) == (404, "unknown")
        wrong = await client.delete(f"{API}/approvals")
        assert problem(wrong) == (405, "method")
        assert "GET" in wrong.headers["allow"]


async def test_of_several_decisions_each_stands_for_itself() -> None:
    async with reviewing() as at:
        first, second = await at.ask(5), await at.ask(6)
        answers = [
            {"approval": first, "action": await at.action_of(first), "decision": "approved"},
            {"approval": "ap_nothing", "action": await at.action_of(first), "decision": "approved"},
            {"approval": second, "action": await at.action_of(second), "decision": "returned"},
            {"approval": first, "action": await at.action_of(first), "decision": "approved"},
            {"approval": second, "action": await at.action_of(second), "decision": "returned", "reason": "the bill"},
        ]
        async with at.as_(ANN) as client:
            told = (await client.post(f"{API}/decisions", json={"answers": answers})).json()["results"]
        checks = [one["problem"]["check"] if one["problem"] else one["done"]["approval"]["decision"] for one in told]
        assert checks == ["approved", "unknown", "reason", "decided", "returned"]


async def test_an_inbox_is_read_page_by_page_and_filtered() -> None:
    async with reviewing() as at:
        names = [await at.ask(amount) for amount in range(5)]
        async with at.as_(ANN) as client:
            seen, after = [], None
            for _ in range(10):
                query = {"limit": 2} | ({} if after is None else {"after": after})
                page = (await client.get(f"{API}/approvals", params=query)).json()
                seen += [row["name"] for row in page["rows"]]
                after = page["next"]
                if after is None:
                    break
            assert (seen, after) == (names, None)
            for query, count in (
                ({"tool": "pay"}, 5),
                ({"tool": "write"}, 0),
                ({"risk": "high"}, 5),
                ({"about": "run"}, 0),
            ):
                found = (await client.get(f"{API}/approvals", params=query)).json()
                assert (len(found["rows"]), found["next"]) == (count, None)
            [group] = {row["group"] for row in (await client.get(f"{API}/approvals")).json()["rows"]}
            alike = (await client.get(f"{API}/approvals", params={"group": group})).json()
            assert [row["name"] for row in alike["rows"]] == names


async def test_an_unknown_outcome_is_settled_and_a_run_is_stopped() -> None:
    async with reviewing() as at:
        at.it.upstreams.will("write", Silence("gone"))
        await at.it.call("write", {"n": 1})
        at.it.clock.tell(2)
        async with at.as_(ANN) as client:
            [row] = (await client.get(f"{API}/approvals")).json()["rows"]
            assert (row["about"], row["name"]) == ("attempt", "run_1.2")
            shown = (await client.get(f"{API}/attempts/run_1.2")).json()
            assert shown["packet"]["state"] == "unknown"
            path = f"{API}/attempts/run_1.2"
            assert problem(await client.post(path, json={"what": "happened", "reason": ""})) == (422, "body")
            done = await client.post(path, json={"what": "happened", "reason": "it is in the list"})
            assert (done.status_code, done.json()["name"]) == (200, "run_1.2")
            assert problem(await client.post(path, json={"what": "happened", "reason": "again"})) == (409, "state")
            stop = {"what": "stop", "reason": "enough"}
            stopped = (await client.post(f"{API}/runs/run_1", json=stop)).json()
            assert stopped == {"name": "run_1", "state": "human_escalation"}
            assert problem(await client.post(f"{API}/runs/run_1", json=stop)) == (409, "run_over")
            acknowledge = {"what": "acknowledge", "reason": "seen"}
            assert problem(await client.post(f"{API}/runs/run_1", json=acknowledge)) == (409, "state")
            [run] = (await client.get(f"{API}/runs")).json()["rows"]
            assert (run["run"], run["state"], run["calls"]) == ("run_1", "human_escalation", 1)
            timeline = (await client.get(f"{API}/runs/run_1/timeline", params={"limit": 3})).json()
            assert [one["seq"] for one in timeline["records"]] == [1, 2, 3]
            rest = (await client.get(f"{API}/runs/run_1/timeline", params={"after": timeline["next"]})).json()
            assert rest["records"][-1]["kind"] == "run.stopped"
            assert rest["next"] is None


async def test_runs_are_listed_newest_first_and_page_by_page() -> None:
    async with reviewing() as at:
        for name in ("run_2", "run_3"):
            await at.it.open(name)
        await at.it.engine.open_run(run="run_e", principal=Principal("eve", "other"), origin="token", attribution={})
        async with at.as_(ANN) as client:
            first = (await client.get(f"{API}/runs", params={"limit": 2})).json()
            rest = (await client.get(f"{API}/runs", params={"limit": 2, "after": first["next"]})).json()
        assert [row["run"] for row in (*first["rows"], *rest["rows"])] == ["run_3", "run_2", "run_1"]
        assert rest["next"] is None
        async with at.as_(ROOT_USER) as client:
            for query, count in (({}, 4), ({"principal": "eve"}, 1), ({"state": "open"}, 4), ({"workflow": "x"}, 0)):
                assert len((await client.get(f"{API}/runs", params=query)).json()["rows"]) == count


async def test_a_reviewer_is_told_who_they_are_taken_for() -> None:
    async with reviewing() as at, at.as_(BOB) as client:
        assert (await client.get(f"{API}/whoami")).json() == {
            "tenant": "local",
            "id": "bob",
            "roles": ["boss", "finance"],
            "via": "token",
            "everywhere": False,
            "approval": None,
        }


async def test_a_stream_says_that_something_changed_and_nothing_of_what() -> None:
    async with served() as at:
        headers = {"Authorization": f"Bearer {at.token(ANN)}"}
        async with httpx2.AsyncClient(base_url=at.url, headers=headers) as client:
            with anyio.fail_after(BOUND_S):
                async with client.stream("GET", f"{API}/events") as stream:
                    assert stream.headers["content-type"].startswith("text/event-stream")
                    lines = stream.aiter_lines()
                    first = await _event(lines)
                    at.it.clock.tell(2)
                    await at.it.call("pay", {"amount": 5})
                    more = asyncio.ensure_future(_event(lines))
                    while not more.done():
                        at.it.clock.tell(1)
                        await asyncio.sleep(0.01)
                    second = await more
                    assert second["counter"] != first["counter"]
                    assert set(second) == {"counter"}
                async with client.stream("GET", f"{API}/events", headers={"Last-Event-ID": "0"}) as again:
                    assert await _event(again.aiter_lines()) == second


async def _event(lines: Any) -> dict[str, Any]:
    async for line in lines:
        if line.startswith("data:"):
            told: dict[str, Any] = json.loads(line[5:])
            return told
    raise AssertionError("the stream ended")


async def test_figures_of_reviews_are_told() -> None:
    async with reviewing() as at:
        asked = await at.ask(5)
        at.it.clock.tell(58)
        assert (await decide(at, ANN, asked, "approved", active_s=2.0)).status_code == 200
        async with at.as_(ANN) as client:
            told = (await client.get(f"{API}/reviews", params={"since_s": 3_600})).json()
        assert (told["all"]["asked"], told["all"]["approved"], told["all"]["quick"]) == (1, 1, 1)
        assert told["all"]["waited"]["median_s"] == 60.0
        assert [(one["reviewer"], one["decisions"]) for one in told["reviewers"]] == [("ann", 1)]


async def test_a_list_approves_nothing_the_digest_stands_where_the_question_is_in_full() -> None:
    async with reviewing() as at:
        names = [await at.ask(number) for number in range(3)]
        async with at.as_(ANN) as client:
            rows = (await client.get(f"{API}/approvals")).json()["rows"]
            assert [row["name"] for row in rows] == names
            assert all("action" not in row for row in rows)
            assert not any(digest in json.dumps(rows) for digest in [await at.action_of(one) for one in names])
            shown = [(await client.get(f"{API}/approvals/{one}")).json()["packet"] for one in names]
            answers = [{"approval": one["approval"], "action": one["action"], "decision": "approved"} for one in shown]
            came = (await client.post(f"{API}/decisions", json={"answers": answers})).json()["results"]
        assert [one["done"]["complete"] for one in came] == [True] * 3


async def test_what_nobody_is_shown_is_no_look() -> None:
    async with reviewing() as at:
        asked = await at.ask(5)

        async def seen() -> int:
            return len((await at.it.book.state_of("run_1")).approvals[asked].seen)

        async with at.as_(ANN) as client:
            assert (await client.head(f"{API}/approvals/{asked}")).status_code == 200
            for ahead in ({"Sec-Purpose": "prefetch;prerender"}, {"Purpose": "prefetch"}):
                assert (await client.get(f"{API}/approvals/{asked}", headers=ahead)).status_code == 200
            assert await seen() == 0
            await client.get(f"{API}/approvals/{asked}")
            assert await seen() == 1
