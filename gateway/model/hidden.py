"""(text) -> what stands in it that nobody sees and a model reads, by kind; and the text without it. Pure, total.

Narrower than `unseen`, which is for names and short texts that people read before they agree. This is for whatever
servers answer, in all languages: a joiner within an Arabic or Hindi word, the selector of an emoji, a flag made of tag
characters and the mark at the start of a file are what they seem to be, and are let be [hardening T2, T37].
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

_KINDS: Mapping[str, str] = {
    # The flags of England, Scotland and Wales; a joiner or mark beside a letter that is not ASCII; a mark that begins.
    "plain": "\U0001f3f4[\U000e0030-\U000e0039\U000e0061-\U000e007a]{1,6}\U000e007f|\\A\ufeff",
    "tag": "[\U000e0000-\U000e007f]+",
    "terminal": (
        "(?:\x1b\\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f]{0,4096}"
        "(?:\x07|\x1b\\\\|\x9c)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f]"
    ),
    "direction": "[\u202a-\u202e\u2066-\u2069]",
    "zero_width": (
        "[\u00ad\u034f\u180e\u200b\u2060-\u2065\u206a-\u206f\ufeff\ufff9-\ufffb]"
        "|[\u061c\u200c-\u200f]{2,}|(?<![^\x00-\x7f])[\u061c\u200c-\u200f](?![^\x00-\x7f])"
    ),
    "filler": "[\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0]",
    "selector": (
        "[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}"
        "|(?<![^\x00-\x7f])[\ufe00-\ufe0e\U000e0100-\U000e01ef]|(?<![^\x00-\x7f])(?<![#*0-9])\ufe0f"
    ),
}
_HIDDEN = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS.items()))
_SUSPECT = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001f3f4\U000e0000-\U000e01ef]"
)
"""With one of these each of them begins: to look for a single character costs a fiftieth of looking for all of it."""
_CONTROLS = bytes(code for code in range(0x20) if code not in b"\t\n\r") + b"\x7f"
"""All that is hidden in ASCII begins with one of these; to delete them costs a nanosecond a byte."""

_ROUNDS = 8
"""What one removal brings together may be hidden again; after two of them all that was tried has settled."""


MAX_LOOKED = 200_000
"""Places of one value that are looked at: a server could send 64 MB of nothing else, at a microsecond each."""

MORE = "more"
"""The kind of what was not looked at, for there was too much of it."""


def hidden(value: Any) -> dict[str, int]:
    """How many characters of each kind any text in a JSON value hides, keys included; empty if none.

    With the kind `MORE` there is at least so much, and what comes after it was not looked at.
    """
    found: Counter[str] = Counter()
    left = [MAX_LOOKED]
    for text in _texts(value):
        for match in _found(text, left):
            found[match.lastgroup or ""] += len(match[0])
        if left[0] <= 0:
            found[MORE] = 1
            break
    return dict(sorted(found.items()))


def unhidden(value: Any) -> Any:
    """The JSON value with its texts as they are seen. Its keys are left: without what they hide two may be one.

    Only for a value of which `hidden` does not say that there is more.
    """
    root = [value]
    waiting: list[tuple[Any, Any]] = [(root, 0)]
    while waiting:
        place, at = waiting.pop()
        part = place[at]
        if isinstance(part, str):
            place[at] = _seen(part)
        elif isinstance(part, Mapping):
            place[at] = copy = dict(part)
            waiting += ((copy, key) for key in copy)
        elif isinstance(part, list):
            place[at] = items = list(part)
            waiting += ((items, index) for index in range(len(items)))
    return root[0]


def _seen(text: str) -> str:
    for _ in range(_ROUNDS):
        parts, place = [], 0
        for match in _found(text, [len(text) + 1]):
            parts.append(text[place : match.start()])
            place = match.end()
        if not place:
            break
        text = "".join([*parts, text[place:]])
    return text


def _found(text: str, left: list[int]) -> Iterator[re.Match[str]]:
    """Of the places that are `left` to be looked at, those where something is hidden."""
    if text.isascii():
        if text.isprintable():
            return
        raw = text.encode()
        if len(raw.translate(None, _CONTROLS)) == len(raw):
            return
    place = 0
    while left[0] > 0 and (suspect := _SUSPECT.search(text, place)) is not None:
        left[0] -= 1
        match = _HIDDEN.match(text, suspect.start())
        place = suspect.end() if match is None else match.end()
        if match is not None and match.lastgroup != "plain":
            yield match


def _texts(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping):
            yield from part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
