"""A policy, as its file says it -> what does not fit together in its verifiers and in the gates that they open."""

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.model.flaw import Flaw, Place, get, parts, texts

WAYS = ("probe", "command", "http", "sql", "file", "result")
"""How a verifier may look; the last one at the call's own result."""

_JUDGE_BY_THEMSELVES = frozenset({"command", "http"})
"""Ways in which something fails without any condition: by exit code, report or status."""


def looking(policy: Mapping[str, Any]) -> Iterator[Flaw]:
    """Verifiers that look in no way or in several, that judge by nothing, or are asked before there is anything."""
    late: set[Any] = set()
    for place, one in parts(policy, ("verifiers", "*")):
        ways = [way for way in WAYS if get(one, way) is not None]
        if isinstance(one, Mapping) and not ways:
            listed = ", ".join(f"`{way}`" for way in WAYS[:-1])
            yield Flaw(place, f"say how it looks: {listed} or `{WAYS[-1]}`", in_key=True)
        for other in ways[1:]:
            yield Flaw((*place, other), f"`{other}` and `{ways[0]}` exclude each other", in_key=True)
        if ways and not _JUDGE_BY_THEMSELVES.intersection(ways) and get(one, "pass") in (None, [], ()):
            yield Flaw(place, "the key `pass` is missing: what it sees must be judged by something", in_key=True)
        if "result" in ways:
            late.add(place[-1])
    for place, name in texts(policy, ("transitions", "*", "preconditions", "*")):
        if name in late:
            yield Flaw(place, f"`{name}` looks at the call's own result, which there is not before the call")


UNSAMPLED = "only a transition that names a verifier and leads to no phase can be verified now and then"


def proofs(policy: Mapping[str, Any], transition: Any) -> list[str]:
    """As `Policy.proofs`, of a policy as its file says it."""
    target = get(policy.get("phases", {}), str(get(transition, "to")))
    return [*_names(get(transition, "verify")), *_names(get(target, "verify"))]


def _names(told: Any) -> list[str]:
    listed = [told] if isinstance(told, str) else told
    return [one for one in listed if isinstance(one, str)] if isinstance(listed, list | tuple) else []


GRADES = ("independent", "opinion", "self_reported")
"""Of evidence, the best first."""


def unaccepted(policy: Mapping[str, Any]) -> Iterator[Flaw]:
    """Gates that are to be passed by evidence that they do not accept, or by none at all."""
    success = policy.get("success")
    for place, name in texts(success, ("evidence", "*")):
        yield from _too_weak(policy, ("success", *place), name, get(success, "accept") or "independent", "success")
    for index, transition in parts(policy, ("transitions", "*")):
        for place, phase in texts(transition, ("on", "*")):
            if _accepted(policy, phase) != "self_reported":
                yield Flaw((*index, *place), f"{_UNPROVEN.format(phase)}, and a failure is none")
        target = get(transition, "to")
        if (accepted := _accepted(policy, target)) != "self_reported":
            proving = proofs(policy, transition)
            if not proving:
                yield Flaw((*index, "to"), f"{_UNPROVEN.format(target)}, and nothing is verified here")
            for name in proving:
                yield from _too_weak(policy, (*index, "verify"), name, accepted, f"the phase `{target}`")


_UNPROVEN = "the phase `{}` is entered by evidence alone"


def _accepted(policy: Mapping[str, Any], phase: Any) -> Any:
    return get(get(policy.get("phases", {}), str(phase)), "accept") or "self_reported"


def _too_weak(policy: Mapping[str, Any], place: Place, name: str, accepted: Any, gate: str) -> Iterator[Flaw]:
    grade = grade_of(get(policy.get("verifiers", {}), name))
    if accepted in GRADES and GRADES.index(grade) > GRADES.index(accepted):
        yield Flaw(place, f"{gate} accepts no evidence of this kind, and `{name}` is {GRADE_WORDS[grade]}")


GRADE_WORDS = {"opinion": "an opinion (`accept: opinion`)", "self_reported": "self-reported (`accept: self_reported`)"}


def grade_of(verifier: Any) -> str:
    """Of the evidence of a verifier, as its policy's file says it."""
    if get(verifier, "result") is not None:
        return "self_reported"
    return "opinion" if get(verifier, "opinion") is True else "independent"
