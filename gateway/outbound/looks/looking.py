"""The looks of a gateway that knows places: one way each, bounded in time, discreet about what they saw."""

import asyncio
import threading
from collections.abc import Mapping
from typing import Any, assert_never, cast

from gateway.model.policy import CommandLook, FileLook, HttpLook, SqlLook, Way
from gateway.outbound.ledger.postgres.address import is_postgres
from gateway.outbound.looks import sqlite
from gateway.outbound.looks.ends import to_its_end
from gateway.outbound.looks.faults import CannotLook, discreet, hide, spellings
from gateway.outbound.looks.files import look_at
from gateway.outbound.looks.places import DatabasePlace, FolderPlace, Place, UrlPlace, misplaced
from gateway.ports import Answer, Look, NotSent, Silence, ToolResult

TOGETHER = 4
"""Commands that run at the same time; others wait for their turn, and their time runs."""


class PlacedLooks:
    """Looks at these places."""

    def __init__(self, places: Mapping[str, Place]) -> None:
        self._places = places
        self._turns = asyncio.Semaphore(TOGETHER)

    def trouble(self, way: Way) -> str | None:
        """Why this gateway cannot look in this way; None if it can."""
        found = misplaced(way, self._places)
        return None if found is None else found[1]

    async def look(self, asked: Look) -> Answer:
        """What is there, or why that cannot be found out."""
        if (why := self.trouble(asked.way)) is not None:
            return NotSent(why)
        try:
            async with asyncio.timeout(asked.timeout_s):
                seen = await self._seen(asked)
        except TimeoutError:
            return Silence(f"it took longer than {asked.timeout_s:g} s")
        except CannotLook as error:
            return NotSent(hide(str(error), spellings(self._secrets(asked.way))))
        return ToolResult(discreet(seen, self._secrets(asked.way)))

    def _secrets(self, way: Way) -> tuple[str, ...]:
        others = [way.trusted.place] if isinstance(way, CommandLook) and way.trusted is not None else []
        return tuple(one for name in (way.place, *others) for one in self._places[name].secrets)

    async def _seen(self, asked: Look) -> dict[str, Any]:
        place = self._places[asked.way.place]
        match asked.way:
            case CommandLook() as way:
                return await self._run(way, cast("FolderPlace", place), asked.timeout_s)
            case HttpLook() as way:
                from gateway.outbound.looks import http  # noqa: PLC0415 - its client, which few need

                return await http.ask(way, asked.told, cast("UrlPlace", place))
            case SqlLook() as way:
                return await _queried(way, asked, cast("DatabasePlace", place))
            case FileLook() as way:
                return await asyncio.to_thread(look_at, way, asked.told, cast("FolderPlace", place))
            case _:
                assert_never(asked.way)

    async def _run(self, way: CommandLook, place: FolderPlace, timeout_s: float) -> dict[str, Any]:
        from gateway.outbound.looks import sandbox  # noqa: PLC0415 - as above

        trusted = self._places[way.trusted.place] if way.trusted is not None else None
        async with self._turns:
            return await sandbox.run(way, place, cast("FolderPlace | None", trusted), timeout_s)


async def _queried(way: SqlLook, asked: Look, place: DatabasePlace) -> dict[str, Any]:
    values: Mapping[str, Any] = asked.told.get("parameters", {})
    if is_postgres(place.url):
        from gateway.outbound.looks import postgres  # noqa: PLC0415 - as above

        return await postgres.query(place, way.query, values, asked.timeout_s)
    called_off = threading.Event()
    work = asyncio.to_thread(sqlite.query, place, way.query, values, called_off)
    return await to_its_end(work, called_off.set)
