"""What was asked before in the same run, so that a person sees the difference and not the whole again."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gateway.model.events import ApprovalRequested
from gateway.runtime.book import Book
from gateway.runtime.explain import stored_in


@dataclass(frozen=True, slots=True)
class Earlier:
    """The question before this one, about the same tool under the same transition."""

    approval: str
    asked_at: datetime
    decision: str
    """What became of it; empty where nobody answered."""
    by: str
    reason: str
    arguments: Mapping[str, Any] | None
    """None where they were erased or changed."""


async def asked_before(book: Book, run_id: str, approval: str) -> Earlier | None:
    """The last such question; None if this is the first. Tenants are for the caller to check, who knows the packet.

    Raises: LedgerUnavailable, CorruptLedger.
    """
    run = await book.state_of(run_id)
    mine = run.approvals.get(approval)
    if mine is None:
        return None
    alike = [
        one for one in run.approvals.values() if one.seq < mine.seq and (one.tool, one.rule) == (mine.tool, mine.rule)
    ]
    if not alike:
        return None
    last = max(alike, key=lambda one: one.seq)
    record = (await book.ledger.read(run_id, last.seq - 1, limit=1))[0][0]
    asked = record.event
    arguments = await stored_in(book.ledger, asked.arguments) if isinstance(asked, ApprovalRequested) else None
    return Earlier(last.id, last.requested_at, last.decision or "", last.by or "", last.reason, arguments)
