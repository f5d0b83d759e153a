"""(run, rules, now) -> where the run stands, for the agent's next move. Pure; reading it changes nothing.

Facts come from the run. What the agent itself said comes from payloads, and is told apart from them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from gateway.kernel.approve import pending
from gateway.kernel.claims import lives
from gateway.kernel.closed import out_of_time, unauthorized
from gateway.kernel.eligible import eligible
from gateway.kernel.finish import missing
from gateway.kernel.left import left
from gateway.kernel.rules import Rules
from gateway.kernel.sentences import shortened
from gateway.kernel.switches import against
from gateway.kernel.switches import said as why
from gateway.model.answer import Cited, Undone
from gateway.model.answering import Answering
from gateway.model.canonical import Digest
from gateway.model.principal import Principal
from gateway.model.run import Attempt, AttemptState, Planned, Run, RunState
from gateway.model.status import (
    Asked,
    Failure,
    Held,
    Hypothesis,
    Over,
    Phase,
    PlanTold,
    Since,
    Status,
    Unsettled,
    Wrong,
)
from gateway.model.switch import Switch
from gateway.model.tool import Tool

MAX_TOLD = 20
"""Of each: unsettled attempts, hypotheses."""


@dataclass(frozen=True, slots=True)
class Around:
    """What is known beside the run's own events."""

    principal: Principal
    tools: Sequence[Tool] = ()
    """Those that are offered."""
    said: Mapping[Digest, Mapping[str, Any]] | None = None
    """Plans and notes, by digest, as far as they were not erased."""
    undoing: tuple[Undone, ...] = ()
    where: Answering = field(default_factory=Answering)
    """Where people answer."""
    parent_over: bool = False
    """The run was opened from another that does not go on."""
    switches: Sequence[Switch] = ()
    """Those that people have thrown."""

    def stopped(self, tool: Tool | None) -> Switch | None:
        """What stands against a call of that tool; None for whichever it is."""
        upstream, name = (None, "") if tool is None else (tool.upstream, tool.name)
        whose = self.principal
        return against(self.switches, tenant=whose.tenant, principal=whose.id, upstream=upstream, tool=name)


_STATES: Mapping[RunState, Literal["unopened", "running", "stopped"]] = {
    RunState.UNOPENED: "unopened",
    RunState.RUNNING: "running",
    RunState.STOPPED: "stopped",
}
"""Of runs that agents have."""


def status(
    run: Run, rules: Rules, around: Around, now: datetime, since: Since | None = None, cursor: str | None = None
) -> Status:
    """Where the run stands; of one that is not open, where it would begin. `cursor` is that of the last event that
    `since` tells of, where it is not the run's last.
    """
    closed = _closed(run, rules, now, parent_over=around.parent_over)
    if closed is None and run.state is not RunState.STOPPED and (switch := around.stopped(None)) is not None:
        closed = why(switch)
    tools = [tool for tool in around.tools if around.stopped(tool) is None] if around.switches else around.tools
    able, barred = eligible(run, around.principal, rules, tools) if closed is None else ((), ())
    phase = rules.policy.phases.get(run.phase)
    return Status(
        run=run.id if run.state is not RunState.UNOPENED else None,
        workflow=rules.policy.workflow,
        state=_STATES[run.state],
        phase=Phase(name=run.phase, description="" if phase is None else phase.description),
        over=over(run),
        closed=closed,
        eligible=able,
        barred=barred,
        evidence=tuple(held(run)),
        missing=tuple(missing(run, rules)),
        budget_left=left(run, rules.policy, now if run.state is RunState.RUNNING else run.last_at),
        failures=tuple(failures(run)),
        unsettled=tuple(_unsettled(run, around.where))[:MAX_TOLD],
        approvals=tuple(_asked(run, around.where, now)),
        undoing=around.undoing,
        plan=plan_told(run, around.said or {}, now),
        hypotheses=tuple(hypotheses(run, around.said or {}, now))[:MAX_TOLD],
        cursor=cursor or (f"{run.id}#{run.version}" if run.version else None),
        since=since,
    )


def _closed(run: Run, rules: Rules, now: datetime, *, parent_over: bool) -> str | None:
    if run.state is not RunState.RUNNING:
        return None
    step = unauthorized(run, now, parent_over=parent_over) or out_of_time(run, rules, now)
    return None if step is None else step.reason


