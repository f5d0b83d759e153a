"""Phases, transitions, forbids and success: what of them no run can come to."""

from collections.abc import Iterator, Sequence

from gateway.kernel.analysis.expressions import needed_evidence
from gateway.kernel.analysis.facts import Facts
from gateway.kernel.analysis.found import Found, listed
from gateway.kernel.analysis.patterns import covering
from gateway.kernel.globs import names
from gateway.model.events import Effect
from gateway.model.flaws import Place
from gateway.model.policy import Success, Transition


def phases(facts: Facts) -> Iterator[Found]:
    """What is wrong with the ways between phases."""
    success = facts.policy.success
    for name, phase in facts.policy.phases.items():
        place = ("phases", name)
        if name not in facts.reached:
            if success is None or success.phase != name:
                advice = f"lead a transition to it (`to: {name}`, or a failure edge under `on`), or remove it"
                yield Found("phase-unreachable", place, f"no run ever comes to the phase `{name}`", advice, in_key=True)
        elif phase.ends is None and _trapped(facts, name):
            yield Found(
                "phase-trap",
                place,
                f"a run that comes to the phase `{name}` can neither succeed nor end",
                "add a transition that leads on from it, or let the run end there with `ends`",
                in_key=True,
            )
    if len(facts.policy.phases) > 1 and success is None:
        yield Found(
            "no-success",
            ("phases",),
            "the workflow has phases, and a run of it never succeeds",
            "say under `success` which verifier's evidence proves that the work is done",
            in_key=True,
        )


def _trapped(facts: Facts, phase: str) -> bool:
    if facts.policy.success is not None:
        possible = facts.policy.initial in facts.going_well
        return possible and phase not in facts.going_well  # if not even the start goes well, that is told of success
    return not any(phase in facts.sources(transition) for transition in facts.policy.transitions)


def transitions(facts: Facts) -> Iterator[Found]:
    """What is wrong with a transition by itself, or because of those before it."""
    for place, transition in enumerate(facts.policy.transitions):
        yield from _never_taken(facts, place, transition)
        yield from _after_end(facts, place, transition)
        for edge in transition.on:
            if not facts.may_fail(transition, edge):
                why = (
                    "its tools only read, and a read without an answer is let go"
                    if edge == "timeout_unknown"
                    else f"the registry says of none of its tools which errors are `{edge}`"
                )
                advice = (
                    "remove it"
                    if edge == "timeout_unknown"
                    else f"say so in the tool's entry (`failures: {{ {edge}: […] }}`), or use the edge `error`"
                )
                yield Found(
                    "edge-idle",
                    ("transitions", place, "on", edge),
                    f"nothing takes this edge: {why}",
                    advice,
                    in_key=True,
                )


def _never_taken(facts: Facts, place: int, transition: Transition) -> Iterator[Found]:
    at = ("transitions", place, "name")
    name = transition.name
    match facts.why.get(place):
        case "tools":
            wanted = " or ".join(transition.effect)
            yield Found(
                "transition-without-tools",
                ("transitions", place, "effect"),
                f"no tool that `{name}` names is {wanted}: {_effects_said(facts, transition)}",
                "say the effect of the tools under `tools` (`effect: read`), "
                "or take the servers' word for it (`annotations: trust`)",
            )
        case "forbidden":
            by = facts.forbidding(transition)
            forbids = [facts.policy.forbid[one].name for one in by]
            yield Found(
                "transition-forbidden",
                at,
                f"every tool of `{name}` is forbidden by {listed(forbids)}",
                "remove the transition, or narrow the forbid rule by `tools` or `when`",
                related=tuple(("forbid", one, "name") for one in by),
            )
        case "unauthorized":
            yield _unauthorized(facts, place, transition)
        case "shadowed":
            over = facts.shadowing(place)
            yield Found(
                "transition-shadowed",
                at,
                f"`{name}` is never reached: {listed([facts.policy.transitions[one].name for one in over])} "
                f"before it take{'s' if len(over) == 1 else ''} every call that it could",
                "move it before them, or narrow them by `tools`, `from` or `when`",
                related=tuple(("transitions", one, "name") for one in over),
            )
        case _:
            pass  # conditions are told where they stand


