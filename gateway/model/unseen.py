"""Characters that whoever reads a text does not see, or takes for a space: in them a text can say what nobody reads."""

import re
import unicodedata
from collections.abc import Callable
from functools import cache

_KINDS = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Control, format (zero width, bidi, tags), surrogate, private, unassigned, line and paragraph separators."""

_BLANKS = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
"""Letters and marks that leave no ink: joiners and fillers."""

_SELECTORS = (range(0xFE00, 0xFE10), range(0xE0100, 0xE01F0))
"""Variation selectors: 256 of them, so that a row of them can spell any bytes."""


def is_unseen(char: str) -> bool:
    """Whether the character leaves no ink of its own; the plain space is seen for what it is."""
    kind = unicodedata.category(char)
    if kind in _KINDS or (kind == "Zs" and char != " "):
        return True
    return char in _BLANKS or any(ord(char) in selectors for selectors in _SELECTORS)


def spelled_out(
    text: str, spell: Callable[[str], str] = lambda char: f"\\u{{{ord(char):x}}}", *, keep: str = ""
) -> str:
    r"""The text with each unseen character, and each mark of a pile, spelled; as `\u{…}` where not said otherwise."""
    if text.isascii() and text.isprintable():
        return text
    if not text.isascii():
        text = piles().sub(lambda found: found[0][:2] + "".join(map(spell, found[1])), text)
    return "".join(spell(char) if char not in keep and is_unseen(char) else char for char in text)


@cache
def piles() -> re.Pattern[str]:
    """Marks on one letter, more than two: its group are those beyond, which no language writes. Many of them cover what
    stands around.
    """
    marks = "".join(chr(code) for code in range(0x300, 0x1F000) if unicodedata.category(chr(code)) in {"Mn", "Me"})
    return re.compile(f"[{marks}]{{2}}([{marks}]+)")


TAGGED = re.compile("[\U000e0020-\U000e007e]+")
"""Tag characters: each an ASCII character that no font shows and models read."""


def untagged(run: str) -> str:
    """What a run of tag characters says."""
    return "".join(chr(ord(char) - 0xE0000) for char in run)