def over(run: Run) -> Over | None:
    """How the run ended; None while it goes on."""
    stopped = run.stopped
    if stopped is None:
        return None
    cited = tuple(Cited(event=f"{run.id}#{seq}", says=stopped.reason) for seq in stopped.evidence)
    return Over(outcome=stopped.outcome, reason=stopped.reason, evidence=cited)


def held(run: Run, *, whole: bool = False) -> Iterator[Held]:
    """The last word of each verifier, the newest first; the `whole` of it is not for agents."""
    for name, proof in sorted(run.evidence.items(), key=lambda one: -one[1].seq):
        event = proof.event
        yield Held(
            verifier=name,
            verdict=event.verdict,
            fresh=proof.fresh,
            self_reported=event.self_reported,
            opinion=event.opinion,
            says=shortened((whole and event.kept) or event.says),
            event=f"{run.id}#{proof.seq}",
        )


def failures(run: Run, *, whole: bool = False) -> Iterator[Failure]:
    """The verifiers whose last word is a failure, the newest first; as `held`."""
    for name, proof in sorted(run.evidence.items(), key=lambda one: -one[1].seq):
        if proof.event.verdict == "fail":
            kept = proof.event.kept
            says = shortened((whole and kept) or proof.event.says)
            signature = proof.event.signature if whole or kept is None else None
            yield Failure(verifier=name, signature=signature, says=says, event=f"{run.id}#{proof.seq}")


def _unsettled(run: Run, where: Answering) -> Iterator[Unsettled]:
    for attempt in sorted(run.unsettled.values(), key=lambda one: one.seq):
        unknown = attempt.state is AttemptState.UNKNOWN
        yield Unsettled(
            attempt=attempt.id,
            tool=attempt.intent.tool,
            state=_standing(attempt),
            since=_time(attempt.at),
            settle_at=where.settle_at(attempt.id) if unknown else None,
            page=where.page("unknown", attempt.id) if unknown else None,
        )


def _standing(attempt: Attempt) -> Any:
    return "unverified" if attempt.unverified else attempt.state.value


def _asked(run: Run, where: Answering, now: datetime) -> Iterator[Asked]:
    waiting = [one for one in run.approvals.values() if pending(one, now)] if run.state is RunState.RUNNING else []
    for one in sorted(waiting, key=lambda one: one.seq):
        at, page = where.approve_at(one.id), where.page("approval", one.id)
        yield Asked(approval=one.id, tool=one.tool, approve_at=at, page=page, expires_at=_time(one.expires_at))


# --- what the agent said ----------------------------------------------------------------------------------------------


def plan_told(run: Run, said: Mapping[Digest, Mapping[str, Any]], now: datetime) -> PlanTold | None:
    """The plan that counts, and what is known to be wrong with it."""
    plan = run.plan
    if plan is None:
        return None
    text = said.get(plan.event.plan)
    return PlanTold(
        event=f"{run.id}#{plan.seq}",
        revision=plan.event.revision,
        age_s=_age(plan.at, now),
        invalidated=wrong(run, plan, said),
        plan=None if text is None else dict(text),
    )


def wrong(run: Run, plan: Planned, said: Mapping[Digest, Mapping[str, Any]]) -> tuple[Wrong, ...]:
    """The assumptions of the plan that are not so."""
    lines = said.get(plan.event.plan, {}).get("assumptions", ())
    return tuple(
        Wrong(
            assumption=one.assumption,
            assumed=lines[one.assumption]["says"] if one.assumption < len(lines) else None,
            says=one.says,
            event=f"{run.id}#{one.seq}",
            because=tuple(f"{run.id}#{place}" for place in one.because),
        )
        for one in plan.contradicted
    )


def hypotheses(run: Run, said: Mapping[Digest, Mapping[str, Any]], now: datetime) -> Iterator[Hypothesis]:
    """The notes that have not expired, the newest first."""
    for note in reversed(run.notes):
        if not lives(run, note, now):
            continue
        event, text = note.event, said.get(note.event.note, {})
        yield Hypothesis(
            event=f"{run.id}#{note.seq}",
            says=text.get("says"),
            about=text.get("about", ""),
            sources=tuple(f"{run.id}#{place}" for place in event.sources),
            confidence=event.confidence,
            age_s=_age(note.at, now),
            expires_at=_time(event.expires_at),
            until=event.until,
        )


def _age(then: datetime, now: datetime) -> float:
    return round(max(0.0, (now - then).total_seconds()), 1)


def _time(at: datetime) -> str:
    return at.isoformat(timespec="seconds")
