"""Patterns of paths below a folder: `*` within one step, `**` over any number of them. A folder means all in it."""

import re
from collections.abc import Sequence
from functools import lru_cache


def names_path(pattern: str, path: str) -> bool:
    """Whether the pattern names the path, or a folder that it is in."""
    return _compiled(pattern).fullmatch(path) is not None


def is_left_out(ignore: Sequence[str], path: str) -> bool:
    """Whether one of the patterns names the path; one without `/` names steps at any depth."""
    step = path.rpartition("/")[2]
    return any(names_path(pattern, path if "/" in pattern else step) for pattern in ignore)


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    steps = pattern.split("/")
    spelled = "".join(_step(step, last=at == len(steps) - 1) for at, step in enumerate(steps))
    return re.compile(f"{spelled}(?:/.*)?", re.DOTALL)


def _step(step: str, *, last: bool) -> str:
    if step == "**":
        return ".*" if last else "(?:[^/]+/)*"
    words = re.split(r"(\*+|\?)", step)
    spelled = "".join("[^/]*" if word[:1] == "*" else "[^/]" if word == "?" else re.escape(word) for word in words)
    return spelled if last else f"{spelled}/"
