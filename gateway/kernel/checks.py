"""The ten checks, each case -> step. Their order is `CHECKS` in `decide.py`; a check may rely on those before it."""

from collections.abc import Mapping
from typing import Any

from gateway.kernel.approve import action_digest, pending
from gateway.kernel.case import Ask, Case, Refuse, Replay, Step, Wait, always, passed
from gateway.kernel.conditions import Activation, Undecided
from gateway.kernel.reduce import joined
from gateway.kernel.registry import pin
from gateway.kernel.rules import authority_of, forbids_for
from gateway.kernel.schema import Schema, Unenforceable, enforceable
from gateway.kernel.values import values_of
from gateway.model.events import Effect, Outcome
from gateway.model.policy import Transition
from gateway.model.proposal import KeySource
from gateway.model.run import Attempt, AttemptState, Tracked

RETRY_S = 2.0
"""What `in_flight` and a budget that is only reserved suggest as a pause."""


_NEW = always("key")


def known_key(case: Case) -> Step:
    """A repeat of what was asked before asks for no new effect: it waits, is held, or gets the record."""
    if case.registered is None:
        return _NEW
    found = _earlier(case)
    if found is None:
        return _NEW
    attempt, same_key = found
    if attempt.intent.arguments != case.proposal.arguments_digest:
        return Refuse(
            f"the key `{attempt.intent.key.value if attempt.intent.key else ''}` was used with other arguments",
            outcome=Outcome.CONFLICT,
            inputs={"attempt": attempt.id},
        )
    match attempt.state:
        case AttemptState.OPEN | AttemptState.SUSPENDED:
            return Wait(Outcome.IN_FLIGHT, "this call is under way", attempt.id, retry_after_s=RETRY_S)
        case AttemptState.UNKNOWN:
            return Wait(Outcome.HELD, "whether this call happened is not known yet; it is not sent again", attempt.id)
        case AttemptState.ANSWERED if attempt.unverified:
            return Wait(Outcome.IN_FLIGHT, "this call is being verified", attempt.id, retry_after_s=RETRY_S)
        case AttemptState.ANSWERED if same_key or case.known.rule.repeat == "replay" or not attempt.delivered:
            return Replay(attempt.id)
        case _:
            return passed("key", {"earlier": attempt.id})


def open_round(case: Case) -> Step:
    """The attempt waits for exactly this input, about exactly this call."""
    resumes = case.proposal.resumes
    attempt = case.run.attempts.get(resumes.attempt) if resumes is not None else None
    if resumes is None or attempt is None:
        return Refuse("this run knows no such attempt", outcome=Outcome.CONFLICT)
    same = (attempt.intent.tool, attempt.intent.arguments) == (case.proposal.tool, case.proposal.arguments_digest)
    if not same:
        return Refuse("the input belongs to a call with another tool or other arguments", outcome=Outcome.CONFLICT)
    match attempt.state:
        case AttemptState.SUSPENDED if attempt.awaits == "input" and attempt.asked == resumes.round:
            return passed("round", {"attempt": attempt.id, "round": resumes.round})
        case AttemptState.ANSWERED if not attempt.unverified:
            return Replay(attempt.id)
        case AttemptState.OPEN | AttemptState.SUSPENDED | AttemptState.ANSWERED:
            return Wait(Outcome.IN_FLIGHT, "this call is under way", attempt.id, retry_after_s=RETRY_S)
        case AttemptState.UNKNOWN:
            return Wait(Outcome.HELD, "the input came too late: whether this call happened is not known", attempt.id)
        case _:
            return Refuse("the input came too late: that attempt is over", outcome=Outcome.CONFLICT)


