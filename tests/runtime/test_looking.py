"""Verifiers that look at places, in the life of a call: evidence, preconditions, and who may take them up."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest

from gateway.kernel.approve import resolve
from gateway.model.events import Event, EvidenceRecorded
from gateway.model.policy import Way
from gateway.model.run import Run
from gateway.model.tool import ProtocolError
from gateway.ports import Answer, Look, NotSent, Silence, ToolResult
from gateway.runtime.engine import Engine
from gateway.runtime.policies import surprises
from tests import world
from tests.runtime.house import ME, House, house, refused

pytestmark = pytest.mark.anyio


@dataclass
class ScriptedLooks:
    """Places at which everything is seen by script."""

    answers: deque[Answer] = field(default_factory=deque)
    asked: list[Look] = field(default_factory=list)
    missing: str | None = None

    def trouble(self, way: Way) -> str | None:
        return f"this gateway has no place `{way.place}`" if way.place == self.missing else None

    async def look(self, asked: Look) -> Answer:
        self.asked.append(asked)
        return self.answers.popleft()


def seeing(it: House, *answers: Answer) -> ScriptedLooks:
    """The house's verifiers see this, in order."""
    looks = ScriptedLooks(deque(answers))
    it.engine.carrier.looking._looks = looks
    return looks


FILE: dict[str, Any] = {"file": {"place": "notes", "path_from": "args.path"}, "pass": ["result.exists == true"]}


