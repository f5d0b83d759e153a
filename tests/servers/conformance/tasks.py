"""The tasks extension: tools whose result is fetched later [MCP 2026-07-28, io.modelcontextprotocol/tasks].

The SDK does not have it, so this is the wire itself. A tool that can be a task is one when the client declared the
extension on this very request; otherwise it is awaited in the ordinary way, or refused if it makes no sense so.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from mcp import types
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import decode_header_value
from mcp.types import HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS

from tests.servers.conformance.asking import filled, form, questions, talked
from tests.servers.conformance.wire import MODERN, Asked, Json, Tool, declared, require, result, said, schema

EXTENSION = "io.modelcontextprotocol/tasks"
NEEDED: Json = {"extensions": {EXTENSION: {}}}

TTL = timedelta(minutes=2)
POLL_MS = 200
MAX_WAIT_S = 60.0
"""No task works or waits for answers longer."""
MAX_TASKS = 1000


@dataclass
class Task:
    """One call that goes on after its answer."""

    status: str = "working"
    task_id: str = field(default_factory=lambda: secrets.token_urlsafe(16))
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    updated: datetime = field(default_factory=lambda: datetime.now(UTC))
    outcome: Json = field(default_factory=dict)
    """`result` or `error`, once it has ended."""
    asks: Json = field(default_factory=dict)
    """The questions that nobody has answered yet."""
    answers: Json = field(default_factory=dict)
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    going: "asyncio.Task[None] | None" = None

    def told(self) -> Json:
        """What every message about it says."""
        return {
            "taskId": self.task_id,
            "status": self.status,
            "createdAt": self.created.isoformat(),
            "lastUpdatedAt": self.updated.isoformat(),
            "ttlMs": int(TTL.total_seconds() * 1000),
            "pollIntervalMs": POLL_MS,
        }

    def become(self, status: str, **outcome: Any) -> None:
        """It is in that status, unless it has ended already."""
        if self.status not in {"completed", "failed", "cancelled"}:
            self.status, self.outcome, self.updated = status, outcome, datetime.now(UTC)

    async def ask(self, asks: Json) -> Json:
        """All answers; until then the task says that it needs input."""
        self.asks, self.answers = dict(asks), {}
        self.answered.clear()
        self.become("input_required")
        await self.answered.wait()
        return self.answers

    def answer(self, answers: Json) -> None:
        """The answers to open questions have been taken; the others are nobody's."""
        for key in answers.keys() & self.asks.keys():
            self.answers[key] = answers[key]
            del self.asks[key]
        if self.status == "input_required" and not self.asks:
            self.become("working")
            self.answered.set()


Work: TypeAlias = Callable[[Task | None, Json], Awaitable[Json]]
"""(the task, or None if the caller waits; arguments) -> the result of the tool."""


class TaskParams(types.RequestParams):
    """`tasks/get` and `tasks/cancel`."""

    task_id: str


class UpdateParams(TaskParams):
    """`tasks/update`."""

    input_responses: Json


