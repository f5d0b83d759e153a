"""probe -> evidence. Which verifier speaks next, what it asks with, and what its answer proves.

Inconclusive is never pass. What was overtaken while it was made moves nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from gateway.kernel.conditions import Kind, Undecided
from gateway.kernel.fresh import overtaken
from gateway.kernel.noise import noise_of
from gateway.kernel.rules import Rules
from gateway.kernel.seeing import each_told, not_yet, plain, scope_of, told_apart, told_by_formulas
from gateway.kernel.values import proven
from gateway.kernel.verify import Cited, advance, edge_taken
from gateway.model.canonical import Digest, digest
from gateway.model.events import Event, EvidenceRecorded
from gateway.model.policy import ProbeCall, Verifier, micro
from gateway.model.run import Attempt, Run
from gateway.model.tool import Answer, NotSent, ProtocolError, Silence, ToolResult


@dataclass(frozen=True, slots=True)
class Question:
    """A probe to make, and what it is for."""

    verifier: str
    rule: Verifier
    attempt: Attempt | None
    """None: it is about the run as it is."""
    after: int
    """The run's version when the probe starts."""
    policy: Digest | None
    """The text by which it is asked; what it finds says nothing under another."""


def question(run: Run, attempt_id: str, rules: Rules) -> Question | None:
    """The verifier that must speak about this attempt now, or None."""
    attempt = run.attempts[attempt_id]
    name = attempt.asked_next
    if name is None or not attempt.unverified:
        return None
    return Question(name, rules.policy.verifiers[name], attempt, run.version, run.policy)


def settle(
    run: Run,
    asked: Question,
    answer: Answer,
    cited: Cited | None,
    arguments: Mapping[str, Any],
    rules: Rules,
    *,
    started_at: datetime,
    duration_s: float,
    now: datetime,
) -> Sequence[Event]:
    """The verifier's verdict about the attempt, or about the run, and the phase that follows from it."""
    if asked.policy != run.policy:
        return ()  # the run went on under another text meanwhile, by which it can be asked again
    verdict, says = judged(asked.verifier, asked.rule, run, answer, arguments, rules, now)
    told = told_of(asked.verifier, asked.rule, verdict, says)
    evidence = EvidenceRecorded(
        verifier=asked.verifier,
        verdict=verdict,
        attempt=asked.attempt.id if asked.attempt is not None else None,
        scope=_scope(asked.rule, run, answer, arguments, rules, now),
        covers=asked.rule.covers,
        about=_about(asked.rule, run, answer, arguments, rules, now),
        signature=_signature(asked, answer, says, rules) if verdict != "pass" else None,
        says=told,
        kept=says if told != says else None,
        artifact=cited.digest if cited else None,
        self_reported=asked.rule.source == "result",
        source=asked.rule.source,
        opinion=asked.rule.opinion,
        cost=micro(asked.rule.cost),
        started_at=started_at,
        duration_s=duration_s,
        after=asked.after,
    )
    if asked.attempt is None:
        return (evidence,)
    attempt, place = run.attempts[asked.attempt.id], run.version + 1
    if not attempt.unverified or attempt.asked_next != asked.verifier:
        return ()  # another gateway was quicker
    if verdict == "pass":
        # INVARIANT: evidence that was overtaken while it was made moves nothing; the reducer calls it stale as well.
        *before, last = attempt.intent.verifiers
        all_hold = asked.verifier == last and all(_holds(run, name) for name in before)
        return (evidence, *advance(run, attempt, place)) if all_hold and not overtaken(run, evidence) else (evidence,)
    # Whoever could not look has found nothing wrong: only a failure takes the failure's edge.
    return (evidence, *(edge_taken(run, attempt, "verification_failed", place) if verdict == "fail" else ()))


def _holds(run: Run, verifier: str) -> bool:
    held = run.evidence.get(verifier)
    return held is not None and held.holds


def probe_arguments(
    rule: Verifier, arguments: Mapping[str, Any], rules: Rules, now: datetime
) -> dict[str, Any] | Undecided:
    """What the verifier asks with, about a call with these arguments: a tool's arguments, or what formulas tell."""
    values = {"args": dict(arguments), "values": rules.policy.values, "now": now}
    if rule.probe is not None:
        return filled(rule.probe, "probe", values, rules)
    return {} if rule.way is None else told_by_formulas(rule.way, values, rules)


def filled(probe: ProbeCall, kind: Kind, values: Mapping[str, Any], rules: Rules) -> dict[str, Any] | Undecided:
    """The arguments of the probe, those included that are told by formulas of that kind over the values."""
    told = each_told(kind, probe.arguments_from, values, rules)
    return told if isinstance(told, Undecided) else {**probe.arguments, **told}


