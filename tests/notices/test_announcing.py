"""Whatever waits for people is told of once on each channel that wants it, and the ledger knows."""

from dataclasses import replace
from typing import Any

import pytest
from inline_snapshot import snapshot

from gateway.model.events import NoticeSent
from gateway.model.notice import Audience
from gateway.outbound.notices.services import Service
from gateway.outbound.redaction import DetectingRedactor
from gateway.ports import Silence
from gateway.runtime.announce import Announcer
from gateway.runtime.book import Book
from gateway.runtime.channels import Line
from gateway.runtime.desk import Desk
from tests import world
from tests.notices.ground import BOSS, LINKS, SPREAD, line, telling, until
from tests.notices.receiver import OK, hangs, receiving, says

pytestmark = pytest.mark.anyio

DOWN = says("503 Busy")


async def test_a_question_is_told_of_once_and_the_ledger_says_so() -> None:
    async with receiving() as hook, telling(line(hook)) as it:
        await it.house.call("pay", {"iban": "DE00 SECRET", "amount": 7})
        await it.look()
        await it.after(60)
        name = await it.approval()
        (got,) = hook.got
        assert got.id == "run_1#2:ops"
        assert got.said["type"] == "approval.asked"
        assert got.data["title"] == "Approval wanted: pay (high risk)"
        assert got.data["text"].replace(name, "ap_0") == snapshot("""\
Tool: pay
Transition: pay
Why: money leaves
Consequence: a write call that cannot be undone
Risk: high
Asked by: local:user (tenant local)
Run: run_1 (workflow test)
Answers: 1 person must agree, role finance
Until: 2027-01-15 09:00 UTC
Decide: http://127.0.0.1:8321/console/approvals/ap_0\
""")
        assert "SECRET" not in got.body.decode()
        assert await it.sent() == [
            NoticeSent(about=name, channel="ops", notice="run_1#2:ops", outcome="delivered", tries=1)
        ]
        assert it.announcer.state() == {
            "undelivered": 0,
            "channels": {"ops": {"trouble": None, "failures": 0, "given_up": 0}},
        }


async def test_what_a_message_says_is_redacted_before_it_is_cut_and_spelled_out() -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    asks = [{"name": "pay", "tools": ["pay"], "approval": {"reason": f"{'x ' * 80}password={secret}"}}]
    async with receiving() as hook, telling(line(hook), transitions=asks, redact=DetectingRedactor().redact_text) as it:
        await it.house.call("pay", {"amount": 7})
        await it.tell()
        (got,) = hook.got
        assert secret[:10] not in got.body.decode()
        assert "password" in got.data["text"]


async def test_a_gateway_that_starts_tells_of_what_was_not_told_of_and_of_nothing_else() -> None:
    async with receiving() as hook, telling(line(hook)) as it:
        await it.house.call("pay", {"amount": 1})
        await it.look()
        await it.house.call("pay", {"amount": 2})
        next_life = Announcer(it.house.book, [line(hook), line(hook, "more")], LINKS, lambda: 0.5)
        await next_life.look()
        await next_life.idle()
        await it.after(60)
        assert sorted(hook.ids) == ["run_1#2:more", "run_1#2:ops", "run_1#4:more", "run_1#4:ops"]


async def test_a_channel_that_is_down_is_tried_again_ever_later_until_it_takes_it() -> None:
    async with receiving(DOWN, says("429 Slow", "Retry-After: 100"), OK) as hook, telling(line(hook)) as it:
        await it.house.call("pay")
        await it.look()
        assert (len(hook.got), it.announcer.state()["undelivered"]) == (1, 1)
        assert it.announcer.state()["channels"]["ops"]["trouble"] == "it answered 503, which is no 2xx"
        await it.after(4.9)
        assert len(hook.got) == 1
        await it.after(0.2)
        assert len(hook.got) == 2
        await it.after(99)
        assert len(hook.got) == 2
        await it.after(1.1)
        assert hook.ids == ["run_1#2:ops"] * 3
        assert [(one.outcome, one.tries) for one in await it.sent()] == [("delivered", 3)]
        assert it.announcer.state()["channels"]["ops"]["trouble"] is None


