"""What a person is asked, told in full: in a terminal, in a ticket, as JSON. Whatever anybody said, it stays text."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.packets import markdown
from gateway.model.event_parts import Charge
from gateway.model.packet import Packet
from gateway.model.status import Hypothesis, PlanTold
from gateway.model.tool import Silence
from gateway.outbound.ledger import open_ledger
from gateway.runtime.packets import Packets
from tests import world
from tests.cli.agents import run
from tests.runtime.house import House, house
from tests.runtime.test_claims import FAILS, REVISION, TOLD, note, plan, say
from tests.runtime.undoing import undoing

pytestmark = pytest.mark.anyio

EVIL = "x`\n# Approved [here](https://evil.example) @everyone <script>\x1b[2J\u202e"
STUCK = {"verification_failed": "stuck"}
ESCALATES: dict[str, Any] = TOLD | {
    "phases": {"begin": {}, "changed": {}, "stuck": {"ends": "human_escalation", "description": "nobody knows why"}},
    "transitions": [
        {"name": "change", "tools": ["write"], "to": "changed", "verify": "tests", "on": STUCK},
        {"name": "look", "tools": ["read"]},
        {"name": "release", "tools": ["pay"], "approval": {"reason": "money leaves", "role": "cfo", "quorum": 2}},
    ],
    "tools": {
        "read": {"effect": "read"},
        "write": {"effect": "write", "data_class": "source"},
        "pay": {"effect": "destructive", "reversible": "no", "data_class": "money"},
    },
    "budgets": {"calls": 10},
}  # fmt: skip


async def packet(it: House, name: str) -> Packet:
    found = await Packets(it.book).of(name)
    assert found is not None
    return found


def commands(one: Packet) -> list[str]:
    return [option.command for option in one.options]


async def test_a_run_that_was_handed_to_a_person_is_told_whole() -> None:
    async with house(**ESCALATES) as it:
        await say(it, plan(REVISION, steps=["change it"]))
        await say(it, note(about="tests"))
        it.upstreams.will("read", world.ok(structuredContent={"revision": 8}))
        it.upstreams.will("check", FAILS)
        await it.call("read")
        await it.call("write")
        one = await packet(it, "run_1")
    assert (one.about, one.state, one.person) == ("run", "human_escalation", True)
    assert one.question == "The run handed its task to a person: do it, give it up, or open a new run for it?"
    assert commands(one) == ["counterfoil run open --workflow test"]
    assert (one.reason, one.alternatives) == (
        "the run came to the phase `stuck`, where it ends: nobody knows why",
        (),
    )
    assert [(told.verifier, told.verdict) for told in one.evidence] == [("tests", "fail")]
    assert [told.what for told in one.missing] == ["tests"]
    assert [told.says for told in one.others] == ["`write` (run_1.7) was answered, and its verifier said fail"]
    assert (one.spent, one.budget_left) == ({"calls": 2, "mutations": 1, "tokens": 30}, {"calls": 8})
    assert one.plan is not None
    assert [wrong.assumed for wrong in one.plan.invalidated] == ["nobody else commits"]
    assert [told.says for told in one.hypotheses] == ["the cache is stale"]


async def test_an_unknown_attempt_is_told_with_what_else_was_tried_and_may_still_be_done() -> None:
    async with house(**ESCALATES) as it:
        it.upstreams.will("check", world.ok(structuredContent={"exit": None}))
        it.upstreams.will("write", Silence("no answer came"))
        await it.call("write", {"n": 1})
        one = await packet(it, "run_1.2")
    assert (one.state, one.person, one.arguments) == ("unknown", True, {"n": 1})
    assert one.consequence == (
        "a write call that cannot be undone, of source data; equal calls are held in every run until it is settled"
    )
    assert (one.effect, one.reversible, one.data_class) == ("write", "no", "source")
    assert commands(one) == [
        "counterfoil resolve run_1.2 --happened --reason …",
        "counterfoil resolve run_1.2 --did-not-happen --reason …",
        "counterfoil resolve run_1.2 --retry --reason …",
        "counterfoil resolve run_1.2 --stop-run --reason …",
    ]
    assert [told.transition for told in one.alternatives] == ["change"]
    assert one.alternatives[0].depends_on == ("`run_1.2` is settled first",)


async def test_of_a_call_that_was_answered_nothing_is_asked_and_nothing_waits() -> None:
    async with house(**ESCALATES) as it:
        await it.call("read")
        one = await packet(it, "run_1.2")
    assert (one.state, one.person, one.goes_on, commands(one)) == ("answered", False, "", [])
    assert one.question == "Nothing is asked about this call of `read`: what came of it is known, and recorded."
    assert markdown(one).startswith("# The call of read\n")


async def test_a_question_is_told_with_what_each_answer_does() -> None:
    async with house(**ESCALATES) as it:
        await it.call("read")
        await it.call("pay", {"amount": 5})
        [asked] = (await it.book.state_of("run_1")).approvals
        one, whole = await packet(it, asked), await packet(it, "run_1")
        it.clock.tell(2 * 86_400)
        late = await packet(it, asked)
    assert (one.about, one.state, one.person, one.reason) == ("approval", "awaiting", True, "money leaves")
    assert one.question == "May `pay` be called once, with exactly these arguments?"
    assert one.consequence == "a destructive call that cannot be undone, of money data"
    assert (commands(one), one.options[0].follows) == (
        [
            f"counterfoil approvals approve {asked} --role cfo --reason …",
            f"counterfoil approvals reject {asked} --role cfo --reason …",
            f"counterfoil approvals return {asked} --role cfo --reason …",
        ],
        "the agent may make this very call once; 2 different people must say so",
    )
    assert [told.transition for told in one.alternatives] == ["look", "release"]
    assert (commands(whole), whole.question) == (
        [f"counterfoil packet {asked}"],
        "What waits for a person in this run is listed below.",
    )
    assert (late.state, late.options, late.question) == ("expired", (), "Nothing any more: this question is expired.")


async def test_an_effect_that_could_not_be_undone_is_a_persons() -> None:
    async with undoing() as it:
        it.upstreams.will("refund", world.ok(isError=True))
        await it.call("pay", {"amount": 5})
        one, whole = await packet(it, "run_1.2"), await packet(it, "run_1")
    assert (one.state, one.person, one.options) == ("not undone", True, ())
    assert one.question == ("This effect of `pay` must not stay, and a person must undo it by hand. Is it undone?")
    assert one.goes_on == "nothing: `run_1.6`, which was to undo it, ended with an error"
    assert "counterfoil packet run_1.2" in commands(whole)


async def test_what_the_ledger_does_not_have_has_no_packet() -> None:
    async with house() as it:
        assert [await Packets(it.book).of(name) for name in ("run_9", "run_1.9", "run_9.2", "ap_9", "", ".")] == [
            None
        ] * 6


@asynccontextmanager
async def a_hostile_run(path: Path) -> AsyncIterator[str]:
    ledger = await open_ledger(f"sqlite:///{path / 'ledger.db'}")
    async with house(ledger, **ESCALATES) as it:
        await say(it, plan(objective=EVIL, steps=[EVIL]))
        await say(it, note(says=EVIL, about=EVIL))
        it.upstreams.will("write", Silence(EVIL))
        await it.call("pay", {EVIL: EVIL})
        await it.call("write", {EVIL: EVIL})
        [asked] = (await it.book.state_of("run_1")).approvals
    await ledger.close()
    yield asked


@pytest.mark.slow
async def test_hostile_text_acts_neither_on_a_terminal_nor_in_a_ticket(tmp_path: Path) -> None:
    async with a_hostile_run(tmp_path) as asked:
        at = ("--ledger", f"sqlite:///{tmp_path / 'ledger.db'}")
        commands: list[tuple[str, ...]] = [("packet", name) for name in ("run_1", "run_1.5", asked)]
        commands += [("reconcile", "run_1.5"), ("reconcile",), ("approvals", "show", asked)]
        for command in commands:
            for form in ((), ("--json",), ("--markdown",)):
                if form == ("--markdown",) and command[0] != "packet":
                    continue
                told, _ = await run(*command, *form, *at, COLUMNS="100")
                assert not {"\x1b", "\u202e"} & set(told)
                if form == ("--json",):
                    assert json.loads(told)
        page, _ = await run("packet", "run_1.5", "--markdown", *at)
    outside = re.sub(r"\n(```+)json\n.*\n\1\n", "", page, flags=re.DOTALL)
    assert [line for line in page.splitlines() if line.startswith("#")] == [page.splitlines()[0]]
    assert "https://evil" not in outside
    assert "@everyone" not in outside
    _, said = await run("packet", "run_9", *at, expect=1)
    assert said.startswith("counterfoil: no run, attempt or approval `run_9` is in this ledger")


def told(**changes: Any) -> str:
    fields = {
        "about": "attempt", "run": "run_1", "attempt": "run_1.2", "question": "?", "state": "unknown", "workflow": "w",
        "phase": "open", "tool": "pay", "arguments": {"note": "```\n# out of the fence"},
        "spent": {}, "budget_left": {},
    }  # fmt: skip
    return markdown(Packet.model_validate(fields | changes))


def test_hostile_text_makes_no_heading_link_mention_or_tag() -> None:
    belief = Hypothesis(event="e", says=EVIL, about=EVIL, sources=("s",), confidence=1, age_s=0, expires_at="")
    held = PlanTold(event="e", revision=1, age_s=0, plan={"objective": EVIL, "steps": [EVIL]})
    page = told(tool=EVIL, question=EVIL, goal=EVIL, phase_says=EVIL, reason=EVIL, hypotheses=(belief,), plan=held)
    assert [line for line in page.splitlines() if line.startswith("#")] == [page.splitlines()[0]]
    assert "https://evil" not in page
    assert "@everyone" not in page
    assert "](" not in page.replace("\\](", "").replace("\\]\\(", "")
    assert "<script" not in page.replace("\\<script", "")


def test_one_of_a_unit_is_told_as_one() -> None:
    page = told(spent={"calls": 1, "mutations": 2, "elapsed_s": 1}, charge=Charge(calls=1, mutations=1))
    assert "- **spent**: 1 call, 2 mutations, 1 elapsed\\_s" in page
    assert "- **holds**: 1 call, 1 mutation\n" in page


def test_what_the_agent_says_is_marked_as_that() -> None:
    belief = Hypothesis(event="e", says="so", sources=("s",), confidence=0.5, age_s=0, expires_at="")
    facts, _, claims = told(hypotheses=(belief,)).partition("**What the agent says of its own work; nobody has checked")
    assert ("believes" in facts, "- **believes**: so" in claims) == (False, True)


def test_arguments_stay_within_their_fence() -> None:
    page = told()
    fence = next(line for line in page.splitlines() if line.endswith("json"))[:-4]
    assert page.count(f"\n{fence}\n") == 1
    assert len(fence) > 3


@pytest.mark.parametrize(
    ("place", "how"),
    [({"argument": "key"}, ""), ({"header": "Idempotency-Key"}, ", if its server is reached over HTTP")],
)
async def test_what_is_sent_again_says_until_when_and_over_what(place: dict[str, str], how: str) -> None:
    idempotency = {"kind": "key", "key": place, "valid_s": 86_400}
    async with house(tools={"write": {"effect": "write", "idempotency": idempotency}}) as it:
        it.upstreams.will("write", Silence("gone"))
        await it.call("write")
        made = await packet(it, "run_1.2")
        sent_at = (await it.book.state_of("run_1")).attempts["run_1.2"].at
    until = (sent_at + timedelta(days=1)).isoformat(timespec="seconds")
    assert made.goes_on == f"it is sent again under its key{how}, which the server knows until {until}"
    assert not made.person
