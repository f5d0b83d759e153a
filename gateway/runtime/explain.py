"""A call judged again as it was recorded, from the ledger alone; by its own policy or by another.

What judging needs and nobody has looked at is assumed, and said.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, assert_never

from gateway.kernel.accounts import looked_at
from gateway.kernel.case import Gather, Observed, Probed
from gateway.kernel.decide import Taken, decide
from gateway.kernel.reduce import fold
from gateway.kernel.rules import Rules
from gateway.kernel.ways import ASSUMED, as_noted
from gateway.model.alike import alike_digest
from gateway.model.canonical import Digest, digest, parse
from gateway.model.events import (
    ApprovalRequested,
    AttemptResent,
    AttemptResumed,
    Denied,
    Held,
    IntentRecorded,
    Outcome,
    Replayed,
    Verdict,
)
from gateway.model.principal import Principal
from gateway.model.proposal import Key, KeySource, Proposal, Resume
from gateway.model.record import Record, link
from gateway.model.run import Run, Tracked
from gateway.model.switch import Switch, SwitchThrown
from gateway.model.tool import Tool
from gateway.ports import DamagedRecord, Ledger, LockedPayload
from gateway.runtime.cases import Judged, after
from gateway.runtime.policies import Policies, PolicyMissing
from gateway.runtime.wire import ANY_DEPTH

VERDICTS = ("intent.recorded", "proposal.denied", "proposal.held", "proposal.replayed", "approval.requested")
"""Kinds of records that cite a tool's definition."""


class NotRecorded(Exception):
    """There is no such run, or no verdict at that place of it."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A recorded verdict, and what the ledger has of what it was made of."""

    run: Run
    """As it was before the verdict."""
    record: Record
    verdict: Verdict
    salt: bytes
    rules: Rules | None
    arguments: Mapping[str, Any] | None
    definition: Mapping[str, Any] | None

    def lacking(self, under: Rules | None = None) -> tuple[str, ...]:
        """What judging it again needs, perhaps under another policy, and the ledger has not."""
        verdict = self.verdict
        needed: tuple[tuple[str, Digest | None, object], ...] = (
            ("the arguments", verdict.arguments, self.arguments),
            ("the definition of the tool", verdict.definition, self.definition),
            ("a text that this version can read of the policy", verdict.policy, under or self.rules),
        )
        return tuple(f"{what} `{cited}`" for what, cited, has in needed if cited is not None and has is None)


@dataclass(frozen=True, slots=True)
class Difference:
    """A part of a verdict that judging again gives otherwise."""

    part: str
    recorded: Any
    again: Any


async def history(ledger: Ledger, run_id: str) -> list[tuple[Record, str]]:
    """The run's records, each with its link.

    Raises: NotRecorded.
    """
    found = [(record, link(body)) for record, body in await ledger.read(run_id)]
    if not found:
        raise NotRecorded(f"no run `{run_id}` is in this ledger; `counterfoil runs` lists them")
    return found


def verdict_of(record: Record) -> Verdict | None:
    """The verdict that the record is; None for an observation."""
    event = record.event
    return event if isinstance(event, Verdict) else None


async def kept(ledger: Ledger, run_id: str, seq: int) -> Kept:
    """The verdict at that place of the run.

    Raises: NotRecorded, LedgerUnavailable, CorruptLedger.
    """
    records = await history(ledger, run_id)
    record = next((one for one, _ in records if one.seq == seq), None)
    verdict = verdict_of(record) if record is not None else None
    if record is None or verdict is None:
        raise NotRecorded(f"run `{run_id}` has no verdict at step {seq}; `counterfoil show {run_id}` lists its steps")
    return Kept(
        fold(((one, chained) for one, chained in records if one.seq < seq), Run(run_id)),
        record,
        verdict,
        ledger.salt,
        await rules_in(ledger, verdict.policy),
        await stored_in(ledger, verdict.arguments),
        await stored_in(ledger, verdict.definition),
    )


async def rules_in(ledger: Ledger, cited: Digest | None) -> Rules | None:
    """The policy of that digest, compiled; None if the ledger has no text of it that this version can read.

    Raises: LedgerUnavailable, not for a text that was changed.
    """
    if cited is None:
        return None
    try:
        return await Policies(ledger, {}, "").of(cited)
    except (PolicyMissing, DamagedRecord, LockedPayload):  # also for a text that says what this version does not know
        return None


