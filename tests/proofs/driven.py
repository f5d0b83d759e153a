"""A run that goes on by choices: every event is what the kernel's own functions make of what an agent and a world do.

Calls overlap, answers are late, lost or come twice, verifiers look while something is written, and look again.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar

from gateway.kernel import evidence, fresh, verify
from gateway.kernel.approve import pending, resolve
from gateway.kernel.evidence import Question, question
from gateway.kernel.finish import askable, missing
from gateway.kernel.rules import Rules
from gateway.kernel.verify import Cited
from gateway.model.canonical import digest
from gateway.model.events import Event, FinishClaimed, FinishRefused, IntentRecorded, RunMigrated, Who
from gateway.model.proposal import Key, KeySource
from gateway.model.record import utc
from gateway.model.review import Refused
from gateway.model.run import Attempt, AttemptState, RunState
from gateway.model.tool import Answer, NotSent, ProtocolError, Silence, ToolResult
from tests import world
from tests.kernel import made
from tests.people import answer

T = TypeVar("T")
Choose = Callable[[Sequence[Any]], Any]

TOOLS = {one.name: one for one in (world.tool("read", read=True), *map(world.tool, ("write", "pay", "undo", "book")))}
BOSS = Who(tenant="local", id="local:boss")
SAYS = "result.structuredContent.ok == true"
STEPS = (
    *("call",) * 4,
    *("answer",) * 5,
    *("look",) * 4,
    *("see",) * 5,
    *("person",) * 2,
    "finish",
    "undo",
    "time",
    "migrate",
)


def drawn(choose: Choose, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """A policy: what is proven by what, about what. What is fixed is not chosen."""

    def one(name: str, *of: Any) -> Any:
        return fixed[name] if name in fixed else choose(of)

    objects, accept = one("objects", [], ["args.o"], ["args.o"]), one("accept", "independent", "opinion")
    a: dict[str, Any] = {"probe": {"tool": "read"}, "pass": [SAYS], "covers": one("covers", ["*"], ["*"], ["write"])}
    a["about"] = one("about", [], ["args.o"], ["result.structuredContent.o"])
    b = {"probe": {"tool": "read"}, "pass": [SAYS], "opinion": accept == "opinion" and one("opinion", True, False)}
    b["about"] = one("b about", [], [], ["args.o"])
    leads = one("leads", False, True)
    write: dict[str, Any] = {"name": "write", "tools": ["write"], "from": ["open", "doubt"]}
    write["verify"] = one("verify", ["a"], ["a", "b"], ["own", "a"], ["b"])
    if leads:
        write |= {"to": "done", "on": one("on", {}, {"verification_failed": "doubt", "error": "doubt"})}
    if undone := one("undone", False, False, True):
        write["compensation"] = {"tool": "undo", "arguments": {"o": "A"}}
    merges = {"merges": ["write"]} if undone and one("merges", True, False) else {}
    asks = {"approval": {"reason": "for good"}} if one("asks", False, False, True) else {}
    others = [
        {"name": "pay", "tools": ["pay"], "verify": one("pay verify", [], ["b"])},
        {"name": "book", "tools": ["book"], "verify": ["b"], **merges, **asks},
        {"name": "rest", "tools": ["read", "undo"]},
    ]
    return {
        "tools": {
            "read": {"effect": "read"},
            **{name: {"effect": "write", "repeat": "new", "objects": objects} for name in ("write", "pay")},
            **{name: {"effect": "write", "repeat": "new"} for name in ("undo", "book")},
        },
        "phases": {"open": {}, "doubt": {}, "done": {"verify": one("done", [], ["b"]) if leads else []}},
        "transitions": [write, *others],
        "verifiers": {"a": a, "b": b, "own": {"result": {}, "pass": [SAYS]}},
        "success": {
            "evidence": one("success", ["a"], ["b"], ["a", "b"]),
            "phase": "done" if leads and one("phase", True, False) else None,
            "accept": accept,
        },
        "migrate": True,
    }


@dataclass
class Seen:
    """A look that has begun and whose word is not recorded yet, or is recorded again."""

    asked: Question
    arguments: dict[str, Any]


@dataclass
class Driven:
    """A run, all that it is made of, and what only its driver knows."""

    choose: Choose
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Of its policy, what is not chosen; and `o`, what calls are about, and `lost`, how many
    in eight answers are, and `late`, to whom they come late."""
    more: Sequence[str] = ()
    """Steps that it takes more often than others."""
    policies: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    objects: dict[str, str | None] = field(default_factory=dict)
    """By attempt, what it is about."""
    arguments: dict[str, dict[str, Any]] = field(default_factory=dict)
    looks: list[Seen] = field(default_factory=list)
    seen: dict[int, str] = field(default_factory=dict)
    """By place among the events, what the world really showed there: `yes`, `no` or `nothing`."""
    began: dict[int, int] = field(default_factory=dict)
    """By the same, how far the run was when that look began."""
    at_policy: int = 0

    def __post_init__(self) -> None:
        first = drawn(self.choose, self.fixed)
        stricter = {**first["verifiers"]["a"], "pass": [SAYS, "result.structuredContent.exact == true"]}
        second = {**first, "verifiers": {**first["verifiers"], "a": stricter}}
        self.policies = (first, second)
        self._rules = tuple(world.rules(**one) for one in self.policies)
        self.life = made.Life(made.opened(self.rules, "process", None, None))

    @property
    def rules(self) -> Rules:
        """Those in force."""
        return self._rules[self.at_policy]

    def goes_on(self, events: Sequence[Event]) -> None:
        """These, what follows from them, and perhaps the end: as one transaction."""
        for event in events:
            self.life.goes_on(event)
        if events:
            self.life.ends(self.rules)

    def lives(self, steps: int) -> made.Life:
        """The run after so many steps, or once it is over."""
        for _ in range(steps):
            if self.life.run.state is not RunState.RUNNING:
                break
            getattr(self, f"_{self.choose((*STEPS, *self.more))}")()
        return self.life

    # --- what an agent does -------------------------------------------------------------------------------------------

    def _call(self) -> None:
        if self.life.run.moving and self.choose([True, True, True, False]):
            return  # it would have to wait, as it sometimes does
        tool, number = self.choose(["write", "write", "write", "pay", "book", "read"]), self.life.run.version
        told = {"n": number} | (
            {"o": one} if (one := self.choose(self.fixed.get("o", ["A", "A", "B", None]))) is not None else {}
        )
        key = Key(KeySource.CALLER, str(number))
        self._judged(world.proposal(tool, told, key=key), told)

    def _judged(self, proposed: Any, told: dict[str, Any]) -> None:
        told_of = made.Seen(tools=TOOLS)
        verdict = made.judge(self.life.run, proposed, self.rules, told_of, self.life.at)
        if isinstance(verdict, IntentRecorded):
            self.arguments[verdict.attempt] = told
            said = bool(self.policies[0]["tools"].get(verdict.tool, {}).get("objects"))
            self.objects[verdict.attempt] = told.get("o") if said else None
        self.goes_on([verdict])

    def _undo(self) -> None:
        run = self.life.run
        due = sorted(name for name in run.owed if run.undo[name].state == "owed")
        if due:
            told = {"o": "A"}
            key = Key(KeySource.UNDO, due[0])
            self._judged(replace(world.proposal("undo", told, key=key), compensates=due[0]), told)

    def _finish(self) -> None:
        run = self.life.run
        if self.choose([True, False]):
            place = run.version + 1
            self.goes_on([FinishClaimed(outcome="verified_success", claim=digest("done", b""))])
            if self.life.run.state is RunState.RUNNING and (wanted := [*missing(run, self.rules)]):
                self.goes_on([FinishRefused(claim=place, lacking=tuple(one.what for one in wanted))])
            return
        for name, about in askable(run, self.rules, utc(self.life.at)):
            asked = Question(name, self.rules.policy.verifiers[name], None, run.version, run.policy)
            self.looks.append(Seen(asked, self.arguments[about.id] if about is not None else {}))

    # --- what the world does ------------------------------------------------------------------------------------------

    def _time(self) -> None:
        self.life.at += self.choose([1.0, 20.0, 200.0])

    def _attempt(self, *states: AttemptState) -> Attempt | None:
        found = sorted((one for one in self.life.run.attempts.values() if one.state in states), key=lambda one: one.seq)
        return self.choose(found) if found else None

    def _answer(self) -> None:
        """The answer of a call, which may be late, lost, an error, against its schema, or the second one."""
        late = self.fixed.get("late") or self.choose([(), (), (AttemptState.UNKNOWN, AttemptState.REFUTED)])
        attempt = self._attempt(
            AttemptState.OPEN, *late, *((AttemptState.ANSWERED,) if self.choose([True, *[False] * 5]) else ())
        )
        if attempt is None:
            return
        good = ToolResult({"content": [], "structuredContent": {"ok": True, "o": "A"}})
        bad: list[Answer] = [ToolResult({"content": [], "isError": True}), ProtocolError({"code": 1, "message": "x"})]
        came: Answer = self.choose(
            [*[good] * 6, *[Silence("lost")] * self.fixed.get("lost", 1), NotSent("down"), self.choose(bad)]
        )
        schema = self.choose([None, None, {"type": "object", "required": ["id"]}])
        self.goes_on(
            verify.observe(
                self.life.run,
                attempt,
                came,
                Cited(digest("x", b""), 8),
                output_schema=schema,
                duration_s=0.1,
                now=utc(self.life.at),
                failure=None,
                alike=None,
            )
        )

    def _person(self) -> None:
        run, now = self.life.run, utc(self.life.at)
        asked = [one for one in run.approvals.values() if pending(one, now) and one.policy == run.policy]
        if asked:
            yes = self.choose([True, False])
            self.goes_on([answer(run, asked[0].id, asked[0].action, approve=yes, by=BOSS, reason="so", now=now)])
            return
        attempt = self._attempt(AttemptState.UNKNOWN)
        if attempt is not None:
            happened = self.choose([True, False])
            with suppress(Refused):
                self.goes_on(
                    resolve(
                        self.life.run,
                        attempt.id,
                        what="happened" if happened else "did_not_happen",
                        by=BOSS,
                        reason="so",
                        now=now,
                    )
                )

    def _look(self) -> None:
        """A verifier of a call begins to look; two gateways may do so at once."""
        waiting = [one for one in self.life.run.attempts.values() if one.unverified]
        if not waiting:
            return
        attempt = self.choose(sorted(waiting, key=lambda one: one.seq))
        asked = question(self.life.run, attempt.id, self.rules)
        if asked is not None:
            self.looks.append(Seen(asked, self.arguments[attempt.id]))

    def _see(self) -> None:
        """What one of them has seen is recorded; perhaps not for the last time."""
        if not self.looks:
            return
        one = self.choose(self.looks)
        if self.choose([True, True, True, False]):
            self.looks.remove(one)
        yes = {"ok": True, "exact": self.choose([True, False]), "o": self.choose(["A", "B"])}
        seen = ToolResult({"content": [], "structuredContent": yes})
        no = ToolResult({"content": [], "structuredContent": {**yes, "ok": False}})
        found = self.choose(
            [seen, seen, seen, seen, no, no, Silence("late"), NotSent("down"), ToolResult({"isError": True})]
        )
        now, place = utc(self.life.at), len(self.life.events)
        self.began[place] = one.asked.after
        exact = self.at_policy == 0 or one.asked.verifier != "a" or yes["exact"]
        self.seen[place] = "nothing" if found not in (seen, no) else "yes" if found is seen and exact else "no"
        self.goes_on(
            evidence.settle(
                self.life.run,
                one.asked,
                found,
                Cited(digest("seen", b""), 8),
                one.arguments,
                self.rules,
                started_at=now - timedelta(seconds=1),
                duration_s=1.0,
                now=now,
            )
        )

    def _migrate(self) -> None:
        """The policy's text is another from here on: the one verifier asks for more, or for less."""
        run = self.life.run
        if run.unsettled or run.owed or run.policy is None or self.choose([True, True, False]):
            return
        other = 1 - self.at_policy
        was, now = self._rules[self.at_policy], self._rules[other]
        said = RunMigrated(source=run.policy, target=now.digest, restated=fresh.restated(was.policy, now.policy))
        self.at_policy = other
        self.goes_on([said])
