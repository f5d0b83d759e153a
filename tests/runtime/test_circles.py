"""A run that goes round in circles, as its client sees it: warned once, with the answer that it is about, then over."""

from typing import Any

from gateway.model.events import Denied, ReceiptRecorded
from gateway.model.tool import ToolResult
from gateway.runtime.explain import again, differences, kept
from tests import world
from tests.runtime.house import House, house, refused
from tests.runtime.undoing import undoing

TOOLS: dict[str, Any] = {
    "read": {"effect": "read", "noise": ["at"]},
    "write": {"effect": "write"},
    "check": {"effect": "read"},
    "pay": {"noise": ["at"]},
}
LIMITS: dict[str, Any] = {"repeated_state": {"after": 3, "reads": 4}}
SURE: dict[str, Any] = {"t": {"probe": {"tool": "check"}, "pass": ["result.structuredContent.ok == true"]}}


async def told(it: House, name: str, arguments: dict[str, Any] | None = None) -> list[str] | str:
    """The warnings that came with the answer; as what the run is over, if it is."""
    shown = await it.call(name, arguments)
    over = (await it.book.state_of("run_1")).stopped
    if over is not None:
        return str(over.outcome)
    if shown.refusal is not None:
        return list(shown.refusal.warnings or ())
    return list((shown.record or {}).get("warnings", ()))


def warned(what: str, times: int = 2, same: str = "failure") -> list[str]:
    came = f"the same {same} came {times} times without new evidence: {what}"
    return [f"stops.repeated_state: {came}; once more ends the run"]


async def test_a_read_with_the_same_answer_is_told_of_in_meta_and_then_ends_the_run() -> None:
    async with house(tools=TOOLS, stops=LIMITS) as it:
        it.upstreams.will("read", *[world.ok(f'{{"at": {n}, "jobs": []}}') for n in range(9)])
        said = [await told(it, "read", {"at": n}) for n in range(5)]
        assert said == [[], [], warned("a read by `read`", 3, "answer"), "repeated_state", "repeated_state"]


async def test_a_refusal_is_told_of_in_the_refusal() -> None:
    fields: dict[str, Any] = {"transitions": [{"name": "look", "tools": ["read"]}]}
    async with house(tools=TOOLS, stops=LIMITS, **fields) as it:
        said = [await told(it, "pay", {"at": n}) for n in range(3)]
        assert said == [[], warned("a refused call of `pay`"), "repeated_state"]


async def test_a_failed_verdict_is_told_of_with_what_it_is_about() -> None:
    fields: dict[str, Any] = {"verifiers": SURE, "transitions": [{"name": "any", "tools": ["*"], "verify": "t"}]}
    async with house(tools=TOOLS, stops=LIMITS, **fields) as it:
        it.upstreams.will("check", *[ToolResult({"content": [], "structuredContent": {"ok": False}})] * 3)
        said = [await told(it, "write", {"n": n}) for n in range(3)]
        assert said == [[], warned("verifier `t`"), "repeated_state"]


async def test_the_warning_is_not_told_again_with_the_same_record() -> None:
    async with house(tools=TOOLS, stops=LIMITS) as it:
        it.upstreams.will("write", *[ToolResult({"content": [], "isError": True})] * 2)
        await it.call("write")
        second = await it.call("write")
        assert (second.record or {})["warnings"] == warned("an error of `write`")
        fetched = await it.engine.outcome(second.attempt or "", world.USER, world.PatientCaller())
        assert (fetched.record or {}).get("replayed") is True
        assert "warnings" not in (fetched.record or {})


async def test_what_is_counted_is_in_the_records_and_nothing_where_nobody_counts() -> None:
    async def recorded(**stops: Any) -> list[str | None]:
        fields: dict[str, Any] = {"transitions": [{"name": "some", "tools": ["read", "write"]}]}
        async with house(tools=TOOLS, stops=stops, **fields) as it:
            for name, n in (("read", 1), ("read", 2), ("write", 3), ("pay", 4)):
                await it.call(name, {"at": n})
            events = [record.event for record, _ in await it.ledger.read("run_1")]
            return [one.alike for one in events if isinstance(one, ReceiptRecorded | Denied)]

    assert await recorded() == [None] * 4
    one, same, other, refusal = await recorded(**LIMITS)
    assert one == same
    assert len({one, other, refusal, None}) == 4


async def test_a_denial_without_its_noise_is_judged_again_to_the_byte() -> None:
    async with house(tools=TOOLS, stops=LIMITS, transitions=[{"name": "look", "tools": ["read"]}]) as it:
        assert refused(await it.call("pay", {"at": 1})) == ("denied", "default-deny")
        it_was = await kept(it.ledger, "run_1", 2)
        assert isinstance(it_was.verdict, Denied)
        assert it_was.verdict.alike is not None
        assert differences(it_was.verdict, again(it_was).verdict) == ()


async def test_what_the_gateway_itself_does_is_no_step_of_the_agents() -> None:
    async with undoing(stops={"repeated_state": {"after": 2, "reads": 2}}) as it:
        for n in range(3):
            await it.call("pay", {"amount": 5 + n})
        run = await it.book.state_of("run_1")
        kinds = {step.split("\0")[1] for step, _ in [*run.steps.young.items(), *run.steps.old.items()]}
        assert "refund" not in kinds
