"""`sql.reads_only`, `sql.kinds`, `sql.tables`, `sql.bounded`, `sql.filtered`: statements as sqlglot parses them.

A statement is judged only if all of it is understood, and if the database reads it as the parser does: where
the two are known to part (executable comments, `--` in MySQL, backslashes before quotes, dollar quotes, T-SQL without
semicolons), there is no answer. Views, triggers and operators of the database's own can do more than their names say; a
role that may only read is the second lock on this door.
"""

from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from types import ModuleType
from typing import Any, NamedTuple

from gateway.kernel.objects.judged import PARSED, Function, Unjudged, bounded
from gateway.kernel.objects.sql_parting import refuse_parting
from gateway.kernel.objects.sql_words import FUNCTIONS as HARMLESS_FUNCTIONS
from gateway.kernel.objects.sql_words import NAMES, STRUCTURE, T_SQL_STATEMENTS

MAX_SQL = 16_384
"""Characters of a statement: parsing takes some 6 us for each."""
MAX_STEPS = 40
"""Tokens that the parser may step over for each that it is given, as it tries one reading after the other: `array[`
nested 20 deep took it a minute.
"""

DIALECTS = ("bigquery", "databricks", "mysql", "oracle", "postgres", "redshift", "snowflake", "sqlite", "trino", "tsql")

KINDS = {
    "Select": "select",
    "Union": "select",
    "Except": "select",
    "Intersect": "select",
    "Subquery": "select",
    "Values": "select",
    "Insert": "insert",
    "Update": "update",
    "Delete": "delete",
    "Merge": "merge",
    "Create": "create",
    "Drop": "drop",
    "Alter": "alter",
    "TruncateTable": "truncate",
}
"""What a statement can be; all others have no answer."""
WITHIN = {"Insert": "insert", "Update": "update", "Delete": "delete", "Merge": "merge", "Into": "into", "Lock": "lock"}
"""What may stand within a statement and is no read."""
_WRITING = frozenset({"Returning", "OnConflict", "When", "Whens", "Schema"})
"""What those that change rows are made of beside."""
_DEFINING = frozenset({"create", "drop", "alter"})
"""What is said in the statements that define things is of a hundred sorts; their kind and their tables are enough."""
_OPAQUE = frozenset({"Command", "Heredoc", "Execute", "ExecuteSql", "Block"})
"""But in these more stands than is parsed."""


class Facts(NamedTuple):
    """What is known of a text of statements."""

    kinds: tuple[str, ...]
    tables: tuple[str, ...] | Unjudged
    bounded: bool | Unjudged
    filtered: bool | Unjudged


def _silent(_: object) -> bool:
    """No record is written: it would hold the statement."""
    return False


@cache
def _sqlglot() -> ModuleType:
    import sqlglot  # noqa: PLC0415 - a third of a second, paid only by policies that ask about statements
    from sqlglot import parser  # noqa: PLC0415

    # It warns of what it does not understand, and shows the statement; what stands in an argument is not for a log.
    # By a filter: whoever configures logging, as uvicorn does, enables again what was disabled before.
    parser.logger.addFilter(_silent)
    return sqlglot


@cache
def _counting(dialect: str) -> tuple[Any, Callable[..., Any]]:
    """The dialect, and its parser with an end to the steps that it may take."""
    found = _sqlglot().Dialect.get_or_raise(dialect)

    class Counting(found.parser_class):  # type: ignore[name-defined,misc]
        steps = 0

        def _advance(self, times: int = 1) -> None:
            self.steps -= 1
            if self.steps < 0:
                raise Unjudged("the statement takes too long to parse")
            super()._advance(times)

    def parse(tokens: list[Any], text: str) -> list[Any]:
        parser = Counting(dialect=found)
        parser.steps = MAX_STEPS * (len(tokens) + 10)
        return list(parser.parse(tokens, text))

    return found, parse


