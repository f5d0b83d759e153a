"""`path.within`, `path.glob`, `path.steps`, `path.name`, `path.extension`: of a path as it is spelled. No file is read.

A path has an answer only if every file system and every tool would read it alike. `a/..` is not where it
looks if `a` is a link; backslashes, colons, `~1`, trailing dots and what is percent-encoded mean something to
Windows or to a URL and nothing to others. And what differs in case or in Unicode form only is the same file on
one disk and another file on the next. Sources: CWE-22, CWE-41, CWE-178; git CVE-2014-9390, CVE-2019-1352.
"""

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from gateway.kernel.objects.globs import fits
from gateway.kernel.objects.judged import Function, Unjudged, any_of, bounded, hides, texts

MAX_PATH = 8_192
"""Characters of a path; PATH_MAX is 4,096 on Linux."""

_SLASHES = frozenset("\u00a5\u20a9\u2044\u2215\u2216\u29f5\u29f8\u29f9")
"""Look like a slash, or become one in a code page of Windows, and have no compatible form that says so."""
_SPECIAL = frozenset("/\\.:~%")


class Path(NamedTuple):
    """A path that has one reading."""

    absolute: bool
    steps: tuple[str, ...]


def read(path: str) -> Path:
    """The path, without `.`, doubled and trailing slashes."""
    bounded(path, "the path", MAX_PATH)
    for holds, flaw in (
        (not path, "the path is empty"),
        (path != path.strip() or hides(path), "the path has spaces around it, or characters that cannot be seen"),
        ("\\" in path, "the path has a backslash"),
        (":" in path, "the path has a colon, as drives, streams and URLs have"),
        (path.startswith("//"), "the path begins with two slashes"),
        (path.startswith(("~", "$")), "the path begins with what a shell replaces"),
        (_encoded(path), "the path is percent-encoded"),
        (not path.isascii() and _poses(path), "the path has a character that looks like a slash or a dot"),
    ):
        if holds:
            raise Unjudged(flaw)
    steps = tuple(step for step in path.split("/") if step not in {"", "."})
    for step in steps:
        _read_step(step)
    found = Path(path.startswith("/"), steps)
    if found.absolute and _leads_elsewhere(tuple(step.casefold() for step in steps)):
        raise Unjudged("the path goes through a link that the system keeps")
    return found


def _read_step(step: str) -> None:
    if step == "..":
        raise Unjudged("the path has a step `..`")
    if step.endswith((".", " ")):
        raise Unjudged("a step of the path ends in a dot or a space")
    at = step.find("~")
    if at >= 0 and step[at + 1 : at + 2].isdigit():
        raise Unjudged("a step of the path looks like a short name of Windows")


def _encoded(path: str) -> bool:
    parts = path.split("%")[1:]
    return any(len(part) > 1 and all(char in "0123456789abcdefABCDEF" for char in part[:2]) for part in parts)


def _poses(path: str) -> bool:
    return any(
        not char.isascii() and (char in _SLASHES or not _SPECIAL.isdisjoint(unicodedata.normalize("NFKC", char)))
        for char in path
    )


def _leads_elsewhere(steps: tuple[str, ...]) -> bool:
    if steps[:2] in {("dev", "fd"), ("system", "volumes")} or steps[:1] == (".vol",):
        return True
    return steps[:1] == ("proc",) and not {"root", "cwd", "fd", "exe", "map_files"}.isdisjoint(steps[2:])


def _folded(steps: Sequence[str]) -> tuple[str, ...]:
    """Equal for all that one file system or another takes for the same."""
    folded = tuple(unicodedata.normalize("NFKC", step).casefold() for step in steps)
    # Links of macOS: /tmp is /private/tmp.
    return folded[1:] if folded[:1] == ("private",) else folded


# --- judgements -----------------------------------------------------------------------------------------------------


