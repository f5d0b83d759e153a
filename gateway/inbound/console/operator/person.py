"""A decision is the person's, not their model's: what the client asks them, and what counts as their yes."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import AcceptedElicitation, Elicit, ElicitationResult
from mcp_types import CallToolResult
from starlette.requests import Request

from gateway.inbound.console.api.problems import Problem, not_there, problem_of
from gateway.inbound.console.operator import wording
from gateway.inbound.console.operator.answers import Recorded, Unasked, Unattended, Yes, refused, told
from gateway.inbound.console.visitor import Visitor, visitor_of
from gateway.model.packet import Packet
from gateway.model.review import Refused, Reviewer
from gateway.ports import LedgerUnavailable
from gateway.runtime.desk import Desk

Ctx: TypeAlias = Context[Any, Request]
Said: TypeAlias = ElicitationResult[Yes]


def reviewer(ctx: Ctx) -> Reviewer:
    """Whose assistant it is."""
    return replace(_visitor(ctx).reviewer, via="operator")


def _visitor(ctx: Ctx) -> Visitor:
    request = ctx.request_context.request
    if request is None:
        raise RuntimeError("a tool was called without a request")
    return visitor_of(request)


@dataclass(frozen=True, slots=True)
class Person:
    """How the person behind an assistant is asked."""

    desk: Desk
    pages: str
    """Where the console is, without a slash at its end."""

    async def asks(self, ctx: Ctx, name: str, action: str | None, worded: Callable[[Packet], str]) -> Yes | Elicit[Yes]:
        """The question that the client is to ask; or that nobody need be asked, or nobody can be."""
        try:
            packet = await self.desk.packet(name, reviewer(ctx))
        except LedgerUnavailable as error:
            return Unasked(problem=problem_of(503, "ledger", str(error)))
        if (problem := _undecidable(packet, action)) is not None or packet is None:
            return Unasked(problem=problem or not_there())
        if _visitor(ctx).unattended:
            return Unattended()
        text = worded(packet)
        if not _can_ask(ctx) or len(text) > wording.MAX_CHARS:
            return Unasked(problem=self._elsewhere(packet, name, asks=_can_ask(ctx)))
        return Elicit(text, Yes)

    def _elsewhere(self, packet: Packet, name: str, *, asks: bool) -> Problem:
        why = "this is too long to be asked about here" if asks else "this client cannot ask you anything"
        return problem_of(403, "not_asked", f"{why}: decide it yourself at {self.address(packet, name)}")

    def address(self, packet: Packet, name: str) -> str:
        """The page on which it can be decided."""
        kind = {"approval": "approvals", "attempt": "attempts", "run": "runs"}[packet.about]
        return f"{self.pages}/{kind}/{name}"


def _can_ask(ctx: Ctx) -> bool:
    """Whether the client shows forms; a bare `elicitation: {}` means that it does [MCP, elicitation]."""
    declared = ctx.client_capabilities
    asks = declared.elicitation if declared is not None else None
    return asks is not None and (asks.form is not None or asks.url is None)


def _undecidable(packet: Packet | None, action: str | None) -> Problem | None:
    """Why no person need be bothered."""
    if packet is None:
        return not_there()
    if action is not None and packet.action != action:
        return problem_of(409, "action", "this is not the digest of what is asked now: look at it again")
    if action is not None and packet.state != "awaiting":
        return problem_of(409, "decided", f"the question waits no more: it is {packet.state}")
    return None


async def recorded(said: Said, record: Callable[[], Awaitable[Recorded]]) -> CallToolResult:
    """What became of it: recorded only on a person's yes."""
    if not isinstance(said, AcceptedElicitation):
        how = "said no to it" if said.action == "decline" else "gave no answer"
        return told(Recorded(recorded=False, says=f"the person {how}: nothing was recorded"))
    if isinstance(said.data, Unasked):
        return refused(said.data.problem)
    if not said.data.agree:
        return told(Recorded(recorded=False, says="the person did not agree: nothing was recorded"))
    try:
        return told(await record())
    except Refused as error:
        return refused(error)
    except LedgerUnavailable as error:
        return refused(problem_of(503, "ledger", str(error)))
