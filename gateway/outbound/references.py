"""`${NAME}` in a configuration -> what it stands for. Nothing is guessed: unset or empty without a default is wrong.

- `${NAME}`, `${env:NAME}`: a variable of the environment, as Claude Code and as Cursor spell it.
- `${NAME:-default}`: with what is taken if it is unset or empty.
- `${file:/run/secrets/x}`: a file's text, without the line break at its end.
- `$${`: the two characters `${`.
"""

import re
from collections.abc import Mapping
from pathlib import Path

MAX_FILE_BYTES = 64 * 1024
"""A secret is short; a larger file is a mistake."""

_REFERENCE = re.compile(r"\$(\$?)\{(?:([^{}]*)\})?")
_VARIABLE = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class BadReference(ValueError):
    """A reference stands for nothing. The message shows no value, only names."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        """Where in the text it begins, in characters."""


def expand(text: str, environ: Mapping[str, str], folder: Path) -> str:
    """The text with every reference replaced; files are found from `folder`.

    Raises: BadReference.
    """

    def replaced(found: re.Match[str]) -> str:
        if found[1]:
            return found[0][1:]
        try:
            return _meant(found[2], environ, folder)
        except ValueError as error:
            raise BadReference(str(error), found.start()) from None

    return _REFERENCE.sub(replaced, text)


def _meant(body: str | None, environ: Mapping[str, str], folder: Path) -> str:
    if body is None:
        raise ValueError("a `${` is not closed; write `$${` if a text is meant")
    if body.startswith("file:"):
        return _content(body.removeprefix("file:"), folder)
    variable = _VARIABLE.fullmatch(body)
    if variable is None:
        asked = body.startswith("input:")
        why = "is asked for by an editor" if asked else "is no reference"
        raise ValueError(f"`${{{body[:64]}}}` {why}; there are `${{NAME}}`, `${{NAME:-default}}` and `${{file:/path}}`")
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
        text = body.decode().rstrip("\r\n")
    except OSError as error:
        raise ValueError(f"the file `{name}` cannot be read: {(error.strerror or 'it fails').lower()}") from None
    except UnicodeDecodeError:
        raise ValueError(f"the file `{name}` is not UTF-8") from None
    if not text or len(body) > MAX_FILE_BYTES:
        raise ValueError(f"the file `{name}` is {'larger than 64 kB' if text else 'empty'}")
    return text
