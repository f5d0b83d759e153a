"""The verdicts: what a proposal becomes, with all that was looked at. `events` names them beside what is observed."""

from typing import Any, Literal

from pydantic import AwareDatetime

from gateway.model.added import added
from gateway.model.asked import Terms
from gateway.model.canonical import Digest
from gateway.model.event_parts import Charge, Finding, Frozen, Lack, Reservation, Undo, UsedKey, Who
from gateway.model.outcome import Effect, Outcome


class _Verdict(Frozen):
    """What every verdict says."""

    tool: str
    upstream: str | None = None
    transition: str | None = None
    arguments: Digest
    definition: Digest | None = None
    """The tool definition that was judged, as its upstream sent it."""
    policy: Digest
    phase: str
    key: UsedKey | None = None
    checks: tuple[Finding, ...]
    observed: dict[str, Any] = {}
    """What the run's own events do not hold: health, pins, holds elsewhere, account levels, probes with their times."""
    attribution: dict[str, str] = {}
    reported_tokens: int = added(0)
    """Of the model, since its last call, as the client says. A claim."""
    compensates: str | None = added(None)
    """The attempt of this run that the call would undo. Such a call is the gateway's own."""


class Denied(_Verdict):
    """Refused; nothing was sent, nothing was charged."""

    kind: Literal["proposal.denied"] = "proposal.denied"
    outcome: Outcome
    rule: str | None = None
    reason: str
    final: bool = False
    """Policy says that this denial ends the run."""
    retry_after_s: float | None = None
    alike: Digest | None = added(None)
    """Of the arguments without what policy declares noise, where that leaves something out."""
    lacking: tuple[Lack, ...] = added(())
    """What the run would need for its success and cannot have: nothing leads there any more, and policy ends it."""


class Replayed(_Verdict):
    """Answered from the record of an attempt that ended; nothing was sent."""

    kind: Literal["proposal.replayed"] = "proposal.replayed"
    attempt: str
    data_class: str | None = added(None)
    """Of what the attempt answered, by the registry, where it is another run's: this run has seen it from now on."""


class Held(_Verdict):
    """Neither sent nor refused: an equal effect is open, unknown, or waits for a person."""

    kind: Literal["proposal.held"] = "proposal.held"
    outcome: Literal[Outcome.HELD, Outcome.IN_FLIGHT, Outcome.NEEDS_APPROVAL]
    reason: str
    attempt: str | None = None
    """The attempt that stands in the way; it may belong to another run."""
    approval: str | None = None
    retry_after_s: float | None = None


class ApprovalRequested(_Verdict):
    """A person is asked about one exact action."""

    kind: Literal["approval.requested"] = "approval.requested"
    approval: str
    """Id of the request, derived from the action's digest and this place in the run."""
    action: Digest
    """Over tenant, principal, run, tool, arguments, definition and policy."""
    rule: str
    role: str | None = None
    """The role that a reviewer must have; None for whoever holds the ledger."""
    quorum: int = added(1)
    """How many different people must say yes."""
    self_review: bool = added(default=True)
    """Whether the principal of the run may answer."""
    expires_at: AwareDatetime
    reason: str
    accounts: tuple[Reservation, ...] = added(())
    """What asking costs."""
    merges: tuple[str, ...] = added(())
    """Transitions whose effects are undone if the answer is no."""
    by: Who | None = added(None)
    """Who asks."""
    terms: Terms = added(Terms())
    scope: Digest | None = added(None)
    """Of all calls that the yes is for, where the reviewer lets it go beyond one."""
    alike: Digest | None = added(None)
    """As `action`, with the arguments as equal calls spell them, where that is another: in them 2000.0 is 2000."""
    objects: tuple[str, ...] | None = added(None)
    """As in an intent."""
    state: dict[str, Digest] = added({})
    """By verifier, what it saw that must be the same when the call is sent."""
    holding: tuple[str, ...] = added(())
    """The verifiers whose evidence held, and must hold then."""
    supersedes: tuple[str, ...] = added(())
    """Questions that this one takes the place of, answered ones included: their yes is void."""
    follows: str | None = added(None)
    """The question before this one about the same tool, with which it may be compared."""
    because: str = added("")
    """Why it is asked anew, in one sentence."""


class IntentRecorded(_Verdict):
    """This call is about to be sent. Durable before the first byte goes out."""

    kind: Literal["intent.recorded"] = "intent.recorded"
    attempt: str
    effect: Effect
    charge: Charge
    timeout_s: float
    settles_at: AwareDatetime
    """From here on the upstream can no longer act on this call: timeout plus the tool's grace."""
    repeat: Literal["hold", "replay", "new"] = "hold"
    hold: Digest | None = None
    """What no other run may send while this is open or unknown. None for reads and `repeat: new`."""
    alike: Digest | None = added(None)
    """Of the arguments in which 2000.0 is 2000, where that is another: what equal calls have in common."""
    approval: str | None = None
    """The approval that is hereby used up."""
    scope: Digest | None = added(None)
    """Of the approval, where that goes beyond one call and is not about exactly these arguments."""
    target: str | None = None
    """The phase that the transition leads to."""
    verifier: str | None = None
    verifiers: tuple[str, ...] = added(())
    """Further verifiers, each asked once the one before it has passed."""
    objects: tuple[str, ...] | None = added(None)
    """What the call is about, by the registry; None: that is not told, and it may be about anything."""
    edges: dict[str, str] = {}
    """Failure edge to phase, as the transition names them."""
    waived: tuple[str, ...] = ()
    """Checks that refused, and were overruled by `observe`, of the policy or of the rule."""
    accounts: tuple[Reservation, ...] = added(())
    """What is reserved on accounts that other runs share; given back when it is proven that nothing happened."""
    warnings: tuple[str, ...] = added(())
    """Budgets and accounts of which little is left, which the client is told with the result."""
    data_class: str | None = added(None)
    """Of the result, by the registry."""
    undo: Undo | None = added(None)
    """What is set aside to undo it with; None where nothing can make that necessary."""
    merges: tuple[str, ...] = added(())
    """Transitions whose effects this one takes over for good, or which are undone if its postcondition fails."""


class AttemptResumed(_Verdict):
    """The client brought the input that the upstream asked for: the same attempt goes on, and is charged nothing again.

    Durable before the next round is sent; of several that bring input for one round, one is recorded.
    """

    kind: Literal["attempt.resumed"] = "attempt.resumed"
    attempt: str
    round: Digest
    """The upstream's question, as `attempt.suspended` cites it."""
    said: Digest
    """What the client brought: its input responses, and the upstream's own request state."""
    waived: tuple[str, ...] = added(())
    """As in an intent."""


class AttemptResent(_Verdict):
    """An unknown attempt is about to be sent once more, under the key by which its upstream knows it from a second one.

    Judged again, charged nothing again, and durable before the first byte goes out.
    """

    kind: Literal["attempt.resent"] = "attempt.resent"
    attempt: str
    timeout_s: float
    settles_at: AwareDatetime
    """From here on the upstream can no longer act on either sending."""
    waived: tuple[str, ...] = added(())
    """As in an intent."""
