"""What happened, for ever. Fields are added with defaults and never renamed; a new meaning is a new kind.

A proposal becomes exactly one verdict: `Denied`, `Replayed`, `Held`, `ApprovalRequested` or
`IntentRecorded`. All other kinds are observations. Payloads (arguments, results, definitions,
policies) are stored beside the events and cited by their salted digest, so that one can be erased
without breaking the chain.
"""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AwareDatetime, Field

from gateway.model.added import added
from gateway.model.asked import Granted as Granted
from gateway.model.canonical import Digest
from gateway.model.claims import Assumed as Assumed
from gateway.model.claims import Claim as Claim
from gateway.model.claims import FinishClaimed as FinishClaimed
from gateway.model.claims import FinishRefused as FinishRefused
from gateway.model.claims import NoteRecorded as NoteRecorded
from gateway.model.claims import PlanInvalidated as PlanInvalidated
from gateway.model.claims import PlanRecorded as PlanRecorded
from gateway.model.erasure import PayloadsErased as PayloadsErased
from gateway.model.event_parts import Charge as Charge
from gateway.model.event_parts import Finding as Finding
from gateway.model.event_parts import Frozen
from gateway.model.event_parts import Reservation as Reservation
from gateway.model.event_parts import Undo as Undo
from gateway.model.event_parts import UsedKey as UsedKey
from gateway.model.event_parts import Who as Who
from gateway.model.notice import NoticeSent as NoticeSent
from gateway.model.outcome import TERMINAL as TERMINAL
from gateway.model.outcome import Effect as Effect
from gateway.model.outcome import Outcome as Outcome
from gateway.model.switch import SwitchLifted as SwitchLifted
from gateway.model.switch import SwitchThrown as SwitchThrown
from gateway.model.verdicts import ApprovalRequested as ApprovalRequested
from gateway.model.verdicts import AttemptResent as AttemptResent
from gateway.model.verdicts import AttemptResumed as AttemptResumed
from gateway.model.verdicts import Denied as Denied
from gateway.model.verdicts import Held as Held
from gateway.model.verdicts import IntentRecorded as IntentRecorded
from gateway.model.verdicts import Replayed as Replayed


class RunOpened(Frozen):
    """A run exists: bound to a principal and, unless policy migrates it, to one policy digest."""

    kind: Literal["run.opened"] = "run.opened"
    principal: Who
    workflow: str
    policy: Digest
    phase: str
    """The initial phase."""
    goal: str = ""
    origin: Literal["token", "process", "session", "default"] = "process"
    """How the run was identified. A `default` run is shared and has no terminal stops."""
    predecessor: str | None = None
    expires_at: AwareDatetime | None = None
    attribution: dict[str, str] = {}
    parent: str | None = added(None)
    """The run that this one was opened from, and without which it does not go on."""
    delegated: tuple[str, ...] | None = added(None)
    """All the authority that it may have, however much its principal holds. None: no such ceiling."""
    data: tuple[str, ...] = added(())
    """Classes of data that its parent had asked for by then, and may have told it."""


class RunMigrated(Frozen):
    """The run goes on under another text of its policy, which says that running runs shall."""

    kind: Literal["run.migrated"] = "run.migrated"
    source: Digest
    target: Digest
    restated: tuple[str, ...] = added(())
    """Verifiers that the newer text defines otherwise: what they had proven counts no more."""


class AttemptQueried(Frozen):
    """The upstream was asked whether an unknown attempt happened, and what it said settles nothing yet."""

    kind: Literal["attempt.queried"] = "attempt.queried"
    attempt: str
    verdict: Literal["absent", "inconclusive"]
    """`absent`: it has not happened by now, and may yet."""
    says: str
    """One sentence."""
    artifact: Digest | None = None
    started_at: AwareDatetime


