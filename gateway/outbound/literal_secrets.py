"""Secrets that stand in a configuration themselves, where a reference to them should: warned about, never refused.

Known by the name that they stand under, by the option before them on a command line, or by their shape. What is shown
is where they stand, and never what.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from gateway.model.flaws import Place
from gateway.outbound.redaction import DetectingRedactor, Rules
from gateway.outbound.redaction.fields import is_secret
from gateway.outbound.references import written_out
from gateway.outbound.yaml_files import Document, Problem

ADVICE = (
    "this looks like a secret that is written out: refer to it instead, by `${NAME}`, `${file:/path}`, "
    "`${keyring:service/name}` or `${command:…}`"
)

_SCHEME = re.compile(r"(?i)^\s*(?:(?:bearer|basic|token|digest)\b)?\s*")
_PATH = re.compile(r"(?:~|\.{1,2})?/[\w./ -]*")
_PLAIN = frozenset({"", "true", "false", "yes", "no", "on", "off", "none", "null", "0", "1"})
_KEYS = frozenset({("run_tokens", "key"), ("seal", "key")})
"""Places whose names do not say that they hold a secret."""


def literal_secrets(document: Document, found: Iterable[tuple[Place, str]]) -> Iterator[Problem]:
    """A warning for each of the texts that looks like a secret. They are as the file writes them, by their places."""
    texts = dict(found)
    for place, text in texts.items():
        left = written_out(text)
        if (_named(place, texts) and not _is_plain(left)) or _shaped(left):
            yield document.problem(place, ADVICE)


def _named(place: Place, texts: Mapping[Place, str]) -> bool:
    *around, last = place
    if isinstance(last, int):
        before = texts.get((*around, last - 1), "")
        return before.startswith("-") and "=" not in before and is_secret(before)
    return place in _KEYS or is_secret(last)


def _is_plain(left: str) -> bool:
    """Whether nothing of it is kept secret: it is empty but for a scheme, a switch, or the path of a file."""
    said = _SCHEME.sub("", left).strip()
    return said.lower() in _PLAIN or _PATH.fullmatch(said) is not None or said.startswith("-")


def _shaped(left: str) -> bool:
    return bool(left) and _detectors().redact_text(left) != left


@cache
def _detectors() -> DetectingRedactor:
    return DetectingRedactor(Rules(personal=frozenset()))
