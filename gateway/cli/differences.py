"""What is another in a tool's definition than it was, line by line, with nothing in it that is not seen."""

import difflib
import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from gateway.kernel.registry import PINNED
from gateway.model.canonical import canonical
from gateway.model.unseen import TAGGED, spelled_out, untagged

WIDTH = 76
"""Characters of a line of text; a longer one is broken where a sentence or a word ends."""
UNCHANGED = 1
"""Lines shown around each change."""

_SENTENCE = re.compile(r"(?<=[.!?;:]) (?=\S)")
_GAP = re.compile(r" {9,}")

_ABSENT = object()


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """A unified diff by part: `-` for what was, `+` for what is, around them what stays. Empty where none differs."""
    lines: list[str] = []
    for part in PINNED:
        was, now = before.get(part, _ABSENT), after.get(part, _ABSENT)
        if not _same(was, now):
            lines += [f"{part}:", *_changes([*_part(was)], [*_part(now)])]
            if lines[-1] == f"{part}:":  # alike as they are shown: one spells what the other holds
                lines += [f"  {mark} {json.dumps(value)}" for mark, value in (("-", was), ("+", now))]
    return lines


def _same(was: Any, now: Any) -> bool:
    # By the canonical form: to Python 1, 1.0 and True are equal, and to a schema they are not.
    return (was is now) or (_ABSENT not in (was, now) and canonical(was) == canonical(now))


def _changes(was: list[str], now: list[str]) -> Iterator[str]:
    for line in [*difflib.unified_diff(was, now, n=UNCHANGED, lineterm="")][2:]:
        hunk = re.match(r"@@ -(\d+)", line)
        if hunk is None:
            yield f"  {line[0]} {line[1:]}"
        elif int(hunk[1]) > 1:
            yield "    …"


def _part(value: Any) -> Iterator[str]:
    if value is _ABSENT:
        return
    if isinstance(value, str):
        yield from text_lines(value) if value else ['""']
    else:
        yield from _leaves("", value)


def text_lines(text: str) -> Iterator[str]:
    """The text in lines that are in sight: what is not seen is spelled, a gap that would push words away is counted."""
    for line in text.split("\n"):
        for sentence in _SENTENCE.split(line) if line else [""]:
            yield from textwrap.wrap(shown(sentence), WIDTH, break_on_hyphens=False) or [""]


def shown(line: str) -> str:
    r"""A line with all that is in it: `\u{…}` for what is not seen, also for spaces at its end."""
    said = TAGGED.sub(lambda run: f"[in tag characters: “{untagged(run[0])}”]", line)
    gaps = _GAP.sub(lambda gap: f" [{len(gap[0])} spaces] ", spelled_out(said))
    return re.sub(r" +$", lambda end: "\\u{20}" * len(end[0]), gaps)


def _leaves(path: str, value: Any) -> Iterator[str]:
    """`path: value` for each value that holds no others, sorted; a text of several lines has one for each."""
    match value:
        case Mapping() if value:
            for key, item in sorted(value.items()):
                plain = re.fullmatch(r"[\w$-]+", key, re.ASCII)
                step = key if plain else shown(json.dumps(key, ensure_ascii=False))
                yield from _leaves(f"{path}.{step}" if path else step, item)
        case list() if value:
            for number, item in enumerate(value):
                yield from _leaves(f"{path}[{number}]", item)
        case str():
            quoted = shown(json.dumps(value, ensure_ascii=False))
            if "\n" in value or len(quoted) > WIDTH:
                yield from (f"{path} | {line}" for line in text_lines(value))
            else:
                yield f"{path}: {quoted}"
        case _:
            yield f"{path}: {json.dumps(value)}"
