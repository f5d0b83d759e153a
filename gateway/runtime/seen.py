"""Tools as calls of any run last had them, kept between two looks: a look costs what was called since."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from gateway.model.canonical import Digest
from gateway.model.events import Verdict
from gateway.model.record import Record
from gateway.model.tool import Tool
from gateway.ports import Ledger, UnreadableRecord
from gateway.runtime.explain import VERDICTS, stored_in, verdict_of
from gateway.runtime.newest import newest

MAX_SEEN = 1_000
"""Verdicts of any run that one look goes through at most, the newest."""

Defined = tuple[Digest | None, Tool]
"""A tool, and the digest of what defines it."""


class SeenTools:
    """The tools that the ledger's verdicts speak of. One for each process."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: Mapping[str, Defined] = {}
        """By name, as the newest verdict that was looked at has it."""
        self._last: tuple[str, int] | None = None
        """That verdict: its run, and its place there."""
        self._looking = asyncio.Lock()

    async def tools(self, records: Sequence[Record]) -> list[Tool]:
        """As they were last seen: in these records of one run, and else in any other.

        Raises: LedgerUnavailable.
        """
        async with self._looking:
            await self._look()
        mine: dict[str, Defined] = {}
        for record in reversed(records):
            await self._note(record, mine)
        return sorted((tool for _, tool in {**self._known, **mine}.values()), key=lambda one: one.name)

    async def _look(self) -> None:
        """At what was decided since the last look."""
        found: dict[str, Defined] = {}
        first, looked = self._last, 0
        with suppress(UnreadableRecord):  # a damaged record of another run: this one is told without what is older
            async for record in newest(self._ledger, VERDICTS):
                place = record.run, record.seq
                if looked == MAX_SEEN or place == self._last:
                    break
                first, looked = place if looked == 0 else first, looked + 1
                await self._note(record, found)
        self._known, self._last = {**self._known, **found}, first

    async def _note(self, record: Record, found: dict[str, Defined]) -> None:
        """The tool of the record's verdict, where no newer one has said how it is."""
        verdict = verdict_of(record)
        if verdict is None or verdict.upstream is None or verdict.tool in found:
            return
        known = self._known.get(verdict.tool)
        if known is not None and (known[0], known[1].upstream) == (verdict.definition, verdict.upstream):
            found[verdict.tool] = known
        elif (tool := await self._defined(verdict, verdict.upstream)) is not None:
            found[verdict.tool] = verdict.definition, tool

    async def _defined(self, verdict: Verdict, upstream: str) -> Tool | None:
        definition = await stored_in(self._ledger, verdict.definition)
        if definition is None:
            return None
        return Tool(verdict.tool, upstream, str(definition.get("name", verdict.tool)), definition)