async def test_a_channel_that_wants_no_more_is_given_up_at_once() -> None:
    async with receiving(says("410 Gone")) as hook, telling(line(hook)) as it:
        await it.house.call("pay")
        await it.look()
        await it.after(7_200)
        assert len(hook.got) == 1
        assert [(one.outcome, one.reason) for one in await it.sent()] == [
            ("failed", "it answered 410: it wants no more messages")
        ]
        assert it.announcer.state()["channels"]["ops"]["given_up"] == 1


async def test_after_a_day_a_message_has_failed_and_that_is_recorded() -> None:
    patient = {"approval": {"expires_s": 7 * 86_400}, "name": "pay", "tools": ["pay"]}
    async with receiving(DOWN) as hook, telling(line(hook), transitions=[patient]) as it:
        await it.house.call("pay")
        for _ in range(40):
            await it.after(3_700)
        assert 20 < len(hook.got) < 30
        assert [(one.outcome, one.reason) for one in await it.sent()] == [
            ("failed", "it answered 503, which is no 2xx")
        ]
        assert it.announcer.state()["undelivered"] == 0


async def test_of_a_question_whose_time_was_up_first_that_is_recorded() -> None:
    async with receiving(DOWN) as hook, telling(line(hook)) as it:
        await it.house.call("pay")
        await it.look()
        it.house.clock.tell(4_000)
        await it.expire()
        await it.look()
        assert [(one.outcome, one.reason) for one in await it.sent()] == [
            ("failed", "its time was up, and it answered 503, which is no 2xx")
        ]


async def test_who_is_asked_in_vain_for_most_of_its_time_is_told_again() -> None:
    async with receiving() as hook, telling(line(hook), line(hook, "second", about=frozenset({"unknown"}))) as it:
        await it.house.call("pay")
        await it.look()
        await it.after(2_860)
        assert len(hook.got) == 1
        await it.after(21)
        assert hook.ids == ["run_1#2:ops", "run_1#2:ops:soon"]
        assert hook.got[1].data["title"].startswith("Still waiting for an answer, 11 min left: pay")
        await it.after(60)
        assert len(hook.got) == 2


async def test_nobody_is_told_again_of_what_was_answered() -> None:
    async with receiving() as hook, telling(line(hook)) as it:
        await it.house.call("pay")
        await it.look()
        await it.decide()
        await it.after(3_000)
        assert hook.ids == ["run_1#2:ops"]


async def test_what_was_answered_before_it_could_be_told_is_not_told() -> None:
    async with receiving(DOWN, OK) as hook, telling(line(hook)) as it:
        await it.house.call("pay")
        await it.look()
        await it.decide()
        await it.after(100)
        assert len(hook.got) == 1
        assert await it.sent() == []
        assert it.announcer.state()["undelivered"] == 0


async def test_channels_are_told_of_what_they_are_for() -> None:
    async with receiving() as hook:
        lines = [
            line(hook, "critical", risk="critical"),
            line(hook, "unknown", about=frozenset({"unknown"})),
            line(hook, "acme", tenants=frozenset({"acme"})),
            line(hook, "local", tenants=frozenset({"local"})),
            line(hook, "finance", roles=frozenset({"finance", "x"})),
            line(hook, "legal", roles=frozenset({"legal"})),
        ]
        async with telling(*lines) as it:
            await it.house.call("pay")
            await it.look()
            assert sorted(hook.ids) == ["run_1#2:finance", "run_1#2:local"]


