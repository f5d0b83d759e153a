"""The file of pins: read as what it is, written whole or not at all, and so that a reviewer sees every line of it."""

import os
from collections.abc import Mapping
from pathlib import Path

from gateway.model.canonical import NotStrictJson, digest
from gateway.model.policy import Pin, Shared
from gateway.outbound.block_yaml import block_yaml
from gateway.outbound.file_models import read_as
from gateway.outbound.yaml_files import MAX_BYTES, MAX_DEPTH, Document, Problem, Problems, compose, read

HEADER = """\
# Tools as they were when somebody looked at them and found them right. Workflows name this file in `include:`; a tool
# that is defined otherwise is withheld. `counterfoil pin` writes it, `counterfoil pin --check` compares it; comments
# are not kept. Where a text is in double quotes, what cannot be seen in it is spelled, as in "\\u200b".
"""


class Unpinnable(ValueError):
    """The file cannot hold these pins; the message says why."""


def read_pins(path: Path) -> dict[str, Pin]:
    """The pins in the file, by tool; none if there is no such file.

    Raises: Problems, also for a file that holds more than pins, and for a digest that is not that of its definition.
    """
    return _pins(read(path)) if path.exists() else {}


def write_pins(path: Path, pins: Mapping[str, Pin]) -> None:
    """The file has these pins and nothing else, whatever happens meanwhile; what a link leads to is written.

    Raises: Unpinnable, OSError. The file is then as it was.
    """
    text = pins_text(pins)
    try:
        back = _pins(compose(text, str(path)))
    except Problems as error:
        raise Unpinnable(f"what would be written cannot be read back: {error.problems[0].message}") from None
    if {name: pin.digest for name, pin in back.items()} != {name: pin.digest for name, pin in pins.items()}:
        raise Unpinnable("what would be written reads back as something else")
    _put(path.resolve(), text.encode())


def pins_text(pins: Mapping[str, Pin]) -> str:
    """The file's text, the same for equal pins.

    Raises: Unpinnable if it would be longer, or deeper, than what is read.
    """
    sorted_pins = {
        name: {"digest": pin.digest, "definition": _sorted(pin.definition)} for name, pin in sorted(pins.items())
    }
    text = HEADER + block_yaml({"pins": sorted_pins})
    if len(text.encode()) > MAX_BYTES:
        raise Unpinnable(
            f"the pins need more than {MAX_BYTES >> 20} MiB; pin some of the tools into a file of their own"
        )
    return text


_FIRST = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
"""Parts of a definition, in the order in which people read them."""


def _sorted(definition: Mapping[str, object]) -> dict[str, object]:
    first = {part: _by_key(definition[part], 4) for part in _FIRST if part in definition}
    return first | {part: _by_key(value, 4) for part, value in sorted(definition.items()) if part not in first}


def _by_key(value: object, depth: int) -> object:
    if depth > MAX_DEPTH:
        raise Unpinnable(f"a definition is nested deeper than the {MAX_DEPTH} levels of a file")
    if isinstance(value, Mapping):
        return {key: _by_key(item, depth + 1) for key, item in sorted(value.items())}
    return [_by_key(item, depth + 1) for item in value] if isinstance(value, list) else value


def _pins(document: Document) -> dict[str, Pin]:
    shared, problems = read_as(document, Shared, {})
    problems += document.problems
    if shared is None or problems:
        raise Problems(problems)
    problems = [
        document.problem((key,), "a file of pins holds pins alone; give them a file of their own", at_key=True)
        for key in document.value
        if key != "pins"
    ]
    problems += [problem for name, pin in shared.pins.items() if (problem := _untrue(document, name, pin)) is not None]
    if problems:
        raise Problems(problems)
    return shared.pins


def _untrue(document: Document, name: str, pin: Pin) -> Problem | None:
    """A digest of something else than what stands beside it would pin what nobody has looked at."""
    try:
        true = digest(pin.definition, b"") == pin.digest
    except NotStrictJson:
        true = False
    return None if true else document.problem(("pins", name, "digest"), "is not the digest of this definition")


def _put(path: Path, body: bytes) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(body)
                file.flush()
                os.fchmod(file.fileno(), 0o644)
                os.fsync(file.fileno())
            fresh.replace(path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
    finally:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