class Tasks:
    """All tasks of one process."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}

    def serve(self, server: Server[Any]) -> None:
        """The server has the extension."""
        server.extensions[EXTENSION] = {}
        server.add_request_handler("tasks/get", TaskParams, self.get)
        server.add_request_handler("tasks/cancel", TaskParams, self.cancel)
        server.add_request_handler("tasks/update", UpdateParams, self.update)

    async def start(self, work: Work, arguments: Json) -> Json:
        """The work has begun, and its task can be asked for."""
        now = datetime.now(UTC)
        self._tasks = {key: task for key, task in self._tasks.items() if task.created + TTL > now}
        if len(self._tasks) >= MAX_TASKS:
            raise MCPError(INTERNAL_ERROR, "too many tasks")
        task = Task()
        self._tasks[task.task_id] = task
        task.going = asyncio.create_task(_carry(task, work, arguments))
        return {"resultType": "task", **task.told()}

    async def get(self, asked: Asked, params: TaskParams) -> Json:
        task = self._find(asked, params)
        return {**task.told(), **task.outcome} | ({"inputRequests": task.asks} if task.asks else {})

    async def cancel(self, asked: Asked, params: TaskParams) -> Json:
        task = self._find(asked, params)
        task.asks = {}
        task.become("cancelled")
        if task.going is not None:
            task.going.cancel()
        return {}

    async def update(self, asked: Asked, params: UpdateParams) -> Json:
        self._find(asked, params).answer(params.input_responses)
        return {}

    def _find(self, asked: Asked, params: TaskParams) -> Task:
        require(asked, NEEDED)
        if asked.request is not None:  # over HTTP the name is said twice [SEP-2663, routing headers]
            name = asked.request.headers.get("mcp-name")
            if name is None or decode_header_value(name) != params.task_id:
                raise MCPError(HEADER_MISMATCH, "Mcp-Name is not the task of the body")
        if (task := self._tasks.get(params.task_id)) is None:
            raise MCPError(INVALID_PARAMS, "no such task")
        return task

    def tool(self, description: str, work: Work, arguments: Json | None = None, *, only: bool = False) -> Tool:
        """A tool that does its work as a task where it can, and `only` so where it says that."""

        async def run(asked: Asked, given: Json) -> Json:
            if asked.protocol_version == MODERN and EXTENSION in declared(asked).get("extensions", {}):
                return await self.start(work, given)
            if only:
                require(asked, NEEDED)
                raise MCPError(INVALID_PARAMS, "this version of the protocol has no such tasks")
            return await work(None, given)

        return Tool(description, run, arguments or schema())

    def after_asking(self, description: str) -> Tool:
        """A tool that first asks, in rounds, and is a task only then."""

        async def run(asked: Asked, given: Json) -> Json:
            require(asked, NEEDED)
            name = ""

            def talk(_: Json, answers: Json, __: str | None) -> Json:
                nonlocal name
                if "user_name" not in answers:
                    return questions({"user_name": form("What is your name?", schema(name={"type": "string"}))})
                name = filled(answers["user_name"], "name")
                return {}

            async def greet(_: Task | None, __: Json) -> Json:
                return result(said(f"Hello, {name}, at last!"))

            return await talked(asked, given, talk) or await self.start(greet, given)

        return Tool(description, run, schema())

    def tools(self) -> dict[str, Tool]:
        """What the suite wants to find."""
        return {
            "greet": Tool("Greets, at once", greet, schema(name={"type": "string"})),
            "slow_compute": self.tool(
                "Takes its time",
                slow_compute,
                schema(seconds={"type": "number"}, label={"type": "string", "default": ""}),
            ),
            "failing_job": self.tool("Fails after a while", failing_job, only=True),
            "protocol_error_job": self.tool("Breaks after a while", protocol_error_job),
            "confirm_delete": self.tool(
                "Asks before it would delete", confirm_delete, schema(filename={"type": "string"}), only=True
            ),
            "multi_input": self.tool("Asks two things", multi_input, only=True),
            "test_tool_with_task": self.after_asking("Asks for a name, then greets later"),
        }


async def _carry(task: Task, work: Work, arguments: Json) -> None:
    try:
        async with asyncio.timeout(MAX_WAIT_S):
            done = await work(task, arguments)
    except MCPError as error:
        task.become("failed", error={"code": error.error.code, "message": error.error.message})
    except TimeoutError:
        task.become("failed", error={"code": INTERNAL_ERROR, "message": "it took too long"})
    else:
        task.become("completed", result=done)
    finally:
        task.asks = {}


async def greet(_: Asked, arguments: Json) -> Json:
    return result(said(f"Hello, {arguments['name']}!"))


async def slow_compute(_: Task | None, arguments: Json) -> Json:
    await asyncio.sleep(min(float(arguments["seconds"]), MAX_WAIT_S))
    return result(said(f"computed {arguments.get('label', '')}"))


async def failing_job(_: Task | None, __: Json) -> Json:
    await asyncio.sleep(1)
    return result(said("the job failed"), isError=True)


async def protocol_error_job(_: Task | None, __: Json) -> Json:
    await asyncio.sleep(POLL_MS / 1000)
    raise MCPError(INTERNAL_ERROR, "the job broke")


async def confirm_delete(task: Task | None, arguments: Json) -> Json:
    assert task is not None
    ask = form(f"Delete {arguments['filename']}?", schema(confirm={"type": "boolean"}))
    answers = await task.ask({f"confirm-{secrets.token_hex(4)}": ask})
    sure = any(filled(answer, "confirm", "") is True for answer in answers.values())
    return result(said(f"{arguments['filename']} {'deleted' if sure else 'kept'}"))


async def multi_input(task: Task | None, _: Json) -> Json:
    assert task is not None
    asks = {
        f"{word}-{secrets.token_hex(4)}": form(f"Your {word}?", schema(name={"type": "string"}))
        for word in ("first", "second")
    }
    answers = await task.ask(asks)
    return result(said(", ".join(str(filled(answers[key], "name")) for key in asks)))