async def test_whoever_must_agree_later_is_told_when_it_is_their_turn() -> None:
    stages = [{"role": "finance"}, {"role": "legal"}]
    asks = [{"name": "pay", "tools": ["pay"], "approval": {"stages": stages}}]
    async with receiving() as hook:
        lines = [line(hook, "all"), *(line(hook, one, roles=frozenset({one})) for one in ("finance", "legal"))]
        async with telling(*lines, transitions=asks) as it:
            await it.house.call("pay")
            await it.look()
            assert sorted(hook.ids) == ["run_1#2:all", "run_1#2:finance"]
            await it.decide()
            await it.look()
            assert hook.ids[2:] == ["run_1#2:legal"]
            assert hook.got[2].data["roles"] == ["legal"]
            await it.after(60)
            assert len(hook.got) == 3


async def test_people_are_told_of_an_unknown_outcome_that_nobody_settles() -> None:
    async with receiving() as hook, telling(line(hook)) as it:
        it.house.upstreams.will("write", Silence("gone"))
        shown = await it.house.call("write", {"n": 1})
        await it.tell()
        assert hook.got == [], "the gateways may find out themselves"
        await it.after(300)
        (got,) = hook.got
        assert got.data["name"] == shown.attempt
        assert got.data["title"] == "Outcome unknown, did it happen? write (medium risk)"


async def test_people_are_told_at_once_of_an_unknown_outcome_that_only_they_can_settle() -> None:
    async with receiving() as hook, telling(line(hook), for_people=lambda _: True) as it:
        it.house.upstreams.will("write", Silence("gone"))
        await it.house.call("write", {"n": 1})
        await it.tell()
        assert len(hook.got) == 1


async def test_one_channel_that_hangs_keeps_no_other_waiting() -> None:
    async with (
        receiving(hangs) as slow,
        receiving() as hook,
        telling(line(slow, "slow", timeout_s=0.5), line(hook)) as it,
    ):
        for n in range(5):
            await it.house.call("pay", {"n": n})
        await it.look()
        assert len(hook.got) == 5
        assert len(slow.got) <= 4


async def test_no_name_can_call_people_or_lead_them_elsewhere() -> None:
    name = "pay<!channel> @everyone https://evil.example \u202epay"
    asks = [{"name": "ask", "tools": ["*"], "approval": {}}]
    async with receiving() as hook, telling(line(hook), transitions=asks) as it:
        it.house.upstreams.offer(world.tool(name))
        await it.house.call(name)
        await it.look()
        assert hook.got[0].data["tool"] == snapshot(
            "pay\\u{3c}!channel\\u{3e} \\u{40}everyone https\\u{3a}\\u{2f}\\u{2f}evil\\u{2e}example…"
        )


async def test_a_channel_that_apprise_cannot_use_is_said_to_be_unusable() -> None:
    odd = Line("odd", Audience(), Service("nowhere://x"))
    async with telling(odd) as it:
        await it.house.call("pay")
        await it.look()
        assert it.announcer.unusable() == [("odd", "Apprise does not understand its address")]
        assert it.announcer.state() == {
            "undelivered": 1,
            "channels": {"odd": {"trouble": "Apprise does not understand its address", "failures": 1, "given_up": 0}},
        }


async def test_whoever_was_told_of_a_question_is_told_that_another_took_its_place() -> None:
    pay = {"effect": "write", "objects": ["args.to"]}
    async with (
        receiving() as hook,
        receiving(DOWN) as down,
        telling(line(hook), line(down, "down"), tools={"pay": pay}) as it,
    ):
        await it.house.call("pay", {"to": "bob", "amount": 1})
        await it.look()
        first = await it.approval()
        await it.house.call("pay", {"to": "bob", "amount": 2})
        await it.tell()
        second = await it.approval()
        assert [(one.said["type"], one.data["name"]) for one in hook.got] == [
            ("approval.asked", first),
            ("approval.asked", second),
            ("approval.over", first),
        ]
        assert hook.got[2].data["text"].startswith(f"What became of it: superseded by {second}\n")
        await it.tell()
        assert len(hook.got) == 3


