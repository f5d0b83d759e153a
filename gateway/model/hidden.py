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
        "(?:\x1b\\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]|(?:\x1b[\\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]{0,4096}"
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
_CONTROLS = bytes(code for code in range(0x20) if code not in b"\t\n\r") + b"\x7f"
"""All that is hidden in ASCII begins with one of these; to delete them costs a nanosecond a byte."""

_ROUNDS = 8
"""What one removal brings together may be hidden again; after two of them all that was tried has settled."""


def hidden(value: Any) -> dict[str, int]:
    """How many characters of each kind any text in a JSON value hides, keys included; empty if none."""
    found: Counter[str] = Counter()
    for text in _texts(value):
        for match in _found(text):
            found[match.lastgroup or ""] += len(match[0])
    return dict(sorted(found.items()))


def unhidden(value: Any) -> Any:
    """The JSON value with its texts as they are seen. Its keys are left: without what they hide two may be one."""
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
        if next(_found(text), None) is None:
            break
        text = _HIDDEN.sub(lambda match: match[0] if match.lastgroup == "plain" else "", text)
    return text


def _found(text: str) -> Iterator[re.Match[str]]:
    if text.isascii():
        raw = text.encode()
        if len(raw.translate(None, _CONTROLS)) == len(raw):
            return
    for match in _HIDDEN.finditer(text):
        if match.lastgroup != "plain":
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
