"""Policies, runs and proposals of any kind, for properties: every run is a fold of what `decide` and the world said."""

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from gateway.kernel.accounts import looked_at
from gateway.kernel.case import Gather, Observed, Probed
from gateway.kernel.decide import decide
from gateway.kernel.moves import NEXT_ATTEMPT
from gateway.kernel.owing import follows
from gateway.kernel.rules import Rules
from gateway.kernel.stop import stop
from gateway.kernel.ways import offered_by
from gateway.model.canonical import digest
from gateway.model.events import (
    AttemptAbandoned,
    AttemptQueried,
    AttemptRefuted,
    AttemptSuspended,
    AttemptUnknown,
    AttemptUnsent,
    Event,
    EvidenceRecorded,
    OutcomeDelivered,
    PhaseMoved,
    ReceiptRecorded,
    RunOpened,
    Verdict,
    Who,
)
from gateway.model.policy import UNITS
from gateway.model.principal import Principal
from gateway.model.proposal import Key, KeySource, Proposal, Resume
from gateway.model.record import utc
from gateway.model.review import Refused
from gateway.model.run import Attempt, Run, RunState, Tracked
from gateway.model.tool import Tool
from tests import world
from tests.people import answer

EXAMPLES = int(os.environ.get("PROPERTY_EXAMPLES", "25"))
"""Few, for every day; thousands find more."""
MANY = settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],  # to explain a failure takes minutes
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

PHASES = ("one", "two")
AUTHORITIES = ("a", "b")
GRANTS: list[dict[str, Any]] = [{"roles": ["a"], "authority": ["a"]}, {"scopes": ["b"], "authority": ["b"]}]
NAMES = ("read", "write", "pay")
VERIFIER = {"probe": {"tool": "check"}, "pass": ["result.isError == false"]}
PLAIN = (
    "args.n > 1",
    "args.to == 'x'",
    "'n' in args",
    "run.phase == 'one'",
    "run.calls < 2",
    "'t' in evidence && evidence.t.verdict == 'pass' && evidence.t.fresh",
    "tool.effect == 'write'",
    "args.to in values.known",
)
"""Conditions that read neither the principal nor accounts."""
LOOSE = (*PLAIN, "'a' in principal.authority", "accounts.daily.calls < 2", "'boss' in principal.roles")
TOOLS = {one.name: one for one in (world.tool("read", read=True), world.tool("write"), world.tool("pay"))}
ROUND = digest("asked", world.SALT)


def some(values: tuple[str, ...], most: int = 2) -> st.SearchStrategy[list[str]]:
    """A few of these, each once."""
    return st.lists(st.sampled_from(values), unique=True, max_size=most)


