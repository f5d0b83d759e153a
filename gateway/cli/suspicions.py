"""What smells of poisoning in a tool's definition: where to look first. A hint for a person, and no check.

A definition is read by the model as if its user had written it; so whoever can change it can give orders [hardening:
tool poisoning]. Nothing here is proof, and what is worded otherwise passes. Withholding what changed is the check.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.cli.differences import shown
from gateway.cli.plain import cut
from gateway.model.unseen import TAGGED, is_unseen, untagged

AROUND = 24
"""Characters that are shown before and after what is suspected."""
SHOWN = 56

_ORDERS = r"previous|prior|above|earlier|all|other|any|system|safety|instructions?|rules?|guidelines?"
_SAYING = r"tell|mention|inform|notify|reveal|show|disclose|ask|alert"
_SECRETS = (
    r"\.(?:ssh|aws|kube|netrc|npmrc|pypirc|gnupg|git-credentials)\b|(?<!\w)\.env\b|\bid_(?:rsa|ed25519|ecdsa)\b",
    r"/etc/(?:passwd|shadow)|\bmcp\.json\b|\bapi[ _-]?keys?\b|\bpasswords?\b|\bprivate keys?\b|\bcredentials?\b",
    r"\b(?:access|bearer|auth|refresh|session) tokens?\b|\bsecrets?\b|\benvironment variables?\b",
)
_CALLING = r"us(?:e|ing)|call(?:ing)?|invok(?:e|ing)|run(?:ning)?"
_DOING = r"call|use|include|pass|send|add|read|append|b?cc"
_ADDRESSED = r"important|system|secret|hidden|instructions?|admin|assistant|human|user|critical|note|rules?"

_WHAT: Mapping[str, str] = {
    "tells the model to put instructions aside": (
        rf"\b(?:ignore|disregard|forget|override|bypass)\b.{{0,40}}?\b(?:{_ORDERS})\b"
    ),
    "keeps something from the user": (
        rf"\b(?:do not|don['\u2019]t|never|must not|without|no need to)\b.{{0,30}}?\b(?:{_SAYING})(?:e?d|ing)?\b"
        r".{0,30}?\b(?:user|human|person|anyone|anybody|them|this|it)\b"
    ),
    "speaks to the model in markup": (
        rf"<\s*/?\s*(?:{_ADDRESSED})\b[^<>]{{0,40}}>|\[/?(?:INST|SYSTEM|IMPORTANT)\]|<\|[a-z_]{{1,20}}\|>"
    ),
    "says when this or other tools are to be called": (
        r"\b(?:before|after|whenever|prior to|instead of|each time|every time)\b"
        rf".{{0,30}}?\b(?:{_CALLING})\b.{{0,30}}?\btools?\b"
    ),
    "gives the model an order": (
        r"\byou (?:must|should always|have to|are required to|need to first)\b"
        rf"|\b(?:always|must first|must always|must also) (?:{_DOING})\b"
    ),
    "speaks of secrets, or of where they are kept": "|".join(_SECRETS),
    "names an address": r"\bhttps?://(?!json-schema\.org/)[^\s\"'<>)]{1,200}|\b[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{2,63}",
    "holds text out of sight": r" {20,}|\t{8,}|(?:\n[ \t]{0,80}){10,}",
}
_SUSPECT = tuple((what, re.compile(pattern, re.IGNORECASE | re.DOTALL)) for what, pattern in _WHAT.items())

_ENCODED = re.compile(r"[A-Za-z0-9+/=_-]{80,}")
_WORD = re.compile(r"[^\W\d_]{2,}")
_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE")
"""Alphabets with letters that look alike."""


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Something that a person should look at first."""

    what: str
    excerpt: str
    """With what stands around it; what is hidden in it is spelled."""

    def __str__(self) -> str:
        return f"{self.what}: {self.excerpt}"


def suspicions(before: Mapping[str, Any], after: Mapping[str, Any], others: Collection[str]) -> list[Suspicion]:
    """What smells in `after` and was not there in `before`, the first of each kind; `others` are other tools' names."""
    known = set(_of(before, others))
    found: dict[str, Suspicion] = {}
    for one in _of(after, others):
        if one not in known:
            found.setdefault(one.what, one)
    return [*found.values()]


def _of(definition: Mapping[str, Any], others: Collection[str]) -> Iterator[Suspicion]:
    names = _telling(others)
    for text in _texts({key: value for key, value in definition.items() if key != "name"}):
        yield from _hidden(text)
        for what, pattern in _SUSPECT:
            yield from (_suspicion(what, text, found) for found in pattern.finditer(text))
        for found in _ENCODED.finditer(text):
            if _looks_encoded(found[0]):
                yield _suspicion("holds what may be encoded text", text, found)
        for found in _WORD.finditer(text):
            if _is_mixed(found[0]):
                yield _suspicion("mixes alphabets within a word", text, found)
        if names is not None:
            yield from (_suspicion("names another tool", text, found) for found in names.finditer(text))


def _texts(value: Any) -> Iterator[str]:
    """All texts, also keys: a model reads the names of arguments too."""
    match value:
        case str():
            yield value
        case Mapping():
            for key, item in value.items():
                yield key
                yield from _texts(item)
        case list():
            for item in value:
                yield from _texts(item)
        case _:
            return


def _suspicion(what: str, text: str, found: re.Match[str]) -> Suspicion:
    start, end = max(0, found.start() - AROUND), min(len(text), found.end() + AROUND)
    excerpt = f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
    return Suspicion(what, cut(shown(re.sub(r"\s{2,}|\n", " ", excerpt)).strip(), SHOWN))


def _hidden(text: str) -> Iterator[Suspicion]:
    if text.isascii() and text.isprintable():
        return
    tagged = TAGGED.search(text)
    if tagged is not None:
        yield Suspicion("hides text in tag characters", cut(f"“{untagged(tagged[0])}”", SHOWN))
    for found in re.finditer(r"[^\n\t\r -~]", TAGGED.sub("", text)):
        if is_unseen(found[0]) and not _is_emoji(found):
            yield _suspicion("holds characters that are not seen", found.string, found)
            return  # one is enough to look at the whole text


def _is_emoji(found: re.Match[str]) -> bool:
    """A selector that makes the sign before it a coloured one."""
    before = found.string[: found.start()][-1:]
    return found[0] == "\ufe0f" and before != "" and unicodedata.category(before) == "So"


def _looks_encoded(run: str) -> bool:
    kinds = (any(map(str.islower, run)), any(map(str.isupper, run)), any(map(str.isdigit, run)))
    return all(kinds) and len(set(run)) >= 16  # noqa: PLR2004 - a ruler of dashes or one letter is none


def _is_mixed(word: str) -> bool:
    if word.isascii():
        return False
    scripts = {unicodedata.name(char, "").split(" ", 1)[0] for char in word}
    return len(scripts.intersection(_SCRIPTS)) > 1


def _telling(others: Collection[str]) -> re.Pattern[str] | None:
    """The names that can be nothing but names; `search` is a word as well."""
    telling = [name for name in others if re.search(r"[_\-\d]|[a-z][A-Z]", name)]
    if not telling:
        return None
    listed = "|".join(re.escape(name) for name in sorted(telling, key=lambda name: (-len(name), name)))
    return re.compile(rf"(?<![\w-])(?:{listed})(?![\w-])")
