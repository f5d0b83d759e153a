"""The canary: a call that must be denied, judged and recorded by the real engine, under the real policies and ledger.

A guard that is silently off lets it through. It cannot harm: the tool is the doctor's own, and does nothing but say so.
"""

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from gateway.cli.doctor.findings import Finding, ok, warning, wrong
from gateway.cli.ledgers import reviewer
from gateway.model.alike import alike_digest
from gateway.model.answer import Shown
from gateway.model.canonical import digest
from gateway.model.events import Denied
from gateway.model.party import Party
from gateway.model.policy import Policy
from gateway.model.principal import Principal
from gateway.model.proposal import Proposal
from gateway.model.review import Refused
from gateway.model.tool import Answer, Silence, Tool, ToolResult
from gateway.outbound.clock import SystemClock, clock_of
from gateway.outbound.ids import id_maker
from gateway.ports import Dispatch, Ledger, Withdrawal
from gateway.runtime.book import Book, Options
from gateway.runtime.desk import Desk
from gateway.runtime.engine import Engine
from gateway.runtime.policies import Policies

TOOL = "counterfoil__canary_must_be_denied"
"""Which no policy names and no server offers. It is spelled like a server's, so that a rule for `*__*` shows too."""
DOCTOR = Principal("counterfoil:doctor")
_HINTS = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False}
_DEFINITION = {"name": TOOL, "inputSchema": {"type": "object"}, "annotations": _HINTS}


class _Cage:
    """An upstream with one tool, by whose call shows that nothing stood before it. Satisfies `Upstreams`."""

    def __init__(self) -> None:
        self.called = False

    async def tool(self, name: str, party: Party | None = None) -> Tool | None:  # noqa: ARG002 - the same for all
        return Tool(TOOL, "counterfoil-doctor", TOOL, _DEFINITION) if name == TOOL else None

    async def offered(self, party: Party | None = None) -> tuple[Sequence[Tool], bool]:  # noqa: ARG002
        return [], False

    async def call(self, dispatch: Dispatch) -> Answer:  # noqa: ARG002 - whatever it is, it must not come
        self.called = True
        return ToolResult({"content": [{"type": "text", "text": "nothing was done"}]})


class _Nobody:
    """Whoever asks for the canary: it waits, and answers nothing. Satisfies `Caller`."""

    party = Party("doctor")
    modern = True
    log_level = None

    def __init__(self) -> None:
        self.withdrawal = Withdrawal()

    def tell(self, method: str, params: Mapping[str, Any]) -> None: ...

    async def ask(
        self,
        method: str,  # noqa: ARG002
        params: Mapping[str, Any],  # noqa: ARG002
        told: Callable[[str, Mapping[str, Any]], None] | None = None,  # noqa: ARG002
    ) -> Answer:
        return Silence("the doctor answers nothing")

    def since(self) -> float | None:
        return time.monotonic()

    def pause(self, retry_ms: int | None) -> None: ...


async def judged(ledger: Ledger, policies: dict[str, Policy]) -> AsyncIterator[Finding]:
    """What became of a canary in a run of its own, under each of the policies.

    Raises: LedgerUnavailable.
    """
    for workflow in sorted(policies):
        yield await _one(ledger, policies, workflow)


async def _one(ledger: Ledger, policies: dict[str, Policy], workflow: str) -> Finding:
    clock, about = await clock_of(ledger, SystemClock()), f"canary {workflow}"
    make_id = id_maker(SystemClock().now)
    book = Book(ledger, Policies(ledger, policies, workflow), clock, Options(owner=make_id("doctor"), drain_s=1.0))
    cage, run = _Cage(), make_id("run")
    engine = Engine(book, cage)
    try:
        await engine.open_run(
            run=run, principal=DOCTOR, origin="process", attribution={}, goal="a call that must be denied"
        )
        arguments = {"canary": run}
        cited, alike = digest(arguments, ledger.salt), alike_digest(arguments, ledger.salt)
        shown = await engine.call(Proposal(run, DOCTOR, TOOL, arguments, cited, alike), _Nobody())
        recorded = [record.event for record, _ in await ledger.read(run)]
        return _told(
            about, shown, cage, denied=any(isinstance(one, Denied) for one in recorded), policy=policies[workflow]
        )
    finally:
        with suppress(Refused):  # it is over already
            await Desk(book).stop_run(run, replace(reviewer(), via="cli"), "the doctor's canary has been judged")
        await engine.carrier.close()


def _told(about: str, shown: Shown, cage: _Cage, *, denied: bool, policy: Policy) -> Finding:
    outcome = "let through" if shown.refusal is None else str(shown.refusal.outcome)
    if cage.called:
        says = "a destructive call that no rule names was LET THROUGH"
        if policy.mode == "observe":
            return warning(about, f"{says}: the mode is `observe`", "`mode: enforce`, once you have seen enough")
        return wrong(about, says, "name the tools that agents may use; a transition for `*` allows every one")
    if outcome == "needs_approval":
        return warning(
            about, "a call that no rule names waits for a person", "name the tools: people tire of questions"
        )
    if not denied:
        return wrong(about, f"it was not denied but `{outcome}`, or that was not recorded", "look at the gateway's log")
    return ok(about, f"denied and recorded ({shown.refusal.policy.rule if shown.refusal else ''})")
