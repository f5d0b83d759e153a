"""What a person is asked, gathered from the ledger alone: no server is asked, and nothing is written."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.kernel import packet
from gateway.kernel.claims import lives
from gateway.kernel.question_packet import of_approval
from gateway.kernel.reduce import CorruptLedger
from gateway.kernel.registry import Registered, registered
from gateway.kernel.rules import Rules
from gateway.kernel.status import MAX_TOLD, Around
from gateway.model.canonical import Digest
from gateway.model.events import ApprovalRequested
from gateway.model.packet import Packet
from gateway.model.principal import Principal
from gateway.model.record import Record, utc
from gateway.model.run import Tracked
from gateway.model.tool import Tool
from gateway.ports import UnreadableRecord
from gateway.runtime.book import Book
from gateway.runtime.explain import rules_in, stored_in
from gateway.runtime.named import run_of
from gateway.runtime.seen import SeenTools

UNSETTLED = ("open", "unverified", "unknown", "owed")
PAGE = 100
"""Records of the run that are read between two turns of the event loop: some milliseconds."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An unsettled attempt of which the ledger cannot tell more."""

    attempt: str
    run: str
    state: str
    trouble: str
    """Why its run cannot be read."""


class Packets:
    """The packets of one ledger, as of when they are first asked for; what `seen` knows of tools outlives them."""

    def __init__(self, book: Book, seen: SeenTools | None = None) -> None:
        self._book = book
        self._ledger = book.ledger
        self._seen = SeenTools(book.ledger) if seen is None else seen
        self._gathered: dict[str, packet.Asked] = {}

    async def of(self, name: str, run: str | None = None) -> Packet | None:
        """The packet of the run, the attempt or the approval of that name; None if the ledger has none.

        `run` is the one that it belongs to, where that is known.

        Raises: LedgerUnavailable, CorruptLedger.
        """
        if name.startswith("ap_"):
            return await self._of_approval(name, run or await run_of(self._ledger, name))
        run_id = name.rpartition(".")[0]
        asked = await self._asked(run_id) if run_id else None
        if asked is not None and name in asked.run.attempts:
            return await self._of_attempt(asked, name)
        asked = await self._asked(name)
        return None if asked is None else packet.of_run(asked)

    async def unsettled(self) -> list[Packet | Unreadable]:
        """Those of all attempts that are not settled. One damaged run hides no other.

        Raises: LedgerUnavailable.
        """
        return [await self._unsettled(one) for one in await self._ledger.tracked(states=UNSETTLED)]

    async def of_unsettled(self, attempt: str) -> Packet | Unreadable | None:
        """That of an attempt that is not settled; None if there is no such attempt.

        Raises: LedgerUnavailable.
        """
        found = await self._ledger.tracked(states=UNSETTLED)
        mine = next((one for one in found if one.attempt == attempt), None)
        return None if mine is None else await self._unsettled(mine)

    async def _unsettled(self, seen: Tracked) -> Packet | Unreadable:
        try:
            asked = await self._asked(seen.run)
        except (CorruptLedger, UnreadableRecord) as error:
            return Unreadable(seen.attempt, seen.run, seen.state, str(error))
        if asked is None or seen.attempt not in asked.run.attempts:
            trouble = "its run does not know it; `counterfoil verify` says more"
            return Unreadable(seen.attempt, seen.run, seen.state, trouble)
        return await self._of_attempt(asked, seen.attempt)

    async def _of_attempt(self, asked: packet.Asked, name: str) -> Packet:
        attempt = asked.run.attempts[name]
        intent = attempt.intent
        known = await self._known(asked.rules, intent.tool, intent.upstream, intent.definition)
        told = await stored_in(self._ledger, intent.arguments)
        return packet.of_attempt(asked, attempt, packet.Action(known, told))

    async def _of_approval(self, name: str, run_id: str | None) -> Packet | None:
        asked = await self._asked(run_id) if run_id is not None else None
        approval = asked.run.approvals.get(name) if asked is not None else None
        if asked is None or approval is None:
            return None
        event = asked.records[approval.seq - 1].event
        assert isinstance(event, ApprovalRequested)  # noqa: S101 - INVARIANT: it was asked there
        known = await self._known(asked.rules, event.tool, event.upstream, event.definition)
        told = await stored_in(self._ledger, event.arguments)
        before = asked.run.approvals.get(approval.follows or "")
        earlier = await stored_in(self._ledger, before.arguments) if before is not None else None
        return of_approval(asked, approval, event, packet.Action(known, told), earlier)

    # --- what every packet needs ------------------------------------------------------------------------------------

    async def _asked(self, run_id: str) -> packet.Asked | None:
        """The run with all that is told of it; read once."""
        known = self._gathered.get(run_id)
        if known is None:
            records = await self._read(run_id)
            if not records:
                return None
            run = await self._book.fresh_state_of(run_id)
            rules, now = await rules_in(self._ledger, run.policy), utc(self._book.clock.now())
            said = [one.event.note for one in run.notes if lives(run, one, now)][-MAX_TOLD:]
            said += [] if run.plan is None else [run.plan.event.plan]
            around = Around(run.principal or Principal(""), await self._seen.tools(records), await self._texts(said))
            known = self._gathered[run_id] = packet.Asked(run, records, rules, around, now)
        return known

    async def _read(self, run_id: str) -> Sequence[Record]:
        records: list[Record] = []
        while True:
            found = await self._ledger.read(run_id, len(records), limit=PAGE)
            records += [record for record, _ in found]
            if len(found) < PAGE:
                return records
            await asyncio.sleep(0)

    async def _texts(self, cited: Sequence[Digest]) -> dict[Digest, Mapping[str, Any]]:
        texts = {one: await stored_in(self._ledger, one) for one in cited}
        return {one: text for one, text in texts.items() if text is not None}

    async def _known(
        self, rules: Rules | None, tool: str, upstream: str | None, cited: Digest | None
    ) -> Registered | None:
        """The tool as the run's policy sees it, defined as it was then."""
        definition = await stored_in(self._ledger, cited)
        if rules is None:
            return None
        own_name = str((definition or {}).get("name", tool))
        return registered(Tool(tool, upstream or "", own_name, definition or {}), rules.policy)