class ReceiptRecorded(Frozen):
    """What the upstream answered, validated and stored. An error is an answer too, and proves no absence."""

    kind: Literal["receipt.recorded"] = "receipt.recorded"
    attempt: str
    source: Literal["upstream", "probe", "person"] = "upstream"
    answer: Literal["result", "error"]
    """A tool result, or a JSON-RPC error."""
    is_error: bool
    result: Digest | None = None
    size_bytes: int = 0
    """A quarter of it counts as its tokens, in place of what was reserved."""
    schema_valid: bool | None = None
    """Against the tool's output schema; None when it declares none or `isError` is set."""
    duration_s: float | None = None
    late: bool = False
    """It came after the attempt had been recorded as unknown."""
    failure: str | None = added(None)
    """Of an error: its kind, where the registry tells it from others (`conflict`, `invalid`, `denied`)."""
    by: Who | None = None
    reason: str | None = None
    """How it is known, where it was not the upstream's own answer."""
    artifact: Digest | None = added(None)
    """What a probe answered, by which it is known; the call's own result was never seen."""
    alike: Digest | None = added(None)
    """Of tool, arguments and answer without what the registry declares noise: steps with equal ones brought nothing
    new. None where it was not reckoned."""
    repeats: str | None = added(None)
    """The attempt by which the client had got this very result before, where policy lets that be told in its place."""


class AttemptUnsent(Frozen):
    """Known to have done nothing: no byte of the call reached the upstream. Charge back, key free."""

    kind: Literal["attempt.unsent"] = "attempt.unsent"
    attempt: str
    reason: str
    needs_account: bool = added(default=False)
    """Because its principal has connected no account at the upstream."""


class AttemptSuspended(Frozen):
    """The upstream asks for input or made a task of the call: open until `expires_at`, then unknown."""

    kind: Literal["attempt.suspended"] = "attempt.suspended"
    attempt: str
    awaits: Literal["input", "task"]
    answer: Digest
    """What it asked, or the task as it began."""
    expires_at: AwareDatetime


class AttemptUnknown(Frozen):
    """Sent, perhaps; whether it happened is not known. Held until it is settled."""

    kind: Literal["attempt.unknown"] = "attempt.unknown"
    attempt: str
    reason: str


class AttemptAbandoned(Frozen):
    """A read whose gateway died: charge kept, key free, nothing claimed about it."""

    kind: Literal["attempt.abandoned"] = "attempt.abandoned"
    attempt: str
    reason: str


class AttemptRefuted(Frozen):
    """Proven not to have happened, by a probe after `settles_at` or by a person: charge back, key free."""

    kind: Literal["attempt.refuted"] = "attempt.refuted"
    attempt: str
    source: Literal["probe", "person"]
    reason: str
    by: Who | None = None
    artifact: Digest | None = added(None)
    """What a probe answered, by which it is known."""
    again: bool = added(default=False)
    """The person wants it made again."""


class OutcomeDelivered(Frozen):
    """The attempt's outcome was written to a live client, in time and without cancel or disconnect."""

    kind: Literal["outcome.delivered"] = "outcome.delivered"
    attempt: str
    told_bytes: int | None = added(None)
    """The size of what was told of its result, where policy bounds that; None where it was told as it is."""


class EvidenceRecorded(Frozen):
    """What a verifier saw. Inconclusive is never pass."""

    kind: Literal["evidence.recorded"] = "evidence.recorded"
    verifier: str
    verdict: Literal["pass", "fail", "inconclusive"]
    attempt: str | None = None
    scope: dict[str, Any] = {}
    """What was checked: tool, arguments, environment, revision."""
    covers: tuple[str, ...] = ("*",)
    """Tools whose mutations make this evidence stale."""
    signature: str | None = None
    """Stable name of a failure; equal failures have equal signatures."""
    says: str
    """One sentence, as the agent is told it."""
    kept: str | None = added(None)
    """The sentence in full, where the agent is told the verdict alone."""
    artifact: Digest | None = None
    self_reported: bool = False
    """By the result of the call itself: a claim of whoever made the effect."""
    source: Literal["tool", "command", "http", "sql", "file", "result"] = added("tool")
    """How it was looked."""
    opinion: bool = added(default=False)
    """Of a model or another checker that may err, and counts only where a gate accepts opinions."""
    about: tuple[str, ...] = added(())
    """Objects that it is about; a covered mutation of others leaves it fresh. Nothing: of anything that it covers."""
    cost: int = added(0)
    """Of the look, in millionths."""
    started_at: AwareDatetime
    duration_s: float | None = None
    after: int = 0
    """The run's version when the probe started; a covered mutation intended later makes this stale."""


