"""The links of one upstream: the house's, and those of parties."""

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from gateway.model.tool import NotSent, ToolResult
from gateway.outbound.upstream import link as link_module
from gateway.outbound.upstream import supervisor
from gateway.outbound.upstream.negotiate import Client
from gateway.outbound.upstream.spec import HttpSpec, Patience, StdioSpec
from tests.upstream.callers import FakeCaller
from tests.upstream.faults import Faults, children
from tests.upstream.links import Ears, called, facts, party, reached, serving, until
from tests.upstream.scripted import Reply, Sent, answer, polite, scripted


def introduced(faults: Faults) -> list[Any]:
    """The capabilities and names of all who were introduced."""
    return [(params["capabilities"], params["clientInfo"]["name"]) for params in faults.entries("introduced")]


def how(upstream: supervisor.Upstream) -> tuple[str, str | None]:
    return upstream.health.state, upstream.health.reason


async def test_each_party_has_its_own_process_in_the_older_era(faults: Faults) -> None:
    async with reached(faults.stdio()) as upstream:
        one = await upstream.reach(party("a", roots={}), 10)
        again = await upstream.reach(party("a", roots={}), 10)
        other = await upstream.reach(party("a", roots={}, sampling={}), 10)
        assert upstream.view(party("b")) is None
        assert upstream.view(None) is await upstream.reach(None, 10) is upstream.house
        assert one is again is upstream.view(party("a", roots={}))
        assert list(upstream.links) == [upstream.house, one, other]
        assert isinstance(await called(one, "echo", FakeCaller()), ToolResult)
        assert upstream.counts["calls"] == 1
        upstream.leave("a")
        assert list(upstream.links) == [upstream.house]
        await until(lambda: upstream.counts["calls"] == 1)
    assert introduced(faults) == [({}, "us"), ({"roots": {}}, "them"), ({"roots": {}, "sampling": {}}, "them")]


async def test_in_the_newer_era_all_share_one_process(faults: Faults) -> None:
    async with reached(faults.stdio(era="modern")) as upstream:
        modern = party("a", modern=True)
        assert await upstream.reach(modern, 10) is upstream.house is upstream.view(party("b", modern=True))
        assert len(faults.entries("started")) == 1
        assert await upstream.reach(party("c"), 10) is upstream.house  # the older era was asked for once, in vain
        assert await upstream.reach(party("d"), 10) is upstream.house is upstream.view(party("c"))
    assert len(faults.entries("started")) == 2


async def test_who_asks_while_another_finds_out_gets_the_same_link(faults: Faults) -> None:
    async with reached(faults.stdio(era="modern")) as upstream:
        asked = [upstream.reach(party(key), 10) for key in ("a", "a", "a", "b", "b")]
        assert await asyncio.gather(*asked) == [upstream.house] * 5
        assert how(upstream) == ("healthy", None)
        assert len(upstream.links) == 1


async def test_who_speaks_both_eras_is_spoken_to_in_that_of_the_client(faults: Faults) -> None:
    async with reached(faults.stdio(era="both")) as upstream:
        older = await upstream.reach(party("a"), 10)
        newer = await upstream.reach(party("a", modern=True), 10)
        assert newer is upstream.house
        eras = [link.health.agreement.modern for link in (older, newer) if link.health.agreement is not None]
        assert eras == [False, True]
    assert introduced(faults) == [({}, "them")]


async def test_who_has_tasks_of_the_older_era_is_the_same_party(faults: Faults) -> None:
    async with reached(faults.stdio()) as upstream:
        assert await upstream.reach(party("a", tasks={}), 10) is await upstream.reach(party("a"), 10)


async def test_while_nobody_knows_its_era_there_is_only_the_house() -> None:
    async with reached(StdioSpec("x", "/nowhere/to/be/found")) as upstream:
        link = await upstream.reach(party(), 1)
        assert link is upstream.house is upstream.view(party())  # it was tried: nobody waits for it
        said = await called(link, "echo")
        assert isinstance(said, NotSent)
        assert said.reason.startswith("the upstream `x` is not there: `/nowhere")


async def test_who_asks_while_the_link_of_his_party_comes_up_waits_for_it_too(faults: Faults) -> None:
    async with reached(faults.stdio()) as upstream:
        first = asyncio.get_running_loop().create_task(upstream.reach(party("a"), 10))
        await until(lambda: len(upstream.links) == 2)
        assert upstream.view(party("a")) is None
        link = await upstream.reach(party("a"), 10)
        assert link.health.state == "healthy"
        assert link is await first is upstream.view(party("a"))
    assert len(faults.entries("started")) == 2


