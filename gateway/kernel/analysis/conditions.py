"""Expressions that are always one thing, and verifiers that prove nothing or are never asked."""

from collections.abc import Collection, Iterator

from gateway.kernel.analysis.expressions import Path, compared, fixed
from gateway.kernel.analysis.facts import Facts
from gateway.kernel.analysis.found import Found, listed
from gateway.kernel.risk import stages_of
from gateway.model.events import Effect
from gateway.model.flaws import EXPRESSIONS, Place, texts
from gateway.model.policy import Forbid, Mode, ProbeCall, Transition

_VERDICTS = ("pass", "fail", "inconclusive")


def conditions(facts: Facts) -> Iterator[Found]:
    """Conditions that hold always, or never, and comparisons with what never is."""
    for pattern, kind in EXPRESSIONS.items():
        for place, expression in texts(facts.written, pattern):
            match fixed(expression, kind):
                case "never":
                    yield Found("condition-never", place, "this never holds, whatever the call", _never(place))
                case "unjudgeable":
                    yield Found(
                        "condition-unjudgeable", place, "this can never be judged, whatever the call", "correct it"
                    )
                case "always" if place[0] != "verifiers":
                    yield Found("condition-always", place, "this always holds, whatever the call", "remove it")
                case _:
                    yield from _in_vain(facts, place, expression)


def _never(place: Place) -> str:
    match place[0], place[2]:
        case "transitions", "when":
            return "correct it, or remove the transition: it is never taken"
        case "transitions", _:
            return "correct it, or remove `approval`: nobody is ever asked"
        case "forbid", _:
            return "correct it, or remove the rule: it forbids nothing"
        case "verifiers", _:
            return "correct it: the verifier never passes"
        case _:
            return "correct it, or remove it"


def _in_vain(facts: Facts, place: Place, expression: str) -> Iterator[Found]:
    for path, text in compared(expression):
        known = _known(facts, path)
        if known and text not in known:
            yield Found(
                "condition-in-vain",
                place,
                f"`{'.'.join(path)}` is never `{text}`",
                f"it is one of {listed(list(known), most=12)}",
            )


def _known(facts: Facts, path: Path) -> Collection[str]:
    match path:
        case ("run", "phase"):
            return tuple(facts.policy.phases)
        case ("run", "workflow"):
            return (facts.policy.workflow,)
        case ("tool", "effect"):
            return tuple(str(effect) for effect in Effect)
        case ("evidence", _, "verdict"):
            return _VERDICTS
        case _:
            return ()


def verifiers(facts: Facts) -> Iterator[Found]:
    """Verifiers that nothing asks, that pass in any case, or that change what they look at."""
    policy = facts.policy
    asked = {
        one for transition in policy.transitions for one in (*policy.proofs(transition), *transition.preconditions)
    }
    asked |= set(policy.success.evidence) if policy.success else set()
    for name, verifier in policy.verifiers.items():
        place = ("verifiers", name)
        if name not in asked:
            yield Found(
                "verifier-unused",
                place,
                f"nothing asks the verifier `{name}`",
                f"say `verify: {name}` or `preconditions: [{name}]` in a transition, or remove it",
                in_key=True,
            )
        if verifier.passes and verifier.command is None and facts.certain(verifier.passes, "verifier"):
            yield Found(
                "verifier-always-passes",
                (*place, "pass"),
                f"`{name}` passes whatever it sees",
                "let it look at `result`, as in `result.structuredContent.exit_code == 0`",
            )
        if verifier.probe is not None:
            yield from _probe(facts, (*place, "probe", "tool"), verifier.probe)
    for pattern, rule in policy.tools.items():
        query = rule.idempotency.query if rule.idempotency else None
        if query is not None:
            yield from _probe(facts, ("tools", pattern, "idempotency", "query", "probe", "tool"), query.probe)


_REHEARSALS = frozenset({"dryrun", "dry_run", "dry-run", "validateonly", "validate_only"})


def _rehearses(probe: ProbeCall) -> bool:
    """Whether it always tells the tool to change nothing, which no registry can say of a tool."""
    return any(name.lower() in _REHEARSALS and told is True for name, told in probe.arguments.items())


def _probe(facts: Facts, place: Place, probe: ProbeCall) -> Iterator[Found]:
    cell = facts.cells(probe.tool)[0]
    word = facts.destructive_word(probe.tool) if cell.rule.effect is None else None
    if ((cell.rule.effect or Effect.READ) is Effect.READ and word is None) or _rehearses(probe):
        return
    why = f"by `tools.{cell.entry}` it is {cell.rule.effect}" if word is None else word
    yield Found(
        "probe-writes",
        place,
        f"the probe `{probe.tool}` changes the world that it looks at: {why}",
        f"probe with a tool that only reads, or say that it does (`tools: {{ {probe.tool}: {{ effect: read }} }}`)",
    )


def unread(facts: Facts) -> Iterator[Found]:
    """Rules in a mode that lets pass what they refuse, and approvals that one's own word may satisfy."""
    policy = facts.policy
    rules: list[tuple[Place, Transition | Forbid]] = []
    rules += [(("transitions", at), one) for at, one in enumerate(policy.transitions)]
    rules += [(("forbid", at), one) for at, one in enumerate(policy.forbid)]
    said: list[tuple[Place, Mode, str]] = [(("mode",), policy.mode, "the policy")]
    said += [((*place, "mode"), one.mode or "enforce", f"`{one.name}`") for place, one in rules]
    said += [(("accounts", name, "mode"), one.mode or "enforce", f"`{name}`") for name, one in policy.accounts.items()]
    for place, mode, what in said:
        if mode == "observe":
            refuse = "what it would refuse is recorded, and passes"
            yield Found(
                "observing", place, f"{what} is in observe mode: {refuse}", "say `mode: enforce` once it is right"
            )
    for at, transition in enumerate(policy.transitions):
        approval = transition.approval
        people = sum(stage.quorum for stage in stages_of(approval)) if approval is not None else 0
        if approval is not None and people > 1 and approval.self_review:
            yield Found(
                "approval-of-own",
                ("transitions", at, "approval", "self_review"),
                f"{people} people must agree to `{transition.name}`, and the run's own principal may be one",
                "remove `self_review` if they are meant to be others",
                in_key=True,
            )