def _effects_said(facts: Facts, transition: Transition) -> str:
    possible = {effect for pattern in transition.tools for cell in facts.cells(pattern) for effect in cell.effects}
    return f"they are {' or '.join(sorted(possible))}"


def _unauthorized(facts: Facts, place: int, transition: Transition) -> Found:
    least = min(facts.needed(transition), key=lambda needed: (len(needed - facts.granted), sorted(needed)))
    lacking = sorted(least - facts.granted)
    by_tool = bool(lacking) and not set(lacking) & set(transition.authority)
    said = (
        f"no grant gives {listed(lacking)}, which {'the tools of ' if by_tool else ''}`{transition.name}` need"
        f"{'' if by_tool else 's'}"
        if lacking
        else f"no grants of one principal give all of {listed(sorted(least))}, which `{transition.name}` needs"
    )
    where = (
        ("transitions", place, "name") if by_tool or not transition.authority else ("transitions", place, "authority")
    )
    return Found("transition-unauthorized", where, said, "add it to a grant under `grants`, or do not ask for it")


def _after_end(facts: Facts, place: int, transition: Transition) -> Iterator[Found]:
    if any(names(pattern, tool) for tool in facts.compensating for pattern in transition.tools):
        return  # what is owed is undone before the run is over
    for at, source in enumerate(transition.sources):
        ends = facts.policy.phases[source].ends
        if ends is not None:
            yield Found(
                "phase-after-end",
                ("transitions", place, "from", at),
                f"in the phase `{source}` a run is over, as `{ends}`: nothing is legal there",
                "remove it from `from`, or remove `ends` from the phase",
                related=(("phases", source),),
            )


def forbids(facts: Facts) -> Iterator[Found]:
    """Forbid rules that never speak."""
    for place, forbid in enumerate(facts.policy.forbid):
        by = facts.forbidding(forbid)
        if by:
            earlier = [facts.policy.forbid[one].name for one in by]
            yield Found(
                "forbid-shadowed",
                ("forbid", place, "name"),
                f"`{forbid.name}` is never reached: {listed(earlier)} before it "
                f"forbid{'s' if len(by) == 1 else ''} all that it does",
                "remove it, or move it before them",
                related=tuple(("forbid", one, "name") for one in by),
            )


def success(facts: Facts) -> Iterator[Found]:
    """Why no run can succeed."""
    goal = facts.policy.success
    if goal is None:
        return
    if goal.phase is not None and goal.phase not in facts.reached:
        yield Found(
            "success-phase-unreachable",
            ("success", "phase"),
            f"no run can succeed, for none ever comes to the phase `{goal.phase}`",
            f"lead a transition to it (`to: {goal.phase}`) that a run can take, or name another phase",
            related=(("phases", goal.phase),),
        )
    elif goal.phase is not None and (ends := facts.policy.phases[goal.phase].ends) is not None:
        yield Found(
            "success-phase-ends",
            ("success", "phase"),
            f"the phase `{goal.phase}` ends the run as `{ends}`, so it is no success",
            "remove `ends` from the phase: a run that succeeds is over by itself",
            related=(("phases", goal.phase),),
        )
    for at, name in enumerate(goal.evidence):
        yield from _evidence(facts, goal, at, name)


def contradicting(facts: Facts) -> Iterator[Found]:
    """Evidence for success that is never fresh together, for whatever proves the one makes the other stale."""
    goal = facts.policy.success
    if goal is None or not facts.proven.issuperset(goal.evidence):
        return
    losers = {name: next((one for one in goal.evidence if _spoils(facts, name, one)), None) for name in goal.evidence}
    if None in losers.values():
        return
    for at, name in enumerate(goal.evidence):
        yield Found(
            "success-evidence-stale",
            ("success", "evidence", at),
            f"no run can succeed, for what proves `{name}` last makes the evidence of `{losers[name]}` stale",
            "say in the verifiers' `covers` which tools change what each of them looks at",
            related=(("verifiers", str(losers[name])),),
        )


