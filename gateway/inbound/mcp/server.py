"""One low-level server for both eras, and its one middleware: raw dicts in, raw dicts out.

The SDK's typed path drops what its models do not know, so no payload goes through them; what the middleware
does not answer itself, the SDK does (`initialize`, `ping`, unknown methods). Its seams are provisional:
`mcp` is pinned, and the tests of this room are the contract.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from gateway.inbound.mcp import results
from gateway.inbound.mcp.envelope import meta_of, params_of
from gateway.inbound.mcp.exchange import Exchange, exchange_of
from gateway.inbound.mcp.identity import Runs, client_of
from gateway.inbound.mcp.ports import Gate, Tools
from gateway.inbound.mcp.proposals import propose
from gateway.ports import LedgerUnavailable, NoSuchRun

_LOG = logging.getLogger("counterfoil.inbound")

NAME = "counterfoil"

INSTRUCTIONS = """\
Counterfoil stands between you and these tools. What it lets through is answered by the tool itself. What it \
refuses or holds comes back as an error result that is one JSON object: `outcome` says what was decided; \
`executed` (true, false or "unknown") whether the effect happened; `terminal: true` that this task is over; \
`next` what you may do now.
Never retry or work around a terminal result: stop and report it. Never repeat a call whose `executed` is \
"unknown" in another form. `needs_approval` is no failure: tell the user where to approve, and later repeat \
the call unchanged."""

Ctx = ServerRequestContext[Any, Any]
Tell = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """One request, for whoever observes it."""

    method: str
    tool: str | None
    era: Literal["legacy", "modern"]
    protocol_version: str
    transport: Literal["http", "stdio"]
    request_id: str | int
    session: str | None
    """`Mcp-Session-Id`; never set for a modern client."""
    trace: Mapping[str, str]
    """`traceparent`, `tracestate`, `baggage`: from `_meta`, else from the HTTP headers; empty if neither has any."""


Observe = Callable[[RequestInfo], AbstractContextManager[Tell | None]]
"""Entered around each request; what it yields, if anything, is told the result. An error leaves as `MCPError`."""


def unobserved(_info: RequestInfo) -> AbstractContextManager[Tell | None]:
    """Nobody looks."""
    return nullcontext()


def build_server(
    *, gate: Gate, tools: Tools, runs: Runs, version: str, observe: Observe = unobserved
) -> "Server[dict[str, Any]]":
    """The server for one process and one transport; `Server.run` or a session manager drives it."""
    server: Server[dict[str, Any]] = Server(
        NAME,
        version=version,
        title="Counterfoil",
        # Without it the SDK runs tools/list before every tools/call, to check `Mcp-Param-*` headers.
        get_tool_input_schema=tools.schema_of,
        # Registered so that the capabilities say `tools` and nothing else. `listChanged` stays false, as is true.
        on_list_tools=_never,
        on_call_tool=_never,
    )
    # In place of the SDK's OpenTelemetryMiddleware: its spans would double ours.
    server.middleware = [Relay(gate, tools, runs, server.server_info_stamp, observe)]
    return server


async def _never(*_: object) -> NoReturn:
    raise NotImplementedError("the middleware answers this method")


class Relay:
    """The middleware. `_methods` says who answers what; all else is the SDK's."""

    def __init__(self, gate: Gate, tools: Tools, runs: Runs, server_info: Mapping[str, Any], observe: Observe) -> None:
        self._gate = gate
        self._tools = tools
        self._runs = runs
        self._server_info = server_info
        self._observe = observe
        self._methods: Mapping[str, Callable[[Ctx, Exchange], Awaitable[dict[str, Any]]]] = {
            "tools/call": self._call,
            "tools/list": self._list,
        }

    async def __call__(self, ctx: Ctx, call_next: CallNext) -> HandlerResult:
        """The result of one message, or None for a notification."""
        if ctx.request_id is None:
            return await call_next(ctx)
        exchange = exchange_of(ctx.request)
        if exchange is None:
            raise MCPError(INTERNAL_ERROR, "internal error")  # around the door: what was sent was never checked
        with exchange.held(), self._observe(_info(ctx, exchange, ctx.request_id)) as tell:
            result = await self._answer(ctx, exchange, call_next)
            if tell is not None:
                tell(result)
        return result

    async def _answer(self, ctx: Ctx, exchange: Exchange, call_next: CallNext) -> dict[str, Any]:
        method = self._methods.get(ctx.method)
        try:
            if method is None:
                return self._introduced(ctx, await call_next(ctx))
            _require_introduction(ctx)
            result = await method(ctx, exchange)
        except MCPError:
            raise
        except Exception as error:
            if method is None and isinstance(error, ValidationError):
                raise  # the SDK's word for parameters that do not fit
            _LOG.exception("%s failed", ctx.method)
            raise MCPError(INTERNAL_ERROR, "internal error") from None
        return results.for_modern(result, self._server_info) if _modern(ctx) else results.for_legacy(result)

    async def _list(self, ctx: Ctx, exchange: Exchange) -> dict[str, Any]:
        if params_of(exchange.message).get("cursor") is not None:
            raise MCPError(INVALID_PARAMS, "the list has one page, so no cursor is known")
        return results.tool_list(await self._tools.tools(), modern=_modern(ctx))

    async def _call(self, ctx: Ctx, exchange: Exchange) -> dict[str, Any]:
        client = client_of(exchange, _introduction(ctx))
        proposal = propose(exchange, client.attribution, self._gate.salt)
        try:
            run = await self._runs.run_of(exchange, client)
        except LedgerUnavailable as error:
            return results.refused(results.ledger_unavailable(proposal.tool, str(error)))
        except NoSuchRun as error:
            return results.refused(results.no_such_run(proposal.tool, str(error)))
        exchange.shown = await self._gate.call(replace(proposal, run=run))
        return results.answered(exchange.shown)

    def _introduced(self, ctx: Ctx, result: HandlerResult) -> dict[str, Any]:
        """What the SDK answered; where it introduces us, with the instructions as they are now."""
        assert isinstance(result, dict)  # noqa: S101 - INVARIANT: inside the chain the SDK has serialised it
        if ctx.method not in {"initialize", "server/discover"}:
            return result
        parts = (INSTRUCTIONS, self._tools.instructions())
        return {**result, "instructions": "\n\n".join(part for part in parts if part)}


def _modern(ctx: Ctx) -> bool:
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def _require_introduction(ctx: Ctx) -> None:
    # The SDK's own check stands behind the methods that we answer ourselves.
    if not _modern(ctx) and ctx.session.client_params is None:
        raise MCPError(INVALID_REQUEST, "`initialize` comes first")


def _introduction(ctx: Ctx) -> Mapping[str, Any]:
    params = ctx.session.client_params
    return params.client_info.model_dump() if params is not None else {}


def _info(ctx: Ctx, exchange: Exchange, request_id: str | int) -> RequestInfo:
    tool = params_of(exchange.message).get("name") if ctx.method == "tools/call" else None
    meta = meta_of(exchange.message)
    carrier: Mapping[str, Any] = meta if isinstance(meta.get("traceparent"), str) else exchange.headers
    found = {name: carrier.get(name) for name in ("traceparent", "tracestate", "baggage")}
    return RequestInfo(
        method=ctx.method,
        tool=tool if isinstance(tool, str) else None,
        era="modern" if _modern(ctx) else "legacy",
        protocol_version=ctx.protocol_version,
        transport=exchange.transport,
        request_id=request_id,
        session=exchange.session,
        trace={name: value for name, value in found.items() if isinstance(value, str)},
    )
