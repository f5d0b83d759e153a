"""What a client is told, and what a tool does to the world: the two closed lists that everything else names."""

from enum import StrEnum


class Outcome(StrEnum):
    """What the client is told. The first block leaves the run going, the second ends it."""

    DENIED = "denied"
    INVALID_ARGUMENTS = "invalid_arguments"
    CONFLICT = "conflict"
    HELD = "held"
    """An effect is unknown: a person or recovery must act."""
    IN_FLIGHT = "in_flight"
    NEEDS_APPROVAL = "needs_approval"
    NEEDS_ACCOUNT = "needs_account"
    """Whoever is behind the call must connect an account of theirs first."""
    RATE_LIMITED = "rate_limited"
    TIMEOUT_UNKNOWN = "timeout_unknown"
    VERIFICATION_FAILED = "verification_failed"
    TOOL_WITHHELD = "tool_withheld"
    UPSTREAM_UNAVAILABLE = "upstream_unavailable"
    LEDGER_UNAVAILABLE = "ledger_unavailable"

    VERIFIED_SUCCESS = "verified_success"
    INFEASIBLE = "infeasible"
    BUDGET_EXHAUSTED = "budget_exhausted"
    POLICY_DENIED = "policy_denied"
    REPEATED_STATE = "repeated_state"
    DEADLINE_MISSED = "deadline_missed"
    HUMAN_ESCALATION = "human_escalation"


TERMINAL = frozenset(list(Outcome)[list(Outcome).index(Outcome.VERIFIED_SUCCESS) :])
"""The outcomes that end a run."""


class Effect(StrEnum):
    """What a tool does to the world, as far as the registry knows; worse than `write` is `destructive`."""

    READ = "read"
    WRITE = "write"
    DESTRUCTIVE = "destructive"
