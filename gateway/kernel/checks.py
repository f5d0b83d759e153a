"""The checks of what may be called: by whom, in which state, and how. Each is case -> step.

Their order is `CHECKS` in `decide.py`; a check may rely on those before it. What a call costs, and what hangs in the
air, is checked in `spending.py`.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from gateway.kernel import switches
from gateway.kernel.case import Case, Gather, Pass, Refuse, Replay, Step, Wait, always, passed
from gateway.kernel.closed import out_of_time, unauthorized
from gateway.kernel.conditions import Activation, Undecided
from gateway.kernel.owing import is_undone
from gateway.kernel.registry import changed_parts, pin
from gateway.kernel.rules import forbids_for
from gateway.kernel.schema import Schema, Unenforceable, enforceable
from gateway.kernel.strict import as_strict
from gateway.kernel.undo import ending
from gateway.kernel.values import values_of
from gateway.model.events import Effect, Outcome
from gateway.model.lookalikes import spelled
from gateway.model.policy import Transition
from gateway.model.proposal import KeySource
from gateway.model.run import Attempt, AttemptState, joined

RETRY_S = 2.0
"""What `in_flight` and a budget that is only reserved suggest as a pause."""

PERSON_S = 60.0
"""The same where a person must do something first, elsewhere; so that it ends no run either."""


_NEW = always("key")


def known_key(case: Case) -> Step:
    """A repeat of what was asked before asks for no new effect: it waits, is held, or gets the record."""
    if case.registered is None:
        return _NEW
    found = _earlier(case)
    if found is None:
        return _NEW
    attempt, same_key = found
    if same_key and attempt.intent.arguments != case.proposal.arguments_digest:
        return Refuse(
            f"the key `{attempt.intent.key.value if attempt.intent.key else ''}` was used with other arguments",
            outcome=Outcome.CONFLICT,
            inputs={"attempt": attempt.id},
        )
    once = case.known.rule.repeat == "replay" and not is_undone(case.run, attempt.id)
    match attempt.state:
        case AttemptState.OPEN | AttemptState.SUSPENDED:
            return Wait(Outcome.IN_FLIGHT, "this call is under way", attempt.id, retry_after_s=RETRY_S)
        case AttemptState.UNKNOWN:
            return Wait(Outcome.HELD, "whether this call happened is not known yet; it is not sent again", attempt.id)
        case AttemptState.ANSWERED if attempt.unverified:
            return Wait(Outcome.IN_FLIGHT, "this call is being verified", attempt.id, retry_after_s=RETRY_S)
        case AttemptState.ANSWERED if same_key or once or not attempt.delivered:
            return Replay(attempt.id)
        case _:
            return passed("key", {"earlier": attempt.id})


def _earlier(case: Case) -> tuple[Attempt, bool] | None:
    """The attempt that this proposal repeats, and whether by its very key."""
    key = case.proposal.key
    if key is not None:
        by_key = case.run.keys.get(joined(case.proposal.tool, key.source, key.value))
        if by_key is not None:
            return case.run.attempts[by_key], True
        if key.source in {KeySource.CALLER, KeySource.UNDO} and case.known.rule.repeat != "replay":
            return None  # whoever sends it says that this is another call
    if case.known.effect is Effect.READ or case.known.rule.repeat == "new":
        return None
    equal = case.run.equals.get(joined(case.proposal.tool, case.proposal.equal))
    return None if equal is None else (case.run.attempts[equal[0]], False)


def running(case: Case) -> Step:
    """The run goes on and belongs to whoever asks, and no person has stopped what is asked."""
    run = case.run
    if run.stopped is not None:
        return Refuse(run.stopped.reason, outcome=run.stopped.outcome, rule=run.stopped.rule)
    asking = case.proposal.principal
    if run.principal is not None and run.principal.whose != asking.whose:
        return Refuse(f"run `{run.id}` belongs to another principal", rule="run.principal")
    if case.observed.switches and (switch := switches.stops(case)) is not None:
        # What is owed waits for the switch to be lifted; an agent has nothing to wait for.
        pause = RETRY_S if case.proposal.compensates is not None else None
        return Refuse(switches.said(switch), rule=switches.RULE, inputs={"switch": switch.number}, retry_after_s=pause)
    if (run.owed or run.set_aside) and (over := ending(case)) is not None:
        return over
    if run.parent is not None and case.observed.parent is None:
        return Gather(parent=run.parent)
    parent_over = case.observed.parent == "over"
    closed = unauthorized(run, case.now, parent_over=parent_over)
    if closed is None and case.proposal.compensates is None:
        closed = out_of_time(run, case.rules, case.now)
    if closed is not None:
        return closed
    return passed("run", {"elapsed_s": case.elapsed_s})


UNNAMED = "default-deny"
"""The rule by which a tool is denied that no transition names."""


def known_tool(case: Case) -> Step:
    """An upstream offers the tool, it is as pinned, and some transition names it."""
    if case.ruled is None:
        forbidden, _ = forbidden_by(case, values_of(case))  # said first: it may end the run, and says more
        if forbidden is not None:
            return forbidden
        return Refuse(f"no upstream offers a tool named `{case.proposal.tool[:128]}`", inputs={"tool": None})
    if case.known.tool.healthy and case.ruled.pinned and case.ruled.transitions:
        return case.ruled.once(("tool", case.observed.definition), lambda: _named(case))
    return _unusable(case)


def _tool_inputs(case: Case) -> dict[str, Any]:
    return {
        "effect": case.known.effect,
        "inferred": case.known.inferred,
        "definition": case.observed.definition,
    }


def _named(case: Case) -> Step:
    return always("tool", _tool_inputs(case))._replace(candidates=case.tool.transitions)


def _unusable(case: Case) -> Step:
    known, inputs = case.known, _tool_inputs(case)
    if known.tool.withheld:
        return Refuse(
            f"`{spelled(known.tool.name)}` is withheld: {known.tool.trouble}",
            outcome=Outcome.TOOL_WITHHELD,
            rule="name",
            inputs=inputs,
        )
    if not known.tool.healthy:
        trouble = known.tool.trouble or "it does not answer"
        return Refuse(
            f"the upstream `{known.tool.upstream}` cannot be called: {trouble}",
            outcome=Outcome.NEEDS_ACCOUNT if known.tool.needs_account else Outcome.UPSTREAM_UNAVAILABLE,
            inputs=inputs,
            retry_after_s=PERSON_S if known.tool.needs_account else RETRY_S,
        )
    if not case.tool.pinned:
        return _withheld(case, inputs)
    forbidden, _ = forbidden_by(case, values_of(case))
    if forbidden is not None:
        return forbidden
    final = "tool" in case.rules.policy.stops.final_denials
    reason = f"no transition of this policy allows `{known.tool.name}`, a {known.effect} tool"
    return Refuse(reason, rule=UNNAMED, inputs=inputs, final=final)


def _withheld(case: Case, inputs: Mapping[str, Any]) -> Refuse:
    """Never with the words that changed: a poisoned description must not reach the model by this way either."""
    tool = case.known.tool
    changed = changed_parts(tool, case.rules.policy)
    reason = f"since it was pinned, its {listed(changed)} changed" if changed else "nobody has pinned it"
    return Refuse(
        f"`{tool.name}` is withheld: {reason}",
        outcome=Outcome.TOOL_WITHHELD,
        rule="pin",
        inputs={**inputs, "pin": pin(tool.definition), "changed": list(changed)},
    )


_FITS = always("schema")


def schema(case: Case) -> Step:
    """The arguments keep the tool's own input schema."""
    schema = case.tool.once("schema", lambda: _schema_of(case))
    if not isinstance(schema, Schema):
        return schema
    found = schema.violations(dict(case.proposal.arguments))
    if not found:
        return _FITS
    violations: dict[str, Any] = {"violations": [{"path": one.path, "expected": one.expected} for one in found]}
    if case.known.rule.arguments_schema == "observe":
        return passed("schema", violations)
    first = f"{found[0].path}: {found[0].expected}"
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return Refuse(first + more, outcome=Outcome.INVALID_ARGUMENTS, inputs=violations)