@lru_cache(maxsize=16)
def _facts(text: str, dialect: str) -> Facts | Unjudged:
    """What is known, or why nothing is. Kept for a few texts: one rule asks several things about the same."""
    try:
        return _read(text, dialect)
    except Unjudged as why:
        return Unjudged(why.reason)  # afresh: what was raised holds on to the parser
    except Exception as error:  # noqa: BLE001 - no parser's failing is an answer; RecursionError among them
        if isinstance(error, (_sqlglot().errors.ParseError, _sqlglot().errors.TokenError)):
            return Unjudged("the statement cannot be parsed")
        return Unjudged("the statement is nested too deeply, or cannot be parsed")


def facts(text: str, dialect: str) -> Facts:
    """What is known of the statements.

    Raises: Unjudged, with the reason why nothing is.
    """
    _dialect(dialect)
    found = _facts(bounded(text, "the statement", MAX_SQL), dialect)
    if isinstance(found, Unjudged):
        raise Unjudged(found.reason)
    return found


def _dialect(dialect: object) -> None:
    if dialect not in DIALECTS:
        raise Unjudged(f"there is no SQL dialect `{str(dialect)[:32]}` here; there is {', '.join(DIALECTS)}")
    _counting(str(dialect))


def _read(text: str, dialect: str) -> Facts:
    refuse_parting(text, dialect)
    found, parse = _counting(dialect)
    statements = [one for one in parse(found.tokenize(text), text) if one is not None and _name(one) != "Semicolon"]
    if not statements:
        raise Unjudged("there is no statement")
    kinds = list(dict.fromkeys(kind for one in statements for kind in _kinds(one, dialect)))
    nodes = [node for statement in statements for node in statement.walk()]
    filtered = _all(nodes, _is_filtered)
    if filtered is True and dialect == "sqlite" and not {"update", "delete"}.isdisjoint(kinds):
        filtered = _all(nodes, _is_name)
    return Facts(tuple(kinds), _all_tables(statements), _all(statements, _is_bounded), filtered)


# --- what is in a statement -----------------------------------------------------------------------------------------


def _name(node: Any) -> str:
    return type(node).__name__


def _kinds(statement: Any, dialect: str) -> Iterator[str]:
    kind = KINDS.get(_name(statement))
    if kind is None:
        raise Unjudged("the statement is of a kind that is not judged")
    yield kind
    for node in statement.walk():
        name = _name(node)
        if name in WITHIN:
            yield WITHIN[name]
        elif name in {"Anonymous", "AnonymousAggFunc"} and not _is_known(node, dialect):
            raise Unjudged("it calls a function that is not known to be harmless")
        elif not _fits(node, statement, kind):
            raise Unjudged("a part of the statement is not known to be harmless")
        elif dialect == "tsql" and name == "Identifier" and not node.quoted and node.name.lower() in T_SQL_STATEMENTS:
            raise Unjudged("a name in the statement is a word that begins another")
        elif name == "Column" and node.name.lower() == "nextval":
            raise Unjudged("the statement counts up a sequence")
        elif name == "In" and node.args.get("field") is not None:
            raise Unjudged("what stands behind `in` may be a table")  # `x in t` of SQLite reads all of t


def _is_known(call: Any, dialect: str) -> bool:
    """Whether it calls a function of the database's own, by its bare name."""
    known = NAMES.get("postgres" if dialect == "redshift" else dialect, frozenset())
    return call.name.lower() in known and _name(call.parent) != "Dot" and not call.args.get("quoted")


def _fits(node: Any, statement: Any, kind: str) -> bool:
    name = _name(node)
    if kind in _DEFINING:
        return name not in _OPAQUE
    if name == "WithTableHint":
        return all(hint.name.lower() in {"nolock", "readuncommitted"} for hint in node.expressions)
    if name == "PropertyEQ":
        return _name(node.parent) == "Struct"  # elsewhere it sets a variable
    return (
        name in STRUCTURE or name in HARMLESS_FUNCTIONS or name in _WRITING or name == "Anonymous" or node is statement
    )


