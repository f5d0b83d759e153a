"""A call that nobody has made, judged against a run as it stands.

Nothing is written and nothing is sent. What judging needs and nobody has looked at is assumed, and said.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from gateway.kernel.accounts import looked_at
from gateway.kernel.case import Gather, Observed, Probed
from gateway.kernel.decide import Taken, decide
from gateway.kernel.reduce import fold
from gateway.kernel.rules import Rules
from gateway.kernel.ways import ASSUMED
from gateway.model.alike import alike_digest
from gateway.model.canonical import Digest, digest
from gateway.model.events import IntentRecorded
from gateway.model.principal import Principal
from gateway.model.proposal import Proposal
from gateway.model.record import Record
from gateway.model.run import Run
from gateway.model.tool import Tool
from gateway.ports import Ledger
from gateway.runtime.cases import Judged, after
from gateway.runtime.explain import VERDICTS, NotRecorded, history, rules_in, stored_in, verdict_of
from gateway.runtime.lineage import goes_on


@dataclass(frozen=True, slots=True)
class Asked:
    """A call, as somebody imagines it; what is not said is taken from the run and from the ledger."""

    tool: str
    arguments: Mapping[str, Any]
    principal: Principal | None = None
    definition: Mapping[str, Any] | None = None
    probes: Mapping[str, Literal["pass", "fail", "inconclusive"]] | None = None


async def standing(ledger: Ledger, run_id: str, asked: Asked, now: datetime, under: Rules | None = None) -> Judged:
    """The call, judged against the run as it stands.

    Raises: NotRecorded, LedgerUnavailable, CorruptLedger.
    """
    records = await history(ledger, run_id)
    run = fold(records, Run(run_id))
    rules = under or await rules_in(ledger, run.policy)
    if rules is None or run.principal is None:
        raise NotRecorded(f"the ledger has no text that this version can read of the policy `{run.policy}`")
    assumed = ["the upstream of the tool can be called"]
    tool, cited = await _offered(ledger, records, asked, assumed)
    arguments = dict(asked.arguments)
    principal = asked.principal or run.principal
    if asked.principal is None:
        assumed.append("the principal comes as the run was opened")
    given, likened = digest(arguments, ledger.salt), alike_digest(arguments, ledger.salt)
    proposal = Proposal(run_id, principal, asked.tool, arguments, given, likened)
    observed = Observed(tool, cited, salt=ledger.salt)
    while True:  # ends: each round answers what the one before wanted to know, once
        taken: list[Taken] = []
        found = decide(run, proposal, rules, observed, now, taken)
        hold = found.hold if isinstance(found, IntentRecorded) and observed.held is None else None
        held = next((one for one in await ledger.tracked() if one.hold == hold), None) if hold is not None else None
        if held is not None:
            observed = replace(observed, held=held)  # the ledger would refuse the intent for it
        elif not isinstance(found, Gather):
            ended = after(run, found, rules, now)
            return Judged(run, proposal, rules, now, found, ended, tuple(taken), tuple(assumed))
        else:
            observed = await _looked(ledger, found, observed, asked, now, assumed)


async def _offered(
    ledger: Ledger, records: Sequence[tuple[Record, str]], asked: Asked, assumed: list[str]
) -> tuple[Tool, Digest | None]:
    """The tool as it was last seen, in this run or in any other; or as somebody imagines it."""
    mine = [record for record, _ in reversed(records)]
    for record in (*mine, *await ledger.find(VERDICTS, limit=1000)):
        verdict = verdict_of(record)
        if verdict is None or verdict.tool != asked.tool or verdict.upstream is None:
            continue
        definition = asked.definition or await stored_in(ledger, verdict.definition)
        if definition is not None:
            own_name = str(definition.get("name", asked.tool))
            if asked.definition is None:
                assumed.append(f"the tool is defined as in the record `{record.id}`")
                return Tool(asked.tool, verdict.upstream, own_name, definition), verdict.definition
            return Tool(asked.tool, verdict.upstream, own_name, definition), None
    own_name = asked.tool.rpartition("__")[2]
    if asked.definition is None:
        assumed.append("the tool takes any arguments and says nothing of itself; no record has its definition")
    definition = asked.definition or {"name": own_name, "inputSchema": {"type": "object"}}
    return Tool(asked.tool, asked.tool.partition("__")[0], own_name, definition), None


async def _looked(
    ledger: Ledger, wanted: Gather, observed: Observed, asked: Asked, now: datetime, assumed: list[str]
) -> Observed:
    if wanted.parent is not None:

        async def state_of(run: str) -> Run:
            return fold(await history(ledger, run), Run(run))

        runs = await goes_on(wanted.parent, state_of, now)
        observed = replace(observed, parent="running" if runs else "over")
    if wanted.accounts:
        found = await ledger.levels(wanted.accounts)
        observed = replace(observed, levels=looked_at(wanted.accounts, found))
    if wanted.offered:
        observed = replace(observed, offered=ASSUMED)
        assumed.append("whatever tool the policy names is offered")
    said = asked.probes or {}
    assumed += [f"`{name}` would be asked, and passes" for name in wanted.probes if name not in said]
    probes = {
        name: Probed(said.get(name, "pass"), f"`{name}` is taken to say {said.get(name, 'pass')}", now)
        for name in wanted.probes
    }
    return replace(observed, probes={**observed.probes, **probes})
