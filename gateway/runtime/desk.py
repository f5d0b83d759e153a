"""What people see and say, whichever door they came through. Their word is recorded; it runs nothing.

Everything here is bound to a `Reviewer`: what they may not see is, to them, not there.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from gateway.kernel import approve, switches
from gateway.kernel.approve import pending
from gateway.kernel.reduce import CorruptLedger
from gateway.kernel.rules import Rules
from gateway.model.approval import Approval
from gateway.model.events import ApprovalExpired, ApprovalSeen, Event, Who
from gateway.model.packet import Packet
from gateway.model.record import utc
from gateway.model.review import Answer, Page, Refused, Reviewer, Settlement
from gateway.model.run import Run, RunState
from gateway.model.switch import SWITCHES, Switch, SwitchThrown
from gateway.ports import Exhausted, LedgerUnavailable, UnreadableRecord
from gateway.runtime.book import Book, Step
from gateway.runtime.explain import stored_in
from gateway.runtime.inbox import LOOK_S, Inbox, Wanted
from gateway.runtime.packets import Packets
from gateway.runtime.policies import PolicyMissing
from gateway.runtime.seen import SeenTools

EXPIRE_S = 5.0
"""How often it is looked whether nobody answered in time."""

OF_ONE_RUN = (CorruptLedger, UnreadableRecord, PolicyMissing)
"""Why one run cannot be read, or judged: the ledger is there, and other runs are well."""


@dataclass(frozen=True, slots=True)
class Decided:
    """An answer that was recorded."""

    run: Run
    approval: Approval

    @property
    def complete(self) -> bool:
        """Whether nobody else is asked any more."""
        return self.approval.decision is not None


class Desk:
    """The people's side of a ledger. One for each process."""

    def __init__(self, book: Book) -> None:
        self.book = book
        self._inbox = Inbox(book)
        self._seen = SeenTools(book.ledger)

    # --- what they see ------------------------------------------------------------------------------------------------

    async def inbox(
        self, by: Reviewer, *, limit: int = 50, after: str | None = None, wanted: Wanted | None = None
    ) -> Page:
        """What waits for a person, as far as the reviewer may see it; of that all, or what is wanted.

        Raises: LedgerUnavailable.
        """
        return await self._inbox.page(by, limit, after, wanted)

    async def changed(self, since: int, within_s: float) -> int:
        """The version of what waits, as soon as it is another than `since`, or after that time.

        Raises: LedgerUnavailable.
        """
        clock, until = self.book.clock, self.book.clock.monotonic() + within_s
        while True:
            await self._inbox.look()
            if self._inbox.version != since or clock.monotonic() >= until:
                return self._inbox.version
            await clock.sleep(LOOK_S)

    async def packet(self, name: str, by: Reviewer) -> Packet | None:
        """That of a run, an attempt or a question; None for what they may not see, and what there is not.

        Raises: LedgerUnavailable, CorruptLedger.
        """
        run = await self._seen_by(name, by)
        found = None if run is None else await Packets(self.book, self._seen).of(name, run.id)
        return found if by.approval is None or found is None else _alone(found)

    async def run_for(self, name: str, by: Reviewer) -> Run | None:
        """The run of that name, or of that attempt or question; None as in `packet`.

        Raises: LedgerUnavailable, CorruptLedger.
        """
        return await self._seen_by(name, by)

    async def _seen_by(self, name: str, by: Reviewer) -> Run | None:
        run = await self._run_of(name)
        if run is None or run.principal is None or not by.sees(run.principal.tenant, name):
            return None
        return run

    async def _run_of(self, name: str) -> Run | None:
        if name.startswith("ap_"):
            run_id = await self._inbox.run_of(name)
            run = await self.book.fresh_state_of(run_id) if run_id is not None else None
            return run if run is not None and name in run.approvals else None
        of_attempt = name.rpartition(".")[0]
        run = await self.book.fresh_state_of(of_attempt) if of_attempt else Run("")
        if name not in run.attempts:
            run = await self.book.fresh_state_of(name)
        return None if run.state in {RunState.UNOPENED, RunState.CONTROL} else run

    # --- questions ----------------------------------------------------------------------------------------------------

    async def looked(self, approval: str, by: Reviewer) -> None:
        """The reviewer sees the question; the first time is recorded, while it waits.

        Raises: LedgerUnavailable.
        """
        run = await self._seen_by(approval, by)
        if run is None or not _is_news(run, approval, by):
            return

        def seen(state: Run, _rules: Rules, now: datetime) -> Sequence[Event]:
            waits = pending(state.approvals[approval], now) and state.state is RunState.RUNNING
            news = waits and _is_news(state, approval, by)
            return (ApprovalSeen(approval=approval, by=by.who, via=by.via),) if news else ()

        await self.book.say(run.id, seen)

    async def decide(self, said: Answer, by: Reviewer) -> Decided:
        """The answer is recorded.

        Raises: Refused, LedgerUnavailable.
        """
        run = await self._seen_by(said.approval, by)
        if run is None:
            raise Refused("unknown", f"no approval `{said.approval[:64]}` is known")
        asked = run.approvals[said.approval]
        # What a person agrees to is what they can be shown; the digest alone may stand for anything.
        blind = said.decision == "approved" and await stored_in(self.book.ledger, asked.arguments) is None

        def answered(state: Run, _rules: Rules, now: datetime) -> Sequence[Event]:
            answer = approve.answer(state, said, by, now)
            if blind:
                raise Refused("unseen", UNSEEN)
            return (answer,)

        after = await self._say(run.id, answered)
        return Decided(after, after.approvals[said.approval])

    async def decide_all(self, answers: Sequence[Answer], by: Reviewer) -> Sequence[Decided | Refused]:
        """What came of each; each stands for itself, also where the run of another cannot be read.

        Raises: LedgerUnavailable, after which it must be looked which of them were recorded.
        """
        came: list[Decided | Refused] = []
        for one in answers:
            try:
                came.append(await self.decide(one, by))
            except Refused as refused:
                came.append(refused)
            except OF_ONE_RUN:
                came.append(self._damaged(one.approval, by))
        return came

    def _damaged(self, approval: str, by: Reviewer) -> Refused:
        """To whom the question is listed, it is said."""
        row = self._inbox.known(approval)
        if by.sees("" if row is None else row.tenant, approval):
            return Refused(
                "damaged", "its run cannot be read, and `counterfoil verify` says more: nothing was recorded"
            )
        return Refused("unknown", f"no approval `{approval[:64]}` is known")

    async def withdraw(self, approval: str, who: Who, reason: str) -> Approval:
        """Whoever asked has taken the question back.

        Raises: Refused, LedgerUnavailable.
        """
        run = await self._run_of(approval)
        if run is None:
            raise Refused("unknown", f"no approval `{approval[:64]}` is known")
        step = approve.withdrawn
        after = await self._say(run.id, lambda state, _, now: (step(state, approval, who, reason, now),))
        return after.approvals[approval]

    # --- attempts and runs --------------------------------------------------------------------------------------------

    async def settle(self, attempt: str, what: Settlement, by: Reviewer, reason: str) -> Run:
        """The person's word on an attempt whose outcome is unknown is recorded, with what follows from it.

        Raises: Refused, LedgerUnavailable.
        """
        run = await self._seen_by(attempt, by)
        if run is None or attempt not in run.attempts:
            raise Refused("unknown", f"no attempt `{attempt[:128]}` is known")
        _wants(reason, "say how you know; somebody will ask in three weeks")
        _not_their_own(run, by, f"the attempt `{attempt}`")
        settled = approve.resolve
        return await self._say(
            run.id, lambda state, _, now: settled(state, attempt, what=what, by=by.who, reason=reason, now=now)
        )

    async def stop_run(self, run: str, by: Reviewer, reason: str) -> Run:
        """The run is over.

        Raises: Refused, LedgerUnavailable.
        """
        mine = await self._own(run, by)
        _wants(reason, "say why the run is ended")
        _not_their_own(mine, by, f"the run `{run}`")
        return await self._say(mine.id, lambda state, _, __: tuple(approve.ended(state, by.who, reason)))

    async def acknowledge(self, run: str, by: Reviewer, reason: str) -> Run:
        """The person has taken over a run that ended as one for a person.

        Raises: Refused, LedgerUnavailable.
        """
        mine = await self._own(run, by)
        return await self._say(mine.id, lambda state, _, __: (approve.acknowledged(state, by.who, reason),))

    async def _own(self, run: str, by: Reviewer) -> Run:
        mine = await self._seen_by(run, by)
        if mine is None or mine.id != run:
            raise Refused("unknown", f"no run `{run[:128]}` is known")
        return mine

    async def _say(self, run: str, step: Step) -> Run:
        try:
            return await self.book.say(run, step)
        except Exhausted as full:
            says = f"you have made {full.limit} decisions about this, as many as policy lets one reviewer make for now"
            raise Refused("load", f"{says}; another must, or wait") from None
        finally:
            self._inbox.stale()

    # --- switches -----------------------------------------------------------------------------------------------------

    async def switches(self, by: Reviewer) -> Sequence[Switch]:
        """Those that are thrown, oldest first, as far as the person may see them.

        Raises: LedgerUnavailable.
        """
        return switches.seen(await self.book.fresh_state_of(SWITCHES), by)

    async def throw(self, wanted: SwitchThrown, by: Reviewer) -> Switch:
        """From now on nothing that it names is sent, by any gateway on this ledger.

        Raises: Refused, LedgerUnavailable.
        """
        after = await self._say(SWITCHES, lambda _, __, ___: (switches.throw(wanted, by),))
        return switches.thrown(after)[-1]

    async def lift(self, number: int, by: Reviewer, reason: str) -> None:
        """It is thrown no more.

        Raises: Refused, LedgerUnavailable.
        """
        switch = (await self.book.fresh_state_of(SWITCHES)).switches.get(number)
        if switch is not None and by.via not in AT_THE_MACHINE and switches.names(switch.event, by):
            raise Refused("self_review", f"it is `{by.id}` whom switch {number} stops: somebody else must let it go on")
        await self._say(SWITCHES, lambda run, _, __: (switches.lift(run, number, by, reason),))

    # --- time ---------------------------------------------------------------------------------------------------------

    async def keep(self) -> None:
        """Records for ever that nobody answered in time."""
        while True:
            await self.book.clock.sleep(EXPIRE_S)
            try:
                await self.expire()
            except LedgerUnavailable:
                continue  # the ledger's own keeper tells of it

    async def expire(self) -> int:
        """How many questions nobody answered in time, and are recorded so now. One damaged run keeps no other from it.

        Raises: LedgerUnavailable.
        """
        now = utc(self.book.clock.now())
        late = [one for one in await self._inbox.look() if one.expires_at is not None and one.expires_at <= now]
        done = 0
        for one in late:
            with suppress(*OF_ONE_RUN):
                await self.book.say(one.run, lambda run, _, at, name=one.name: _expired(run, name, at))  # type: ignore[misc]
                done += 1
        if done:
            self._inbox.stale()
        return done


