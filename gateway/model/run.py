"""One task's state: a reduction of its events and nothing else.

What changes with every event is a named tuple: a changed copy of one costs a fifth of a frozen dataclass's, and what
stays of a call in memory is small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, NamedTuple, TypeVar

from rpds import HashTrieMap

from gateway.model.approval import Approval as Approval
from gateway.model.attempt import UNSETTLED as UNSETTLED
from gateway.model.attempt import Attempt as Attempt
from gateway.model.attempt import AttemptState as AttemptState
from gateway.model.attempt import Intent as Intent
from gateway.model.canonical import Digest
from gateway.model.claims import NoteRecorded, PlanRecorded
from gateway.model.events import (
    Charge,
    Denied,
    EvidenceRecorded,
    Outcome,
    RunStopped,
    Undo,
)
from gateway.model.principal import Principal
from gateway.model.record import GENESIS
from gateway.model.steps import Steps
from gateway.model.switch import Switch


class RunState(StrEnum):
    """Where a run stands, whatever its phase."""

    UNOPENED = "unopened"
    RUNNING = "running"
    STOPPED = "stopped"
    CONTROL = "control"
    """It is no agent's: the one in which people's switches stand."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The last word of one verifier, with its place."""

    seq: int
    event: EvidenceRecorded
    fresh: bool = True
    """No covered mutation was intended after, or open at, the start of its probe."""

    @property
    def holds(self) -> bool:
        """Whether it is a pass that still counts."""
        return self.fresh and self.event.verdict == "pass"


@dataclass(frozen=True, slots=True)
class Undoing:
    """How it stands with the call that undoes an attempt, or would."""

    state: Literal["set_aside", "owed", "running", "undone", "failed"]
    """`running`: its intent is recorded, and what came of it is not known for certain yet."""
    reason: str = ""
    """Why it is owed; once it has failed, why."""
    owed_at: datetime | None = None
    by: str | None = None
    """The attempt that undoes it, or was to."""
    waits: tuple[Outcome, str] | None = None
    """While owed: what the latest verdict said against sending it now."""
    approval: str | None = None
    """While owed: the request that a person must answer first."""


class Contradicted(NamedTuple):
    """An assumption of a plan that is not so."""

    assumption: int
    """Its place in the plan, from 0."""
    says: str
    because: tuple[int, ...]
    seq: int
    """Where that is recorded."""


class Planned(NamedTuple):
    """The plan that the agent recorded last, and what is known to be wrong with it."""

    seq: int
    at: datetime
    event: PlanRecorded
    contradicted: tuple[Contradicted, ...] = ()


class Noted(NamedTuple):
    """What the agent noted."""

    seq: int
    at: datetime
    event: NoteRecorded


class Claimed(NamedTuple):
    """The agent said that it is done, and nothing says yet that it is not."""

    seq: int
    at: datetime