def within(path: str, root: str | list[str]) -> bool:
    """Whether the path is the root or below it; with several roots, one of them."""
    roots = [root] if isinstance(root, str) else texts(root, "roots")
    here = read(path)
    return any_of(lambda one: _within(here, _root(one)), roots)


def _within(path: Path, root: Path) -> bool:
    if path.absolute != root.absolute:
        raise Unjudged("one of path and root is relative, the other absolute")
    if path.steps[: len(root.steps)] == root.steps:
        return True
    below, above = _folded(path.steps), _folded(root.steps)
    if below[: len(above)] == above:
        raise Unjudged("the path differs from the root in upper and lower case or in its Unicode form only")
    return False


@lru_cache(maxsize=256)  # roots stand in policies: a few, asked about at every call
def _root(root: str) -> Path:
    try:
        return read(root)
    except Unjudged as why:
        raise Unjudged(f"in the root: {why.reason}") from None


def glob(path: str, pattern: str | list[str]) -> bool:
    """Whether the whole path fits the pattern, or one of them."""
    patterns = [pattern] if isinstance(pattern, str) else texts(pattern, "patterns")
    here = read(path)
    return any_of(lambda one: _glob(here, *_pattern(one)), patterns)


_Pattern: TypeAlias = tuple[str, tuple[str, ...]]


def _glob(path: Path, anchor: str, steps: tuple[str, ...]) -> bool:
    if anchor != "any" and (anchor == "absolute") != path.absolute:
        raise Unjudged("one of path and pattern is relative, the other absolute")
    if fits(steps, path.steps, _step_fits):
        return True
    if fits(_folded(steps), _folded(path.steps), _step_fits):
        raise Unjudged("the path differs from the pattern in upper and lower case or in its Unicode form only")
    return False


def _step_fits(pattern: str, step: str) -> bool:
    return fits(pattern, step, lambda one, char: one in {char, "?"}, "*")


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> _Pattern:
    """Where it is anchored ("absolute", "relative", or "any" if it begins with `**`), and its steps."""
    bounded(pattern, "the pattern", MAX_PATH)
    if pattern == "**":
        return "any", ("**",)
    steps = pattern.removeprefix("/").split("/")
    for step in steps:
        if step in {"", ".", ".."} or ("**" in step and step != "**"):
            raise Unjudged("the pattern has an empty step, `.`, `..`, or `**` beside other characters")
        if "\\" in step or ":" in step:
            raise Unjudged("the pattern has a backslash or a colon, and no path that has one is judged")
    anchor = "absolute" if pattern.startswith("/") else "any" if steps[0] == "**" else "relative"
    return anchor, tuple(steps)


def steps(path: str) -> list[str]:
    """The names between the slashes."""
    return list(read(path).steps)


def name(path: str) -> str:
    """The last of them; empty for the root."""
    found = read(path).steps
    return found[-1] if found else ""


def extension(path: str) -> str:
    """What follows the last dot of the name, in lower case, without the dot; empty for `.env` and `Makefile`."""
    stem, _, ending = name(path).rpartition(".")
    return ending.lower() if stem.strip(".") else ""


def _roots(constant: object) -> None:
    for one in [constant] if isinstance(constant, str) else constant if isinstance(constant, list) else []:
        _root(str(one))


def _patterns(constant: object) -> None:
    for one in [constant] if isinstance(constant, str) else constant if isinstance(constant, list) else []:
        _pattern(str(one))


FUNCTIONS = (
    Function(
        "path.within",
        ((("string", "string"), "bool"), (("string", "list(string)"), "bool")),
        within,
        {1: _roots},
    ),
    Function(
        "path.glob",
        ((("string", "string"), "bool"), (("string", "list(string)"), "bool")),
        glob,
        {1: _patterns},
    ),
    Function("path.steps", ((("string",), "list(string)"),), steps),
    Function("path.name", ((("string",), "string"),), name),
    Function("path.extension", ((("string",), "string"),), extension),
)