async def stored_in(ledger: Ledger, cited: Digest | None) -> Mapping[str, Any] | None:
    """The payload of that digest; None if it was erased or changed, or nothing is cited.

    Raises: LedgerUnavailable, not for a payload that was changed.
    """
    try:
        body = await ledger.payload(cited) if cited is not None else None
    except (DamagedRecord, LockedPayload):
        return None
    return parse(body, max_depth=ANY_DEPTH) if body is not None else None


# --- a recorded verdict ---------------------------------------------------------------------------------------------


def again(it: Kept, under: Rules | None = None) -> Judged:
    """The recorded call, judged again by what the ledger has; under another policy, if one is given.

    Raises: NotRecorded, if something is missing without which there is nothing to judge.
    """
    rules = under or it.rules
    if (lacks := it.lacking(under)) or rules is None or it.arguments is None:
        raise NotRecorded(f"it cannot be judged again: the ledger lacks {', '.join(lacks)}")
    proposal, observed, assumed = _proposal(it, it.arguments), _observed(it), list[str]()
    levels, now = observed.levels or {}, it.record.at
    if rules.digest != it.verdict.policy:
        observed = replace(observed, levels=None)  # the other policy is asked which accounts it wants
    while True:  # ends: each round answers what the one before wanted to know, once
        taken: list[Taken] = []
        found = decide(it.run, proposal, rules, observed, now, taken)
        if not isinstance(found, Gather):
            ended = after(it.run, found, rules, now)
            return Judged(it.run, proposal, rules, now, found, ended, tuple(taken), tuple(assumed))
        observed = _answered(it, found, observed, levels, assumed, same=rules.digest == it.verdict.policy)


def _proposal(it: Kept, arguments: Mapping[str, Any]) -> Proposal:
    verdict, noted = it.verdict, it.verdict.observed
    key = verdict.key
    sent = None if key is None or key.source in {KeySource.FRESH, KeySource.DERIVED} else Key(key.source, key.value)
    return Proposal(
        it.run.id,
        _principal(noted.get("principal"), it.run.principal),
        verdict.tool,
        arguments,
        verdict.arguments,
        alike_digest(dict(arguments), it.salt),
        sent,
        attribution=verdict.attribution,
        resumes=_resumes(verdict, noted.get("resumes")),
        resends=verdict.attempt if isinstance(verdict, AttemptResent) else None,
        reported_tokens=verdict.reported_tokens,
        compensates=verdict.compensates,
    )


def _principal(noted: Mapping[str, Any] | None, opened: Principal | None) -> Principal:
    if noted is None:
        return opened or Principal("?")
    return Principal(noted["id"], noted["tenant"], frozenset(noted["roles"]), frozenset(noted["scopes"]))


def _resumes(verdict: Verdict, noted: Mapping[str, Any] | None) -> Resume | None:
    if noted is not None:
        return Resume(noted["attempt"], Digest(noted["round"]), Digest(noted["said"]))
    return Resume(verdict.attempt, verdict.round, verdict.said) if isinstance(verdict, AttemptResumed) else None


def _observed(it: Kept) -> Observed:
    """What the gateway saw of the world, as far as the verdict says."""
    verdict, noted = it.verdict, it.verdict.observed
    findings = {one.check: one for one in verdict.checks}
    held = noted.get("held")
    parent: Literal["running", "over"] | None = None
    if it.run.parent is not None and "run" in findings:
        parent = "over" if findings["run"].rule == "run.parent" else "running"
    levels = {(account, unit): level for account, unit, level in noted.get("levels", ())}
    return Observed(
        _tool(it),
        verdict.definition,
        None if held is None else Tracked(held["attempt"], held["run"], held["state"], None, "", 0.0),
        levels or None,
        _probes(it),
        parent,
        as_noted(noted["offered"]) if "offered" in noted else None,
        switches=tuple(_switch(*one) for one in noted.get("switches", ())),
        salt=it.salt,
    )


def _switch(number: int, at: str, event: Mapping[str, Any]) -> Switch:
    return Switch(number, datetime.fromisoformat(at), SwitchThrown.model_validate(event))


def _tool(it: Kept) -> Tool | None:
    verdict, definition = it.verdict, it.definition or {}
    if verdict.upstream is None:
        return None
    trouble = verdict.observed.get("trouble")
    own_name = str(definition.get("name", verdict.tool))
    if trouble is None:
        return Tool(verdict.tool, verdict.upstream, own_name, definition)
    return Tool(
        verdict.tool,
        verdict.upstream,
        own_name,
        definition,
        healthy=False,
        trouble=trouble["says"],
        withheld=trouble["withheld"],
        needs_account=trouble.get("needs_account", False),
    )


