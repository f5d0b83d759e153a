"""A packet as facts, each with its label; what the agent says of its own work stands apart."""

import json
from collections.abc import Iterator

from gateway.inbound.told.words import GONE, visible
from gateway.model.packet import Packet
from gateway.model.status import Eligible, PlanTold


def facts(one: Packet) -> Iterator[tuple[str, str]]:
    """Label and value, in the order in which one wants to know; nothing in a value can act on a terminal."""
    if one.tool is not None:
        yield "tool", f"{visible(one.tool)} on {visible(one.upstream or '')}"
    phase = f" ({visible(one.phase_says)})" if one.phase_says else ""
    yield "run", f"{one.run}, {one.workflow}, phase {one.phase}{phase}"
    yield "asked by", visible(one.principal)
    if one.goal:
        yield "goal", visible(one.goal)
    yield "state", one.state
    yield from _about_the_action(one)
    for tried in one.tried:
        yield "tried", f"{tried.at} {visible(tried.says)} ({tried.event})"
    for other in one.others:
        yield "other", f"{other.at} {visible(other.says)} ({other.event})"
    if one.waiting:
        yield "waiting", f"{one.waiting} equal calls were held"
    if one.goes_on:
        yield "goes on", visible(one.goes_on)
    yield from _about_the_run(one)


def _about_the_action(one: Packet) -> Iterator[tuple[str, str]]:
    if one.reason:
        yield "reason", visible(one.reason)
    if one.transition:
        yield "transition", one.transition
    if one.sent_at:
        yield ("asked" if one.about == "approval" else "sent"), one.sent_at
    if one.expires_at:
        yield "expires_at", one.expires_at
    if one.consequence:
        yield "consequence", visible(one.consequence)
    if one.undoes:
        yield "undoes", one.undoes
    if one.about == "attempt":
        charged = {unit: amount for unit, amount in one.charge.model_dump().items() if amount}
        yield "holds", _amounts(charged) or "nothing"
    if one.action:
        yield "action", one.action


def _about_the_run(one: Packet) -> Iterator[tuple[str, str]]:
    for held in one.evidence:
        stale = "" if held.fresh else ", stale"
        own = ", self-reported" if held.self_reported else ""
        own += ", an opinion" if held.opinion else ""
        told = f"{visible(held.verifier)}: {held.verdict.upper()}{stale}{own}: {visible(held.says)}"
        yield "evidence", f"{told} ({held.event})"
    for missing in one.missing:
        yield "missing", f"{visible(missing.what)}: {visible(missing.says)}"
    for failure in one.failures:
        yield "failure", f"{visible(failure.verifier)} {visible(failure.signature or '')} ({failure.event})"
    for way in one.alternatives:
        yield "may still", visible(_way(way))
    for barred in one.barred:
        yield "may not", visible(f"{barred.transition}: lacks {', '.join(barred.lacking)}")
    yield "spent", _amounts(one.spent)
    if one.budget_left:
        yield "left", _amounts(one.budget_left)


def _way(way: Eligible) -> str:
    more = f" and {way.more_tools} more" if way.more_tools else ""
    needs = [*way.depends_on, *([] if way.approval == "no" else [f"a person agrees ({way.approval})"])]
    needs += [f"too little {unit} is left" for unit in way.over_budget]
    return f"{way.transition}: {', '.join(way.tools)}{more}" + (f"; if {'; '.join(needs)}" if needs else "")


def _amounts(told: dict[str, float]) -> str:
    return ", ".join(f"{amount:g} {_unit(unit, amount)}" for unit, amount in told.items())


def _unit(unit: str, amount: float) -> str:
    return unit.removesuffix("s") if amount == 1 and not unit.endswith("_s") else unit


def believed(one: Packet) -> Iterator[tuple[str, str]]:
    """As `facts`: what the agent says of its own work, which may be wrong."""
    if one.plan is not None:
        yield from _planned(one.plan)
    for note in one.hypotheses:
        about = f"{visible(note.about)}: " if note.about else ""
        says = "(erased)" if note.says is None else visible(note.says)
        yield "believes", f"{about}{says} (confidence {note.confidence:g}, from {', '.join(note.sources)})"


def _planned(plan: PlanTold) -> Iterator[tuple[str, str]]:
    said = plan.plan or {"objective": "(erased)"}
    yield "plan", f"{visible(str(said.get('objective', '')))} ({plan.event}, revision {plan.revision})"
    for name in ("steps", "irreversible_steps", "information_gaps", "stop_conditions"):
        for line in said.get(name, ()):
            yield name.replace("_", " "), visible(str(line))
    for wrong in plan.invalidated:
        assumed = f"it assumes `{visible(wrong.assumed)}`; " if wrong.assumed else ""
        yield "contradicted", f"{assumed}{visible(wrong.says)} ({', '.join(wrong.because)})"


UNPROVEN = "What the agent says of its own work; nobody has checked it"


def arguments(one: Packet) -> str:
    """The arguments, indented, or that they are gone."""
    if one.arguments is None:
        return GONE
    return visible(json.dumps(one.arguments, ensure_ascii=False, indent=2), keep="\n")