def _earlier(case: Case) -> tuple[Attempt, bool] | None:
    """The attempt that this proposal repeats, and whether by its very key."""
    key = case.proposal.key
    if key is not None:
        by_key = case.run.keys.get(joined(case.proposal.tool, key.source, key.value))
        if by_key is not None:
            return case.run.attempts[by_key], True
        if key.source is KeySource.CALLER and case.known.rule.repeat != "replay":
            return None  # the caller says that this is another call
    if case.known.effect is Effect.READ or case.known.rule.repeat == "new":
        return None
    equal = case.run.equals.get(joined(case.proposal.tool, case.proposal.arguments_digest))
    return None if equal is None else (case.run.attempts[equal[0]], False)


def running(case: Case) -> Step:
    """The run goes on, and belongs to whoever asks."""
    run = case.run
    if run.stopped is not None:
        return Refuse(run.stopped.reason, outcome=run.stopped.outcome, rule=run.stopped.rule)
    asking = case.proposal.principal
    if run.principal is not None and (run.principal.tenant, run.principal.id) != (asking.tenant, asking.id):
        return Refuse(f"run `{run.id}` belongs to another principal", rule="run.principal")
    if run.expires_at is not None and case.now >= run.expires_at:
        return Refuse(f"the run's authorization expired at {run.expires_at.isoformat(timespec='seconds')}")
    deadline_s = case.rules.policy.stops.deadline_s
    if deadline_s is not None and case.elapsed_s >= deadline_s:
        return Refuse(
            f"the run had {deadline_s:g} s and is {case.elapsed_s:.0f} s old",
            outcome=Outcome.DENIED if run.origin == "default" else Outcome.DEADLINE_MISSED,
            rule="stops.deadline_s",
            final=run.origin != "default",
        )
    return passed("run", {"elapsed_s": case.elapsed_s})


UNNAMED = "default-deny"
"""The rule by which a tool is denied that no transition names."""


def known_tool(case: Case) -> Step:
    """An upstream offers the tool, it is as pinned, and some transition names it."""
    if case.ruled is None:
        forbidden = _forbidden(case, values_of(case))  # said first: it may end the run, and says more
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
    if not known.tool.healthy:
        trouble = known.tool.trouble or "it does not answer"
        return Refuse(
            f"the upstream `{known.tool.upstream}` cannot be called: {trouble}",
            outcome=Outcome.UPSTREAM_UNAVAILABLE,
            inputs=inputs,
            retry_after_s=RETRY_S,
        )
    if not case.tool.pinned:
        return Refuse(
            "the tool's definition is not the one that policy pinned",
            outcome=Outcome.TOOL_WITHHELD,
            rule="pin",
            inputs=inputs | {"pin": pin(known.tool.definition)},
        )
    forbidden = _forbidden(case, values_of(case))
    if forbidden is not None:
        return forbidden
    final = "tool" in case.rules.policy.stops.final_denials
    reason = f"no transition of this policy allows `{known.tool.name}`, a {known.effect} tool"
    return Refuse(reason, rule=UNNAMED, inputs=inputs, final=final)


_FITS = always("schema")


def schema(case: Case) -> Step:
    """The arguments keep the tool's own input schema."""
    schema = case.tool.once("schema", lambda: _schema_of(case))
    if not isinstance(schema, Schema):
        return schema
    found = schema.violations(dict(case.proposal.arguments))
    if not found:
        return _FITS
    listed: dict[str, Any] = {"violations": [{"path": one.path, "expected": one.expected} for one in found]}
    if case.known.rule.arguments_schema == "observe":
        return passed("schema", listed)
    first = f"{found[0].path}: {found[0].expected}"
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    hint = "; `schema: observe` in the tool's registry entry would let it pass"
    return Refuse(first + more + hint, outcome=Outcome.INVALID_ARGUMENTS, inputs=listed)


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
        f"`{case.proposal.tool}` is not legal in phase `{phase}`; it is in {_listed(allowed)}",
        rule=case.candidates[0].name,
        inputs={"phase": phase, "legal_in": allowed},
        final="phase" in case.rules.policy.stops.final_denials,
    )


def _narrowed(case: Case, left: tuple[Transition, ...]) -> tuple[Transition, ...] | None:
    """The candidates that are left; None where all are."""
    return None if left == case.candidates else left