async def test_a_first_attempt_that_takes_too_long_is_waited_for_by_nobody(
    faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_module, "AWAITED_S", 0.3)
    async with reached(faults.stdio(start="hang"), patience=Patience(start_s=60.0, probe_s=50.0)) as upstream:
        assert how(upstream) == ("starting", "it has not answered yet")
        begun = asyncio.get_running_loop().time()
        assert await upstream.reach(party(), 10) is upstream.house is upstream.view(party())
        assert asyncio.get_running_loop().time() - begun < 5


async def test_reaching_waits_no_longer_than_it_may(faults: Faults) -> None:
    patience = Patience(start_s=5.0, probe_s=4.0)
    async with asyncio.timeout(20):
        upstream = supervisor.Upstream(faults.stdio(start="hang"), Client("us", "1"), patience, Ears().hooks())
        begun = asyncio.get_running_loop().time()
        link = await upstream.reach(party(), 0.1)
        assert asyncio.get_running_loop().time() - begun < 2
        assert link.health.state == "starting"
        await upstream.close()


async def calm(sent: Sent, reply: Reply) -> None:
    """A server of the older era that offers nothing, and is slow at `slow`."""
    if polite(sent, reply):
        return
    if sent.asks is None:
        reply.plain(405)
    else:
        await asyncio.sleep(0.5 if sent.message["params"].get("name") == "slow" else 0)
        reply.plain(200, answer(sent, {}))


async def test_a_full_pool_gives_up_who_is_idle_longest_and_never_who_is_at_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor, "MAX_HTTP", 3)
    async with scripted(calm) as place, reached(HttpSpec("r", place.url)) as upstream:
        upstream.join("a")
        a, b, c = [await upstream.reach(party(key), 5) for key in "abc"]
        assert upstream.view(party("b")) is b  # it is used again
        d = await upstream.reach(party("d"), 5)
        assert upstream.links[1:] == (a, b, d)
        assert c.health.state == "unhealthy"
        slow = [asyncio.get_running_loop().create_task(called(link, "slow")) for link in (a, b, d)]
        await until(lambda: len(place.asked("tools/call")) == 3)
        full = await upstream.reach(party("e"), 5)
        assert full.health.reason == "all 3 connections to it are in use"
        said = await called(full, "x")
        assert said == NotSent("the upstream `r` is not there: all 3 connections to it are in use")
        assert await asyncio.gather(*slow) == [ToolResult({})] * 3
        assert upstream.links[1:] == (a, b, d)
        await upstream.reach(party("e"), 5)
        assert a in upstream.links  # its party has joined


async def test_parties_that_left_without_a_word_do_not_crowd_out_the_one_at_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor, "MAX_HTTP", 2)
    monkeypatch.setattr(supervisor, "JOINED_S", 0.0)
    async with scripted(calm) as place, reached(HttpSpec("r", place.url)) as upstream:
        upstream.join("gone")
        gone = await upstream.reach(party("gone"), 5)
        working = await upstream.reach(party("works"), 5)
        upstream.join("new")
        await upstream.reach(party("new"), 5)
        assert upstream.view(party("works")) is working
        assert gone not in upstream.links


async def test_who_has_most_connections_makes_room_and_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "MAX_HTTP", 3)
    async with scripted(calm) as place, reached(HttpSpec("r", place.url)) as upstream:
        mine = await upstream.reach(replace(party("mine"), whose=("acme", "ann")), 5)
        others = [await upstream.reach(replace(party(key), whose=("other", "ann")), 5) for key in "abcd"]
        assert upstream.links[1:] == (mine, *others[2:])


async def test_who_is_idle_for_long_is_closed_unless_its_party_has_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "IDLE_S", 0.05)
    monkeypatch.setattr(supervisor, "_SWEEP_S", 0.05)
    async with scripted(calm) as place, reached(HttpSpec("r", place.url)) as upstream:
        upstream.join("a")
        a = await upstream.reach(party("a"), 5)
        b = await upstream.reach(party("b"), 5)
        await until(lambda: b not in upstream.links)
        await until(lambda: any(sent.method == "DELETE" for sent in place.sent))
        assert [*upstream.links] == [upstream.house, a]
        upstream.leave("a")
        assert list(upstream.links) == [upstream.house]


