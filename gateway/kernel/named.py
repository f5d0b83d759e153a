"""The names of objects that calls and evidence are about: which of them may mean the same, or what is in one another.

A name is taken for a path as soon as two could be one: `./a//b/../c` is `a/c`, and in the folder `a`. Nothing is
known of links, of letter case, and of where the server of a relative path stands.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

MAX_STEPS = 64
"""Of a path; what is deeper counts as the folder at that depth."""
ROOT, HERE = "/", "."


@lru_cache(maxsize=4096)
def within(name: str) -> tuple[str, ...]:
    """The object in its plain spelling, and every folder that it is in, the nearest first."""
    spelled = name.replace("\\", "/")
    absolute = spelled.startswith("/")
    steps: list[str] = []
    for step in spelled.split("/"):
        if step == "..":
            if not steps and not absolute:
                return (HERE,)  # it climbs out of where it begins: it may hold all that is there
            del steps[-1:]
        elif step not in {"", "."}:
            steps.append(step)
    start = ROOT if absolute else ""
    kept = steps[:MAX_STEPS]
    return (*(start + "/".join(kept[:end]) for end in range(len(kept), 0, -1)), ROOT if absolute else HERE)


def meet(ones: Iterable[str], others: Iterable[str]) -> bool:
    """Whether one of these is one of the others, is in one, or has one in it."""
    mine, theirs = [within(one) for one in ones], [within(one) for one in others]
    return _in(mine, theirs) or _in(theirs, mine)


def _in(ones: list[tuple[str, ...]], others: list[tuple[str, ...]]) -> bool:
    holding = {place for one in ones for place in one}
    return any(other[0] in holding for other in others)


def written(name: str) -> Iterator[tuple[str, ...]]:
    """The keys under which a write of the object is kept: itself, and each folder as one in which something is."""
    mine, *folders = within(name)
    yield (mine,)
    yield from ((folder, "") for folder in folders)


def asked(name: str) -> Iterator[tuple[str, ...]]:
    """The keys under which writes are kept that may change the object: itself, its folders, and what is in it."""
    places = within(name)
    yield from ((place,) for place in places)
    yield (places[0], "")