def _expired(run: Run, name: str, now: datetime) -> Sequence[Event]:
    asked = run.approvals.get(name)
    if asked is None or asked.decision is not None or now < asked.expires_at or run.state is not RunState.RUNNING:
        return ()
    return (ApprovalExpired(approval=name),)


def _is_news(run: Run, approval: str, by: Reviewer) -> bool:
    asked = run.approvals[approval]
    return asked.decision is None and (by.tenant, by.id) not in asked.seen


AT_THE_MACHINE = frozenset({"cli", "local"})
"""Doors of whoever holds the ledger anyway: there the one person of a machine settles what their agent did."""


UNSEEN = (
    "its arguments cannot be shown (erased, changed, stored without their secrets, or locked with a key that is not "
    "here), and nobody can agree to what they cannot see: reject it, or answer where they can be shown"
)


def _alone(packet: Packet) -> Packet:
    """For who may see that one question: an earlier one is told only where this one asks the same matter again."""
    if packet.before is None or packet.before.again:
        return packet
    return packet.model_copy(update={"before": None, "changes": ()})


def _not_their_own(run: Run, by: Reviewer, what: str) -> None:
    if by.via not in AT_THE_MACHINE and approve.is_asking(run, by):
        raise Refused("self_review", f"`{by.id}` is whom {what} acts for: somebody else must say what becomes of it")


def _wants(reason: str, otherwise: str) -> None:
    if not approve.is_said(reason):
        raise Refused("reason", otherwise)
