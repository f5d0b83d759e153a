"""Tokens for an upstream, asked for as ourselves: when, how often, and what becomes of them."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from gateway.outbound.credentials.credential import NoToken
from gateway.outbound.credentials.kept import DOWN_S, REFUSED_S, REPLACED_S
from tests.credentials.authority import SECRET, both, response
from tests.world import ToldClock

pytestmark = pytest.mark.anyio


async def until(there: Callable[[], object]) -> None:
    """That is so, within some seconds."""
    with anyio.fail_after(5):
        while not there():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("client_auth", ["basic", "post"])
async def test_a_token_is_asked_for_as_the_configuration_says(client_auth: Any) -> None:
    async with both() as (at, _):
        wanted = at.credential(client_auth=client_auth, scope="a b", audience="crm", resource="https://crm.example/mcp")
        assert await wanted.token(None) == "upstream-tOkEn-1-for-gateway"
        form = {name: value for name, value in at.forms[0].items() if not name.startswith("client_")}
        assert form == {
            "grant_type": "client_credentials",
            "scope": "a b",
            "audience": "crm",
            "resource": "https://crm.example/mcp",
        }


async def test_one_question_serves_all_who_wait_and_nobody_waits_while_the_old_token_is_good() -> None:
    clock = ToldClock()
    async with both() as (at, _):
        wanted = at.credential(monotonic=clock.monotonic)
        first = await asyncio.gather(*(wanted.token(None) for _ in range(20)))
        assert (len(at.forms), len(set(first))) == (1, 1)
        at.goes_on.clear()
        clock.tell(600 * 0.74)
        assert await wanted.token(None) == first[0]
        await asyncio.sleep(0.02)
        assert len(at.served.asked) == 1
        clock.tell(600 * 0.02)  # the last quarter of its life has begun: the next one is asked for, and is slow to come
        assert {await wanted.token(None) for _ in range(20)} == {first[0]}
        await until(lambda: len(at.served.asked) == 2)
        assert {await wanted.token(None) for _ in range(20)} == {first[0]}
        at.goes_on.set()
        await until(lambda: len(at.good) == 2)
        while await wanted.token(None) == first[0]:
            await asyncio.sleep(0.001)
        assert (len(at.forms), await wanted.token(None)) == (2, "upstream-tOkEn-2-for-gateway")


async def test_a_token_that_cannot_be_renewed_is_used_until_its_end_and_no_longer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ToldClock()
    async with both() as (at, _):
        wanted = at.credential(monotonic=clock.monotonic)
        first = await wanted.token(None)
        at.answer = response(503, {})
        for _ in range(5):
            clock.tell(580 / 5)
            assert await wanted.token(None) == first
            asking = wanted._kept._asking  # type: ignore[attr-defined]
            await (asking or asyncio.sleep(0))
        assert "could not be renewed" in caplog.text
        clock.tell(10)
        with pytest.raises(NoToken, match="the provider refuses one \\(status 503\\)"):
            await wanted.token(None)


@pytest.mark.parametrize("lasts_s", [None, "600", 600.5, 0, -1])
async def test_lives_are_told_in_several_ways(lasts_s: Any) -> None:
    clock = ToldClock()
    async with both(lasts_s=lasts_s) as (at, _):
        wanted = at.credential(monotonic=clock.monotonic)
        first = await wanted.token(None)
        clock.tell(200)
        assert await wanted.token(None) == first
        clock.tell(400)
        assert await wanted.token(None) != first


async def test_a_life_beyond_all_measure_is_a_long_one() -> None:
    clock = ToldClock()
    async with both(lasts_s=10**400) as (at, _):
        wanted = at.credential(monotonic=clock.monotonic)
        first = await wanted.token(None)
        clock.tell(1_000_000)
        assert await wanted.token(None) == first


REFUSALS = [
    (response(200, {"error": "invalid_scope"}), "the provider refuses one (`invalid_scope`)", REFUSED_S),
    (response(200, {"error": "bad_refresh_token"}), "the provider refuses one (`invalid_grant`)", REFUSED_S),
    (response(401, {"error": "invalid_client"}), "the provider refuses one (`invalid_client`)", REFUSED_S),
    (response(400, {"error": SECRET, "error_description": SECRET}), "the provider refuses one (status 400)", REFUSED_S),
    (response(500, {"error": "server_error"}), "the provider refuses one (`server_error`)", DOWN_S),
    (response(307, {}, "location: http://127.0.0.1:1/"), "the provider refuses one (status 307)", DOWN_S),
    (response(200, {"token_type": "Bearer"}), "the provider's answer holds none", REFUSED_S),
    (response(200, {"access_token": "a b"}), "the provider's answer holds none", REFUSED_S),
    (response(200, {"access_token": "a\r\nx: y"}), "the provider's answer holds none", REFUSED_S),
    (response(200, {"access_token": "a" * 20_000}), "the provider's answer holds none", REFUSED_S),
    (
        response(200, {"access_token": "a", "token_type": "mac"}),
        "what the provider gives is no bearer token",
        REFUSED_S,
    ),
    (response(200, b"<html>"), "the provider's answer is no JSON", DOWN_S),
    (response(200, b"x" * 600_000), "the provider's answer is too long", DOWN_S),
]


@pytest.mark.parametrize(("answer", "why", "rests_s"), REFUSALS)
async def test_what_is_no_token_says_why_shows_nothing_and_is_not_asked_for_again_at_once(
    answer: bytes, why: str, rests_s: float
) -> None:
    clock = ToldClock()
    async with both(answer=answer) as (at, _):
        wanted = at.credential(monotonic=clock.monotonic)
        for _ in range(3):
            with pytest.raises(NoToken) as told:
                await wanted.token(None)
            assert str(told.value) == f"there is no access token for it: {why}"
        assert len(at.served.asked) == 1
        at.answer = None
        clock.tell(rests_s)
        assert await wanted.token(None)


async def test_a_token_that_is_refused_is_replaced_once_and_then_not_for_a_while() -> None:
    clock = ToldClock()
    async with both() as (at, _):
        wanted = at.credential(monotonic=clock.monotonic)
        first = await wanted.token(None)
        assert wanted.refused(None, first)
        second = await wanted.token(None)
        assert second != first
        assert wanted.refused(None, first)  # somebody who was slow: there is another one already
        assert not wanted.refused(None, second)
        assert (await wanted.token(None), len(at.forms)) == (second, 2)
        clock.tell(REPLACED_S)
        assert wanted.refused(None, second)


async def test_whoever_leaves_takes_the_token_from_nobody_who_waits_for_it() -> None:
    async with both() as (at, _):
        at.goes_on.clear()
        wanted = at.credential()
        left, stays = (asyncio.ensure_future(wanted.token(None)) for _ in range(2))
        await until(lambda: at.served.asked)
        left.cancel()
        at.goes_on.set()
        assert await stays == "upstream-tOkEn-1-for-gateway"
        assert len(at.forms) == 1


async def test_nothing_is_asked_for_after_the_end() -> None:
    async with both() as (at, _):
        at.goes_on.clear()
        wanted = at.credential()
        waits = asyncio.ensure_future(wanted.token(None))
        await until(lambda: at.served.asked)
        await wanted.close()
        with pytest.raises(asyncio.CancelledError):
            await waits


async def test_no_secret_is_in_a_repr_or_a_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with both() as (at, _):
        client = at.client()
        wanted = at.credential()
        token = await wanted.token(None)
        said = f"{client!r} {wanted!r} {vars(wanted)!r} {vars(wanted._kept)!r} {caplog.text}"  # type: ignore[attr-defined]
        assert SECRET.split(":")[0] not in said
        assert token not in said
