"""The stdio door in a process of its own, with the SDK's client and with bytes."""

import json
import os
import pwd
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import Client, MCPError, StdioServerParameters, types

from gateway.inbound.mcp.pipes import MAX_LINE_BYTES
from tests.inbound.served import ENVELOPE
from tests.logs import whole_lines

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "tests.inbound.stdio_server"]
ENV = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
LOOPS = pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
START_S = 20.0
"""A process, with all that it imports, on a busy machine."""


@dataclass
class Pipe:
    """The process, spoken to in lines."""

    process: Process
    lines: BufferedByteReceiveStream
    log: Path

    async def say(self, message: Any) -> None:
        """A message; bytes are said as they are, with the newline."""
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        assert self.process.stdin is not None
        await self.process.stdin.send(data + b"\n")

    async def hear(self) -> Any:
        with anyio.fail_after(START_S):
            return json.loads(await self.lines.receive_until(b"\n", 8_000_000))

    async def ask(self, message: Any) -> Any:
        await self.say(message)
        return await self.hear()

    async def initialize(self) -> Any:
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "old", "version": "2"}}
        heard = await self.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        await self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return heard

    def noted(self) -> list[Any]:
        """What the relay has seen up to now."""
        return [json.loads(line) for line in whole_lines(self.log)]

    async def until(self, what: str, *, times: int = 1) -> None:
        """Return once the relay has seen that."""
        with anyio.fail_after(START_S):
            while [kind for kind, _ in self.noted()].count(what) < times:
                await anyio.sleep(0.01)

    async def end(self) -> list[str]:
        """Close stdin; what the relay had seen when the process had ended of itself."""
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        with anyio.fail_after(START_S):
            assert await self.process.wait() == 0
        return [kind for kind, _ in self.noted()]


@asynccontextmanager
async def pipe(tmp_path: Path, *, loop: str = "asyncio", **options: Any) -> AsyncIterator[Pipe]:
    log = tmp_path / "log"
    command = [*COMMAND, str(log), f"--{loop}"]
    async with await anyio.open_process(command, cwd=ROOT, env=ENV, stderr=subprocess.PIPE, **options) as process:
        try:
            # Without a stdout of its own the lines are read elsewhere, and this reads the errors.
            yield Pipe(process, BufferedByteReceiveStream(process.stdout or process.stderr), log)  # type: ignore[arg-type]
            if process.stdin is not None:
                await process.stdin.aclose()
            with anyio.fail_after(START_S):
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()


@pytest.fixture(scope="module")
async def one_process(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pipe]:
    """A modern client's process, for all tests that leave it as it was."""
    async with pipe(tmp_path_factory.mktemp("stdio")) as started:
        yield started


@pytest.fixture
async def spoken(one_process: Pipe) -> Pipe:
    """The shared process, with nothing under way and an empty log."""
    discover = {"jsonrpc": "2.0", "id": "start", "method": "server/discover", "params": {"_meta": ENVELOPE}}
    assert (await one_process.ask(discover))["id"] == "start"
    one_process.log.write_text("")
    return one_process


def call(name: str, arguments: Any = None, request_id: Any = 1, meta: Mapping[str, Any] = ENVELOPE) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments or {}, "_meta": dict(meta)}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_the_sdk_client_lists_and_calls(tmp_path: Path, mode: str, version: str) -> None:
    heard: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
        heard.append(progress)

    server = StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], str(tmp_path / "log")], cwd=ROOT)
    with anyio.fail_after(START_S):
        async with Client(server, mode=mode) as client:
            assert client.protocol_version == version
            assert [tool.name for tool in (await client.list_tools()).tools][:2] == ["echo", "progress"]
            result = await client.call_tool("echo", {"n": 2**70, "f": 1.0})
            assert repr(result.structured_content) == repr({"n": 2**70, "f": 1.0})
            await client.call_tool("progress", {}, progress_callback=on_progress)
            with pytest.raises(MCPError) as error:
                await client.call_tool("", {})
            assert error.value.code == -32602
    assert heard == [1, 2, 3]
    noted = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    user = f"local:{pwd.getpwuid(os.getuid()).pw_name}"
    closed = ["closed", [user, version if mode == "legacy" else None, 0]]
    assert noted == [["delivered", "echo"], ["delivered", "progress"], closed, ["ended", None]]


async def test_a_legacy_client_is_asked_and_answers(tmp_path: Path) -> None:
    async def on_elicit(context: Any, params: Any) -> types.ElicitResult:  # noqa: ARG001
        return types.ElicitResult(action="accept", content={"name": params.message})

    server = StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], str(tmp_path / "log")], cwd=ROOT)
    with anyio.fail_after(START_S):
        async with Client(server, mode="legacy", elicitation_callback=on_elicit) as client:
            result = await client.call_tool("elicit", {})
    assert result.content[0].text == '{"action":"accept","content":{"name":"Who?"}}'  # type: ignore[union-attr]