def _spoils(facts: Facts, last: str, other: str) -> bool:
    """Whether every transition that proves the one is a mutation that the other's evidence covers."""
    covers = facts.policy.verifiers[other].covers
    proving = [transition for _, transition in facts.live if last in facts.policy.proofs(transition)]
    return last != other and all(_overtakes(facts, transition, covers) for transition in proving)


def _overtakes(facts: Facts, transition: Transition, covers: Sequence[str]) -> bool:
    cells = facts.cells_of(transition)
    return all(Effect.READ not in cell.effects and covering(covers, cell.pattern) is not None for cell in cells)


def _evidence(facts: Facts, goal: Success, at: int, name: str) -> Iterator[Found]:
    place = ("success", "evidence", at)
    if name not in facts.proven:
        asking = [one.name for one in facts.policy.transitions if name in facts.policy.proofs(one)]
        why = f"no run can take {listed(asking)}" if asking else "no transition asks for it"
        advice = (
            "see what is said of that transition"
            if asking
            else f"say `verify: {name}` in the transition that it proves"
        )
        yield Found(
            "success-evidence-unasked",
            place,
            f"no run can succeed, for there is never evidence of `{name}`: {why}",
            advice,
        )
    elif goal.phase is not None and (spoiling := _spoiling(facts, goal.phase, name)):
        yield Found(
            "success-evidence-stale",
            place,
            f"no run can succeed, for {listed(spoiling)} lead{'s' if len(spoiling) == 1 else ''} to `{goal.phase}` "
            f"and make{'s' if len(spoiling) == 1 else ''} the evidence of `{name}` stale",
            f"leave the tools that change nothing of it out of the verifier's `covers`, or say `verify: {name}` there",
            related=(("verifiers", name),),
        )


def _spoiling(facts: Facts, phase: str, verifier: str) -> list[str]:
    """The transitions into the phase, if each of them overtakes the evidence and none there can renew it."""
    if phase == facts.policy.initial:
        return []
    covers = facts.policy.verifiers[verifier].covers
    spoiling = []
    for _, transition in facts.live:
        if verifier in facts.policy.proofs(transition) and (
            transition.target == phase or phase in facts.sources(transition)
        ):
            return []
        if phase not in facts.targets(transition) or facts.sources(transition) == {phase}:
            continue
        if not _overtakes(facts, transition, covers):
            return []
        spoiling.append(transition.name)
    return spoiling


def evidence(facts: Facts) -> Iterator[Found]:
    """Conditions on evidence that there never is."""
    for place, transition in enumerate(facts.policy.transitions):
        if place not in facts.why and facts.sources(transition) & facts.reached:  # else it is told already
            said = f"`{transition.name}` can never be taken"
            yield from _unasked(facts, ("transitions", place), transition.when, said)
    for place, forbid in enumerate(facts.policy.forbid):
        said = f"`{forbid.name}` cannot be judged and so forbids"
        yield from _unasked(facts, ("forbid", place), forbid.when, said)


def _unasked(facts: Facts, rule: Place, when: tuple[str, ...], said: str) -> Iterator[Found]:
    for at, expression in enumerate(when):
        for name in sorted(needed_evidence(expression) - facts.proven):
            why = f"{said}, for {_unproven(facts, name)}"
            yield Found("evidence-unasked", (*rule, "when", at), why, _ask(facts, name))


def _unproven(facts: Facts, name: str) -> str:
    if name not in facts.policy.verifiers:
        return f"no verifier is named `{name}`"
    asking = [one.name for one in facts.policy.transitions if name in facts.policy.proofs(one)]
    why = (
        f"only {listed(asking)} ask{'s' if len(asking) == 1 else ''} for it" if asking else "no transition asks for it"
    )
    return f"there is never evidence of `{name}` before it: {why}"


def _ask(facts: Facts, name: str) -> str:
    known = listed(list(facts.policy.verifiers)) or "none"
    if name not in facts.policy.verifiers:
        return f"name a verifier of this policy; there are {known}" if facts.policy.verifiers else "define it first"
    return f"say `verify: {name}` in a transition that a run takes earlier"
