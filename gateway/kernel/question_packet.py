"""(run, a question to a person) -> its packet."""

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.kernel.packet import Action, Asked, common, moment, others, proposed, standing
from gateway.kernel.risk import would
from gateway.model.canonical import digest
from gateway.model.events import ApprovalRequested
from gateway.model.packet import Before, Change, Option, Packet, StageTold, Tried
from gateway.model.run import Approval


def of_approval(
    asked: Asked,
    approval: Approval,
    event: ApprovalRequested,
    action: Action,
    earlier: Mapping[str, Any] | None = None,
) -> Packet:
    """The packet of a question to a person. `earlier` has the arguments of the question that it follows."""
    run, state = asked.run, standing(asked.run, approval, asked.now)
    effect = None if action.known is None else action.known.effect
    by = f"by `{approval.by}`" if approval.by is not None else ""
    said = (
        [f"{approval.decision} {by}" + (f": {approval.reason}" if approval.reason else "")]
        if by and approval.decision
        else []
    )
    mine = [Tried(event=f"{run.id}#{approval.seq}", at=moment(approval.requested_at), says=one) for one in said]
    return Packet(
        **common(asked),
        **proposed(event.tool, event.upstream, event.rule, action),
        about="approval",
        approval=approval.id,
        state=state,
        effect=None if effect is None else str(effect),
        consequence=would(effect, action.known),
        undoes=event.compensates,
        reason=event.reason,
        sent_at=moment(approval.requested_at),
        expires_at=moment(approval.until),
        action=approval.action,
        **_terms(approval, event),
        before=_before(asked, approval, earlier),
        changes=tuple(_changes(earlier, action.arguments)) if earlier is not None else (),
        tried=tuple(mine),
        others=tuple(others(run, event.rule, event.tool, None)),
        person=state == "awaiting",
        question=f"May `{event.tool}` be called once, with exactly these arguments?"
        if state == "awaiting"
        else f"Nothing any more: this question is {state}.",
        options=_answers(approval, event) if state == "awaiting" else (),
    )


def _terms(approval: Approval, event: ApprovalRequested) -> dict[str, Any]:
    left, stages = len(approval.agreed), []
    for stage in approval.stages:
        agreed = min(left, stage.quorum)
        stages.append(StageTold(role=stage.role, quorum=stage.quorum, agreed=agreed))
        left -= agreed
    return {
        "risk": approval.terms.risk,
        "because": event.because,
        "objects": event.objects or (),
        "stages": tuple(stages),
        "agreed": tuple(name for _, name in approval.agreed),
        "seen": tuple(name for _, name in approval.seen),
        "reasons": approval.terms.reasons,
        "offer": approval.terms.reuse,
        "granted": approval.granted,
        "valid_s": approval.terms.valid_s,
        "unchanged": tuple(name for name, _ in approval.state),
        "holding": approval.holding,
    }


def _before(asked: Asked, approval: Approval, earlier: Mapping[str, Any] | None) -> Before | None:
    found = asked.run.approvals.get(approval.follows or "")
    if found is None:
        return None
    told = None if earlier is None else dict(earlier)
    state = standing(asked.run, found, asked.now)
    return Before(approval=found.id, state=state, by=found.by, said=found.reason, arguments=told)


def _changes(was: Mapping[str, Any], now: Mapping[str, Any] | None) -> Iterator[Change]:
    """The arguments that are others; by digest, for to Python 1, 1.0 and True are equal."""
    for name in dict.fromkeys((*was, *(now or {}))):
        if now is None or name not in now:
            yield Change(argument=name, was=was[name], kind="gone")
        elif name not in was:
            yield Change(argument=name, now=now[name], kind="new")
        elif digest(was[name], b"") != digest(now[name], b""):
            yield Change(argument=name, was=was[name], now=now[name], kind="other")


_RETURNED = "the agent is told which evidence is wanted, and may ask again once there is some"


def _answers(approval: Approval, event: ApprovalRequested) -> tuple[Option, ...]:
    waits = approval.waits_for
    role = f" --role {waits[0].role}" if waits is not None and waits[0].role is not None else ""
    left = approval.needed - len(approval.agreed)
    more = f"; {left} different people must say so" if left > 1 else ""
    undoes = event.compensates
    yes = f"a gateway makes this call itself, to undo {undoes}" if undoes else "the agent may make this very call once"
    no = f"{undoes} is not undone by itself: somebody must do it" if undoes else "the agent is told so, and why"
    command = f"counterfoil approvals {{}} {approval.id}{role} --reason …"
    answers = (
        Option(command=command.format("approve"), follows=yes + more),
        Option(command=command.format("reject"), follows=no),
    )
    # The gateway itself can bring no more evidence.
    return answers if undoes else (*answers, Option(command=command.format("return"), follows=_RETURNED))
