"""What may be a secret, and texts of files that may be shown. Where it is not sure, it is one."""

import re
from collections.abc import Iterable, Iterator

from gateway.model.flaws import Place
from gateway.outbound.clients.sheet import Edit, Text, edited

HIDDEN = "•••"

_WORDS = (
    r"(?:token|secret|passw|pwd|api.?key|access.?key|auth(?!ors?(?![a-z]))|credential|cookie|private|session|signature|bearer|dsn"
    r"|connection.?string|(?<![a-z])(?:key|pat|pass|sig)(?![a-z]))"
)
_NAME = re.compile(_WORDS, re.IGNORECASE)
_VALUE = re.compile(
    r"(?<![A-Za-z0-9])(?:gh[opsur]_|github_pat_|glpat-|sk-|[sprk]k_|xox[a-z]-|npm_|hf_|pypi-|AKIA|ASIA|AIza|ya29\.|eyJ)"
    r"[A-Za-z0-9_\-.]{8,}"
    r"|(?<=://)[^/@\s]+@"  # somebody's name and password in an address
    r"|(?<![A-Za-z0-9_\-+])(?=[A-Za-z0-9_\-+]*[A-Za-z])(?=(?:[A-Za-z_\-+]*\d){3})[A-Za-z0-9_\-+]{20,}={0,2}"  # random
)
_NAMED = re.compile(r"(?<![A-Za-z0-9_.-])([A-Za-z0-9_.-]++)[\"']?\s*+[:=]\s*+[\"']?")
"""What names something; what is named follows. Possessive, so that a long text costs no more than its length."""
_GIVEN = re.compile(r"(?:(?:bearer|basic|token)\s+)?[^\s\"',;&]+", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{[^{}]*?\}|\$[A-Za-z_]\w*")
_COMMENT = re.compile(r"//[^\n]*|#[^\n]*|/\*.*?\*/", re.DOTALL)
_SCHEME = re.compile(r"\s*(?:bearer|basic|token|apikey)?\s*", re.IGNORECASE)

_OPEN_HEADERS = frozenset({"accept", "content-type", "user-agent", "mcp-protocol-version"})
_OPEN_KEYS = frozenset({"command", "args", "cwd", "type", "url", "httpUrl", "serverUrl", "source", "env_vars"})
_OPEN_PLACES: frozenset[Place] = frozenset({("listen", "host"), ("policies",), ("workflow",), ("ledger",)})
_CLOSED_KEYS = frozenset({"env", "headers", "http_headers"})


def names_secret(name: str) -> bool:
    """Whether what is so named is likely to be a secret."""
    return _NAME.search(name) is not None


def holds_secret(text: str) -> bool:
    """Whether the text is likely to hold one, whatever its name."""
    if _VALUE.search(text):
        return True
    return any(not _is_only_reference(text[slice(*span)]) for span in _named_secrets(text))


def _named_secrets(text: str) -> Iterator[tuple[int, int]]:
    """Where in a text something stands behind a name of secrets."""
    at = 0
    while found := _NAMED.search(text, at):
        at = found.end()
        if names_secret(found[1]) and (given := _GIVEN.match(text, at)):
            at = given.end()
            yield given.span()


def is_secret(place: Place, text: str, before: str = "") -> bool:
    """Whether a literal text of an entry is to be kept out of a readable file. `before`: the argument before it."""
    if _SCHEME.fullmatch(text):
        return False
    match place:
        case ("headers", str(name)):
            return name.lower() not in _OPEN_HEADERS
        case ("env", str(name)):
            return names_secret(name) or holds_secret(text)
        case ("args", _):
            return (before.startswith("-") and names_secret(before)) or holds_secret(text)
        case _:
            return holds_secret(text)


def _between(text: str) -> str:
    """What stands between values, without what may be a secret in its comments."""
    return _VALUE.sub(HIDDEN, _COMMENT.sub(lambda found: _comment(found[0]), text))


def _comment(text: str) -> str:
    return edited(text, [Edit(*span, HIDDEN) for span in _named_secrets(text)])


def shown(source: str, texts: Iterable[Text]) -> str:
    """The file as it may be shown: no value but of keys that hold no secret, and of those none that looks like one."""
    edits: list[Edit] = []
    at, before = 0, ""
    for text in sorted(texts):
        edits.append(Edit(at, text.start, _between(source[at : text.start])))
        if not _may_show(text, before):
            edits.append(Edit(text.start, text.end, f'"{HIDDEN}"'))
        at, before = text.end, text.value
    return edited(source, [*edits, Edit(at, len(source), _between(source[at:]))])


def _may_show(text: Text, before: str) -> bool:
    keys = [step for step in text.place if isinstance(step, str)]
    if _is_only_reference(text.value) or text.place in _OPEN_PLACES:
        return True
    if not keys or _CLOSED_KEYS & set(keys) or keys[-1] not in _OPEN_KEYS:
        return False
    is_argument = keys[-1] == "args"
    return not (holds_secret(text.value) or (is_argument and before.startswith("-") and names_secret(before)))


def _is_only_reference(text: str) -> bool:
    bare = _REFERENCE.sub(lambda found: found[0] if ":-" in found[0] and not found[0].endswith(":-}") else "", text)
    return _SCHEME.fullmatch(bare) is not None
