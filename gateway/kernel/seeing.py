"""(verifier, what it saw) -> what can be said of it without a condition: what was asked, verdicts, scope, signature.

What a look saw is a value of a known shape (`shape_of`), stored as it is and judged here, so it can be judged again.
"""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from gateway.kernel.conditions import Kind, Undecided
from gateway.kernel.noise import Noise, values_in, without
from gateway.kernel.rules import Rules
from gateway.kernel.schema import Unenforceable, violations
from gateway.kernel.schema_types import ANY, BOOLEAN, INTEGER, NUMBER, OBJECT, STRING, Part, closed, part_of_schema
from gateway.model.policy import CommandLook, FileLook, HttpLook, SqlLook, Verifier, Way
from gateway.model.tool import Answer, ToolResult

Verdict: TypeAlias = Literal["pass", "fail", "inconclusive"]
Said: TypeAlias = tuple[Verdict, str]
"""A verdict, and how it goes on after the verifier's name."""

SHOWN, MAX_SHOWN = 3, 100
"""Tests that failed and are named in one sentence, and characters of each."""

_JUNIT = closed(
    {
        **dict.fromkeys(("tests", "passed", "failures", "errors", "skipped"), INTEGER),
        "failed": Part("array", items=STRING),
    }
)


def shape_of(way: Way) -> Part:
    """What is known of `result`, where a verifier looks in this way."""
    match way:
        case CommandLook():
            fields = {"exit": INTEGER, "output": STRING, "errors": STRING, "truncated": BOOLEAN, "duration_s": NUMBER}
            report = {"junit": _JUNIT} if way.junit is not None else {}
            told = {"json": part_of_schema(way.output)} if way.output is not None else {}
            return closed({**fields, "revision": STRING, **report, **told})
        case HttpLook():
            body = {} if way.method == "HEAD" else {"json": ANY, "text": STRING, "digest": STRING}
            return closed({"status": INTEGER, "headers": OBJECT, **body})
        case SqlLook():
            return closed({"rows": Part("array", items=OBJECT), "count": INTEGER, "truncated": BOOLEAN})
        case FileLook():
            return closed({"exists": BOOLEAN, "kind": STRING, "size": INTEGER, "digest": STRING})


# --- what is asked --------------------------------------------------------------------------------------------------


def told_by_formulas(way: Way, values: Mapping[str, Any], rules: Rules) -> dict[str, Any] | Undecided:
    """What the formulas of the look tell: `path`, `query`, `json`, `parameters`; what has none is not there."""
    told: dict[str, Any] = {}
    for name, formulas in _formulas(way).items():
        if isinstance(formulas, str):
            found: Any = rules.value("probe", formulas).find(values)
        else:
            found = each_told("probe", formulas, values, rules)
        if isinstance(found, Undecided):
            return found
        told[name] = found
    return told


def _formulas(way: Way) -> Mapping[str, str | Mapping[str, str]]:
    match way:
        case HttpLook():
            said = {"path": way.path_from, "query": way.query_from, "json": way.json_from}
            return {name: one for name, one in said.items() if one}
        case SqlLook():
            return {"parameters": way.parameters_from}
        case FileLook():
            return {"path": way.path_from} if way.path_from is not None else {}
        case CommandLook():
            return {}


def each_told(
    kind: Kind, formulas: Mapping[str, str], values: Mapping[str, Any], rules: Rules
) -> dict[str, Any] | Undecided:
    """What each of the formulas of that kind tells; the first that cannot be told, if there is one."""
    told: dict[str, Any] = {}
    for name, formula in formulas.items():
        found = rules.value(kind, formula).find(values)
        if isinstance(found, Undecided):
            return found
        told[name] = found
    return told