def _all_tables(statements: list[Any]) -> tuple[str, ...] | Unjudged:
    try:
        return tuple(sorted({table for one in statements for table in _tables(one)}))
    except Unjudged as why:
        return Unjudged(why.reason)


def _tables(statement: Any) -> Iterator[str]:
    if KINDS[_name(statement)] in _DEFINING and str(statement.args.get("kind")).upper() not in {"TABLE", "VIEW"}:
        raise Unjudged("which tables the statement names is not judged")
    for node in statement.walk():
        if _name(node) != "Table":
            continue
        parts = [part for part in node.parts if _name(part) != "Anonymous" and _name(part) not in HARMLESS_FUNCTIONS]
        if not parts:
            continue  # a function in place of a table, which `_kinds` has judged
        if not all(_name(part) == "Identifier" and _is_plain(part) for part in parts):
            raise Unjudged("a table is named in a way that is not judged")
        if len(parts) > 1 or not _is_named_before(node, parts[0].name.lower()):
            yield ".".join(part.name.lower() for part in parts)


def _is_plain(part: Any) -> bool:
    """Whether the name has no dots or other marks of its own, by which it could look like another; a file is none."""
    bare = part.name.removeprefix("INFORMATION_SCHEMA.")  # one name to BigQuery, always quoted by the parser
    return bool(bare.translate(_MARKS).isalnum())


_MARKS = {ord(mark): "a" for mark in "_$#-"}


def _is_named_before(table: Any, name: str) -> bool:
    """Whether the name is one that a `with` around it gives, and not that of a table."""
    holder = table.parent if _name(table.parent) == "Schema" else table
    if _name(holder.parent) in WITHIN and holder.arg_key == "this":
        return False  # what is written to is a table
    node, parent = table, table.parent
    while parent is not None:
        if _name(parent) == "With":
            # From within one of its parts, those before it can be seen, and itself only if it is recursive. That
            # some databases take any of them for recursive names a table too many here, which is the safe side.
            before = parent.expressions if parent.args.get("recursive") else parent.expressions[: node.index]
            named = before
        else:
            given = parent.args.get("with_") or parent.args.get("with")
            named = given.expressions if given is not None and given is not node else []
        if any(one.alias.lower() == name for one in named):
            return True
        node, parent = parent, parent.parent
    return False


# --- judgements of statements ---------------------------------------------------------------------------------------


def _all(nodes: list[Any], judge: Callable[[Any], bool]) -> bool | Unjudged:
    """Whether it holds for all; what is certain for one is certain for all."""
    unjudged: Unjudged | None = None
    for node in nodes:
        try:
            if not judge(node):
                return False
        except Unjudged as why:
            unjudged = Unjudged(why.reason)
    return unjudged or True


def _is_bounded(statement: Any) -> bool:
    """Whether it is a query that gives at most so many rows."""
    if KINDS[_name(statement)] != "select":
        return False
    limit = statement.args.get("limit")
    if limit is None or limit.args.get("expressions"):
        return False
    options = limit.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        return False
    count = limit.args.get("count") if _name(limit) == "Fetch" else limit.expression
    if _name(count) == "Paren":
        count = count.this
    if _name(count) == "Literal" and not count.is_string:
        return bool(count.name.isdigit())
    if _name(count) in {"Null", "Var"}:
        return False
    raise Unjudged("a limit of the statement is no number")


def _is_filtered(node: Any) -> bool:
    """Whether it changes no rows, or only those of which something holds."""
    name = _name(node)
    if name in {"Merge", "Create", "Drop", "Alter"}:
        raise Unjudged("which rows the statement changes is not judged")
    if name not in {"Update", "Delete"}:
        return name != "TruncateTable"
    if _name(node.parent) == "When":
        raise Unjudged("which rows the statement changes is not judged")
    where = node.args.get("where")
    return where is not None and _narrows(where.this)


