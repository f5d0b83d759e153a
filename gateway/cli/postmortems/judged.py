"""What policy refused, what verifiers found, and what was spent of what was allowed."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from gateway.cli.postmortems.case import Case
from gateway.inbound.told.markdown import cell, code, table
from gateway.inbound.told.words import amount, size, spell
from gateway.model.events import Denied, EvidenceRecorded, Held
from gateway.model.policy import UNITS

MILLION = 1_000_000


@dataclass(slots=True)
class _Refused:
    steps: list[int] = field(default_factory=list)
    tools: Counter[str] = field(default_factory=Counter)
    reason: str = ""


def denials(case: Case) -> Iterator[str]:
    """Refusals by what refused: the rule, or the check where no rule did."""
    found: dict[tuple[str, str], _Refused] = {}
    for record in case.story.records:
        event = record.event
        if isinstance(event, Denied | Held):
            refused = next((one.check for one in event.checks if not one.passed), "")
            rule = (event.rule if isinstance(event, Denied) else None) or event.transition or refused
            one = found.setdefault((rule, str(event.outcome)), _Refused())
            one.steps.append(record.seq)
            one.tools[event.tool] += 1
            one.reason = event.reason
    if not found:
        yield "Nothing was refused or held."
        return
    rows = (
        (
            cell(rule),
            cell(outcome),
            str(len(one.steps)),
            _places(one.steps),
            cell(_several(one.tools)),
            cell(one.reason),
        )
        for (rule, outcome), one in sorted(found.items(), key=lambda pair: -len(pair[1].steps))
    )
    yield from table(("rule", "outcome", "times", "steps", "tools", "its last reason"), rows)


def _places(steps: Sequence[int]) -> str:
    return str(steps[0]) if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"


def _several(tools: Counter[str]) -> str:
    more = len(tools) - 3
    return ", ".join(name for name, _ in tools.most_common(3)) + (f" and {more} more" if more > 0 else "")


def verdicts(case: Case) -> Iterator[str]:
    """What verifiers said, the last word of each in full."""
    found: dict[str, list[tuple[int, EvidenceRecorded]]] = {}
    for record in case.story.records:
        if isinstance(record.event, EvidenceRecorded):
            found.setdefault(record.event.verifier, []).append((record.seq, record.event))
    if not found:
        yield "No verifier was asked."
        return
    rows = []
    for name, words in found.items():
        counts = Counter(one.verdict for _, one in words)
        step, last = words[-1]
        held = case.story.run.evidence.get(name)
        stale = ", stale by now" if held is not None and not held.fresh else ""
        weight = ", an opinion" if last.opinion else ", self-reported" if last.self_reported else ""
        artifact = f"{last.artifact[:23]}…" if last.artifact else "-"
        rows.append(
            (
                cell(name),
                *(str(counts[verdict]) for verdict in ("pass", "fail", "inconclusive")),
                spell(sum(one.duration_s or 0.0 for _, one in words)),
                f"step {step}: {last.verdict}{weight}{stale}: {cell(last.kept or last.says)}",
                cell(artifact),
            )
        )
    yield from table(("verifier", "pass", "fail", "inconclusive", "time", "its last word", "what it saw"), rows)


def budget(case: Case) -> Iterator[str]:
    """What was taken, of what policy allows; then the figures that no budget limits."""
    run, limits = case.story.run, case.policy.budgets if case.policy is not None else None
    rows = []
    for unit in UNITS:
        spent = getattr(run.spent, unit)
        limit = getattr(limits, unit) if limits is not None else None
        value = spent / MILLION if unit == "cost" else float(spent)
        if spent or limit is not None:
            rows.append((unit, amount(value), "no limit" if limit is None else amount(float(limit))))
    yield from table(("unit", "spent", "budget"), rows or [("-", "nothing", "-")])
    yield ""
    told, all_ = case.costs.all.measured, case.costs.all
    yield (
        f"Measured: tools {spell(told.tool_s)}, verifiers {spell(told.verifier_s)}, people {spell(told.waited_s)}, "
        f"{size(told.result_bytes)} of results. Estimated from those: {all_.tokens.estimated:,} tokens. "
        f"Reported by the client: {all_.reported_tokens:,} tokens. {code(case.command('cost', run.id))}"
    )