def few(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Some of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


COUNT = st.integers(0, 4)
LIMITS = few(calls=COUNT, mutations=COUNT, tokens=st.integers(0, 300), cost=st.sampled_from([0.0, 0.1, 1.5]),
             reviews=st.integers(0, 2))  # fmt: skip
SPEND = few(calls=st.integers(0, 2), mutations=st.integers(0, 2), tokens=st.integers(0, 99), cost=st.just(0.1))


def approvals(conditions: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """What a transition says of a person."""
    return few(when=some(conditions), quorum=st.integers(1, 2), role=st.just("boss"), self_review=st.booleans())


def transitions(conditions: tuple[str, ...], modes: tuple[str, ...]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """The transitions of a policy, in order."""
    one = st.fixed_dictionaries(
        {"tools": st.sampled_from([["*"], ["write"], ["pay"], ["w*", "read"]])},
        optional={
            "from": some(PHASES, 1),
            "when": some(conditions),
            "authority": some(AUTHORITIES),
            "preconditions": some(("t", "u")),
            "retry": st.sampled_from(["any", "unsent", "never"]),
            "max_attempts": st.integers(1, 2),
            "charge": SPEND,
            "verify": st.just("t"),
            "to": st.sampled_from(PHASES),
            "compensation": st.sampled_from([{"tool": "pay", "arguments": {"n": 1}}, {"tool": "write"}]),
            "approval": approvals(conditions),
        }
        | ({"mode": st.sampled_from(modes)} if modes else {}),
    )
    return st.lists(one, min_size=1, max_size=4).map(
        lambda those: [one | {"name": f"t{at}"} for at, one in enumerate(those)]
    )


def forbids(conditions: tuple[str, ...], modes: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """What a policy forbids."""
    told: dict[str, Any] = {"tools": st.sampled_from([["*"], ["pay"]]), "when": some(conditions, 1)}
    return few(**told, final=st.booleans(), **({"mode": st.sampled_from(modes)} if modes else {}))


def accounts(modes: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """An account."""
    told: dict[str, Any] = {
        "per": some(("tenant", "principal", "tool", "args.to")),
        "window": st.sampled_from(["minute", "hour", "day", "month", "ever"]),
        "limit": LIMITS,
    }
    return few(**told, **({"mode": st.sampled_from(modes)} if modes else {}))


TOOL = few(
    effect=st.sampled_from(["read", "write", "destructive"]),
    permissions=some(AUTHORITIES, 1),
    repeat=st.sampled_from(["hold", "replay", "new"]),
    rate=st.fixed_dictionaries({"calls": COUNT}),
    cost=st.sampled_from([0.0, 0.5]),
    result_tokens=st.integers(0, 200),
    data_class=st.just("internal"),
    noise=st.just(["to"]),
    poll=st.booleans(),
    takes_s=st.sampled_from([0.0, 30.0]),
)


@st.composite
def policies(
    draw: st.DrawFn, conditions: tuple[str, ...] = LOOSE, modes: tuple[str, ...] = ("observe", "enforce")
) -> dict[str, Any]:
    """The fields of a policy; its rules have modes of their own only where `modes` has some."""
    forbidden = draw(st.lists(forbids(conditions, modes), max_size=2))
    return {
        "mode": draw(st.sampled_from(["enforce", "enforce", "observe"])),
        "phases": {"one": {}, "two": draw(few(ends=st.just("infeasible")))},
        "tools": {name: draw(TOOL) for name in ("read", "write")} | {"pay": {"effect": "write"}},
        "grants": GRANTS,
        "transitions": draw(transitions(conditions, modes)),
        "forbid": [one | {"name": f"f{at}"} for at, one in enumerate(forbidden)],
        "verifiers": {"t": VERIFIER, "u": VERIFIER},
        "accounts": {"daily": draw(accounts(modes)), "other": draw(accounts(modes))},
        "budgets": draw(LIMITS),
        "stops": draw(
            few(
                deadline_s=st.just(1000.0),
                repeated_state=st.sampled_from([{"after": 2}, {"after": 2, "reads": 2, "noise": ["n"]}]),
                infeasible=st.sampled_from(["declared", "computed", "never"]),
                final_denials=some(("phase", "authority", "conditions", "preconditions", "tool"), 5),
            )
        ),
        "success": draw(st.sampled_from([None, {"evidence": ["t"]}, {"evidence": ["t"], "phase": "two"}])),
        "values": {"known": ["x", "y"]},
    }


ARGUMENTS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {"n": 1}, {"n": 2, "to": "x"}, {"n": "2", "to": "z"}, {"n": 5}]
)
KEYS = st.sampled_from([None, None, Key(KeySource.CALL_ID, "c1"), Key(KeySource.CALLER, "mine")])


def user(held: frozenset[str]) -> Principal:
    """The user of the run, with the roles and scopes that give this authority."""
    return Principal(id="local:user", roles=held - {"b"}, scopes=held & {"b"})


@st.composite
def proposals(draw: st.DrawFn, arguments: st.SearchStrategy[dict[str, Any]] = ARGUMENTS) -> Proposal:
    """One call."""
    made = world.proposal(draw(st.sampled_from(NAMES)), draw(arguments), key=draw(KEYS))
    return replace(
        made, principal=user(frozenset(draw(some((*AUTHORITIES, "boss"), 3)))), reported_tokens=draw(st.integers(0, 9))
    )


@dataclass
class Seen:
    """The world beside the run, whatever is asked of it."""

    levels: Mapping[str, int] = field(default_factory=dict)
    """Of every account, by unit."""
    probes: Literal["pass", "fail", "inconclusive"] = "pass"
    parent: Literal["running", "over"] = "running"
    held: Tracked | None = None
    tools: Mapping[str, Tool] = field(default_factory=lambda: TOOLS)
    """All that is offered."""


def seen(most: int = 6) -> st.SearchStrategy[Seen]:
    """Some state of the world."""
    states = st.sampled_from(["open", "unknown", "unverified", "undelivered"])
    held = st.builds(Tracked, st.just("run_0.7"), st.just("run_0"), states, st.none(), st.just("gone"), st.just(0.0))
    return st.builds(
        Seen,
        levels=st.dictionaries(st.sampled_from(UNITS), st.integers(0, most)),
        probes=st.sampled_from(["pass", "pass", "fail", "inconclusive"]),
        parent=st.sampled_from(["running", "running", "over"]),
        held=st.none() | st.none() | held,
    )


MOST_ROUNDS = 6
"""One for a parent, one for accounts, one for those of its compensation, one for probes, one for what is offered; the
last decides."""


def judge(run: Run, proposed: Proposal, rules: Rules, told: Seen, at: float) -> Verdict:
    """The verdict, with everything that was asked for looked up; it is asked for within a few rounds."""
    defined = told.tools.get(proposed.tool)
    definition = None if defined is None else digest(dict(defined.definition), world.SALT)
    observed = Observed(defined, definition, told.held, salt=world.SALT)
    for _ in range(MOST_ROUNDS):
        found = decide(run, proposed, rules, observed, utc(at))
        if not isinstance(found, Gather):
            return found
        if found.parent is not None:
            observed = replace(observed, parent=told.parent)
        if found.accounts:
            levels = {(account, unit): level for account in found.accounts for unit, level in told.levels.items()}
            observed = replace(observed, levels=looked_at(found.accounts, levels))
        if found.offered:
            observed = replace(observed, offered=offered_by(rules, told.tools.values(), complete=True))
        probed = Probed(told.probes, "looked", utc(at))
        observed = replace(observed, probes={**observed.probes, **dict.fromkeys(found.probes, probed)})
    raise AssertionError("decide asks for ever")


def opened(rules: Rules, origin: str, parent: str | None, delegated: tuple[str, ...] | None) -> Run:
    """A run just opened."""
    event = RunOpened.model_validate(
        {
            "principal": Who(tenant="local", id="local:user"),
            "workflow": rules.policy.workflow,
            "policy": rules.digest,
            "phase": rules.policy.initial,
            "origin": origin,
            "parent": parent,
            "delegated": delegated,
        }
    )
    return world.after(Run("run_1"), event)


def happens(attempt: Attempt, kind: str, size: int, at: float) -> Event:
    """What may become of an attempt."""
    one, why = attempt.id, "so"
    made: dict[str, Callable[[], Event]] = {
        "receipt.recorded": lambda: ReceiptRecorded(
            attempt=one, answer="result", is_error=size % 2 == 1, result=digest(size, b""), size_bytes=size,
            alike=digest(size % 3, b"") if size % 5 else None
        ),
        "attempt.unsent": lambda: AttemptUnsent(attempt=one, reason=why),
        "attempt.suspended": lambda: AttemptSuspended(
            attempt=one, awaits="input", answer=ROUND, expires_at=utc(at) + timedelta(minutes=1)
        ),
        "attempt.unknown": lambda: AttemptUnknown(attempt=one, reason=why),
        "attempt.queried": lambda: AttemptQueried(attempt=one, verdict="absent", says=why, started_at=utc(at)),
        "attempt.abandoned": lambda: AttemptAbandoned(attempt=one, reason=why),
        "attempt.refuted": lambda: AttemptRefuted(attempt=one, source="probe", reason=why),
        "outcome.delivered": lambda: OutcomeDelivered(attempt=one),
        "evidence.recorded": lambda: EvidenceRecorded(
            verifier="t", verdict=VERDICTS[size % 3], attempt=one, says=why, started_at=utc(at), after=size % 9
        ),
    }  # fmt: skip
    return made[kind]()


VERDICTS: tuple[Literal["pass", "fail", "inconclusive"], ...] = ("pass", "fail", "inconclusive")
SIZES = st.integers(0, 1500)


@dataclass
class Life:
    """A run, and every event that it is made of, with the run as it was before."""

    run: Run
    at: float = world.T0
    events: list[tuple[Run, Event]] = field(default_factory=list)

    def goes_on(self, event: Event) -> None:
        """One more event, at this time, and what follows from it."""
        self.events.append((self.run, event))
        self.run = world.after(self.run, event, at=self.at)
        for more in follows(self.run, event):
            self.goes_on(more)

    def ends(self, rules: Rules) -> None:
        """The stop that follows, if one does."""
        stopped = stop(self.run, rules, utc(self.at))
        if stopped is not None:
            self.goes_on(stopped)


DOUBTS = {
    "open": ("attempt.unknown",),
    "unknown": ("attempt.refuted", "attempt.refuted", "receipt.recorded"),
    "refuted": ("receipt.recorded",),
}
"""The long way of a call, which few would take by chance."""
STEPS = ("call", "call", "settle", "settle", "answer", "evidence", "move")


@st.composite
def lives(draw: st.DrawFn, rules: Rules, most: int = 8, steps: tuple[str, ...] = STEPS) -> Life:
    """A run after some of these steps, each of which could happen."""
    parent = draw(st.sampled_from([None, None, "run_0"]))
    ceiling = None if parent is None else tuple(draw(some(AUTHORITIES)))
    life = Life(opened(rules, draw(st.sampled_from(["process", "token", "default"])), parent, ceiling))
    for _ in range(draw(st.integers(0, most))):
        life.at += draw(st.sampled_from([0.0, 1.0, 40.0]))
        event = _step(draw, rules, life, draw(st.sampled_from(steps)))
        if event is not None:
            life.goes_on(event)
            life.ends(rules)
    return life


_NOT_BY_CHANCE = {"attempt.resumed", "attempt.resent", "compensation.owed", "compensation.failed"}


def _step(draw: st.DrawFn, rules: Rules, life: Life, step: str) -> Event | None:
    run = life.run
    attempts = sorted((one for one in run.attempts.values() if NEXT_ATTEMPT[one.state]), key=lambda one: one.seq)
    if step == "settle" and attempts:
        attempt = draw(st.sampled_from(attempts))
        kinds = sorted(set(NEXT_ATTEMPT[attempt.state]) - _NOT_BY_CHANCE)
        return happens(attempt, draw(st.sampled_from(kinds)), draw(SIZES), life.at)
    doubtful = [one for one in attempts if one.state in DOUBTS]
    if step == "doubt" and doubtful:
        return happens(doubtful[-1], draw(st.sampled_from(DOUBTS[doubtful[-1].state])), draw(SIZES), life.at)
    if run.state is not RunState.RUNNING:
        return None
    if step == "answer" and run.approvals:
        asked = draw(st.sampled_from(sorted(run.approvals.values(), key=lambda one: one.seq)))
        by = Who(tenant="local", id=draw(st.sampled_from(["local:boss", "local:other"])), roles=("boss",))
        said = draw(st.sampled_from([True, True, False]))
        try:
            return answer(run, asked.id, asked.action, approve=said, by=by, reason="", now=utc(life.at))
        except Refused:
            return None
    if step == "move":
        return PhaseMoved(source=run.phase, target=draw(st.sampled_from(PHASES)), transition="t0")
    if step == "evidence":
        verdict = draw(st.sampled_from(VERDICTS))
        return EvidenceRecorded(verifier="t", verdict=verdict, says="so", started_at=utc(life.at), after=run.version)
    proposed = draw(proposals())
    return judge(run, proposed, rules, draw(seen(most=2)), life.at) if step == "call" else None


def resuming(proposed: Proposal, attempt: Attempt) -> Proposal:
    """The same proposal, as the next round of an attempt."""
    return replace(proposed, resumes=Resume(attempt.id, ROUND, digest("said", world.SALT)))


HUGE = st.sampled_from([0, 1, 2**53 + 1, 2**63 - 1])
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.sampled_from([math.pi, 10**400, "\x00", "../" * 9]),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=10,
)
HOSTILE: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(["n", "to", "path", ""]) | st.text(max_size=5), JSON, max_size=4
)
"""Any arguments that the door lets in."""