class Run(NamedTuple):
    """The state from which every decision about the run is made."""

    id: str
    version: int = 0
    """`seq` of the last record; 0 before the first."""
    head: str = GENESIS
    """`link` of the last record."""
    state: RunState = RunState.UNOPENED
    principal: Principal | None = None
    policy: Digest | None = None
    workflow: str = ""
    phase: str = ""
    goal: str = ""
    origin: str = "process"
    opened_at: datetime | None = None
    expires_at: datetime | None = None
    parent: str | None = None
    """The run that this one was opened from."""
    delegated: frozenset[str] | None = None
    """All the authority that it may have; None: no such ceiling."""
    last_at: datetime | None = None
    """When the run last went on; a stopped run's clock stands still."""
    spent: Charge = Charge()
    """Charges of attempts that ended or are unsettled; what was proven not to have happened is taken off."""
    reported_tokens: int = 0
    """Of the model, as the client says."""
    data: frozenset[str] = frozenset()
    """Classes of data that it has asked for."""
    attempts: HashTrieMap[str, Attempt] = HashTrieMap()
    """By attempt id."""
    unsettled: HashTrieMap[str, Attempt] = HashTrieMap()
    """The few that are open, suspended, unknown or await their verifier; also in `attempts`."""
    moving: HashTrieMap[str, Attempt] = HashTrieMap()
    """Those of them whose end can move the phase."""
    keys: HashTrieMap[str, str] = HashTrieMap()
    """`tool`, source and value of a key that the client sent, joined, to attempt id."""
    equals: HashTrieMap[str, tuple[str, int]] = HashTrieMap()
    """`tool` and argument digest, joined, to the latest equal attempt and the count of equal attempts."""
    unmade: HashTrieMap[str, int] = HashTrieMap()
    """By the same, how many of them are known not to have happened."""
    given: HashTrieMap[Digest, str] = HashTrieMap()
    """By result, the attempt by which the client got it first; only where policy bounds what is told of results."""
    evidence: HashTrieMap[str, Evidence] = HashTrieMap()
    """By verifier name."""
    approvals: HashTrieMap[str, Approval] = HashTrieMap()
    actions: HashTrieMap[str, str] = HashTrieMap()
    """Action digest to the latest approval for it."""
    scopes: HashTrieMap[str, str] = HashTrieMap()
    """Scope to the latest yes that goes beyond one call."""
    turned: HashTrieMap[str, str] = HashTrieMap()
    """Action digest, as equal calls have it, to the latest approval for it that was rejected or returned."""
    acknowledged: int | None = None
    """The place at which a person took over the run, once it had ended as one for a person."""
    steps: Steps = Steps()
    """What it did again, and how often since something new came. `kernel/steps.py` moves it."""
    wrote: HashTrieMap[str, tuple[int, int]] = HashTrieMap()
    """By tool that is no read: places of its last intent and of the last end of an attempt."""
    touched: HashTrieMap[str, tuple[int, int]] = HashTrieMap()
    """The same by tool and object, joined, where calls say what they are about, and by the folders that those are in;
    by the tool alone where they do not."""
    undo: HashTrieMap[str, Undoing] = HashTrieMap()
    """By attempt, of those for which a compensation is set aside or was ever owed. `kernel/owing.py` moves it."""
    set_aside: HashTrieMap[str, Undo] = HashTrieMap()
    """By attempt, what is still held back to undo it with; it counts as spent."""
    owed: HashTrieMap[str, int] = HashTrieMap()
    """Attempts that are to be undone and are not yet, each with its own place in the run."""
    rejected: HashTrieMap[str, int] = HashTrieMap()
    """By transition, the place at which a merge of its effects was rejected last."""
    final: Denied | None = None
    """A denial that ends the run."""
    final_seq: int | None = None
    """Its place."""
    stopped: RunStopped | None = None
    stopped_seq: int | None = None
    plan: Planned | None = None
    """What the agent says that it means to do. No decision reads it."""
    notes: tuple[Noted, ...] = ()
    """What it says that it believes, as far as it had not expired when it said the last. No decision reads it."""
    noted: int = 0
    """How often it said something so."""
    claimed: Claimed | None = None
    """The last claim of success, until it is refused: its verifiers may be at work."""
    told: HashTrieMap[str, Literal["delivered", "failed"]] = HashTrieMap()
    """By message to people that is not tried any more, what came of it. No decision reads it."""
    switches: HashTrieMap[int, Switch] = HashTrieMap()
    """Of the run `SWITCHES` alone: those that are thrown, by number. Every decision reads them."""


@dataclass(frozen=True, slots=True)
class Tracked:
    """What is not settled yet, beside the events, so that it is found without reading them all."""

    attempt: str
    """Or the question that a person is asked, or the run that waits for one."""
    run: str
    state: str
    """`open`, `unknown`, `unverified`, `owed` (to be undone) or `undelivered`; of a question `awaiting`, of a run
    `escalated`."""
    hold: Digest | None
    """Unique over the ledger while set."""
    owner: str
    """The gateway process that waits for it."""
    lease_until: float
    """Seconds since the epoch; until then only the owner may settle it."""


def joined(*parts: str) -> str:
    """One map key of several; NUL stands in no name, id or key."""
    return "\0".join(parts)


N = TypeVar("N", bound=Attempt | Run)


def changed(before: N, /, **changes: Any) -> N:
    """As `_replace`, at half its CPU: a run has many fields, and every event changes some."""
    places, values = _PLACES[type(before)], [*before]
    for name, value in changes.items():
        values[places[name]] = value
    return tuple.__new__(type(before), values)


_PLACES: Mapping[type, Mapping[str, int]] = {
    kind: {name: place for place, name in enumerate(kind._fields)} for kind in (Attempt, Run)
}
