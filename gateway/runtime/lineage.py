"""Whether a run goes on, and every run that it was opened from."""

from collections.abc import Awaitable, Callable
from datetime import datetime

from gateway.model.events import RunOpened
from gateway.model.run import Run, RunState
from gateway.ports import Ledger


async def parent_over(run: Run, state_of: Callable[[str], Awaitable[Run]], now: datetime) -> bool:
    """Whether the run was opened from another that does not go on.

    Raises: what `state_of` raises.
    """
    return run.parent is not None and not await goes_on(run.parent, state_of, now)


async def goes_on(run_id: str, state_of: Callable[[str], Awaitable[Run]], now: datetime) -> bool:
    """Whether the run, and all those above it, were opened, are not over and have not expired.

    Raises: what `state_of` raises.
    """
    following: str | None = run_id
    while following is not None:  # ends: a parent was there before its child
        run = await state_of(following)
        if run.state is not RunState.RUNNING or (run.expires_at is not None and now >= run.expires_at):
            return False
        following = run.parent
    return True


async def opened_from(ledger: Ledger, run_id: str) -> str | None:
    """The run that it was opened from; None if it was from no other, or is not open.

    Raises: LedgerUnavailable.
    """
    first = await ledger.read(run_id, limit=1)
    event = first[0][0].event if first else None
    return event.parent if isinstance(event, RunOpened) else None