def authority(case: Case) -> Step:
    """The principal holds what tool and transition need."""
    # INVARIANT: of the checks before this one, only `phase` chooses among the candidates.
    asked = ("authority", case.run.phase, case.proposal.principal)
    return case.tool.once(asked, lambda: _authority(case))


def _authority(case: Case) -> Step:
    held = authority_of(case.rules.policy, case.proposal.principal)
    inputs = {"held": sorted(held)}
    needed = set(case.known.rule.permissions)
    able = tuple(one for one in case.candidates if held.issuperset(needed | set(one.authority)))
    lacking = sorted((needed | set(case.candidates[0].authority if case.candidates else ())) - held)
    if able or not lacking:
        return always("authority", inputs)._replace(candidates=_narrowed(case, able))
    return Refuse(
        f"`{case.proposal.principal.id}` lacks the authority {_listed(lacking)}",
        rule=case.candidates[0].name if case.candidates else None,
        inputs=inputs | {"lacking": lacking},
        final="authority" in case.rules.policy.stops.final_denials,
    )


_MET = always("conditions", {"unmet": {}})
_UNASKED = always("conditions")


def conditions(case: Case) -> Step:
    """No forbid rule applies, and a transition's conditions hold; what cannot be judged denies."""
    values = values_of(case)
    forbidden = _forbidden(case, values)
    if forbidden is not None:
        return forbidden
    tried: dict[str, str] = {}
    for position, transition in enumerate(case.candidates):
        unmet = _unmet(case, transition.when, values)
        if unmet is None:
            found = always("conditions", {"unmet": tried}) if tried else _MET
            return found._replace(candidates=case.candidates[position:]) if position else found
        tried[transition.name] = _said(unmet)
        if isinstance(unmet[1], Undecided):
            break  # a later, laxer transition must not catch what this one could not judge
    if not case.candidates:
        return _UNASKED
    last = list(tried)[-1]
    final = "conditions" in case.rules.policy.stops.final_denials
    return Refuse(tried[last], rule=last, inputs={"unmet": tried}, final=final)


def _forbidden(case: Case, values: Activation) -> Refuse | None:
    """The first forbid rule that applies, or that cannot be judged."""
    forbids = forbids_for(case.rules.policy, case.proposal.tool) if case.ruled is None else case.ruled.forbids
    for forbid in forbids:
        unmet = _unmet(case, forbid.when, values)
        if unmet is None or isinstance(unmet[1], Undecided):
            why = forbid.reason if unmet is None else f"{forbid.reason}: {_said(unmet)}"
            return Refuse(why, rule=forbid.name, final=forbid.final)
    return None


def _unmet(case: Case, when: tuple[str, ...], values: Activation) -> tuple[str, Undecided | None] | None:
    for expression in when:
        held = case.rules.condition("transition", expression).decide(values)
        if held is not True:
            return expression, held if isinstance(held, Undecided) else None
    return None


def _said(unmet: tuple[str, Undecided | None]) -> str:
    expression, undecided = unmet
    if undecided is None:
        return f"the condition `{expression}` does not hold"
    return f"the condition `{expression}` cannot be judged: {undecided.reason}"


_CLEAR = always("holds")


def in_the_air(case: Case) -> Step:
    """The same effect is unsettled nowhere, and nothing is under way that may move the phase."""
    if case.known.effect is Effect.READ:
        return _CLEAR
    held = case.observed.held
    if held is not None and (held.state != "undelivered" or held.run != case.run.id):
        return _held(case, held)
    # The earliest, so that whoever judges it again finds the same one: a persistent map has no order.
    if not case.run.moving:
        return _CLEAR
    moving = min(case.run.moving.values(), key=lambda one: one.seq)
    reason = f"`{moving.intent.tool}` may move the phase and is not settled yet"
    if moving.state is AttemptState.UNKNOWN:
        return Wait(Outcome.HELD, reason, moving.id)
    return Wait(Outcome.IN_FLIGHT, reason, moving.id, retry_after_s=RETRY_S)


