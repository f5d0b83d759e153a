"""`counterfoil registry`: what is known of each tool, as a policy sees it, and what of that is only inferred."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from gateway.cli.entries import Entry, as_pinned, entries
from gateway.cli.ledgers import console, fail
from gateway.cli.looking import ConfigOption, PolicyOption, WorkflowOption, look, policy_of, servers
from gateway.cli.plain import counted, plain_table, visible
from gateway.cli.sheets import sheet
from gateway.kernel.globs import names
from gateway.model.policy import Policy
from gateway.outbound.file_models import did_you_mean


def registry(
    ctx: typer.Context,
    tool: Annotated[
        str | None, typer.Argument(metavar="[TOOL]", help="One tool in full, or all that the pattern names.")
    ] = None,
    config: ConfigOption = None,
    policy: PolicyOption = None,
    workflow: WorkflowOption = None,
    offline: Annotated[bool, typer.Option("--offline", help="What the policy alone says; no server is asked.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Plain JSON.")] = False,
) -> None:
    """What is known of each tool, as a policy sees it. Starts or reaches the servers that `--config` or `--` names.

    Ends with 0; with 1 if a tool is not what was pinned, or a server cannot be used; with 2 for what cannot be meant.
    """
    if offline:
        _offline(policy_of(config, policy, workflow), tool, as_json=as_json)
        return
    told = servers(ctx, config)
    judge = policy_of(config, policy, workflow)
    found = look(told, judge.pins)
    rows = _wanted([*entries(found.tools, judge)], tool)
    offered = {one.name for one in found.tools}
    missing = [name for name in judge.pins if name not in offered and (tool is None or names(tool, name))]
    lame = {name: str(one["reason"]) for name, one in found.health.items() if one["state"] != "healthy"}
    if tool is not None and not rows and not lame:
        hint = did_you_mean(tool, offered)
        fail(f"no server offers a tool `{visible(tool)}`{visible(hint)}", code=2)
    if as_json:
        health = {name: dict(one) for name, one in found.health.items()}
        _print_json(judge, rows, servers=health, missing=missing)
    else:
        _print_servers(found.health)
        _print_rows(judge, rows, whole=tool is not None)
        _print_missing(missing)
    changed = sum(row.pin == "changed" for row in rows)
    if changed or lame:
        wrong = [counted(changed, "changed tool")] * bool(changed) + [counted(len(lame), "dead server")] * bool(lame)
        fail(f"{' and '.join(wrong)}; `counterfoil pin` shows and pins what changed" if changed else wrong[0])


def _wanted(rows: list[Entry], pattern: str | None) -> list[Entry]:
    return [row for row in rows if pattern is None or names(pattern, row.tool.name)]


def _print_json(policy: Policy, rows: Collection[Entry], **more: Any) -> None:
    # ASCII: nothing in it can act on a terminal.
    typer.echo(json.dumps({"policy": policy.workflow, "tools": [row.as_json() for row in rows], **more}, indent=2))


def _print_servers(health: Mapping[str, Mapping[str, Any]]) -> None:
    for name, one in health.items():
        if one["state"] != "healthy":
            typer.echo(f"counterfoil: {name} cannot be used: {visible(str(one['reason']))}", err=True)
        for trouble in one["troubles"]:
            typer.echo(f"counterfoil: {name}: {visible(trouble)}", err=True)


def _print_missing(missing: Sequence[str]) -> None:
    if missing:
        console.print(Text(f"pinned, and not offered now: {', '.join(map(visible, missing))}"))


MARK = "~"
"""Behind what nobody said and is inferred."""


def _print_rows(policy: Policy, rows: Sequence[Entry], *, whole: bool) -> None:
    if whole:
        for row in rows:
            console.print(Text(sheet(row)), soft_wrap=True)
        return
    if not rows:
        return
    console.print(_table(policy, rows))
    if any(row.known.guesses for row in rows):
        console.print(f"{MARK} nobody says so: it is inferred, and `counterfoil registry TOOL` says from what")
    unnamed = [visible(row.tool.name) for row in rows if row.unnamed]
    if unnamed:
        console.print(Text(f"no transition names {', '.join(unnamed)}: every call is denied"))
    for row in rows:
        if row.diff:
            console.print()
            console.print(Text(difference(row)), soft_wrap=True)


def difference(row: Entry) -> str:
    """What of a tool is not as it was pinned, and what of that to look at first."""
    first = [f"look at this first (a hint, no check):\n{''.join(f'  ! {one}{chr(10)}' for one in row.first)}"]
    calls = "calls of it are withheld" if row.withheld else "the policy only observes, so calls of it pass"
    head = f"{visible(row.tool.name)} is not what was pinned; {calls}\n"
    return head + "\n".join(row.diff) + "\n" + "".join(first * bool(row.first))


def _table(policy: Policy, rows: Sequence[Entry]) -> Table:
    table = plain_table(f"policy {policy.workflow}")
    table.add_column("tool", overflow="fold", ratio=5)
    for name in ("effect", "repeated", "undone", "pin"):
        table.add_column(name, no_wrap=True)
    table.add_column("named by", overflow="fold", ratio=4)
    for row in rows:
        known = row.known
        marks = {what: MARK if what in known.guesses else "" for what in ("effect", "idempotency", "reversible")}
        pin = "CHANGED" if row.pin == "changed" else "WITHHELD" if row.withheld else row.pin
        table.add_row(
            visible(row.tool.name),
            f"{known.effect}{marks['effect']}",
            f"{known.idempotency}{marks['idempotency']}",
            f"{known.reversible}{marks['reversible']}",
            pin,
            _named_by(row),
            style="red" if row.withheld or row.diff else "yellow" if row.unnamed else "",
        )
    return table


def _named_by(row: Entry) -> Text:
    named = ", ".join(row.transitions) or "nothing"
    return Text(named + (f"; forbid {', '.join(row.forbids)}" if row.forbids else ""))


# --- without servers ------------------------------------------------------------------------------------------------


def _offline(policy: Policy, tool: str | None, *, as_json: bool) -> None:
    """What the policy says by pattern, and of what it pins; of one tool what it would be with the definition pinned."""
    named = [tool] if tool is not None and "*" not in tool else [one for one in policy.pins if names(tool or "*", one)]
    rows = [*entries(as_pinned(policy, named), policy)]
    patterns = {pattern: rule for pattern, rule in policy.tools.items() if tool is None or tool == pattern}
    if as_json:
        said = {
            name: rule.model_dump(mode="json", by_alias=True, exclude_unset=True) for name, rule in patterns.items()
        }
        _print_json(policy, rows, entries=said)
        return
    if tool is None or patterns:
        console.print(_patterns(policy) if policy.tools else "The policy's registry says nothing of any tool.")
        console.print(_rules(policy))
    _print_rows(policy, rows, whole=tool is not None)


def _patterns(policy: Policy) -> Table:
    table = plain_table(f"policy {policy.workflow}: its registry, the first that names a tool counts")
    table.add_column("pattern", overflow="fold", ratio=2)
    table.add_column("what it says", overflow="fold", ratio=5)
    for pattern, rule in policy.tools.items():
        said = rule.model_dump(mode="json", by_alias=True, exclude_unset=True)
        words = "; ".join(f"{what}: {one if isinstance(one, str) else json.dumps(one)}" for what, one in said.items())
        table.add_row(Text(visible(pattern)), Text(visible(words) or "nothing: all is inferred"))
    return table


def _rules(policy: Policy) -> Table:
    table = plain_table("its rules, forbids first")
    table.add_column("rule", overflow="fold", ratio=3)
    table.add_column("names", overflow="fold", ratio=4)
    table.add_column("of effect", overflow="fold", ratio=2)
    for kind, rules in (("forbid ", policy.forbid), ("", policy.transitions)):
        for rule in rules:
            effects = ", ".join(map(str, rule.effect)) or "any"
            table.add_row(Text(f"{kind}{rule.name}"), Text(visible(", ".join(rule.tools))), effects)
    return table
