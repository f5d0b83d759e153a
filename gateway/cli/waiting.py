"""What waits for a person, as rows for people and for scripts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from gateway.cli.plain import GONE, ago, cut, plain_table, visible, whose
from gateway.kernel.packet import standing
from gateway.kernel.reduce import CorruptLedger
from gateway.model.events import ApprovalRequested
from gateway.model.record import utc
from gateway.model.review import Page, Waiting
from gateway.model.run import Run
from gateway.ports import UnreadableRecord
from gateway.runtime.book import Book
from gateway.runtime.explain import stored_in

UNREADABLE = "cannot be read: `counterfoil verify` says why"
ALIKE = 3
"""Of questions that may be answered together, so many are shown beside the first."""
ALL = 10_000
"""Questions that `--all` looks through, the newest."""

Row = dict[str, Any]
STYLES: Mapping[str, str] = {"critical": "bold red", "high": "bold yellow", "medium": "", "low": "dim"}


async def rows_of(book: Book, page: Page) -> list[Row]:
    """Each of the page as a script wants it: what is known of the question, with the arguments."""
    return [await _row(book, one) for one in page.rows]


async def every_row(book: Book) -> list[Row]:
    """Every question that was ever asked, oldest first. One damaged run hides no other."""
    rows = []
    for record in reversed(await book.ledger.find(["approval.requested"], limit=ALL)):
        event = record.event
        if isinstance(event, ApprovalRequested):
            run = await _run(book, record.run)
            rows.append(
                {
                    "about": "approval",
                    "name": event.approval,
                    "run": record.run,
                    "tenant": run.principal.tenant if run is not None and run.principal is not None else "",
                    "principal": run.principal.id if run is not None and run.principal is not None else "",
                    "tool": event.tool,
                    "transition": event.rule,
                    "reason": event.reason,
                    "risk": event.terms.risk,
                    "asked": record.at.isoformat(timespec="seconds"),
                    "expires_at": event.expires_at.isoformat(timespec="seconds"),
                    "group": event.approval,
                    **await _of_question(book, run, event.approval, event),
                }
            )
    return rows


async def _row(book: Book, one: Waiting) -> Row:
    expires_at = None if one.expires_at is None else one.expires_at.isoformat(timespec="seconds")
    told: Row = {
        "about": one.about,
        "name": one.name,
        "run": one.run,
        "workflow": one.workflow,
        "tenant": one.tenant,
        "principal": one.principal,
        "tool": one.tool,
        "transition": one.transition,
        "reason": one.reason,
        "risk": one.risk,
        "consequence": one.consequence,
        "asked": one.asked_at.isoformat(timespec="seconds"),
        "expires_at": expires_at,
        "roles": list(one.roles),
        "agreed": one.agreed,
        "needed": one.needed,
        "reasons": one.reasons,
        "group": one.group,
        "state": "awaiting" if one.about == "approval" else "unknown" if one.about == "attempt" else "run over",
    }
    run = await _run(book, one.run)
    if one.about == "approval":
        return {**told, **await _of_question(book, run, one.name, None)}
    attempt = None if run is None else run.attempts.get(one.name)
    return {**told, "arguments": None if attempt is None else await stored_in(book.ledger, attempt.intent.arguments)}


async def _run(book: Book, name: str) -> Run | None:
    try:
        return await book.fresh_state_of(name)
    except (CorruptLedger, UnreadableRecord):
        return None


async def _of_question(book: Book, run: Run | None, name: str, event: ApprovalRequested | None) -> Row:
    """What only its run knows; as far as it can be read."""
    asked = None if run is None else run.approvals.get(name)
    if event is None and run is not None and asked is not None:
        event = await _request(book, run.id, asked.seq)
    cited = asked.arguments if asked is not None else event.arguments if event is not None else None
    return {
        "approval": name,
        "state": UNREADABLE if run is None or asked is None else standing(run, asked, utc(book.clock.now())),
        "action": asked.action if asked is not None else event.action if event is not None else None,
        "arguments": await stored_in(book.ledger, cited),
        "undoes": event.compensates if event is not None else None,
        "by": None if asked is None else asked.by,
        "said": "" if asked is None else asked.reason,
        "uses": [] if asked is None else list(asked.uses),
    }


async def _request(book: Book, run: str, seq: int) -> ApprovalRequested | None:
    [(record, _)] = await book.ledger.read(run, seq - 1, limit=1)
    return record.event if isinstance(record.event, ApprovalRequested) else None


# --- for people -------------------------------------------------------------------------------------------------------


def table_of(rows: Sequence[Row], now: datetime | None = None) -> RenderableType:
    """The rows, those that may be answered together as one."""
    now = now or datetime.now(UTC)
    table = plain_table()
    table.add_column("waits", no_wrap=True)
    table.add_column("asked", no_wrap=True)
    table.add_column("tool, arguments", ratio=1, overflow="fold")
    table.add_column("risk, state", overflow="fold")
    for group in _grouped(rows):
        first = group[0]
        table.add_row(
            f"{first['name']}\n{whose(first['tenant'], first['principal'])}",
            ago(datetime.fromisoformat(first["asked"]), now),
            _what(group),
            Text(first["risk"], style=STYLES.get(first["risk"], "")).append(f"\n{_state(first)}", style="not bold"),
        )
    return table


def _grouped(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """In the order of their first."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["group"] or row["name"], []).append(row)
    yield from groups.values()


def _what(group: Sequence[Row]) -> Text:
    first = group[0]
    what = Text(visible(first["tool"] or first["reason"]), style="bold")
    if first["tool"] is not None:
        what.append("\n" + cut(arguments(first), 160), style="not bold")
    others = group[1:]
    if others:
        what.append(f"\nand {len(others)} like it:", style="not bold italic")
        for one in others[:ALIKE]:
            what.append(f"\n{one['name']} {cut(arguments(one), 80)}", style="not bold")
        if len(others) > ALIKE:
            what.append("\n…", style="not bold")
    return what


def _state(row: Row) -> str:
    several = row.get("needed", 1) > 1 and row["state"] == "awaiting"
    roles = f", needs {' or '.join(visible(one) for one in row['roles'])}" if row.get("roles") else ""
    counts = f", {row['agreed']} of {row['needed']}" if several else ""
    return f"{row['state']}{counts}{roles}"


def arguments(row: Row, indent: int | None = None) -> str:
    """What is asked to be done with, and nothing in it can act on a terminal."""
    if row["arguments"] is None:
        return GONE
    return visible(json.dumps(row["arguments"], ensure_ascii=False, indent=indent), keep="\n" if indent else "")


def screen(rows: Sequence[Row], total: int) -> RenderableType:
    """The whole of it, with what it is."""
    if not rows:
        return Text("Nothing waits for a person.")
    more = f" of {total}" if total > len(rows) else ""
    head = Text(f"{len(rows)}{more} wait{'s' if len(rows) == 1 else ''} for a person")
    return Group(head, table_of(rows))