def _held(case: Case, held: Tracked) -> Step:
    inputs = {"attempt": held.attempt, "run": held.run, "state": held.state}
    if held.state == "undelivered":
        return Replay(held.attempt)  # it was made, and whoever asked for it was never told
    where = "this run" if held.run == case.run.id else f"run `{held.run}`"
    if held.state == "unverified":
        reason = f"an equal call of {where} is being verified"
        return Wait(Outcome.IN_FLIGHT, reason, held.attempt, retry_after_s=RETRY_S, inputs=inputs)
    said = "is under way" if held.state == "open" else "may have happened and is not settled"
    retry = RETRY_S if held.state == "open" else None
    reason = f"an equal call of {where} {said}; it is not sent twice"
    return Wait(Outcome.HELD, reason, held.attempt, retry_after_s=retry, inputs=inputs)


def budget(case: Case) -> Step:
    """The run can pay. Only what is spent for good ends it: what is merely reserved may yet come back."""
    limits, spent, charge = case.rules.policy.budgets, case.run.spent, case.charge
    inputs = {"spent": dict(vars(spent)), "charge": dict(vars(charge)), "elapsed_s": case.elapsed_s}
    wanted = {"calls": (charge.calls, spent.calls, limits.calls)}
    wanted["mutations"] = (charge.mutations, spent.mutations, limits.mutations)
    for name, (taken, so_far, limit) in wanted.items():
        if not taken or limit is None or so_far + taken <= limit:
            continue
        if so_far < limit and not case.run.unsettled:
            # Something is left, which another step may still be able to use: no reason to end the run.
            short = f"this step takes {taken} {name}, and {limit - so_far} of {limit} are left"
            return Refuse(short, rule=f"budgets.{name}", inputs=inputs)
        return _over(case, f"budgets.{name}", f"the budget of {limit} {name} is used up", inputs)
    if limits.elapsed_s is not None and case.elapsed_s >= limits.elapsed_s:
        reason = f"the budget of {limits.elapsed_s:g} s is used up"
        return _over(case, "budgets.elapsed_s", reason, inputs)
    return passed("budget", inputs)


def _over(case: Case, rule: str, reason: str, inputs: Mapping[str, Any]) -> Refuse:
    """Only what is spent for good ends the run: what is merely reserved may yet come back."""
    if case.run.unsettled:
        reserved = f"{reason} or reserved by calls that are not settled yet"
        moving = any(one.state is not AttemptState.UNKNOWN for one in case.run.unsettled.values())
        return Refuse(reserved, rule=rule, inputs=inputs, retry_after_s=RETRY_S if moving else None)
    shared = case.run.origin == "default"
    outcome = Outcome.DENIED if shared else Outcome.BUDGET_EXHAUSTED
    return Refuse(reason, outcome=outcome, rule=rule, inputs=inputs, final=not shared)


_UNATTENDED = always("approval")


def approval(case: Case) -> Step:
    """A person has agreed to this exact action, if the transition wants one."""
    transition = case.transition
    if transition is None or transition.approval is None:
        return _UNATTENDED
    action = action_digest(case.proposal, case.observed.definition, case.rules.digest)
    found = case.run.approvals.get(case.run.actions.get(action, ""))
    if found is None or found.used_by is not None:
        return Ask(transition, action)
    if found.decision == "rejected":
        why = f": {found.reason}" if found.reason else ""
        return Refuse(f"`{found.by}` rejected this action{why}", rule=transition.name, inputs={"approval": found.id})
    if case.now >= found.expires_at:
        return Ask(transition, action)
    if pending(found, case.now):
        return Wait(
            Outcome.NEEDS_APPROVAL,
            transition.approval.reason,
            approval=found.id,
            inputs={"approval": found.id, "action": action},
        )
    return passed("approval", {"approval": found.id, "by": found.by})._replace(approval=found.id)


def _listed(what: list[str]) -> str:
    return ", ".join(f"`{one}`" for one in what)
