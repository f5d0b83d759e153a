"""References that stand where none is replaced: taken as they are, they would be nobody's name, and of no effect."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from gateway.model.flaws import Place
from gateway.outbound.references import refers
from gateway.outbound.yaml_files import Document, Problem

SECTIONS = ("agents", "console")
"""Those that say who comes in, where a role, a tenant or a pattern would be taken for what it says."""
MESSAGE = "no reference is replaced here: write out what is meant, for it is no secret"


def unreplaced(document: Document, replaced: Collection[Place]) -> Iterator[Problem]:
    """What is wrong with these sections, beside the places where references are `replaced`."""
    for name in SECTIONS:
        yield from _within(document, document.value.get(name), (name,), replaced)


def _within(document: Document, value: Any, place: Place, replaced: Collection[Place]) -> Iterator[Problem]:
    if isinstance(value, str) and place not in replaced and refers(value):
        yield document.problem(place, MESSAGE)
    elif isinstance(value, Mapping):
        for key, one in value.items():
            if refers(str(key)):
                yield document.problem((*place, key), MESSAGE, at_key=True)
            yield from _within(document, one, (*place, key), replaced)
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from _within(document, one, (*place, at), replaced)