def _schema_of(case: Case) -> Schema | Step:
    schema = case.known.tool.definition.get("inputSchema")
    if not isinstance(schema, Mapping):
        return always("schema", {"schema": None})
    try:
        return enforceable(schema)
    except Unenforceable as error:
        return Refuse(f"the tool's schema cannot be enforced: {error}", outcome=Outcome.TOOL_WITHHELD)


def phase(case: Case) -> Step:
    """Some transition of the tool is legal in the phase of the run."""
    return case.tool.once(("phase", case.run.phase), lambda: _phase(case))


def _phase(case: Case) -> Step:
    phase = case.run.phase
    legal = tuple(one for one in case.candidates if not one.sources or phase in one.sources)
    if not case.candidates or legal:
        return always("phase", {"phase": phase})._replace(candidates=_narrowed(case, legal))
    allowed = sorted({source for one in case.candidates for source in one.sources})
    return Refuse(
        f"`{case.proposal.tool}` is not legal in phase `{phase}`; it is in {listed(allowed)}",
        rule=case.candidates[0].name,
        inputs={"phase": phase, "legal_in": allowed},
        final="phase" in case.rules.policy.stops.final_denials,
        **_lenient(case),
    )


def _narrowed(case: Case, left: tuple[Transition, ...]) -> tuple[Transition, ...] | None:
    """The candidates that are left; None where all are."""
    return None if left == case.candidates else left


