"""What a client gets whose call waits for a person: the first of these that it can take.

    a task              it declared the tasks extension on this request: it polls, and a poll proposes the call again
    a form              policy lets its own user answer, and it can be asked by elicitation
    a short hold        it is told of progress, or known to wait long; the call is proposed again once a person decided
    `needs_approval`    with a handle, at once; `gateway__approval` asks again, and so does the call, repeated unchanged

An approval runs nothing. The call is proposed again, in the same words, only for a client that is there to hear what
comes of it and would still be let in, and is judged by how things stand then.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from gateway.inbound.mcp.asking import Asking
from gateway.inbound.mcp.callers import LegacyCaller, ModernCaller
from gateway.inbound.mcp.forms import METHOD, can_ask, form, said
from gateway.inbound.mcp.holds import Holds
from gateway.inbound.mcp.lag import Lag
from gateway.inbound.mcp.ports import Gate
from gateway.inbound.mcp.seals import Seals
from gateway.inbound.mcp.tasks import Tasks
from gateway.model.answer import Shown
from gateway.model.events import Outcome
from gateway.model.principal import Principal
from gateway.model.proposal import Proposal
from gateway.model.question import Question
from gateway.model.tool import ToolResult
from gateway.ports import LedgerUnavailable, NoSuchRun

ASKED_S = 600.0
"""How long a form may stay open; as long as a round of a modern client."""

Caller = LegacyCaller | ModernCaller


class Ladder:
    """Has calls judged, and waits for people with their clients. One for each relay."""

    def __init__(self, gate: Gate, seals: Seals, tasks: Tasks, holds: Holds) -> None:
        self._gate = gate
        self._seals = seals
        self._tasks = tasks
        self._holds = holds

    async def call(self, asking: Asking, proposal: Proposal, caller: Caller) -> Shown | dict[str, Any]:
        """What comes of the proposal, or the client's next step if a person must agree first."""
        shown = await self._gate.call(proposal, caller)
        question = await self._question(shown, proposal.principal)
        if question is None:
            return shown
        if asking.has_tasks and proposal.resumes is None:
            return self._tasks.asked(asking, proposal, question)
        if can_ask(asking, question):
            if isinstance(caller, ModernCaller):
                return self._round(asking, question)
            question = await self._ask(asking, question, caller)
        return await self._hold(asking, proposal, caller, question, shown)

    async def answered(
        self, asking: Asking, proposal: Proposal, state: Mapping[str, Any], caller: Caller
    ) -> Shown | dict[str, Any]:
        """As `call`, for a modern client that brings its user's answer to the form, or none; nobody is asked again."""
        brought = asking.params.get("inputResponses")
        result = brought.get(FORM) if isinstance(brought, Mapping) else None
        with suppress(NoSuchRun, LedgerUnavailable):
            question = await self._gate.questions.of(state["approval"], proposal.principal, proposal.run)
            if can_ask(asking, question):
                await self._heed(question, proposal.principal, result, self._seals.now() - state["at"])
        shown = await self._gate.call(replace(proposal, waited=True), caller)
        again = await self._question(shown, proposal.principal)
        return shown if again is None else await self._hold(asking, proposal, caller, again, shown)

    async def _question(self, shown: Shown, principal: Principal) -> Question | None:
        """What a person is asked about the call; None where it waits for nobody."""
        told = shown.refusal
        if told is None or told.outcome is not Outcome.NEEDS_APPROVAL or told.approval is None:
            return None
        with suppress(NoSuchRun, LedgerUnavailable):
            return await self._gate.questions.of(told.approval.id, principal, shown.run)
        return None

    # --- the caller's own user ----------------------------------------------------------------------------------------

    def _round(self, asking: Asking, question: Question) -> dict[str, Any]:
        """The question as a round of a modern client, which brings the answer with the next."""
        state = {"approval": question.id, "run": question.told.run, "at": self._seals.now()}
        sealed = self._seals.seal("asked", asking.exchange.principal, asking.about(), state, ASKED_S)
        params = form(asking, question)
        requests = {FORM: {"method": METHOD, "params": params}}
        return {"resultType": "input_required", "inputRequests": requests, "requestState": sealed}

    async def _ask(self, asking: Asking, question: Question, caller: LegacyCaller) -> Question:
        """The question after its client's own user was asked, unless somebody else was quicker."""
        loop = asyncio.get_running_loop()
        params = form(asking, question)
        asked_at, lag = loop.time(), Lag()
        asked = asyncio.ensure_future(caller.ask(METHOD, params))
        try:
            held = await self._holds.keep(asking, caller, question, ASKED_S, asked)
            if not asked.done() or caller.withdrawal.gone:
                return held.question
            answer = asked.result()
        finally:
            lag.end()
            asked.cancel()  # which takes the question away from the client
            await asyncio.wait({asked})
        sender = await asking.exchange.sender()
        if not isinstance(answer, ToolResult) or sender is None:
            return held.question
        return await self._heed(held.question, sender, answer.result, loop.time() - asked_at - lag.seconds)

    async def _heed(self, question: Question, principal: Principal, result: Any, after_s: float) -> Question:
        """The question after what the client brought, which may say nothing."""
        answer = said(result, after_s, self._gate.questions.reading_s)
        if answer is None or not question.awaits:
            return question
        approve, reason = answer
        try:
            await self._gate.questions.answer(question, principal, approve=approve, reason=reason)
            return await self._gate.questions.of(question.id, principal, question.told.run)
        except LedgerUnavailable:
            return question  # it was not recorded, so nobody has answered

    # --- a short hold -------------------------------------------------------------------------------------------------

    async def _hold(
        self, asking: Asking, proposal: Proposal, caller: Caller, question: Question, shown: Shown
    ) -> Shown:
        """What comes of the call if a person decides while its client can be kept waiting; else `shown`.

        What the client showed may have run out, or been revoked, while it waited: then nothing is sent for it.
        """
        questions, client = self._gate.questions, str(asking.party.client.get("name"))
        tells = asking.meta.get("progressToken") is not None
        now, since = asyncio.get_running_loop().time(), caller.since()
        waited_s = 0.0 if since is None else now - since
        within_s = min(questions.hold_s(question, client, tells=tells), questions.patience_s(client) - waited_s)
        held = await self._holds.keep(asking, caller, question, max(0.0, within_s))
        if held.question.awaits or not held.there:
            return shown
        sender = await asking.exchange.sender()
        if sender is None:
            return shown
        return await self._decided(replace(proposal, principal=sender), caller, held.question)

    async def _decided(self, proposal: Proposal, caller: Caller, question: Question) -> Shown:
        """What comes of the call now that a person has spoken. INVARIANT: its client is there, and would be let in."""
        told = question.told
        if told.state == "used" and told.attempt is not None:  # an equal call was quicker: this one gets its record
            with suppress(NoSuchRun):  # its intent may not be on disk yet: then it is judged beside it
                return await self._gate.outcome(told.attempt, proposal.principal, caller)
        if told.state in {"withdrawn", "superseded"}:  # to propose it would ask anew for what was taken back
            return await self._gate.questions.ended(question)
        return await self._gate.call(replace(proposal, waited=True), caller)


FORM = "approval"
"""The name of our question in a round."""
