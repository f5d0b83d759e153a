"""A policy, as its file says it -> what does not fit together in what it asks people."""

from collections.abc import Iterator, Mapping
from typing import Any

from gateway.model.flaw import Flaw, Place, get, parts, texts

OWN_WORD = "the user of the asking client acts as the principal of the run: say `self_review: true` as well"

ALL_THE_SAME = "without `varies` all calls are the same: there is nothing to bound"


def asking(policy: Mapping[str, Any]) -> Iterator[Flaw]:
    """Questions that nobody could answer as they are asked, or that say one thing in two ways."""
    late = {place[-1] for place, one in parts(policy, ("verifiers", "*")) if get(one, "result") is not None}
    for place, one in parts(policy, ("transitions", "*", "approval")):
        if get(one, "caller") is True and get(one, "self_review") is not True:
            yield Flaw((*place, "caller"), OWN_WORD)
        if get(one, "stages"):
            yield from _twice(place, one)
        reuse = get(one, "reuse")
        if isinstance(reuse, Mapping) and get(reuse, "times") is None and get(reuse, "for_s") is None:
            yield Flaw((*place, "reuse"), "say how often (`times`) or for how long (`for_s`) a yes may be used")
        if isinstance(reuse, Mapping) and get(reuse, "within") and not get(reuse, "varies"):
            yield Flaw((*place, "reuse", "within"), ALL_THE_SAME)
        for at, name in texts(one, ("unchanged", "*")):
            if name in late:
                says = f"`{name}` looks at the call's own result, which there is not before the call"
                yield Flaw((*place, *at), says)


def _twice(place: Place, one: Any) -> Iterator[Flaw]:
    for name, default in (("role", None), ("quorum", 1)):
        if get(one, name) not in {None, default}:
            yield Flaw((*place, name), f"`stages` says who must agree: leave out `{name}`")