ARGUMENTS = '{"big":123456789012345678901234567890,"f":1.0,"zero":-0.0,"null":null,"s":"\\ud83d\\ude00\\u2028"}'


async def test_the_relay_sees_what_was_sent_and_the_client_what_was_answered(spoken: Pipe) -> None:
    body = json.dumps(call("seen")).replace('"arguments": {}', f'"arguments": {ARGUMENTS}')
    await spoken.say(body.encode())
    with anyio.fail_after(START_S):
        line = await spoken.lines.receive_until(b"\n", 100_000)
    assert b'"f":1.0' in line
    assert "\u2028".encode() not in line
    assert repr(json.loads(line)["result"]["structuredContent"]) == repr(json.loads(ARGUMENTS))
    assert ["proposed", repr(json.loads(ARGUMENTS))] in spoken.noted()


async def test_what_is_refused_is_answered_and_costs_one_message(spoken: Pipe) -> None:
    cases: list[tuple[bytes, int, Any]] = [
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"seen","name":"danger"}}', -32700, 7),
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"seen","Name":"danger"}}', -32600, 7),
        (
            b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"seen","arguments":{"a":NaN}}}',
            -32700,
            7,
        ),
        (json.dumps([call("seen"), call("seen")]).encode(), -32600, None),
        (b"[]", -32600, None),
        (b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"seen"}}', -32600, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","result":{}}', -32600, 7),
        (b"\xff\xfe{\x00}\x00", -32700, None),
        (b"not json", -32700, None),
        (b"[" * 100_000, -32700, None),
    ]
    for body, code, echoed in cases:
        heard = await spoken.ask(body)
        assert (heard["error"]["code"], heard["id"]) == (code, echoed), body[:80]
    heard = await spoken.ask(b"\n \r\n" + json.dumps(call("seen", {"n": 1})).encode() + b"\r")
    assert heard["result"]["structuredContent"] == {"n": 1}
    await spoken.until("delivered")
    assert [kind for kind, _ in spoken.noted()] == ["proposed", "delivered"]


async def test_an_answer_that_nobody_asked_for_is_dropped(spoken: Pipe) -> None:
    await spoken.say({"jsonrpc": "2.0", "id": 1, "result": {}})
    await spoken.say({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "m"}})
    assert (await spoken.ask(call("seen")))["id"] == 1


async def test_a_line_without_end_is_not_kept(spoken: Pipe) -> None:
    heard = await spoken.ask(b'{"a":"' + b"x" * (MAX_LINE_BYTES + 200_000))
    assert (heard["error"]["code"], heard["id"]) == (-32600, None)
    assert (await spoken.ask(call("seen")))["id"] == 1


async def test_nothing_else_gets_onto_stdout_or_out_of_stdin(spoken: Pipe) -> None:
    assert (await spoken.ask(call("noisy")))["result"]["content"] == [{"type": "text", "text": "quiet"}]
    assert (await spoken.ask(call("seen")))["id"] == 1
    assert spoken.process.stderr is not None
    said = b""
    with anyio.fail_after(START_S):
        while any(noise not in said for noise in (b"before the door opens", b"printed", b"written", b"from a child")):
            said += await spoken.process.stderr.receive()


async def test_a_client_that_has_not_introduced_itself_is_not_served(tmp_path: Path) -> None:
    async with pipe(tmp_path) as spoken:
        heard = await spoken.ask(call("seen", meta={}))
        assert heard["error"]["code"] == -32600
        assert spoken.noted() == []


async def test_a_process_that_opened_as_legacy_stays_so(tmp_path: Path) -> None:
    async with pipe(tmp_path) as spoken:
        assert (await spoken.initialize())["result"]["protocolVersion"] == "2025-06-18"
        assert (await spoken.ask(call("seen", {"n": 1}, 5, {})))["result"]["structuredContent"] == {"n": 1}
        assert (await spoken.ask(call("seen", {}, 6)))["error"]["code"] == -32600


async def test_a_process_that_opened_as_modern_stays_so(spoken: Pipe) -> None:
    assert (await spoken.initialize())["error"]["code"] == -32022
    assert (await spoken.ask(call("seen", {}, 6)))["id"] == 6


async def test_an_id_is_not_in_use_twice(spoken: Pipe) -> None:
    await spoken.say(call("slow", request_id=1))
    await spoken.until("began")
    refused = await spoken.ask(call("seen", request_id="1"))
    assert refused["error"]["message"] == "a request with that id is still under way"
    await spoken.say(call("go", request_id=2))
    assert {(await spoken.hear())["id"] for _ in range(2)} == {1, 2}
    assert (await spoken.ask(call("seen", request_id=1)))["id"] == 1


async def test_a_cancelled_request_is_not_answered_and_not_delivered(spoken: Pipe) -> None:
    await spoken.say(call("slow", request_id=1))
    await spoken.until("began")
    await spoken.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    assert (await spoken.ask(call("go", request_id=2)))["id"] == 2
    await spoken.until("finished")
    assert (await spoken.ask(call("seen", request_id=1)))["result"]["structuredContent"] == {}
    await spoken.ask(call("echo"))  # so that what went before has been noted
    assert ["withdrawn", True] in spoken.noted()
    assert [shown for kind, shown in spoken.noted() if kind == "delivered"][:2] == ["go", "seen"]


