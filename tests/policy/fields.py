"""The tables of docs/policy.md, from the models themselves: `python -m tests.policy.fields` writes them anew."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from gateway.model import policy as language

PAGE = Path(__file__).parents[2] / "docs" / "policy.md"
BEGIN, END = "<!-- fields: written by `python -m tests.policy.fields` -->", "<!-- end of fields -->"

SECTIONS: dict[str, type[BaseModel]] = {
    "A workflow": language.Policy,
    "A shared file": language.Shared,
    "grants": language.Grant,
    "tools: a registry entry": language.ToolRule,
    "result: of a tool, or of all": language.ResultRule,
    "idempotency": language.Idempotency,
    "idempotency.key": language.KeyPlace,
    "idempotency.query": language.StatusQuery,
    "rate": language.Rate,
    "compensation": language.Compensation,
    "pins": language.Pin,
    "phases": language.Phase,
    "transitions": language.Transition,
    "charge": language.Spend,
    "approval": language.ApprovalRule,
    "approval.stages": language.Stage,
    "approval.reuse": language.Reuse,
    "approval.load": language.ReviewLoad,
    "forbid": language.Forbid,
    "verifiers": language.Verifier,
    "probe": language.ProbeCall,
    "command": language.CommandLook,
    "command.trusted": language.TrustedFiles,
    "http": language.HttpLook,
    "sql": language.SqlLook,
    "file": language.FileLook,
    "result": language.ResultLook,
    "budgets": language.Budgets,
    "accounts": language.AccountRule,
    "limit": language.Limits,
    "stops": language.Stops,
    "stops.repeated_state": language.RepeatedState,
    "success": language.Success,
    "cases": language.Case,
    "given": language.Given,
    "given.tool": language.GivenTool,
    "call": language.CaseCall,
    "expect": language.Expect,
}
"""Heading -> model, in the order in which a reader needs them."""


def tables() -> str:
    """All fields of all parts of a policy."""
    return "\n\n".join(["\n".join(_table(heading, model)) for heading, model in SECTIONS.items()])


def _table(heading: str, model: type[BaseModel]) -> Iterator[str]:
    yield f"### {heading}\n"
    yield f"{' '.join((model.__doc__ or '').split())}\n"
    yield "| field | | default |"
    yield "|---|---|---|"
    for name, field in model.model_fields.items():
        said = " ".join((field.description or "").split()).replace("|", "\\|")
        yield f"| `{field.alias or name}` | {said} | {_default(field)} |"


def _default(field: Any) -> str:
    if field.is_required():
        return "**needed**"
    default = field.default
    if isinstance(default, BaseModel):
        return "as below"
    if default is None or default in ((), {}, ""):
        return ""
    if isinstance(default, dict):
        return f"`{', '.join(default)}`"
    if isinstance(default, tuple):
        return f"`[{', '.join(map(str, default))}]`"
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def written(page: str) -> str:
    """The page with its tables as they must be."""
    return re.sub(
        f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: f"{BEGIN}\n\n{tables()}\n\n{END}", page, flags=re.DOTALL
    )


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