async def test_a_link_that_is_closed_harms_no_other(faults: Faults) -> None:
    async with reached(faults.stdio()) as upstream:
        a, b = await upstream.reach(party("a"), 10), await upstream.reach(party("b"), 10)
        slow = asyncio.get_running_loop().create_task(called(b, "late", after_s=0.5))
        await called(a, "exit")
        upstream.leave("a")
        assert isinstance(await slow, ToolResult)


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape",
    ["stdio legacy", "http modern", *(pytest.param(one, marks=pytest.mark.long) for one in ("http legacy", "sse"))],
)
async def test_of_parties_that_come_and_go_nothing_is_left(shape: str) -> None:
    async def come_and_go(number: int) -> None:
        caller = FakeCaller(lambda *_: ToolResult({"action": "decline"}), key=f"k{number}", capabilities=ELICITS)
        link = await upstream.reach(caller.party, 20)
        assert (await facts(link, "ask", caller))["action"] == "decline"
        await link.subscribe("mem://one")
        await link.unsubscribe("mem://one")
        upstream.leave(caller.key)

    def open_now() -> tuple[int, int, int]:
        return len(list(Path("/proc/self/fd").iterdir())), len(asyncio.all_tasks()), len(children())

    with serving(shape) as spec:
        async with reached(spec) as upstream:
            await come_and_go(0)
            await asyncio.sleep(2)  # for the last connection that might be used again
            before = open_now()
            await asyncio.gather(*(come_and_go(number) for number in range(1, 9)))
            await until(lambda: open_now() == before)


ELICITS: dict[str, Any] = {"elicitation": {"form": {}}}


# --- one client only ------------------------------------------------------------------------------------------------


async def test_the_only_client_is_met_by_the_one_process_that_there_is(faults: Faults) -> None:
    async with reached(faults.stdio(), sole=True) as upstream:
        assert how(upstream) == ("starting", "it waits for its first client")
        assert "initialize" not in faults.entries("asked")
        link = await upstream.reach(party(roots={"listChanged": True}), 10)
        assert link is upstream.house is upstream.view(party("other"))
        assert how(upstream) == ("healthy", None)
        assert await upstream.reach(None, 1) is link
        await called(link, "exit")
        await until(lambda: how(upstream)[0] == "unhealthy")
        await until(lambda: how(upstream)[0] == "healthy")
    assert introduced(faults) == [({"roots": {"listChanged": True}}, "them")] * 2
    assert len(faults.entries("started")) == 2


async def test_the_house_goes_on_alone_when_it_asks_before_any_client(faults: Faults) -> None:
    async with reached(faults.stdio(), sole=True) as upstream:
        link = await upstream.reach(None, 10)
        assert link.health.state == "healthy"
        assert await upstream.reach(party(roots={}), 10) is link
    assert introduced(faults) == [({}, "us")]


async def test_to_wait_for_the_client_is_not_to_be_late(faults: Faults) -> None:
    patience = Patience(start_s=1.0)
    async with reached(faults.stdio(), sole=True, patience=patience) as upstream:
        await asyncio.sleep(1.2)
        link = await upstream.reach(party(), 10)
        assert link.health.state == "healthy"
    assert len(faults.entries("started")) == 1


async def test_in_the_newer_era_there_is_nothing_to_wait_for(faults: Faults) -> None:
    async with reached(faults.stdio(era="modern"), sole=True) as upstream:
        assert how(upstream) == ("healthy", None)


async def gone(upstream: supervisor.Upstream) -> None:
    """The server is gone, and the link has found out."""
    await asyncio.sleep(0.05)  # the end of the old connection arrives
    while how(upstream)[0] == "healthy":
        _ = await called(upstream.house, "echo")
    await until(lambda: upstream.counts["restarts"] > 1)
    assert how(upstream) == ("unhealthy", "the upstream cannot be reached: connection refused")


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_the_only_client_is_known_to_whichever_server_comes_next(faults: Faults, era: str) -> None:
    with ExitStack() as server:
        spec = server.enter_context(faults.http(era="modern"))
        async with reached(spec, sole=True) as upstream:
            assert upstream.view(party(modern=True)) is upstream.house
            server.close()
            await gone(upstream)
            server.enter_context(faults.http(era=era, port=urlsplit(spec.url).port or 0))
            await until(lambda: how(upstream) == ("healthy", None))
    assert introduced(faults) == ([({}, "them")] if era == "legacy" else [])


async def test_who_is_not_there_is_tried_again_before_any_client_comes(faults: Faults) -> None:
    with ExitStack() as server:
        spec = server.enter_context(faults.http(era="modern"))
        async with reached(spec, sole=True) as upstream:
            server.close()
            await gone(upstream)
            server.enter_context(faults.http(era="modern", port=urlsplit(spec.url).port or 0))
            await until(lambda: how(upstream) == ("healthy", None))


async def test_who_exits_when_it_is_probed_meets_the_only_client_as_well(faults: Faults) -> None:
    async with reached(faults.stdio(start="shy"), sole=True) as upstream:
        link = await upstream.reach(party(), 10)
        assert link.health.state == "healthy"
    assert introduced(faults) == [({}, "them")]