async def test_a_client_that_has_gone_was_told_nothing(tmp_path: Path) -> None:
    async with pipe(tmp_path) as spoken:
        await spoken.say(call("slow"))
        await spoken.until("began")
        assert await spoken.end() == ["began", "withdrawn", "closed", "ended"]


@LOOPS
async def test_a_whole_conversation_may_be_piped_in(tmp_path: Path, loop: str) -> None:
    params = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "sh", "version": "1"}}
    said = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        call("echo", {"n": 1}, 2, {}),
    ]
    async with pipe(tmp_path, loop=loop) as spoken:
        await spoken.say("\n".join(json.dumps(message) for message in said).encode())
        assert spoken.process.stdin is not None
        await spoken.process.stdin.aclose()
        assert {(heard := await spoken.hear())["id"]: "result" in heard for _ in range(3)} == {
            0: True,
            1: True,
            2: True,
        }


async def test_what_nobody_reads_is_lost_and_an_answer_never(spoken: Pipe) -> None:
    await spoken.say(call("chatty"))
    await spoken.say(call("seen", request_id=2))
    await spoken.until("proposed")
    heard = [await spoken.hear()]
    while heard[-1].get("id") != 2:
        heard.append(await spoken.hear())
    numbers = [message["params"]["number"] for message in heard if "params" in message]
    assert numbers == list(range(len(numbers)))
    assert 3 < len(numbers) < 8
    assert [message["id"] for message in heard if "id" in message] == [1, 2]


async def test_a_relay_that_fails_or_says_what_is_no_json_costs_one_request(spoken: Pipe) -> None:
    for arguments in ({}, {"a": 1}):
        heard = await spoken.ask(call("broken", arguments))
        assert (heard["id"], heard["error"]) == (1, {"code": -32603, "message": "internal error"})
    assert (await spoken.ask(call("seen")))["id"] == 1
    assert "broken" not in [detail for kind, detail in spoken.noted() if kind == "delivered"]


async def test_a_client_that_no_longer_listens_ends_the_process(tmp_path: Path) -> None:
    ours, theirs = os.pipe()
    async with pipe(tmp_path, stdout=theirs) as spoken:
        os.close(theirs)
        await spoken.say(call("slow"))
        await spoken.until("began")
        os.close(ours)
        await spoken.say(call("go", request_id=2))
        with anyio.fail_after(START_S):
            assert await spoken.process.wait() == 0
        kinds = [kind for kind, _ in spoken.noted()]
        assert (kinds.count("finished"), kinds.count("delivered"), kinds[-1]) == (1, 0, "ended")


async def test_an_answer_longer_than_the_pipe_arrives_and_is_delivered_only_then(spoken: Pipe) -> None:
    await spoken.say(call("big"))
    await spoken.say(call("seen", request_id=2))
    await spoken.until("proposed")  # read while the first answer is stuck
    assert "delivered" not in [kind for kind, _ in spoken.noted()]
    assert len((await spoken.hear())["result"]["content"][0]["text"]) == 3_000_000
    assert (await spoken.hear())["id"] == 2
    await spoken.until("delivered")


async def test_an_answer_that_was_cancelled_on_its_way_out_is_not_delivered(spoken: Pipe) -> None:
    await spoken.say(call("big"))
    await spoken.say(call("seen", request_id=2))
    await spoken.until("proposed")
    await spoken.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    await spoken.say(call("seen", request_id=3))
    await spoken.until("proposed", times=2)  # so the cancel has been read
    assert [(await spoken.hear())["id"] for _ in range(3)] == [1, 2, 3]
    await spoken.ask(call("echo"))
    assert "big" not in [detail for kind, detail in spoken.noted() if kind == "delivered"]


@LOOPS
async def test_stdin_may_be_a_file(tmp_path: Path, loop: str) -> None:
    asked = tmp_path / "in"
    asked.write_text(json.dumps(call("seen")) + "\n[]")
    with asked.open("rb") as source:
        async with pipe(tmp_path, loop=loop, stdin=source) as spoken:
            # What was asked last is still answered; a call that is under way when stdin ends may not be.
            while (heard := await spoken.hear()).get("id") is not None:
                pass
            assert heard["error"]["code"] == -32600
            with anyio.fail_after(START_S):
                assert await spoken.process.wait() == 0


@LOOPS
async def test_stdout_may_be_a_file(tmp_path: Path, loop: str) -> None:
    answered = tmp_path / "out"
    with answered.open("wb") as sink:
        async with pipe(tmp_path, loop=loop, stdout=sink) as spoken:
            await spoken.say(call("seen"))
            await spoken.until("delivered")
            await spoken.end()
    assert json.loads(answered.read_text())["id"] == 1
