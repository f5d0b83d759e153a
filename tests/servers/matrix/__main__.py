"""The server on stdin and stdout: `python -m tests.servers.matrix ERA`."""

import asyncio
import json
import sys

from tests.servers.matrix.features import HANDLERS
from tests.servers.matrix.talk import Json, Peer, World


async def main(era: str) -> None:
    reader = asyncio.StreamReader(limit=64 * 2**20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)

    def say(message: Json) -> None:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    peer = Peer(World(HANDLERS), era, say)
    while line := await reader.readline():
        peer.take(json.loads(line))


asyncio.run(main(sys.argv[1]))