def scope_of(rule: Verifier, asked: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    """What the evidence is about, by the look alone: where it looked, with what, and at which revision."""
    match rule.way:
        case CommandLook() as way:
            seen = answer.result.get("revision") if isinstance(answer, ToolResult) else None
            revision = {"revision": seen} if isinstance(seen, str) else {}
            return {"place": way.place, "run": list(way.run), **revision}
        case HttpLook() as way:
            said = {"path": way.path, "query": dict(way.query), "json": way.body} | dict(asked)
            said["query"] = {**way.query, **asked.get("query", {})}
            kept = {name: one for name, one in said.items() if one is not None and one != {}}
            return {"place": way.place, "method": way.method, **kept}
        case SqlLook() as way:
            return {"place": way.place, "query": way.query, "parameters": dict(asked.get("parameters", {}))}
        case FileLook() as way:
            return {"place": way.place, "path": asked.get("path", way.path)}
        case None if rule.probe is not None:
            return {"tool": rule.probe.tool, "arguments": dict(asked)}
        case None:
            return {}


# --- what is plain without a condition ------------------------------------------------------------------------------


def plain(rule: Verifier, seen: Mapping[str, Any]) -> Said | None:
    """The verdict that stands before any condition is asked; None where conditions decide."""
    match rule.way:
        case CommandLook() as way:
            return _of_command(way, seen)
        case HttpLook() as way if not rule.passes and (wrong := _unlisted(way, seen)):
            return "fail", f"found that {wrong}"
        case SqlLook() if seen.get("truncated") is True:
            return "inconclusive", "could not judge: there are more rows than are read"
        case None if seen.get("isError") is True:
            return "inconclusive", "could not check: the probe answered with an error"
        case _:
            return None


def not_yet(rule: Verifier, seen: Mapping[str, Any]) -> Said | None:
    """Why it is no pass although every condition holds; None if it is one."""
    wrong = _unlisted(rule.http, seen) if rule.http is not None else None
    return None if wrong is None else ("inconclusive", f"could not judge: {wrong}")


def _unlisted(way: HttpLook, seen: Mapping[str, Any]) -> str | None:
    if seen.get("status") in way.status:
        return None
    return f"the status is {seen.get('status')}, not {' or '.join(map(str, way.status))}"


def _of_command(way: CommandLook, seen: Mapping[str, Any]) -> Said | None:
    # The order is the point: what tested nothing has proven nothing, whatever its exit code, and a failed test is a
    # failure, whatever its exit code.
    if way.junit is not None and (found := _of_report(way, seen.get("junit"))) is not None:
        return found
    if seen.get("exit") not in way.exit:
        return "fail", f"found that the exit code is {seen.get('exit')}, not {' or '.join(map(str, way.exit))}"
    if way.output is not None and not _keeps(way.output, seen):
        return "inconclusive", "could not judge: what it printed is no JSON that keeps its schema"
    return None


def _of_report(way: CommandLook, report: Any) -> Said | None:
    if not isinstance(report, Mapping):
        return "inconclusive", f"could not judge: it has written no report (`{way.junit}`) that can be read"
    ran = report["tests"] - report["skipped"]
    if ran < way.least_tests:
        return "inconclusive", f"could not judge: {ran} of {report['tests']} tests ran, and {way.least_tests} must"
    wrong = report["failures"] + report["errors"]
    if not wrong:
        return None
    shown = ", ".join(f"`{name[:MAX_SHOWN]}`" for name in report["failed"][:SHOWN])
    more = f" and {wrong - SHOWN} more" if wrong > SHOWN else ""
    return "fail", f"found that {wrong} of {ran} tests failed: {shown}{more}"


def _keeps(schema: Mapping[str, Any], seen: Mapping[str, Any]) -> bool:
    if "json" not in seen:
        return False
    try:
        return not violations(schema, seen["json"], limit=1)
    except Unenforceable:
        return False


def told_apart(rule: Verifier, answer: Answer, says: str, noise: Noise) -> Mapping[str, Any]:
    """What tells this failure from another: what policy names, else the tests that failed, else what was seen without
    noise. How many tests ran, and how long, may differ between two that are one.
    """
    if not isinstance(answer, ToolResult) or answer.result.get("isError") is True:
        return {"says": says, "told": {}}
    seen = answer.result
    if rule.signature:
        content = seen.get("structuredContent") if rule.way is None else seen
        told = {name: content.get(name) for name in rule.signature} if isinstance(content, Mapping) else {}
        return {"says": says, "told": told}
    report = seen.get("junit") if rule.command is not None else None
    if isinstance(report, Mapping) and report.get("failed"):
        return {"says": "tests failed", "told": {"failed": report["failed"]}}
    if rule.way is None:
        kept: tuple[str, ...] = ("structuredContent",) if "structuredContent" in seen else ("content",)
    else:
        kept = _TOLD_APART[rule.source]
    return {"says": says, "told": {name: without(values_in(name, seen[name]), noise) for name in kept if name in seen}}


_TOLD_APART: Mapping[str, tuple[str, ...]] = {
    "command": ("exit", "json"),
    "http": ("status", "json"),
    "sql": ("rows",),
    "file": ("exists", "kind", "size", "digest"),
}
"""What tells failures apart where policy does not say. What is printed, texts and headers have times in them."""