def _probes(it: Kept) -> dict[str, Probed]:
    findings = {one.check: one for one in it.verdict.checks}
    conditions, asked = findings.get("preconditions"), findings.get("approval")
    looked = dict(conditions.inputs) if conditions is not None else {}
    stood: Mapping[str, Any] = asked.inputs.get("state", {}) if asked is not None else {}
    failed = next((name for name, one in looked.items() if one["verdict"] != "pass"), None)
    return {
        name: Probed(
            one["verdict"],
            (conditions.reason or "")
            if conditions and name == failed
            else one.get("says", f"`{name}` {_SAID[one['verdict']]}"),
            datetime.fromisoformat(one["started_at"]),
            one["artifact"],
            one.get("stands"),
        )
        for name, one in {**looked, **stood}.items()
    }


_SAID = {"pass": "passed", "fail": "failed", "inconclusive": "could not check"}


def _answered(
    it: Kept,
    wanted: Gather,
    observed: Observed,
    levels: Mapping[tuple[str, str], int],
    assumed: list[str],
    *,
    same: bool,
) -> Observed:
    """What was recorded of what is wanted; the rest is assumed, and said."""
    if wanted.parent is not None:
        observed = replace(observed, parent="running")
        assumed.append(f"the run `{wanted.parent}`, from which this one was opened, goes on")
    if wanted.accounts:
        noted = {account for account, _ in levels} | _accounts(it.verdict)
        assumed += [f"nothing stands on `{one}`" for one in wanted.accounts if not same and one not in noted]
        observed = replace(observed, levels=looked_at(wanted.accounts, levels))
    if wanted.offered:
        observed = replace(observed, offered=ASSUMED)
        # By its own policy nothing was lacking, else it would be noted: less is lacking where all is offered.
        assumed += [] if same else ["whatever tool the policy names is offered"]
    now = it.record.at
    stood = dict(pair for one in it.run.approvals.values() for pair in one.state)
    probes = {
        name: Probed("pass", f"`{name}` is taken to pass", now, stands=stood.get(name, digest({"taken": name}, b"")))
        for name in wanted.probes
    }
    assumed += [f"`{name}` passes when it is asked" for name in wanted.probes]
    return replace(observed, probes={**observed.probes, **probes})


def _accounts(verdict: Verdict) -> set[str]:
    looked_at = (one.inputs.get("accounts", {}) for one in verdict.checks if one.check == "budget")
    return {account["account"] for accounts in looked_at for account in accounts.values()}


def differences(recorded: Verdict, judged: Verdict) -> tuple[Difference, ...]:
    """The parts of the verdict that judging again gives otherwise; its findings by check."""
    was, now = recorded.model_dump(mode="json"), _as_known_then(recorded, judged).model_dump(mode="json")
    checks_was = {f"checks.{one['check']}": one for one in was.pop("checks")}
    checks_now = {f"checks.{one['check']}": one for one in now.pop("checks")}
    was, now = was | checks_was, now | checks_now
    parts = dict.fromkeys([*was, *now])
    return tuple(
        Difference(part, was.get(part), now.get(part)) for part in parts if not _equal(was.get(part), now.get(part))
    )


def _as_known_then(recorded: Verdict, judged: Verdict) -> Verdict:
    """The verdict without what questions to people did not say yet when the other one was recorded."""
    if not isinstance(recorded, ApprovalRequested) or recorded.by is not None:
        return judged
    if not isinstance(judged, ApprovalRequested):
        return judged
    later = ("by", "terms", "scope", "objects", "state", "holding", "supersedes", "follows", "because")
    return judged.model_copy(update={name: ApprovalRequested.added_fields[name] for name in later})


def _equal(one: Any, other: Any) -> bool:
    # By the digest: to Python 1, 1.0 and True are equal.
    return digest(one, b"") == digest(other, b"")


def same(found: Sequence[Difference]) -> bool:
    """Whether it is the same verdict, whatever its checks noted on the way."""
    return all(one.part.startswith(("checks.", "observed")) for one in found)


def allowed(verdict: Verdict) -> bool:
    """Whether the call goes out, or is answered from the record of one that did."""
    return isinstance(verdict, IntentRecorded | AttemptResumed | AttemptResent | Replayed)


def outcome(verdict: Verdict) -> str:
    """In the words that clients and cases know."""
    match verdict:
        case IntentRecorded() | AttemptResumed() | AttemptResent():
            return "allowed"
        case Replayed():
            return "replayed"
        case ApprovalRequested():
            return str(Outcome.NEEDS_APPROVAL)
        case Denied() | Held():
            return str(verdict.outcome)
        case _:
            assert_never(verdict)
