"""(arguments as they were asked before, and now) -> what differs, argument by argument."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.inbound.console.shown.diffs import Difference, difference, words
from gateway.inbound.console.shown.layers import Piece
from gateway.inbound.console.shown.letters import shown
from gateway.inbound.console.shown.tree import named

MAX_CHANGED = 50
"""Arguments that are compared."""
MAX_NAMES = 100
"""Names that are told of those that are as they were."""
SHORT = 400
"""A text of one line with so many characters is compared word by word, a longer one line by line."""


@dataclass(frozen=True, slots=True)
class Changed:
    """One argument that is not as it was."""

    name: tuple[Piece, ...]
    how: str
    """`new`, `gone` or `changed`."""
    before: tuple[Piece, ...] = ()
    after: tuple[Piece, ...] = ()
    lines: Difference | None = None
    """In place of both, for longer texts."""


@dataclass(frozen=True, slots=True)
class Compared:
    """What differs."""

    changed: tuple[Changed, ...]
    same: tuple[str, ...]
    """Arguments that are as they were."""
    more_same: int = 0
    """Beyond these."""
    left_out: int = 0
    """Arguments that are not as they were, and not compared here."""


def compared(before: Mapping[str, Any], after: Mapping[str, Any]) -> Compared:
    """What differs. 1 and 1.0 do, and so do true and 1."""
    names = [*before, *(name for name in after if name not in before)]
    same = tuple(name for name in names if name in before and name in after and _same(before[name], after[name]))
    alike = set(same)
    other = [name for name in names if name not in alike]
    changed = tuple(_changed(name, before, after, min(MAX_CHANGED, len(other))) for name in other[:MAX_CHANGED])
    return Compared(
        changed, same[:MAX_NAMES], more_same=max(0, len(same) - MAX_NAMES), left_out=len(other) - len(changed)
    )


def _same(one: Any, other: Any) -> bool:
    return _text(one) == _text(other) and type(one) is type(other)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _changed(name: str, before: Mapping[str, Any], after: Mapping[str, Any], share: int) -> Changed:
    said = named(name)
    old, new = _text(before[name]) if name in before else "", _text(after[name]) if name in after else ""
    if len(old) > SHORT or len(new) > SHORT or "\n" in old + new:
        return Changed(said, _how(name, before, after), lines=difference(old, new, share))
    gone, come = words(old, new)
    return Changed(said, _how(name, before, after), shown(old, gone, strict=True), shown(new, come, strict=True))


def _how(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    if name not in before:
        return "new"
    return "changed" if name in after else "gone"