async def test_whoever_was_told_of_a_question_is_told_that_it_was_taken_back_even_by_a_later_life() -> None:
    async with receiving() as hook, telling(line(hook)) as it:
        await it.house.call("pay")
        await it.look()
        await it.withdraw()
        for _ in range(2):
            next_life = Announcer(it.house.book, [line(hook), line(hook, "more")], LINKS, lambda: 0.5)
            await next_life.look()
            it.house.clock.tell(SPREAD)
            await next_life.look()
            await next_life.idle()
        assert hook.ids == ["run_1#2:ops", "run_1#2:ops:over"]
        assert hook.got[1].data["state"] == "withdrawn"


async def test_whoever_was_told_of_a_question_is_told_that_its_run_is_over() -> None:
    async with receiving() as hook, telling(line(hook, about=frozenset({"approval"}))) as it:
        await it.house.call("pay")
        await it.look()
        await Desk(it.house.book).stop_run("run_1", BOSS, "enough")
        await it.tell()
        assert hook.ids == ["run_1#2:ops", "run_1#2:ops:over"]
        assert hook.got[1].data["state"] == "void, for its run is over"
        assert [one.outcome for one in await it.sent()] == ["delivered"] * 2


async def test_people_are_told_of_a_run_that_was_handed_to_them() -> None:
    fields: dict[str, Any] = {
        "phases": {"open": {}, "asked": {"ends": "human_escalation"}},
        "transitions": [{"name": "give", "tools": ["write"], "to": "asked"}],
    }
    async with receiving() as hook, telling(line(hook), **fields) as it:
        await it.house.call("write")
        await it.look()
        await it.after(60)
        (got,) = hook.got
        assert (got.said["type"], got.data["name"], got.data["link"]) == (
            "escalation.asked",
            "run_1",
            "http://127.0.0.1:8321/console/escalations/run_1",
        )


async def test_of_two_gateways_one_tells_while_the_other_waits() -> None:
    async with receiving(hangs, OK) as hook, telling(line(hook, timeout_s=1.0)) as it:
        options = replace(it.house.book.options, owner="other")
        book = Book(it.house.ledger, it.house.book.policies, it.house.clock, options)
        other = Announcer(book, [line(hook)], LINKS, lambda: 0.5)
        await it.house.call("pay")
        await it.announcer.look()
        await until(lambda: len(hook.got) == 1)
        for _ in range(10):
            await other.look()
            await other.idle()
            it.house.clock.tell(1)
        assert len(hook.got) == 1, "the first one is at it"
        await it.announcer.idle()
        for _ in range(3):
            await other.look()
            await other.idle()
            it.house.clock.tell(2)
        await it.after(60)
        assert hook.ids == ["run_1#2:ops"] * 2
        assert [one.outcome for one in await it.sent()] == ["delivered"]


async def test_what_a_dead_gateway_was_telling_of_is_told_by_another() -> None:
    async with receiving() as hook, telling(line(hook)) as it:
        await it.house.call("pay")
        (row,) = await it.house.ledger.tracked(states={"awaiting"})
        assert await it.house.ledger.claim(row, "dead/notices", it.house.clock.now() + 15)
        for _ in range(7):
            await it.look()
            it.house.clock.tell(2)
        assert hook.got == []
        for _ in range(3):
            await it.after(2)
        assert hook.ids == ["run_1#2:ops"]


async def test_a_question_can_be_answered_while_people_are_told_of_it() -> None:
    async with receiving(hangs) as hook, telling(line(hook, timeout_s=0.5)) as it:
        await it.house.call("pay")
        await it.announcer.look()
        await until(lambda: len(hook.got) == 1)
        await it.decide()
        await it.announcer.idle()
        await it.after(60)
        assert len(hook.got) == 1
        assert it.announcer.state()["undelivered"] == 0