def _scope(
    rule: Verifier, run: Run, answer: Answer, arguments: Mapping[str, Any], rules: Rules, now: datetime
) -> dict[str, Any]:
    """What the evidence is about; what cannot be told is left out, and a condition that reads it is undecided."""
    asked = probe_arguments(rule, arguments, rules, now)
    scope = {**scope_of(rule, {} if isinstance(asked, Undecided) else asked, answer), **rule.scope}
    if isinstance(answer, ToolResult):
        values = _values(run, answer, arguments, rules, now)
        told = ((name, rules.value("verifier", formula).find(values)) for name, formula in rule.scope_from.items())
        scope |= {name: found for name, found in told if not isinstance(found, Undecided)}
    return scope


def stands(
    rule: Verifier,
    run: Run,
    answer: Answer,
    cited: Digest | None,
    arguments: Mapping[str, Any],
    rules: Rules,
    now: datetime,
    salt: bytes,
) -> Digest | None:
    """The same as long as what the verifier looks at is the same: what its `scope_from` tells, if it has one, else the
    whole answer. None if that cannot be told.
    """
    if not isinstance(answer, ToolResult) or answer.result.get("isError") is True:
        return None
    if not rule.scope_from:
        return cited
    told = each_told("verifier", rule.scope_from, _values(run, answer, arguments, rules, now), rules)
    return None if isinstance(told, Undecided) else digest(told, salt)


def _about(
    rule: Verifier, run: Run, answer: Answer, arguments: Mapping[str, Any], rules: Rules, now: datetime
) -> tuple[str, ...]:
    """The objects that the evidence is about; nothing, that is anything, where one of them cannot be told."""
    if not rule.about or not isinstance(answer, ToolResult):
        return ()
    values = _values(run, answer, arguments, rules, now)
    return named_objects("verifier", rule.about, values, rules) or ()


def named_objects(
    kind: Kind, formulas: Sequence[str], values: Mapping[str, Any], rules: Rules
) -> tuple[str, ...] | None:
    """The objects that the formulas name, each once; None where one of them cannot be told."""
    found: dict[str, None] = {}
    for formula in formulas:
        told = rules.value(kind, formula).find(values)
        named = [told] if isinstance(told, str) else told
        if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
            return None
        found |= dict.fromkeys(named)
    return tuple(found)


def _values(run: Run, answer: ToolResult, arguments: Mapping[str, Any], rules: Rules, now: datetime) -> dict[str, Any]:
    return {
        "result": dict(answer.result),
        "args": dict(arguments),
        "evidence": proven(run),
        "values": rules.policy.values,
        "now": now,
    }


def judged(
    name: str, rule: Verifier, run: Run, answer: Answer, arguments: Mapping[str, Any], rules: Rules, now: datetime
) -> tuple[Literal["pass", "fail", "inconclusive"], str]:
    """The verifier's verdict by what it saw, and what it says in one sentence."""
    if not isinstance(answer, ToolResult):
        return "inconclusive", f"`{name}` could not check: {trouble(answer)}"
    if (said := plain(rule, answer.result)) is not None:
        return said[0], f"`{name}` {said[1]}"
    values = _values(run, answer, arguments, rules, now)
    for expression in rule.passes:
        held = rules.condition("verifier", expression).decide(values)
        if isinstance(held, Undecided):
            return "inconclusive", f"`{name}` could not judge `{expression}`: {held.reason}"
        if not held:
            return "fail", f"`{name}` found that `{expression}` does not hold"
    if (said := not_yet(rule, answer.result)) is not None:
        return said[0], f"`{name}` {said[1]}"
    return "pass", f"`{name}` passed"


def told_of(name: str, rule: Verifier, verdict: str, says: str) -> str:
    """What an agent may hear of what the verifier says."""
    if verdict == "pass" or rule.tell == "artifact":
        return says
    return f"`{name}` {'failed' if verdict == 'fail' else 'could not judge'}"


def _signature(asked: Question, answer: Answer, says: str, rules: Rules) -> str:
    rule = asked.rule
    attempt = asked.attempt if rule.source == "result" else None
    tool = rule.probe.tool if rule.probe is not None else attempt.intent.tool if attempt is not None else rule.source
    told = told_apart(rule, answer, says, noise_of(rules, None, tool))
    return digest({"verifier": asked.verifier, **told}, b"")


def trouble(answer: Answer) -> str:
    """Why a probe found nothing, in half a sentence."""
    match answer:
        case ProtocolError(error):
            return f"the probe was refused with code {error.get('code')}"
        case NotSent(reason) | Silence(reason):
            return reason
        case _:
            return "the probe wants more input"
