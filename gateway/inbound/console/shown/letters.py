"""(text) -> the characters of it that nobody sees, or takes for others: each with its name."""

import re
import unicodedata
from collections.abc import Iterator

from gateway.inbound.console.shown.layers import Piece, Range, pieces
from gateway.model.confusables import looks
from gateway.model.unseen import TAGGED, is_unseen, piles, untagged

_WORD = re.compile(r"[^\W_]+(?:[.\-_@][^\W_]+)*")
"""What is read as one: a name, a host, an address."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_UNPLAIN = re.compile(r"[^ -~\n]")

_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Characters that turn the direction of what stands around them."""

_SHORT = {
    "\u00a0": "NBSP",
    "\u00ad": "SHY",
    "\u200b": "ZWSP",
    "\u200c": "ZWNJ",
    "\u200d": "ZWJ",
    "\u200e": "LRM",
    "\u200f": "RLM",
    "\u202a": "LRE",
    "\u202b": "RLE",
    "\u202c": "PDF",
    "\u202d": "LRO",
    "\u202e": "RLO",
    "\u2060": "WJ",
    "\u2066": "LRI",
    "\u2067": "RLI",
    "\u2068": "FSI",
    "\u2069": "PDI",
    "\ufeff": "BOM",
    "\r": "CR",
    "\x00": "NUL",
    "\x1b": "ESC",
    "\x08": "BS",
    "\x7f": "DEL",
}


def odd(text: str, *, strict: bool = False, keep: str = "\n\t") -> tuple[Range, ...]:
    """Characters that hide, turn the direction, or look like others. `strict`, for what a machine reads (hosts, paths,
    commands): every look-alike of an ASCII character, and not only those in words that a person would misread.
    """
    if text.isascii() and (text.isprintable() or not _acts(text, keep)):
        return ()
    return tuple(sorted([*_hidden(text, keep), *_alike(text, strict=strict)]))


def shown(text: str, *layers: tuple[Range, ...], strict: bool = False) -> tuple[Piece, ...]:
    """The text in pieces, with what is odd about it marked beside whatever else is said of it."""
    return pieces(text, odd(text, strict=strict), *layers)


def name_of(char: str) -> str:
    """`U+200B ZERO WIDTH SPACE`."""
    code = f"U+{ord(char):04X}"
    return f"{code} {unicodedata.name(char, _unnamed(char))}"


def _unnamed(char: str) -> str:
    kinds = {"Cc": "control character", "Co": "private use", "Cn": "unassigned", "Cs": "half of a pair"}
    return kinds.get(unicodedata.category(char), "unnamed")


def _acts(text: str, keep: str) -> bool:
    """Of ASCII alone."""
    return any(found.group() not in keep for found in _CONTROL.finditer(text))


def _hidden(text: str, keep: str) -> Iterator[Range]:
    told: set[int] = set()
    for found in TAGGED.finditer(text):
        told.update(range(*found.span()))
        said = untagged(found.group())
        yield Range(*found.span(), "unseen", f"tag characters, which no font shows: `{said}`", f"[tags: {said}]")
    for found in () if text.isascii() else piles().finditer(text):
        told.update(range(*found.span(1)))
        says = "marks piled on one letter, which would cover what stands around it"
        yield Range(*found.span(1), "unseen", says, f"[{len(found[1])} marks]")
    for found in _UNPLAIN.finditer(text):
        at, char = found.start(), found.group()
        if char not in keep and at not in told and is_unseen(char):
            style = "unseen turns" if char in _BIDI else "unseen"
            yield Range(at, at + 1, style, name_of(char), _SHORT.get(char, f"U+{ord(char):04X}"))


def _alike(text: str, *, strict: bool) -> Iterator[Range]:
    if text.isascii():
        return
    plain = strict or _all_else_is_latin(text)
    for word in _WORD.finditer(text):
        said = word.group()
        if said.isascii():
            continue
        mixed = any(char.isascii() and char.isalpha() for char in said)
        wholly = all(char.isascii() or _as_ascii(char) for char in said)
        if strict or mixed or (plain and wholly):
            yield from _marked(said, word.start())
    if strict:
        signs = (at for at, char in enumerate(text) if not char.isascii() and not char.isalnum() and _as_sign(char))
        yield from (_mark(text[at], at) for at in signs)


def _marked(word: str, start: int) -> Iterator[Range]:
    for at, char in enumerate(word):
        if not char.isascii() and char.isalnum() and _as_ascii(char):
            yield _mark(char, start + at)


def _mark(char: str, at: int) -> Range:
    return Range(at, at + 1, "alike", f"{name_of(char)}, which looks like `{_as_ascii(char)}`")


def _as_sign(char: str) -> bool:
    """Whether it looks like one sign of ASCII; what stands for several, as dots do, misleads nobody."""
    return len(_as_ascii(char)) == 1


def _as_ascii(char: str) -> str:
    """What it looks like; empty unless that is ASCII and it is none itself."""
    if char.isascii():
        return ""
    like = looks().get(ord(char), "") or unicodedata.normalize("NFKC", char)
    return like if like.isascii() and like != char else ""


def _all_else_is_latin(text: str) -> bool:
    """Whether no letter shows that another script is meant: all that are not ASCII look like ASCII, or are Latin."""
    return all(
        char.isascii() or not char.isalpha() or bool(_as_ascii(char)) or unicodedata.name(char, "").startswith("LATIN")
        for char in text
    ) and any(char.isascii() and char.isalpha() for char in text)
