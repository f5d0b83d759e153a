"""Many steps, one transaction, one flush of the server's log. A step that is refused takes nothing with it.

The first try is one statement: it assumes what the steps' callers know (`plan.guessed`), and the server checks that
before it writes. If that is not so, or a step has to be refused, the same group is decided anew within a transaction,
against what is read there under locks.
"""

import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

from gateway.model.canonical import Digest
from gateway.outbound.ledger.accounts import Account, Standing
from gateway.outbound.ledger.chain import UNOPENED, Entry
from gateway.outbound.ledger.jobs import Job
from gateway.outbound.ledger.postgres.address import Address
from gateway.outbound.ledger.postgres.connections import Connection, Line, Patience
from gateway.outbound.ledger.postgres.faults import WORLD, lost, moved, unavailable, unfit
from gateway.outbound.ledger.postgres.plan import REFUSALS, Head, Plan, State, guessed
from gateway.outbound.ledger.postgres.schema import VERSION
from gateway.outbound.ledger.postgres.statements import Statements
from gateway.ports import Append, LedgerUnavailable, Tracked

ROUNDS = 100
"""Times that a group is decided anew because others were quicker; each time one of them got on."""

LOSSES = 3
"""Times that a group is tried again because its connection was lost and nothing of it had been written."""

WARY = 16
"""After a wrong guess so many groups look first: who contends with us now will do so for a while."""


@dataclass(frozen=True, slots=True)
class Appending:
    """A step, and its records as they are stored."""

    step: Append
    made: Sequence[Entry]


Change: TypeAlias = Callable[[Connection], Awaitable[Any]]
"""What is no step: within the transaction, after the steps that were queued before it."""

Work: TypeAlias = Appending | Change


class _Moved(Exception):
    """Something is not as the group was decided against. Nothing is written."""