def _lenient(case: Case) -> dict[str, Any]:
    """The refusal of all candidates binds, unless one of them only observes: the call then passes under that one."""
    observing = tuple(one for one in case.candidates if case.observes(one.mode))
    if not observing:
        return {"mode": "enforce"} if case.candidates else {}
    return {"mode": "observe", "waived": observing}


def authority(case: Case) -> Step:
    """The principal holds what the tool needs, and what some transition does."""
    # INVARIANT: of the checks before this one, only `phase` chooses among the candidates.
    asked = ("authority", case.run.phase, case.proposal.principal, case.run.delegated)
    return case.tool.once(asked, lambda: authority_of(case))


def authority_of(case: Case) -> Step:
    """As `authority`, found out anew: whoever chose the candidates, and by what."""
    held = case.authority
    inputs = {"held": sorted(held)}
    needed = set(case.known.rule.permissions)
    able = any(held.issuperset(needed | set(one.authority)) for one in case.candidates)
    lacking = sorted((needed | set(case.candidates[0].authority if case.candidates else ())) - held)
    if able or not lacking:
        return always("authority", inputs)
    # Less authority never allows more: who had it might come to a transition that binds.
    binding = any(not case.observes(one.mode) for one in case.candidates)
    return Refuse(
        _lacks(case, lacking),
        rule=case.candidates[0].name if case.candidates else None,
        inputs=inputs | {"lacking": lacking},
        final="authority" in case.rules.policy.stops.final_denials,
        **({"mode": "enforce"} if binding else _lenient(case)),
    )


def _lacks(case: Case, lacking: Iterable[str]) -> str:
    by = "" if case.run.delegated is None else f" in a run that `{case.run.parent}` opened"
    return f"`{case.proposal.principal.id}` lacks the authority {listed(lacking)}{by}"


_MET = always("conditions", {"unmet": {}})
_UNASKED = always("conditions")


def conditions(case: Case) -> Step:
    """No forbid rule applies, and a transition's conditions hold; what cannot be judged denies."""
    levels = case.observed.levels or {}
    if any((account, "calls") not in levels for _, account in case.accounts):  # or a window ended since they were read
        return Gather(accounts=tuple(account for _, account in case.accounts))
    values = values_of(case)
    forbidden, would = forbidden_by(case, values)
    if forbidden is not None:
        return forbidden
    found = _chosen(case, values)
    if would is None or isinstance(found, Refuse):
        return found
    return replace(would, waived=found.candidates)


