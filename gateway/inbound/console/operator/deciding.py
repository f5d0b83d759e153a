"""The tools with which an assistant brings a decision: each asks the person first, in their own client."""

from typing import Annotated

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.resolve import Elicit, Resolve
from mcp_types import CallToolResult, ToolAnnotations
from pydantic import Field

from gateway.inbound.console.api.telling import approval_out
from gateway.inbound.console.api.told import DigestText, Name, Reason
from gateway.inbound.console.operator import wording
from gateway.inbound.console.operator.answers import Recorded, Yes
from gateway.inbound.console.operator.person import Ctx, Person, Said, recorded, reviewer
from gateway.model.asked import MAX_S
from gateway.model.review import Answer, Reviewer, Settlement

DECIDES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)

Approval = Annotated[Name, Field(description="As `list_waiting` names it.")]
Action = Annotated[
    DigestText, Field(description="The packet's `action`, from `show_packet`: what the person was shown.")
]
Why = Annotated[Reason, Field(description="The person's own reason. Kept for ever, and told to the agent.")]
Known = Annotated[Reason, Field(min_length=1, description="How the person knows. Kept for ever.")]


def add_deciding(server: MCPServer, person: Person) -> None:
    """The server has these tools."""
    _add_approving(server, person)
    _add_refusing(server, person)
    _add_settling(server, person)
    _add_stopping(server, person)


def _add_approving(server: MCPServer, person: Person) -> None:
    async def asked(
        ctx: Ctx, approval: str, action: str, reason: str, times: int | None, for_s: float | None
    ) -> Yes | Elicit[Yes]:
        verb = wording.VERBS["approved"]
        return await person.asks(
            ctx, approval, action, lambda one: wording.decision(one, verb, reason, times=times, for_s=for_s)
        )

    @server.tool(title="Approve one exact call", annotations=DECIDES)
    async def approve(
        ctx: Ctx,
        said: Annotated[Said, Resolve(asked)],
        approval: Approval,
        action: Action,
        reason: Why = "",
        times: Annotated[
            int | None, Field(ge=1, le=10_000, description="For how many calls, where policy offers it.")
        ] = 1,
        for_s: Annotated[float | None, Field(gt=0, le=MAX_S, description="For how long, in seconds, likewise.")] = None,
    ) -> Annotated[CallToolResult, Recorded]:
        """The person agrees to this call. It runs nothing: the agent's next call is judged anew."""
        given = Answer(approval, action, "approved", reason, times, for_s)
        return await recorded(said, lambda: _decided(person, given, reviewer(ctx)))


def _add_refusing(server: MCPServer, person: Person) -> None:
    async def asked_to_reject(ctx: Ctx, approval: str, action: str, reason: str) -> Yes | Elicit[Yes]:
        verb = wording.VERBS["rejected"]
        return await person.asks(ctx, approval, action, lambda one: wording.decision(one, verb, reason))

    @server.tool(title="Reject one call", annotations=DECIDES)
    async def reject(
        ctx: Ctx, said: Annotated[Said, Resolve(asked_to_reject)], approval: Approval, action: Action, reason: Why = ""
    ) -> Annotated[CallToolResult, Recorded]:
        """The person refuses this call in its run."""
        given = Answer(approval, action, "rejected", reason)
        return await recorded(said, lambda: _decided(person, given, reviewer(ctx)))

    async def asked_to_return(ctx: Ctx, approval: str, action: str, wanted: str) -> Yes | Elicit[Yes]:
        verb = wording.VERBS["returned"]
        return await person.asks(ctx, approval, action, lambda one: wording.decision(one, verb, wanted))

    @server.tool(title="Ask for more evidence", annotations=DECIDES)
    async def return_for_evidence(
        ctx: Ctx,
        said: Annotated[Said, Resolve(asked_to_return)],
        approval: Approval,
        action: Action,
        wanted: Annotated[Reason, Field(min_length=1, description="Which evidence. Told to the agent.")],
    ) -> Annotated[CallToolResult, Recorded]:
        """The person wants to see more before they decide; the agent is told what."""
        given = Answer(approval, action, "returned", wanted)
        return await recorded(said, lambda: _decided(person, given, reviewer(ctx)))


def _add_settling(server: MCPServer, person: Person) -> None:
    async def asked(ctx: Ctx, attempt: str, what: Settlement, reason: str) -> Yes | Elicit[Yes]:
        return await person.asks(ctx, attempt, None, lambda one: wording.settlement(one, what, reason))

    @server.tool(title="Say what is known of an unknown outcome", annotations=DECIDES)
    async def settle_attempt(
        ctx: Ctx,
        said: Annotated[Said, Resolve(asked)],
        attempt: Annotated[Name, Field(description="As `list_waiting` names it.")],
        what: Settlement,
        reason: Known,
    ) -> Annotated[CallToolResult, Recorded]:
        """The person has looked at the real system and says what became of a call."""

        async def record() -> Recorded:
            await person.desk.settle(attempt, what, reviewer(ctx), reason)
            return Recorded(recorded=True, says=f"`{attempt}`: {what}")

        return await recorded(said, record)


def _add_stopping(server: MCPServer, person: Person) -> None:
    async def asked(ctx: Ctx, run: str, reason: str) -> Yes | Elicit[Yes]:
        return await person.asks(ctx, run, None, lambda one: wording.stopping(one, reason))

    @server.tool(title="Stop a run for good", annotations=DECIDES)
    async def stop_run(
        ctx: Ctx,
        said: Annotated[Said, Resolve(asked)],
        run: Annotated[Name, Field(description="Its id.")],
        reason: Known,
    ) -> Annotated[CallToolResult, Recorded]:
        """Nothing new is ever sent in that run."""

        async def record() -> Recorded:
            await person.desk.stop_run(run, reviewer(ctx), reason)
            return Recorded(recorded=True, says=f"run `{run}` is stopped")

        return await recorded(said, record)


async def _decided(person: Person, given: Answer, by: Reviewer) -> Recorded:
    done = await person.desk.decide(given, by)
    more = "" if done.complete else "; others must agree as well"
    return Recorded(recorded=True, says=f"{given.decision}{more}", approval=approval_out(done.approval))
