"""Gateways on different machines share the work: each message is sent once, whoever sends it."""

import asyncio
from dataclasses import replace

import pytest

from gateway.outbound.ledger import open_ledger
from gateway.runtime.announce import Announcer
from gateway.runtime.book import Book
from tests.notices.ground import LINKS, line, telling
from tests.notices.receiver import receiving

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_three_gateways_over_one_server_send_each_message_once(postgres_url: str) -> None:
    mine = await open_ledger(postgres_url)
    others = [await open_ledger(postgres_url) for _ in range(2)]
    try:
        async with receiving() as hook, telling(line(hook), ledger=mine) as it:
            announcers = [it.announcer]
            for number, ledger in enumerate(others):
                options = replace(it.house.book.options, owner=f"other-{number}")
                book = Book(ledger, it.house.book.policies, it.house.clock, options)
                announcers.append(Announcer(book, [line(hook)], LINKS, lambda: 0.5))
            for n in range(30):
                await it.house.call("pay", {"n": n})
            for _ in range(60):
                await asyncio.gather(*(one.look() for one in announcers))
                await asyncio.gather(*(one.idle() for one in announcers))
                it.house.clock.tell(1)
            assert len(hook.got) == len(set(hook.ids)) == 30
            assert [one.state()["undelivered"] for one in announcers] == [0, 0, 0]
            assert len(await it.sent()) == 30
    finally:
        for ledger in (mine, *others):
            await ledger.close()