def verified(rule: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """A policy whose writes are verified so."""
    return {
        "phases": {"open": {}, "done": {}},
        "verifiers": {"it": dict(rule)},
        "transitions": [{"name": "write", "tools": ["write"], "verify": "it", "to": "done"}],
        "success": {"evidence": ["it"], "phase": "done", "accept": "self_reported"},
        **more,
    }


async def evidence(it: House) -> EvidenceRecorded:
    found = [record.event for record, _ in await it.ledger.read("run_1") if record.event.kind == "evidence.recorded"]
    assert isinstance(found[-1], EvidenceRecorded)
    return found[-1]


async def test_evidence_of_a_place_moves_the_phase_and_proves_success() -> None:
    async with house(**verified(FILE)) as it:
        looks = seeing(it, ToolResult({"exists": True, "digest": "sha256:1"}))
        assert refused(await it.call("write", {"path": "a"})) is None
        found = await evidence(it)
        assert (found.verdict, found.source, found.scope) == ("pass", "file", {"place": "notes", "path": "a"})
        assert looks.asked[0].told == {"path": "a"}
        assert found.artifact is not None
        assert await it.ledger.payload(found.artifact) == b'{"digest":"sha256:1","exists":true}'
        stopped = (await it.book.state_of("run_1")).stopped
        assert stopped is not None
        assert stopped.outcome == "verified_success"


@pytest.mark.parametrize("answer", [NotSent("gone"), Silence("late")])
async def test_what_could_not_be_seen_moves_nothing(answer: Answer) -> None:
    async with house(**verified(FILE)) as it:
        seeing(it, answer)
        assert refused(await it.call("write", {"path": "a"})) == ("verification_failed", "write")
        assert (await evidence(it)).verdict == "inconclusive"
        assert (await it.book.state_of("run_1")).phase == "open"


async def test_a_formula_that_tells_nothing_is_not_looked_for() -> None:
    async with house(**verified(FILE)) as it:
        looks = seeing(it)
        _ = await it.call("write", {"other": "a"})
        assert "what to look for cannot be told: `args.path` is missing" in (await evidence(it)).says
        assert looks.asked == []


async def test_a_gateway_without_places_sees_nothing_and_says_so() -> None:
    async with house(**verified(FILE)) as it:
        _ = await it.call("write", {"path": "a"})
        assert (await evidence(it)).says == "`it` could not check: this gateway has no place `notes`"


async def test_a_precondition_looks_at_a_place_before_anything_is_sent() -> None:
    fields: dict[str, Any] = {
        "verifiers": {"it": FILE},
        "transitions": [{"name": "write", "tools": ["*"], "preconditions": ["it"]}],
    }
    async with house(**fields) as it:
        looks = seeing(it, ToolResult({"exists": False}), ToolResult({"exists": True}))
        shown = await it.call("write", {"path": "a"})
        assert refused(shown) == ("denied", "write")
        assert it.upstreams.sent == []
        assert refused(await it.call("write", {"path": "b"})) is None
        assert [one.told for one in looks.asked] == [{"path": "a"}, {"path": "b"}]


# --- the call's own result ------------------------------------------------------------------------------------------

OWN: dict[str, Any] = {"result": {}, "pass": ["result.structuredContent.ok == true"]}


async def test_the_calls_own_result_is_evidence_that_says_what_it_is() -> None:
    async with house(**verified(OWN)) as it:
        it.upstreams.will("write", world.ok(structuredContent={"ok": True}))
        assert refused(await it.call("write")) is None
        found = await evidence(it)
        assert (found.verdict, found.source, found.self_reported) == ("pass", "result", True)
        receipt = (await it.book.state_of("run_1")).attempts["run_1.2"].result
        assert found.artifact == receipt


@pytest.mark.parametrize("content", [{"ok": False}, {"ok": "true"}, {}])
async def test_an_own_result_that_says_otherwise_is_no_pass(content: Any) -> None:
    async with house(**verified(OWN)) as it:
        it.upstreams.will("write", world.ok(structuredContent=content))
        assert refused(await it.call("write")) == ("verification_failed", "write")


async def test_an_own_result_that_breaks_its_schema_proves_nothing() -> None:
    async with house(**verified(OWN)) as it:
        schema = {"type": "object", "required": ["id"]}
        it.upstreams.offer(world.tool("write", outputSchema=schema))
        it.upstreams.will("write", world.ok(structuredContent={"ok": True}))
        _ = await it.call("write")
        assert (await evidence(it)).says == "`it` could not check: the call's own result breaks the schema of its tool"


async def test_an_own_result_that_is_an_error_is_not_asked_about() -> None:
    async with house(**verified(OWN)) as it:
        it.upstreams.will("write", ProtocolError({"code": -32000, "message": "no"}))
        shown = await it.call("write")
        assert shown.error is not None
        kinds = [record.event.kind for record, _ in await it.ledger.read("run_1")]
        assert "evidence.recorded" not in kinds


# --- whoever takes it up --------------------------------------------------------------------------------------------


async def left_unverified(it: House) -> None:
    """A write whose verifier nobody has asked: its answer was lost, and a person says that it happened."""
    it.upstreams.will("write", Silence("timeout"))
    _ = await it.call("write", {"path": "a"})

    def happened(run: Run, _: Any, now: datetime) -> Sequence[Event]:
        return resolve(run, "run_1.2", what="happened", by=ME, reason="seen", now=now)

    await it.book.say("run_1", happened)
    assert (await it.book.state_of("run_1")).attempts["run_1.2"].unverified


async def test_only_a_gateway_that_has_the_place_takes_a_verification_up() -> None:
    async with house(**verified(FILE)) as it:
        await left_unverified(it)
        looks = seeing(it, ToolResult({"exists": True}))
        looks.missing = "notes"
        assert not await it.engine.carrier.can_verify("run_1", "run_1.2")
        _ = await it.recovery.sweep()
        assert looks.asked == []
        looks.missing = None
        assert await it.engine.carrier.can_verify("run_1", "run_1.2")
        it.clock.tell(100)
        _ = await it.recovery.sweep()
        assert (await evidence(it)).verdict == "pass"


async def test_what_a_person_says_happened_is_no_result_of_its_own() -> None:
    async with house(**verified(OWN)) as it:
        await left_unverified(it)
        it.clock.tell(100)
        _ = await it.recovery.sweep()
        assert (await evidence(it)).says == "`it` could not check: the call's own result was never seen"


async def test_the_engine_looks_with_what_it_is_given() -> None:
    async with house(**verified(FILE)) as it:
        looks = ScriptedLooks()
        assert Engine(it.book, it.upstreams, looks).carrier.looking._looks is looks


def test_a_verifier_without_a_probe_is_no_surprise() -> None:
    policy = world.policy(verifiers={"it": FILE, "own": OWN, "ask": {"probe": {"tool": "gone"}, "pass": ["true"]}})
    assert list(surprises(policy, {"write"}, default=True)) == ["verifier `ask` asks `gone`, which nobody offers"]
