"""A PostgreSQL server for the benchmarks, on a core of its own where there is one, and gateways before it."""

import asyncio
from dataclasses import replace

import asyncpg

from tests.bench.ground import Ground, Target
from tests.bench.processes import on_core
from tests.postgres_server import Server, running


class Databases:
    """The ledgers of one server, which ends with the ground. Raises: CannotStart."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        with on_core(ground.server_core):
            self._server: Server = ground.stack.enter_context(running())

    def gateway(self, schema: str, *, core: int) -> Target:
        """A gateway on the ledger of that schema; the server's processor time is told beside its own."""
        return replace(self._ground.metered(self._server.url(schema), core=core), server=self._server.pid())

    def slow(self, delay_ms: float) -> None:
        """Each flush of the server's log that a session waits for takes so much longer, for those who connect later.

        It sleeps with the log's lock in hand, as on a slower disk, and who comes meanwhile shares the next flush
        [postgresql.org/docs/current/runtime-config-wal.html, commit_delay].
        """
        asyncio.run(self._say(f"ALTER ROLE current_user SET commit_delay = {delay_ms * 1000:.0f}"))
        asyncio.run(self._say("ALTER ROLE current_user SET commit_siblings = 0"))

    async def _say(self, words: str) -> None:
        connection = await asyncpg.connect(self._server.dsn)
        try:
            await connection.execute(words)
        finally:
            await connection.close()