class CompensationOwed(Frozen):
    """The attempt's effect is there and must not be: the gateway undoes it, and the run does not stop before."""

    kind: Literal["compensation.owed"] = "compensation.owed"
    attempt: str
    reason: str
    because: tuple[int, ...] = ()
    """The records, by their place in this run, that make it necessary."""


class CompensationFailed(Frozen):
    """The gateway does not undo the attempt, or not for certain, and will not try again: a person must."""

    kind: Literal["compensation.failed"] = "compensation.failed"
    attempt: str
    reason: str


class PhaseMoved(Frozen):
    """The run is in another phase."""

    kind: Literal["phase.moved"] = "phase.moved"
    source: str
    target: str
    transition: str
    attempt: str | None = None
    because: tuple[int, ...] = ()
    """The records, by their place in this run, that prove it."""


class ApprovalDecided(Frozen):
    """A reviewer's typed answer about one exact action. It runs nothing."""

    kind: Literal["approval.decided"] = "approval.decided"
    approval: str
    action: Digest
    decision: Literal["approved", "rejected", "returned", "revoked"]
    """`returned`: the reviewer wants more evidence, as the reason says. `revoked`: a yes is taken back."""
    by: Who
    reason: str = ""
    granted: Granted | None = added(None)
    """How far the yes goes, where that is beyond one call."""
    via: str = added("")
    """The door that the reviewer came by."""
    everywhere: bool = added(default=False)
    """Whether they see the questions of all tenants."""
    link: str | None = added(None)
    """The signed link that they came by."""
    active_s: float | None = added(None)
    """How long they looked at it, as their page says."""
    accounts: tuple[Reservation, ...] = added(())
    """What it takes from what this reviewer may decide."""


class ApprovalSeen(Frozen):
    """A reviewer looked at the question for the first time."""

    kind: Literal["approval.seen"] = "approval.seen"
    approval: str
    by: Who
    via: str = ""


class ApprovalWithdrawn(Frozen):
    """Whoever asked takes the question back."""

    kind: Literal["approval.withdrawn"] = "approval.withdrawn"
    approval: str
    by: Who
    reason: str = ""


class ApprovalExpired(Frozen):
    """Nobody answered in time."""

    kind: Literal["approval.expired"] = "approval.expired"
    approval: str


class EscalationAcknowledged(Frozen):
    """A person has taken over a run that ended as `human_escalation`. It stays over."""

    kind: Literal["escalation.acknowledged"] = "escalation.acknowledged"
    by: Who
    reason: str = ""


class RunStopped(Frozen):
    """The run is over. There is no lift: a successor run is opened instead."""

    kind: Literal["run.stopped"] = "run.stopped"
    outcome: Outcome
    reason: str
    rule: str | None = None
    evidence: tuple[int, ...] = ()
    by: Who | None = added(None)
    """The person who ended it."""


Asking: TypeAlias = (
    ApprovalRequested | ApprovalDecided | ApprovalSeen | ApprovalWithdrawn | ApprovalExpired | EscalationAcknowledged
)
"""What people are asked, and what comes of it."""

Verdict: TypeAlias = Denied | Replayed | Held | ApprovalRequested | IntentRecorded | AttemptResumed | AttemptResent

Event: TypeAlias = Annotated[
    RunOpened
    | RunMigrated
    | Denied
    | Replayed
    | Held
    | ApprovalRequested
    | IntentRecorded
    | AttemptResumed
    | AttemptResent
    | AttemptQueried
    | ReceiptRecorded
    | AttemptUnsent
    | AttemptSuspended
    | AttemptUnknown
    | AttemptAbandoned
    | AttemptRefuted
    | OutcomeDelivered
    | EvidenceRecorded
    | CompensationOwed
    | CompensationFailed
    | PhaseMoved
    | ApprovalDecided
    | ApprovalSeen
    | ApprovalWithdrawn
    | ApprovalExpired
    | EscalationAcknowledged
    | PlanRecorded
    | PlanInvalidated
    | NoteRecorded
    | NoticeSent
    | PayloadsErased
    | FinishClaimed
    | FinishRefused
    | RunStopped
    | SwitchThrown
    | SwitchLifted,
    Field(discriminator="kind"),
]
