import anyio
import pytest

from gateway.model.party import Party
from gateway.model.tool import NotSent, Tool, ToolResult
from gateway.outbound.upstream.catalogue import Catalogue
from gateway.outbound.upstream.spec import HttpSpec, Patience, Spec, StdioSpec
from gateway.ports import Dispatch
from tests.upstream.faults import QUICK, Faults, alive, call, opened, until
from tests.upstream.scripted import Reply, Sent, answer, polite, scripted

PARTY = Party("test")
NOWHERE = "/nowhere/to/be/found"
WHY = f"`{NOWHERE}` cannot be started: no such file or directory"


async def test_definitions_are_as_sent_with_only_their_names_ours(faults: Faults) -> None:
    async with opened(faults.stdio("two"), faults.stdio("one"), prefix=True) as catalogue:
        names = [tool["name"] for tool in catalogue.tools()]
        tool = await catalogue.tool("one__echo")
        shown = catalogue.tools()[names.index("one__echo")]
    assert names[:2] == ["two__echo", "two__is_error"]
    assert [name.removeprefix("one__") for name in names[len(names) // 2 :]] == [
        name.removeprefix("two__") for name in names[: len(names) // 2]
    ]
    own = {"name": "echo", "inputSchema": {"type": "object"}, "x": 1.0}
    assert tool == Tool("one__echo", "one", "echo", own, headers=False)
    assert shown == {**own, "name": "one__echo"}
    assert list(shown) == list(own)


async def test_a_name_is_looked_up_exactly(faults: Faults) -> None:
    async with opened(faults.stdio()) as catalogue:
        for name in ("Echo", "echo ", "f__echo", "", "\uff45cho"):
            assert await catalogue.tool(name) is None


async def test_all_that_is_offered_is_there_once_every_upstream_is(faults: Faults) -> None:
    async with opened(faults.stdio("a"), prefix=True) as catalogue:
        tools, complete = await catalogue.offered()
        assert ([one.name for one in tools], complete) == ([one["name"] for one in catalogue.tools()], True)
    async with opened(faults.stdio("a"), StdioSpec("b", NOWHERE), prefix=True) as catalogue:
        assert (await catalogue.offered())[1] is False


async def test_names_that_collide_are_withheld_and_both_origins_are_told(
    faults: Faults, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(faults.stdio("a"), faults.stdio("b")) as catalogue:
        assert catalogue.tools() == []
        assert await catalogue.tool("echo") is None
        reason = "`echo` could be `echo` of `a` and `echo` of `b`"
        assert catalogue.health()["a"]["troubles"][0] == catalogue.health()["b"]["troubles"][0] == reason
    assert f"b: {reason}" in caplog.messages


async def test_a_dead_upstream_neither_delays_nor_hides_the_others(faults: Faults) -> None:
    dead = StdioSpec("dead", NOWHERE)
    hung = faults.stdio("hung", start="hang")
    patience = Patience(start_s=1.5, probe_s=0.5)
    begun = anyio.current_time()
    async with opened(dead, hung, faults.stdio("good"), prefix=True, patience=patience) as catalogue:
        assert 1.4 < anyio.current_time() - begun < 2.5
        assert isinstance(await call(catalogue, "good__echo"), ToolResult)
        assert await catalogue.tool("dead__x") == Tool("dead__x", "dead", "x", {}, healthy=False, trouble=WHY)
        trouble = "it did not come up within 1.5 s"
        assert await catalogue.tool("hung__x") == Tool("hung__x", "hung", "x", {}, healthy=False, trouble=trouble)
        assert await catalogue.tool("good__x") is None
        assert await catalogue.tool("nobody__x") is None
        assert await call(catalogue, "dead__x") == NotSent(f"the upstream `dead` is not there: {WHY}")
        states = {name: health["state"] for name, health in catalogue.health().items()}
    assert states == {"dead": "unhealthy", "hung": "unhealthy", "good": "healthy"}


async def test_beside_a_dead_upstream_a_snapshot_is_kept_and_headers_are_still_judged() -> None:
    mirror = {"type": "object", "properties": {"city": {"type": "string", "x-mcp-header": "City"}}}

    async def weather(sent: Sent, reply: Reply) -> None:
        if sent.asks == "tools/list":
            reply.plain(200, answer(sent, {"tools": [{"name": "w", "inputSchema": mirror}]}))
        elif not polite(sent, reply, {"tools": {}}):
            reply.plain(405)

    async with scripted(weather) as place:
        good, dead = HttpSpec("good", place.url), StdioSpec("dead", NOWHERE)
        async with opened(good, dead, prefix=True) as catalogue:
            await catalogue.reach(PARTY)
            assert catalogue.mirrored("good__w", PARTY) == mirror
            assert catalogue._view(PARTY) is catalogue._view(PARTY) is not None


async def test_the_only_upstream_owns_every_name(faults: Faults) -> None:
    async with opened(StdioSpec("dead", NOWHERE)) as catalogue:
        assert await catalogue.tool("any") == Tool("any", "dead", "any", {}, healthy=False, trouble=WHY)
    async with opened(StdioSpec("dead", NOWHERE), faults.stdio()) as catalogue:
        assert await catalogue.tool("any") is None
        assert catalogue.owner_of("echo") == "f"


async def test_the_longest_prefix_is_the_owner() -> None:
    async with opened(StdioSpec("a", NOWHERE), StdioSpec("a__b", NOWHERE), prefix=True) as catalogue:
        assert catalogue.owner_of("a__b__c") == "a__b"
        assert catalogue.owner_of("a__c") == "a"
        assert catalogue.owner_of("b__c") is None


async def test_the_tools_of_one_that_went_down_stay_listed(faults: Faults) -> None:
    async with opened(faults.stdio(), patience=Patience(first_pause_s=60, last_pause_s=60)) as catalogue:
        before = catalogue.tools()
        await call(catalogue, "exit")
        tool = await until(catalogue, "echo", healthy=False)
        assert catalogue.tools() == before
        assert tool == Tool(
            "echo", "f", "echo", before[0], healthy=False, trouble="it exited with status 3", headers=False
        )
        tools, complete = await catalogue.offered()
        assert ([one.name for one in tools], complete) == ([one["name"] for one in before], False)


async def test_a_call_to_nobody_is_not_sent(faults: Faults) -> None:
    async with opened(faults.stdio()) as catalogue:
        answer = await catalogue.call(Dispatch(Tool("x", "nobody", "x", {}), {}, 1.0))
    assert answer == NotSent("there is no upstream `nobody`")


async def test_instructions_stand_under_the_name_of_their_upstream(faults: Faults) -> None:
    async with opened(faults.stdio()) as catalogue:
        assert catalogue.instructions(PARTY) == "be careful"
    async with opened(faults.stdio("a"), StdioSpec("b", NOWHERE), faults.stdio("c"), prefix=True) as catalogue:
        missing = f"The server `b` cannot be used now: {WHY}."
        assert catalogue.instructions(PARTY) == f"# a\n\nbe careful\n\n# c\n\nbe careful\n\n{missing}"


async def test_health_says_all_that_is_known(faults: Faults) -> None:
    async with opened(
        faults.stdio(era="modern"), StdioSpec("dead", NOWHERE), prefix=True, patience=Patience()
    ) as catalogue:
        await call(catalogue, "f__echo")
        health = catalogue.health()
    assert health["f"] == {
        "state": "healthy",
        "reason": None,
        "personal": False,
        "era": "modern",
        "protocol_version": "2026-07-28",
        "server": {"name": "faults", "version": "1"},
        "tools": len(catalogue.tools()),
        "connections": 1,
        "troubles": [],
        "counts": {"calls": 1},
    }
    assert {key: health["dead"][key] for key in ("state", "reason", "era", "tools")} == {
        "state": "unhealthy",
        "reason": WHY,
        "era": None,
        "tools": 0,
    }


async def test_an_opening_that_is_given_up_leaves_nothing(faults: Faults) -> None:
    with anyio.move_on_after(1.0) as scope:
        await Catalogue.open([faults.stdio(start="hang"), faults.stdio("g")], prefix=True, patience=QUICK)
    assert scope.cancelled_caught
    assert [alive(pid) for pid in faults.entries("started")] == [[], []]


@pytest.mark.parametrize(
    ("specs", "reason"),
    [
        ([StdioSpec("a b", "x")], "the upstream name `a b` is not 1 to 32 of A-Z a-z 0-9 _ -"),
        ([StdioSpec("", "x")], "the upstream name `` is not 1 to 32 of A-Z a-z 0-9 _ -"),
        ([StdioSpec("a", "x"), HttpSpec("a", "http://h")], "two upstreams are named `a`"),
        (
            [StdioSpec("gateway", "x")],
            "no upstream can be named `gateway`: it is the prefix of the gateway's own tools",
        ),
        ([HttpSpec("a", "ftp://h")], "the address of the upstream `a` is not an http or https URL"),
        ([HttpSpec("a", "https://")], "the address of the upstream `a` is not an http or https URL"),
        ([HttpSpec("a", "http://h", {"X": "1\n"})], "the header `X` of the upstream `a` cannot be sent"),
    ],
)
async def test_specs_that_cannot_be_meant_are_refused(specs: list[Spec], reason: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the words are compared whole
        await Catalogue.open(specs, prefix=True)
    assert str(refused.value) == reason