class GroupCommit:
    """The transactions of one process, over the one connection that writes."""

    def __init__(self, address: Address, line: Line, patience: Patience, statements: Statements) -> None:
        self.commits = 0
        """Transactions that were committed and wrote something."""
        self._address = address
        self._line = line
        self._patience = patience
        self._sql = statements
        self._wary = 0
        self._sent = False
        """Whether what would commit the group is on its way: a lost connection then leaves open what became of it."""
        self._witness: Entry | None = None
        """A record of the group, if it has one."""

    async def run(self, jobs: Sequence[Job[Work]]) -> None:
        """Every job has its result or its error, and what has a result is durable."""
        try:
            await self._settled(jobs)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, each job's caller waits for a word
            if unfit(error) and len(jobs) > 1:
                for job in jobs:  # whose fault it is shows when each is alone
                    await self.run([job])
                return
            failure = self._failure(error)
            for job in jobs:
                # One each: an exception that several tasks raise collects the tracebacks of all.
                job.error = error if failure is None else type(failure)(*failure.args)
                job.error.__cause__ = error.__cause__ if failure is None else error

    def _failure(self, error: Exception) -> LedgerUnavailable | None:
        """In the port's words; None for a fault of the step's own."""
        if isinstance(error, LedgerUnavailable):
            return error
        return unavailable(self._address, error) if isinstance(error, WORLD) and not unfit(error) else None

    async def _settled(self, jobs: Sequence[Job[Work]]) -> None:
        deadline = time.monotonic() + self._patience.statement_s
        losses = 0
        for _ in range(ROUNDS):
            for job in jobs:
                job.result = job.error = None
            self._sent, self._witness = False, None
            connection = await self._line.connection()
            try:
                await self._once(jobs, connection)
            except _Moved:
                self._wary = WARY
            except WORLD as error:
                if lost(error):
                    losses += 1
                    if await self._lost(error, again=losses <= LOSSES):
                        return
                    continue
                if not moved(error):
                    raise
                self._wary = WARY
            else:
                return
            if time.monotonic() >= deadline:
                break
        raise LedgerUnavailable(f"the ledger `{self._address.shown}` is too busy: others were quicker time and again")

    async def _lost(self, error: Exception, *, again: bool) -> bool:
        """Whether the group is written. If not, nothing of it is or will be, and it may be tried again.

        A connection that is lost between commit and word leaves open which; but the next one is given out only when
        nothing is at work on the lost one any more (`Line`), and a group is written whole or not at all: so any one of
        its records tells.

        Raises: the error, if the server cannot be asked, or there is no record to ask for, or not `again`.
        """
        self._line.drop()
        witness, self._witness = self._witness, None
        if self._sent:
            if witness is None:
                raise error
            try:
                connection = await self._line.connection()
                if await connection.fetchval(self._sql.witness, witness.record.run, witness.record.seq) == witness.link:
                    # A commit that was cut off while it waited for its standby can be read here and is nowhere else:
                    # a later one that the standby has has it before itself.
                    await connection.execute(self._sql.store, b"")
                    self.commits += 1
                    return True
            except (*WORLD, LedgerUnavailable):
                raise error from None
        if not again:
            raise error
        return False

    async def _once(self, jobs: Sequence[Job[Work]], connection: Connection) -> None:
        if not self._wary and all(isinstance(job.work, Appending) for job in jobs):
            if await self._guess(jobs, connection):
                return
            self._wary = WARY
        self._wary = max(0, self._wary - 1)
        await connection.execute("BEGIN")
        try:
            await self._transact(jobs, connection)
            self._sent = True
            await connection.execute("COMMIT")
            self.commits += 1
        except BaseException:
            if not connection.is_closed():
                with contextlib.suppress(*WORLD):
                    await connection.execute("ROLLBACK")
            raise

    async def _guess(self, jobs: Sequence[Job[Work]], connection: Connection) -> bool:
        """Whether the group is written, no step of it refused."""
        standings = await self._standings(jobs, connection, self._sql.levels)
        plan, state = Plan(), guessed(standings)
        try:
            for work in _appendings(jobs):
                if not work.made:
                    return False  # nothing would tell whether the run has moved on meanwhile
                plan.add(work.step, work.made, state)
        except REFUSALS:
            return False
        self._sent = True
        told = await self._put(plan, state, connection)
        self.commits += told
        return told

    async def _transact(self, jobs: Sequence[Job[Work]], connection: Connection) -> None:
        if not await connection.fetchval(self._sql.enter, VERSION):
            raise migrated(self._address)
        for steps, group in groupby(jobs, lambda job: isinstance(job.work, Appending)):
            if steps:
                await self._append(list(group), connection)
                continue
            for job in group:
                if not isinstance(job.work, Appending):
                    job.result = await job.work(connection)

    async def _append(self, jobs: Sequence[Job[Work]], connection: Connection) -> None:
        if not all(work.made for work in _appendings(jobs)):
            # A step without records has no place that another step could not take: until we commit, nobody appends.
            await connection.execute(self._sql.lock_events)
        # Locks, in the order in which `put` takes them.
        standings = await self._standings(jobs, connection, self._sql.lock_levels)
        heads = await self._heads(jobs, connection)
        holders = await self._holders(jobs, connection)
        state = State(lambda run, _: heads.get(run, UNOPENED), holders.get, standings.get)
        plan = Plan()
        for job, work in zip(jobs, _appendings(jobs), strict=True):
            try:
                plan.add(work.step, work.made, state)
            except REFUSALS as error:
                job.error = error
        if state.heads and not await self._put(plan, state, connection):
            raise _Moved

    async def _put(self, plan: Plan, state: State, connection: Connection) -> bool:
        """Whether it is written; if not, something is not as it was taken to be."""
        self._witness = plan.entries[0] if plan.entries else self._witness
        wrong = await connection.fetchval(self._sql.put, *plan.rows(VERSION, state))
        if wrong == "migrated":
            raise migrated(self._address)
        return wrong is None

    async def _standings(self, jobs: Sequence[Job[Work]], connection: Connection, sql: str) -> dict[Account, Standing]:
        wanted = sorted({(one.account, one.unit) for work in _appendings(jobs) for one in work.step.postings})
        if not wanted:
            return {}
        rows = await connection.fetch(sql, *map(list, zip(*wanted, strict=True)))
        return {(account, unit): Standing(level, until) for account, unit, level, until in rows}

    async def _heads(self, jobs: Sequence[Job[Work]], connection: Connection) -> dict[str, Head]:
        wanted = {run for work in _appendings(jobs) for run in (work.step.run, *work.step.beside)}
        rows = await connection.fetch(self._sql.heads, sorted(wanted))
        return {run: (seq, link) for run, seq, link in rows}

    async def _holders(self, jobs: Sequence[Job[Work]], connection: Connection) -> dict[Digest, Tracked]:
        tracked = (one for work in _appendings(jobs) for one in work.step.track)
        wanted = sorted({one.hold for one in tracked if one.hold is not None})
        rows = await connection.fetch(self._sql.holders, wanted) if wanted else []
        return {row["hold"]: Tracked(*row) for row in rows}


def migrated(address: Address) -> LedgerUnavailable:
    """Why nothing can be written to it by this version any more."""
    return LedgerUnavailable(
        f"the ledger `{address.shown}` was migrated by a newer version: restart this gateway with that version"
    )


def _appendings(jobs: Sequence[Job[Work]]) -> list[Appending]:
    return [job.work for job in jobs if isinstance(job.work, Appending)]
