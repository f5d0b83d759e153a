"""`tools/call`: a proposal for the gate, and what the gate shows, in the words of the client's era."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from gateway.inbound.mcp import results
from gateway.inbound.mcp.asking import Asking
from gateway.inbound.mcp.callers import LegacyCaller
from gateway.inbound.mcp.faults import URL_ELICITATION, Fault
from gateway.inbound.mcp.holds import Holds
from gateway.inbound.mcp.identity import Runs
from gateway.inbound.mcp.ladder import Ladder
from gateway.inbound.mcp.own_tools import APPROVAL, OWN_TOOLS, RESULT, BadArguments, House, OwnTool
from gateway.inbound.mcp.ports import Gate, Offers
from gateway.inbound.mcp.proposals import propose
from gateway.inbound.mcp.rounds import Rounds
from gateway.inbound.mcp.seals import Seals
from gateway.inbound.mcp.stopped import check_not_stopped
from gateway.inbound.mcp.tasks import Tasks
from gateway.model.answer import Shown
from gateway.model.canonical import digest
from gateway.model.events import Outcome
from gateway.model.proposal import Proposal, Resume
from gateway.outbound.upstream.sdk import validate_mcp_param_headers
from gateway.ports import LedgerUnavailable, NoSuchRun


class Calls:
    """Answers `tools/call`."""

    def __init__(self, gate: Gate, offers: Offers, runs: Runs, seals: Seals, tasks: Tasks) -> None:
        self._gate = gate
        self._offers = offers
        self._runs = runs
        self._tasks = tasks
        self.holds = Holds(gate)
        """Calls that wait for a person with their client."""
        self._ladder = Ladder(gate, seals, tasks, self.holds)
        self._house = House(gate, offers, runs, self.holds)
        self._rounds: Rounds[Shown | dict[str, Any]] = Rounds(seals)

    def close(self) -> None:
        """Nobody waits for a client any more."""
        self.holds.close()
        self._rounds.close()

    async def call(self, asking: Asking) -> dict[str, Any]:
        """The result of the call, or of this round of it."""
        own = OWN_TOOLS.get(name) if isinstance(name := asking.params.get("name"), str) else None
        if own is not None:
            return await self._own(asking, own)
        proposal = propose(asking.exchange, asking.client.attribution, self._gate.salt)
        self._check_param_headers(asking, proposal)
        opened = self._rounds.open(asking) if asking.modern else None
        kind, state = opened if opened is not None else ("first", {})
        if kind == "parked":
            upstream = self._offers.owner_of(proposal.tool, asking.party) or ""
            await check_not_stopped(self._gate, proposal.principal, (upstream,), tool=proposal.tool)
            return self._told(asking, await self._rounds.go_on(asking, state["name"]))
        try:
            run = await self._runs.run_of(asking.exchange, asking.client)
        except LedgerUnavailable as error:
            return results.refused(results.ledger_unavailable(proposal.tool, str(error)))
        except NoSuchRun as error:
            return results.refused(results.no_such_run(proposal.tool, str(error)))
        if kind == "asked":
            answered = partial(self._ladder.answered, asking, proposal.within(state["run"], {}, None), state)
            return self._told(asking, await self._rounds.first(asking, answered))
        more, resumes = _brought(asking, state), None
        if kind == "round":
            run, resumes = state["run"], Resume(state["attempt"], state["round"], digest(more, self._gate.salt))
        proposal = proposal.within(run, more, resumes)
        if asking.modern:
            return self._told(asking, await self._rounds.first(asking, partial(self._ladder.call, asking, proposal)))
        return self._told(asking, await self._ladder.call(asking, proposal, LegacyCaller(asking)))

    async def _own(self, asking: Asking, own: OwnTool[Any]) -> dict[str, Any]:
        try:
            told = await own.answer(self._house, asking, own.read(asking.params.get("arguments")))
        except BadArguments as error:
            return results.refused(results.bad_arguments(own.name, str(error), error.violations))
        except LedgerUnavailable as error:
            return results.refused(results.ledger_unavailable(own.name, str(error)))
        except NoSuchRun as error:
            unknown = _UNKNOWN.get(own.name, results.no_such_run)
            return results.refused(unknown(own.name, str(error)))
        return self._told(asking, told)

    def _check_param_headers(self, asking: Asking, proposal: Proposal) -> None:
        """What HTTP says of arguments is what the body says [SEP-2243]."""
        if not asking.modern or asking.exchange.transport != "http":
            return
        schema = self._offers.mirrored(proposal.tool, asking.party)
        if schema is None:
            return
        rejected = validate_mcp_param_headers(schema, proposal.arguments, asking.exchange.headers)
        if rejected is not None:
            more = {} if rejected.data is None else {"data": rejected.data}
            raise Fault(rejected.code, rejected.message, **more)

    # --- what is shown ------------------------------------------------------------------------------------------------

    def _told(self, asking: Asking, shown: Shown | dict[str, Any]) -> dict[str, Any]:
        if isinstance(shown, dict):
            return shown  # the next round, of a call that goes on
        asking.exchange.shown = shown
        if shown.awaits == "input":
            return self._next_round(asking, shown)
        if shown.awaits == "task":
            return self._tasks.started(asking, shown)
        in_flight = shown.refusal is not None and shown.refusal.outcome is Outcome.IN_FLIGHT
        if in_flight and asking.has_tasks and shown.attempt is not None and asking.params.get("name") != RESULT:
            return self._tasks.own(asking, shown.attempt)
        visit = self._to_visit(asking, shown)
        return visit if visit is not None else results.answered(shown)

    def _next_round(self, asking: Asking, shown: Shown) -> dict[str, Any]:
        result = results.answered(shown)
        inner = result.get("requestState")
        state = {"run": shown.run, "attempt": shown.attempt, "round": shown.round, "inner": inner}
        return {**result, "requestState": self._rounds.seal(asking, "round", state)}

    def _to_visit(self, asking: Asking, shown: Shown) -> dict[str, Any] | None:
        """In 2025-11-25 an error says which addresses to visit before the call is made again; now a round does."""
        error = shown.error
        if not asking.modern or error is None or error.get("code") != URL_ELICITATION:
            return None
        elicitation, data = asking.capabilities.get("elicitation"), error.get("data")
        listed = data.get("elicitations") if isinstance(data, Mapping) else None
        if not isinstance(elicitation, Mapping) or "url" not in elicitation or not isinstance(listed, list):
            return None
        asked = {
            f"visit-{number}": {"method": "elicitation/create", "params": _without_id(one)}
            for number, one in enumerate(listed, 1)
            if isinstance(one, Mapping)
        }
        state = self._rounds.seal(asking, "again", {})
        return {"resultType": "input_required", "inputRequests": asked, "requestState": state}


_UNKNOWN = {RESULT: results.no_such_attempt, APPROVAL: results.no_such_approval}
"""What is told where nothing is known by the name that an own tool was given."""


def _brought(asking: Asking, state: Mapping[str, Any]) -> dict[str, Any]:
    """What goes to the upstream beside the arguments: the client's answers, and the upstream's own state."""
    if not asking.modern:
        return {}
    brought = {key: asking.params[key] for key in ("inputResponses",) if key in asking.params}
    return brought | ({"requestState": state["inner"]} if state.get("inner") is not None else {})


def _without_id(elicitation: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in elicitation.items() if key != "elicitationId"}