def _chosen(case: Case, values: Activation) -> Pass | Refuse:
    """The first transition whose conditions hold and whose authority is held, if any does."""
    tried: dict[str, str] = {}
    nearest: str | None = None
    for position, weighing in enumerate(weighed(case, values)):
        if weighing.against is None:
            step = always("conditions", {"unmet": tried}) if tried else _MET
            return step._replace(candidates=case.candidates[position:]) if position else step
        tried[weighing.transition.name] = weighing.against
        if weighing.met and nearest is None:
            nearest = weighing.transition.name
    if not case.candidates:
        return _UNASKED
    told = nearest or list(tried)[-1]
    final = "conditions" in case.rules.policy.stops.final_denials
    left = case._replace(candidates=tuple(one for one in case.candidates if one.name in tried))
    return Refuse(tried[told], rule=told, inputs={"unmet": tried}, final=final, **_lenient(left))


class Weighed(NamedTuple):
    """What a transition has against the call."""

    transition: Transition
    against: str | None
    """None for the one that is chosen."""
    met: bool
    """Whether its conditions hold."""


def weighed(case: Case, values: Activation) -> Iterator[Weighed]:
    """The candidates in order, each with what is against it, up to the one that is chosen, with None.

    One that cannot be judged is the last: a later, laxer transition must not catch what it could not judge. One for
    which only the authority is lacking gives way to no laxer one: less authority never allows more.
    """
    barred: list[tuple[Transition, str]] = []
    # Where none is able, the lack of authority was found before, and waived.
    judged = any(case.authority.issuperset(one.authority) for one in case.candidates)
    for transition in case.candidates:
        found = unmet(case, transition.when, values)
        if found is not None:
            yield Weighed(transition, said(found), met=False)
            if isinstance(found[1], Undecided):
                return
            continue
        lacking = sorted(set(transition.authority) - case.authority) if judged else []
        stricter = next((one for one in barred if not as_strict(transition, one[0], case.tool, case.rules)), None)
        if lacking:
            barred.append((transition, _lacks(case, lacking)))
            yield Weighed(transition, _lacks(case, lacking), met=True)
        elif stricter is not None:
            less = f"`{transition.name}` asks less than `{stricter[0].name}`: {stricter[1]}"
            barred.append((transition, less))  # else who has more authority would come to one that asks more
            yield Weighed(transition, less, met=True)
        else:
            yield Weighed(transition, None, met=True)
            return


def forbidden_by(case: Case, values: Activation) -> tuple[Refuse | None, Refuse | None]:
    """The first forbid rule that applies, or that cannot be judged; and the first such that only observes."""
    binding: Refuse | None = None
    observed: Refuse | None = None
    named = case.ruled.forbids if case.ruled is not None else forbids_for(case.rules.policy, case.proposal.tool, None)
    for forbid in named:
        found = unmet(case, forbid.when, values)
        if found is not None and not isinstance(found[1], Undecided):
            continue
        why = forbid.reason if found is None else f"{forbid.reason}: {said(found)}"
        if case.observes(forbid.mode):
            observed = observed or Refuse(why, rule=forbid.name, mode="observe")
        else:
            binding = Refuse(why, rule=forbid.name, final=forbid.final, mode="enforce")
            break
    return binding, observed


def unmet(case: Case, when: tuple[str, ...], values: Activation) -> tuple[str, Undecided | None] | None:
    """The first of the conditions that does not hold, or cannot be judged."""
    for expression in when:
        held = case.rules.condition("transition", expression).decide(values)
        if held is not True:
            return expression, held if isinstance(held, Undecided) else None
    return None


def said(found: tuple[str, Undecided | None]) -> str:
    """What `unmet` found, as a clause."""
    expression, undecided = found
    if undecided is None:
        return f"the condition `{expression}` does not hold"
    return f"the condition `{expression}` cannot be judged: {undecided.reason}"


def listed(what: Iterable[str]) -> str:
    """Names, for a sentence."""
    return ", ".join(f"`{one}`" for one in what)
