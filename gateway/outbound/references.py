"""`${NAME}` in a configuration -> what it stands for. Nothing is guessed: unset or empty without a default is wrong.

- `${NAME}`, `${env:NAME}`: a variable of the environment, as Claude Code and as Cursor spell it.
- `${NAME:-default}`: with what is taken if it is unset or empty.
- `${file:/run/secrets/x}`: a file's text, without the line break at its end.
- `${keyring:service/name}`: what the system's keyring has under that service and name.
- `${command:op read op://vault/item/token}`: what a command prints, in `gateway.yaml` alone.
- `$${`: the two characters `${`.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from gateway.outbound.secret_sources import command_output, from_keyring, short_text

MAX_FILE_BYTES = 64 * 1024
"""A secret is short; a larger file is a mistake."""

_REFERENCE = re.compile(r"\$(\$?)\{(?:([^{}]*)\})?")
_VARIABLE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)
_KNOWN = "`${NAME}`, `${NAME:-default}`, `${file:/path}`, `${keyring:service/name}` and `${command:…}`"


class BadReference(ValueError):
    """A reference stands for nothing. The message shows no value, only names."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        """Where in the text it begins, in characters."""


def expand(text: str, environ: Mapping[str, str], folder: Path, *, commands: bool = False) -> str:
    """The text with every reference replaced; files are found from `folder`, and commands run in it.

    With `commands` whoever wrote the text is trusted to start programs: so for `gateway.yaml`, which names servers to
    start anyway, and for nothing else.

    Raises: BadReference.
    """

    def replaced(found: re.Match[str]) -> str:
        if found[1]:
            return found[0][1:]
        try:
            return _meant(found[2], environ, folder, commands=commands)
        except ValueError as error:
            raise BadReference(str(error), found.start()) from None

    return _REFERENCE.sub(replaced, text)


def written_out(text: str) -> str:
    """What of the text stands there itself: each reference is taken out, but for its default."""

    def left(found: re.Match[str]) -> str:
        if found[1] or found[2] is None:
            return found[0]
        variable = _VARIABLE.fullmatch(found[2])
        return (variable[2] or "") if variable is not None else ""

    return _REFERENCE.sub(left, text)


def refers(text: str) -> bool:
    """Whether anything in the text would be replaced."""
    return any(not found[1] for found in _REFERENCE.finditer(text))


def stood_for(text: str, expanded: str) -> tuple[str, ...]:
    """What the references in the text stand for, as `expand` put it there."""
    parts, at = list[str](), 0
    for found in _REFERENCE.finditer(text):
        kept = found[0][1:] if found[1] else None
        parts += [re.escape(text[at : found.start()]), "(.*)" if kept is None else re.escape(kept)]
        at = found.end()
    whole = re.fullmatch("".join([*parts, re.escape(text[at:])]), expanded, re.DOTALL)
    return whole.groups() if whole is not None else ()


def files_of(text: str) -> Iterator[str]:
    """The files that it refers to."""
    for found in _REFERENCE.finditer(text):
        kind, _, name = (found[2] or "").partition(":")
        if not found[1] and kind == "file":
            yield name


def _meant(body: str | None, environ: Mapping[str, str], folder: Path, *, commands: bool) -> str:
    if body is None:
        raise ValueError("a `${` is not closed; write `$${` if a text is meant")
    kind, colon, rest = body.partition(":")
    if colon and kind == "file":
        return _content(rest, folder)
    if colon and kind == "keyring":
        return from_keyring(rest)
    if colon and kind == "command":
        if not commands:
            raise ValueError("a `${command:…}` stands only in gateway.yaml")
        return command_output(rest, environ, folder)
    variable = _VARIABLE.fullmatch(body)
    if variable is None:
        why = "is asked for by an editor" if kind == "input" and colon else "is no reference"
        raise ValueError(f"`${{{body[:64]}}}` {why}; there are {_KNOWN}")
    name, default = variable[1], variable[2]
    value = environ.get(name, "")
    if value or default is not None:
        return value or default
    state = "empty" if name in environ else "not set"
    raise ValueError(f"the variable `{name}` is {state}, and there is no default (`${{{name}:-default}}`)")


def _content(name: str, folder: Path) -> str:
    try:
        with (folder / name).open("rb") as opened:
            body = opened.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ValueError(f"the file `{name}` cannot be read: {(error.strerror or 'it fails').lower()}") from None
    return short_text(body, f"the file `{name}`", MAX_FILE_BYTES)
