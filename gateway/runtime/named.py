"""Names of questions -> where they were asked: one look into the ledger's index, however many were ever asked."""

from collections.abc import Iterable, Sequence

from gateway.model.events import ApprovalRequested
from gateway.model.record import Record
from gateway.ports import Ledger, UnreadableRecord


async def run_of(ledger: Ledger, approval: str) -> str | None:
    """The run in which that question was asked; None if the ledger has no such question.

    Raises: LedgerUnavailable.
    """
    return next((record.run for record in await ledger.named([approval])), None)


async def requests_of(ledger: Ledger, approvals: Sequence[str]) -> dict[str, Record]:
    """The records by which these were asked, by name; without those that are damaged.

    Raises: LedgerUnavailable.
    """
    if not approvals:
        return {}
    try:
        return _by_name(await ledger.named(approvals))
    except UnreadableRecord:
        if len(approvals) == 1:
            return {}
    half = len(approvals) // 2  # which of them it is shows when it is alone
    return {**await requests_of(ledger, approvals[:half]), **await requests_of(ledger, approvals[half:])}


def _by_name(records: Iterable[Record]) -> dict[str, Record]:
    return {one.event.approval: one for one in records if isinstance(one.event, ApprovalRequested)}
