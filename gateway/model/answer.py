"""What the client is told: the upstream's own result, or one typed object of ours.

`Refusal` is public: its JSON Schema is published with the package, and clients may switch on `outcome`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from gateway.model.canonical import Digest
from gateway.model.events import Outcome


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PolicyRef(_Part):
    """Which policy decided, and which of its rules."""

    name: str
    digest: Digest
    rule: str | None = None


class Cited(_Part):
    """A record of the run, and what it says in one sentence."""

    event: str
    says: str


class BudgetLeft(_Part):
    """What this call was charged, and what the run has left. Only budgets that policy limits are listed."""

    charged: dict[str, float] = {}
    left: dict[str, float] = {}


class ApprovalHandle(_Part):
    """The request that a person must answer."""

    id: str
    approve_at: str
    """The command with which a reviewer decides."""
    page: str | None = None
    """Where the console, if there is one, shows it to a reviewer who comes in there by themselves; no key."""
    expires_at: str


class Undone(_Part):
    """An effect that must not stay, and the gateway's own call that undoes it."""

    attempt: str
    """The one that made it."""
    state: Literal["undone", "under_way", "waits", "failed"]
    """`waits`: for a person, an upstream, or another call; `failed`: a person must undo it."""
    tool: str
    """Of the call that undoes it."""
    by: str | None = None
    """The attempt that this call is, once it is recorded."""
    says: str
    """One sentence."""


class Failure(_Part):
    """What a verifier found that does not hold: enough to mend it, and not "try again"."""

    verifier: str
    signature: str | None = None
    """The same for equal failures."""
    scope: dict[str, Any] = {}
    """What was checked: which tests, which revision, where."""
    found: Any = None
    """What it saw. Long texts have lost their middle, long lists their end."""
    cut: bool = False
    """Whether something of it is missing."""


class Refusal(_Part):
    """Every refusal, hold and stop. Sent with `isError: true`, in `structuredContent` and as the one text block."""

    outcome: Outcome
    terminal: bool
    """The run is over; every further call gets this same object."""
    executed: Literal[True, False, "unknown"]
    """Whether the effect happened, as far as is known."""
    run: str
    phase: str
    tool: str
    attempt: str | None = None
    policy: PolicyRef
    reason: str
    """One sentence."""
    evidence: tuple[Cited, ...] = ()
    budget: BudgetLeft = BudgetLeft()
    retry_after_s: float | None = None
    approval: ApprovalHandle | None = None
    violations: tuple[dict[str, str], ...] | None = None
    """For `invalid_arguments`: each `path` and what was `expected` there."""
    warnings: tuple[str, ...] | None = None
    """What ends the run soon: that the same failure once more does."""
    failure: Failure | None = None
    """For `verification_failed`: what was found."""
    undone: tuple[Undone, ...] | None = None
    """What the gateway undid of what this is about, the newest first; or why it did not."""
    next: str
    """What the client may do now."""


RECORD_KEY = "counterfoil/record"
"""Our one key in a relayed result's `_meta`, and in a relayed error's `data`. What a server writes there is not
ours, and is taken out [hardening T37].
"""


def unforged(error: Mapping[str, Any]) -> Mapping[str, Any]:
    """A server's JSON-RPC error, without what stands under our key."""
    data = error.get("data")
    if not isinstance(data, Mapping) or RECORD_KEY not in data:
        return error
    return {**error, "data": {key: value for key, value in data.items() if key != RECORD_KEY}}


@dataclass(frozen=True, slots=True)
class Shown:
    """The answer to one proposal. Exactly one of `result`, `error` and `refusal` is set."""

    run: str
    attempt: str | None = None
    result: Mapping[str, Any] | None = None
    """The upstream's `CallToolResult`, unchanged but for what policy bounds."""
    error: Mapping[str, Any] | None = None
    """The upstream's JSON-RPC error (`code`, `message`, perhaps `data`), unchanged."""
    refusal: Refusal | None = None
    record: Mapping[str, Any] | None = None
    """The value for `RECORD_KEY`: run, attempt, phase, budget left, evidence, replayed."""
    awaits: Literal["input", "task"] | None = None
    """`result` is no end: the upstream asks for input, or made a task of the call."""
    round: Digest | None = None
    """Of the upstream's question, if it asks for input."""
    deliver_by: float | None = None
    """Monotonic seconds; an outcome that is written later counts as undelivered."""
    told_bytes: int | None = None
    """The size of `result` or `error`, where policy bounds what is told of results."""

    @property
    def over(self) -> bool:
        """Whether it says that the run is over."""
        told = self.refusal is not None and self.refusal.terminal
        return told or (self.record is not None and "stopped" in self.record)

    def due(self, by: float) -> "Shown":
        """The same answer, to be delivered by then."""
        # Spelled out, as is done at every call: `replace` takes three times as long.
        return Shown(
            self.run,
            self.attempt,
            self.result,
            self.error,
            self.refusal,
            self.record,
            self.awaits,
            self.round,
            by,
            self.told_bytes,
        )
