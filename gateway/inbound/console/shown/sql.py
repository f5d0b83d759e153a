"""(a statement) -> its words in their colours, and what in it destroys."""

from collections.abc import Iterator
from functools import cache

from pygments.lexers.sql import SqlLexer
from pygments.token import STANDARD_TYPES, Comment, Keyword, Token, _TokenType

from gateway.inbound.console.shown.layers import Range

DESTROYS = {
    "DROP": "removes it for good",
    "TRUNCATE": "removes every row",
    "DELETE": "removes rows",
    "UPDATE": "changes rows",
    "ALTER": "changes what is stored how",
    "REPLACE": "replaces rows",
    "MERGE": "changes rows",
    "GRANT": "gives rights",
    "REVOKE": "takes rights",
    "ATTACH": "opens another database",
    "COPY": "reads or writes files",
    "EXECUTE": "runs what is in it",
    "EXEC": "runs what is in it",
    "CALL": "runs a procedure",
    "CASCADE": "also what depends on it",
    "VACUUM": "rewrites the database",
    "PRAGMA": "changes settings",
}
_STARTS = frozenset(
    (
        *("select", "insert", "update", "delete", "drop", "alter", "create", "truncate", "with", "merge", "replace"),
        *("grant", "revoke", "explain", "pragma", "attach", "begin", "commit", "rollback", "call", "exec", "execute"),
        *("copy", "vacuum", "set", "use", "show", "describe", "values", "table"),
    )
)


MAX_LOOKED = 30_000
"""Characters of a statement that are taken apart."""


def is_sql(text: str) -> bool:
    """Whether it begins as a statement does."""
    words = _bare(text[:2_000]).split(None, 1)
    return bool(words) and words[0].lower().strip("(;") in _STARTS and len(text.split(None, 2)) > 1


def _bare(text: str) -> str:
    """Without the comments that it begins with."""
    lines = [line for line in text.split("\n") if not line.lstrip().startswith("--")]
    return "\n".join(lines).lstrip()


@cache
def _lexer() -> SqlLexer:
    return SqlLexer(stripnl=False, ensurenl=False)


def statement(text: str) -> tuple[tuple[Range, ...], tuple[str, ...]]:
    """Where each word stands and what it is, and what somebody should look at first."""
    ranges, words = list[Range](), list[str]()
    beyond = [f"only its first {MAX_LOOKED:,} characters were looked through"] if len(text) > MAX_LOOKED else []
    for at, kind, value in _lexer().get_tokens_unprocessed(text[:MAX_LOOKED]):
        if (style := _style(kind)) and value.strip():
            ranges.append(Range(at, at + len(value), style))
        word = value.upper()
        if not _is(kind, Comment) and not _is(kind, Token.Literal) and value.strip():
            words.append(word)
            if word in DESTROYS and _is(kind, Keyword):
                ranges.append(Range(at, at + len(value), "danger", DESTROYS[word]))
    return tuple(ranges), (*beyond, *_warnings(words))


def _is(kind: _TokenType, of: _TokenType) -> bool:
    return kind[: len(of)] == of


def _style(kind: _TokenType) -> str:
    while kind not in STANDARD_TYPES:
        kind = kind.parent or Token
    short = STANDARD_TYPES[kind]
    return f"hl-{short[0]}" if short and short[0] in "kcsmon" else ""


def _warnings(words: list[str]) -> Iterator[str]:
    statements = _parted(words)
    if len(statements) > 1:
        yield f"{len(statements)} statements"
    for one in statements:
        for word in ("DELETE", "UPDATE"):
            if one[0] == word and "WHERE" not in one:
                yield f"{word} without WHERE: every row"
        yield from (f"{word} {DESTROYS[word]}" for word in ("DROP", "TRUNCATE") if one[0] == word)


def _parted(words: list[str]) -> list[list[str]]:
    found: list[list[str]] = [[]]
    for word in words:
        if word == ";":
            found.append([])
        else:
            found[-1].append(word)
    return [one for one in found if one]
