"""Bytes passed on between two sockets, for machines without nginx: python tests/bench/pass_through.py PORT UPSTREAM."""

import asyncio
import sys


class End(asyncio.Protocol):
    """One end of a connection; what comes in here goes out at the other."""

    def __init__(self, upstream: int | None = None) -> None:
        self._upstream = upstream
        self._transport: asyncio.Transport | None = None
        self._before: list[bytes] = []
        self.other: End | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._upstream is not None:
            self._opening = asyncio.ensure_future(self._open(self._upstream))
        for data in self._before:
            transport.write(data)

    async def _open(self, upstream: int) -> None:
        loop = asyncio.get_running_loop()
        _, other = await loop.create_connection(End, "127.0.0.1", upstream)
        self.other, other.other = other, self
        for data in self._before:
            other.pass_on(data)

    def pass_on(self, data: bytes) -> None:
        """The data goes out here."""
        if self._transport is not None:
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self._before.append(data)
        else:
            self.other.pass_on(data)

    def connection_lost(self, _: Exception | None) -> None:
        if self.other is not None and self.other._transport is not None:
            self.other._transport.close()


async def main(port: int, upstream: int) -> None:
    """Serve until the process is ended."""
    server = await asyncio.get_running_loop().create_server(lambda: End(upstream), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