_COMPARING = frozenset({"EQ", "GT", "GTE", "LT", "LTE", "Like", "ILike", "NullSafeEQ"})


def _narrows(condition: Any) -> bool:
    """Whether it asks something of a column: it is not constant, and compares none with itself."""
    name = _name(condition)
    if name == "Paren":
        return _narrows(condition.this)
    if name in {"And", "Or"}:
        found = [_all([side], _narrows) for side in condition.flatten()]
        settles = name == "And"  # one side is enough, or one is too little
        if any(side is settles for side in found):
            return settles
        return _sure(next((side for side in found if isinstance(side, Unjudged)), not settles))
    if name in _COMPARING and _compares(condition.this, condition.expression):
        return True
    if name in {"In", "Between"} and _name(condition.this) == "Column" and not condition.args.get("query"):
        values = [child for child in condition.iter_expressions() if child is not condition.this]
        if all(_is_value(value) for value in values):
            return True
    if condition.find(_sqlglot().exp.Column, _sqlglot().exp.Query) is None:
        return False
    raise Unjudged("a condition of the statement is not of a simple kind")


def _compares(one: Any, other: Any) -> bool:
    """Whether a column is compared with a value, or with a column of another table."""
    if _name(one) == _name(other) == "Column":
        return bool(one.table and other.table) and one.table.lower() != other.table.lower()
    return (_name(one) == "Column" and _is_value(other)) or (_name(other) == "Column" and _is_value(one))


def _is_value(node: Any) -> bool:
    """Whether it is the same for all rows: `-(-id)` and `cast(id as int)` are the column itself."""
    return _name(node) in _VALUES and node.find(_sqlglot().exp.Column, _sqlglot().exp.Query) is None


def _is_name(node: Any) -> bool:
    """Whether SQLite takes it for no text: it does so with a name in quotes that no column has, as in `"x" = 'x'`
    [SQLite, "Double-quoted String Literals Are Accepted"].
    """
    if _name(node) == "Column" and not node.table and getattr(node.this, "quoted", False):
        raise Unjudged("a name in quotes may be a text")
    return True


_VALUES = frozenset({"Literal", "Placeholder", "Parameter", "Null", "Neg", "Cast", "CurrentDate", "CurrentTimestamp"})


def _sure(found: bool | Unjudged) -> bool:  # noqa: FBT001 - a finding that is kept, and raised where it is asked for
    if isinstance(found, Unjudged):
        raise Unjudged(found.reason)
    return found


def reads_only(text: str, dialect: str) -> bool:
    """Whether all statements do nothing but read."""
    return facts(text, dialect).kinds == ("select",)


def kinds(text: str, dialect: str) -> list[str]:
    """What the statements and those within them are, each kind once."""
    return list(facts(text, dialect).kinds)


def tables(text: str, dialect: str) -> list[str]:
    """All tables that are named, sorted, in lower case, with their schema where it stands; never too few."""
    found = facts(text, dialect).tables
    if isinstance(found, Unjudged):
        raise Unjudged(found.reason)
    return list(found)


_TEXT_AND_DIALECT = ("string", "string")


def _function(name: str, gives: str, run: Callable[[str, str], Any]) -> Function:
    return Function(f"sql.{name}", ((_TEXT_AND_DIALECT, gives),), run, {1: _dialect}, frozenset({1}), rate=PARSED)


FUNCTIONS = (
    _function("reads_only", "bool", reads_only),
    _function("kinds", "list(string)", kinds),
    _function("tables", "list(string)", tables),
    _function("bounded", "bool", lambda text, dialect: _sure(facts(text, dialect).bounded)),
    _function("filtered", "bool", lambda text, dialect: _sure(facts(text, dialect).filtered)),
)
