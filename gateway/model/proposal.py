"""What the agent asks: a tool and its arguments. Untrusted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from gateway.model.canonical import Digest
from gateway.model.principal import Principal


class KeySource(StrEnum):
    """Where an idempotency key comes from, strongest first."""

    CALLER = "caller"
    """Our own `_meta` key: the caller means this key and nothing else."""
    CALL_ID = "call_id"
    """The client's id of the model's call (`claudecode/toolUseId`, Codex `callId`)."""
    DERIVED = "derived"
    """From run, tool, canonical arguments and the count of equal attempts already delivered."""
    UNDO = "undo"
    """The attempt that a call of the gateway's own undoes: no attempt is undone twice."""
    FRESH = "fresh"
    """A read: every one is an attempt of its own."""


@dataclass(frozen=True, slots=True)
class Key:
    """The idempotency key of an attempt. Scoped by tenant, principal, run and tool."""

    source: KeySource
    value: str


@dataclass(frozen=True, slots=True)
class Resume:
    """A proposal that goes on with a suspended attempt: the client brings what the upstream asked for."""

    attempt: str
    round: Digest
    """Which question is answered, from the state that we sealed; so each is answered once."""
    said: Digest
    """Of what the client brings, `Proposal.more`."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """One `tools/call`, as the door translated it. Nothing in it grants anything."""

    run: str
    principal: Principal
    tool: str
    """The name that the agent used, ours after federation (`server__tool`)."""
    arguments: Mapping[str, Any]
    """As parsed, untouched; what the upstream will get, exactly."""
    arguments_digest: Digest
    alike: Digest | None = None
    """Of the arguments as `model/alike.py` spells them, where that is another."""
    key: Key | None = None
    """None when the client sent neither a key nor a call id."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """The client's `_meta` without our own keys; relayed, never read by a decision."""
    attribution: Mapping[str, str] = field(default_factory=dict)
    """Who the client says it is (name, version, session and thread ids). Recorded, never trusted."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """What the client brings beside the arguments: `inputResponses`, and the upstream's own `requestState`."""
    resumes: Resume | None = None
    """None for a call of its own."""
    resends: str | None = None
    """The unknown attempt that recovery asks to send again, under its own key; None for what a client proposes."""
    spelled: bytes | None = field(default=None, repr=False, compare=False)
    """The arguments in canonical form, where whoever made the digest has kept it."""
    reported_tokens: int = 0
    """Of the model, since its last call, as the client says. A claim: only a soft budget counts it."""
    compensates: str | None = None
    """The attempt that a call of the gateway's own would undo; None for whatever a client asks."""
    waited: bool = False
    """Its client was kept waiting for a person: nothing is sent unless it is still there."""

    @property
    def equal(self) -> Digest:
        """What equal calls have in common: 2000.0 and 2000 are two spellings of one effect."""
        return self.alike or self.arguments_digest

    def within(self, run: str, more: Mapping[str, Any], resumes: Resume | None) -> "Proposal":
        """The same proposal, made in that run."""
        # Spelled out, as is done at every call: `replace` takes three times as long.
        return Proposal(
            run,
            self.principal,
            self.tool,
            self.arguments,
            self.arguments_digest,
            self.alike,
            self.key,
            self.meta,
            self.attribution,
            more,
            resumes,
            None,
            self.spelled,
            self.reported_tokens,
        )
