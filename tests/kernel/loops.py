"""Recorded lists of steps: circles that must end a run, and repetition that must not.

Each step is what an agent did and what came of it; the fold and the stops are asked, and no engine.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gateway.kernel.noise import step_alike
from gateway.kernel.rules import Rules
from gateway.kernel.stop import stop, warning
from gateway.kernel.verify import Cited, observe
from gateway.model.canonical import digest
from gateway.model.events import Denied, Event, EvidenceRecorded, IntentRecorded, RunStopped
from gateway.model.record import utc
from gateway.model.run import Run
from gateway.model.tool import ToolResult
from tests import world
from tests.kernel.test_decide import judge

NOW = utc(world.T0)
TOOLS = {one.name: one for one in (world.tool("read"), world.tool("write"), world.tool("poll"), world.tool("nope"))}


@dataclass(frozen=True)
class Call:
    """A call that was sent, and its answer."""

    tool: str
    arguments: dict[str, Any] = field(default_factory=dict)
    says: Any = "ok"
    """The text of the answer; the structured content, if it is an object."""
    fails: bool = False


@dataclass(frozen=True)
class Verdict:
    """What a verifier found."""

    verdict: Literal["pass", "fail", "inconclusive"]
    signature: str | None = None
    verifier: str = "t"


@dataclass(frozen=True)
class Refused:
    """A call that no transition allows."""

    arguments: dict[str, Any] = field(default_factory=dict)
    tool: str = "nope"


Step = Call | Verdict | Refused


def rules(**limits: Any) -> Rules:
    """A policy that looks for circles, with `at` and `meta.id` as noise of the tool that reads."""
    return world.rules(
        tools={
            "read": {"effect": "read", "noise": ["at", "meta.id"]},
            "poll": {"effect": "read", "poll": True},
            "write": {"effect": "write", "repeat": "new"},
            "nope": {"noise": ["at"]},
        },
        transitions=[{"name": "any", "tools": ["read", "write", "poll"]}],
        verifiers={name: {"probe": {"tool": "check"}, "pass": ["true"]} for name in ("t", "u")},
        stops={"repeated_state": {"after": 3, "reads": 5} | limits},
    )


@dataclass
class Walked:
    """A run after some steps."""

    run: Run
    warned: list[int] = field(default_factory=list)
    """The steps with whose answer the client was warned, counted from 1."""
    over: RunStopped | None = None
    at: int = 0
    """The step that ended it."""


def events_of(run: Run, by: Rules, step: Step) -> Sequence[Event]:
    """What is recorded of the step, beside an intent that stands in the run already."""
    match step:
        case Verdict(verdict, signature, verifier):
            found = EvidenceRecorded(
                verifier=verifier, verdict=verdict, signature=signature, says="so", started_at=NOW, after=run.version
            )
            return (found,)
        case Refused(arguments, tool):
            denied = judge(run, by, world.proposal(tool, arguments))
            assert isinstance(denied, Denied)
            return (denied,)
        case Call():
            intent = judge(run, by, world.proposal(step.tool, step.arguments), tool=TOOLS[step.tool])
            assert isinstance(intent, IntentRecorded)
            return (intent,)


def _text(says: Any) -> dict[str, Any]:
    return {"type": "text", "text": says}


def answered(run: Run, by: Rules, step: Call, name: str) -> Sequence[Event]:
    """What is recorded of the answer."""
    content = step.says if isinstance(step.says, dict) else None
    said = {"structuredContent": content, "content": []} if content is not None else {"content": [_text(step.says)]}
    answer = ToolResult({**said, "isError": step.fails})
    payload = dict(answer.result)
    cited = Cited(digest(payload, world.SALT), 10)
    ruled, attempt = by.ruled(TOOLS[step.tool]), run.attempts[name]
    alike = step_alike(attempt, step.arguments, answer, cited.digest, by, ruled, world.SALT)
    return observe(
        run, attempt, answer, cited, output_schema=None, duration_s=0.1, now=NOW, failure=None, alike=alike
    )  # fmt: skip


def walked(steps: Sequence[Step], by: Rules) -> Walked:
    """The run after these steps, or after the one that ended it; as `Book` and `tell` do it."""
    found = Walked(world.opened(by))
    for at, step in enumerate(steps, 1):
        before = found.run.version
        found.run = world.after(found.run, *events_of(found.run, by, step))
        if isinstance(step, Call):
            name = f"run_1.{before + 1}"
            found.run = world.after(found.run, *answered(found.run, by, step, name))
        places = range(before + 1, found.run.version + 1)
        found.over = stop(found.run, by, NOW)
        if found.over is not None:
            found.at = at
            return found
        if warning(found.run, by, *places) is not None:
            found.warned.append(at)
    return found


def read(n: int, says: Any = "same", **more: Any) -> Call:
    """A read of the n-th thing."""
    return Call("read", {"n": n}, says, **more)


def write(n: int, says: Any = "done", **more: Any) -> Call:
    """A change of the n-th thing."""
    return Call("write", {"n": n}, says, **more)


RED, OTHER, GREEN = Verdict("fail", "red"), Verdict("fail", "other"), Verdict("pass")
A, B, C = write(1), write(2), Refused({"n": 3})

CIRCLES: dict[str, tuple[Sequence[Step], int]] = {
    "one refusal, over and over": ([Refused()] * 9, 3),
    "one error": ([read(1, "no such file", fails=True)] * 9, 3),
    "one change with the same answer": ([A] * 9, 3),
    "one read with the same answer": ([read(1)] * 9, 5),
    "A-B-A-B of refusals": ([Refused({"n": 1}), Refused({"n": 2})] * 9, 5),
    "A-B-A-B of changes": ([A, B] * 9, 6),
    "A-B-A-B of errors": ([read(1, "no", fails=True), read(2, "no", fails=True)] * 9, 6),
    "A-B-A-B of a refusal and a read": ([C, read(1)] * 9, 7),
    "A-B-C-A-B-C": ([write(n) for n in range(3)] * 9, 9),
    "a circle of forty steps": ([write(n) for n in range(40)] * 9, 120),
    "times and ids that change": ([read(1, {"at": n, "meta": {"id": f"x{n}"}, "rows": []}) for n in range(9)], 5),
    "times that change, in JSON as text": ([read(1, f'{{"at": {n}, "rows": []}}') for n in range(9)], 5),
    "times that change in what is asked": (
        [Call("read", {"n": 1, "at": n}, "no", fails=True) for n in range(9)], 3),
    "a refusal with times that change": ([Refused({"at": n}) for n in range(9)], 3),
    "fix, fail, fix, fail": ([step for n in range(9) for step in (write(n), RED)], 6),
    "fix, read, fail": ([step for n in range(9) for step in (write(n), read(n, f"v{n}"), RED)], 9),
    "fix, error, fix, error": ([step for n in range(9) for step in (write(n), read(0, "red", fails=True))], 6),
    "two verdicts by turns": ([RED, OTHER] * 9, 6),
    "the same verified change": ([step for _ in range(9) for step in (A, GREEN)], 7),
    "a refusal beside a poll": ([step for n in range(9) for step in (Call("poll", {}, f"{n} %"), C)], 6),
}  # fmt: skip
"""Steps, and the step that ends the run: with `after: 3` and `reads: 5`."""

REPETITION: dict[str, Sequence[Step]] = {
    "pages": [Call("read", {"page": n}, f"page {n}") for n in range(50)],
    "pages that are all empty": [Call("read", {"page": n}, "nothing") for n in range(50)],
    "a poll with progress": [read(1, {"done": n, "at": n}) for n in range(50)],
    "a poll that is declared": [Call("poll", {"job": 1}, "pending") for _ in range(50)],
    "retries after a fix, each failing in another way": [
        step for n in range(30) for step in (write(n), Verdict("fail", f"{n} failed"))
    ],
    "errors that are others": [read(1, f"line {n} is wrong", fails=True) for n in range(30)],
    "a file that is read again after each edit": [
        step for n in range(30) for step in (write(n), read(1, f"version {n}"))
    ],
    "a green test after each edit": [step for n in range(30) for step in (write(n), read(1, "12 passed"))],
    "a green verifier after each edit": [step for n in range(30) for step in (write(n), GREEN)],
    "a failure between two that pass": [RED, RED, GREEN] * 9,
    "a failure twice before each thing that is learned": [
        step for n in range(20) for step in (Refused(), Refused(), read(n, f"found {n}"))
    ],
    "what nobody could check": [Verdict("inconclusive", "s") for _ in range(30)],
}  # fmt: skip
"""What a careful agent does, which ends no run."""


def kept_of(run: Run) -> set[str]:
    """What the run keeps of steps."""
    return {*(step for step, _ in run.steps.young.items()), *(step for step, _ in run.steps.old.items())}
