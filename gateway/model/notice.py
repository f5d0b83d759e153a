"""A message to people that something waits for them, and the record that a channel took it, or never will."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from gateway.model.asked import Risk
from gateway.model.event_parts import Frozen, Who

Subject: TypeAlias = Literal["approval", "unknown", "escalation"]
"""What may wait for a person: a question, an attempt whose outcome is unknown, a run that was handed over."""

SUBJECTS: tuple[Subject, ...] = ("approval", "unknown", "escalation")

Stage: TypeAlias = Literal["asked", "soon", "over"]
"""Somebody is asked; the time to answer is nearly up; nobody need answer any more."""


class NoticeSent(Frozen):
    """A channel took the message, or it is not tried any more. No decision reads it."""

    kind: Literal["notice.sent"] = "notice.sent"
    about: str
    """The approval, the attempt or the run that waits."""
    channel: str
    notice: str
    """The message's id, by which whoever gets it twice knows that it is the same."""
    outcome: Literal["delivered", "failed"]
    tries: int = 1
    """By the gateway that made the last one."""
    reason: str = ""
    """Why it failed; no address and no secret."""


@dataclass(frozen=True, slots=True)
class Notice:
    """What a channel is to say. All of it is plain text, whatever the channel would make of it."""

    id: str
    """The same each time that it is sent."""
    kind: str
    """`approval.asked`, `test`, …"""
    title: str
    body: str
    """Lines."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """The same for machines: values of JSON."""


@dataclass(frozen=True, slots=True)
class Audience:
    """What a channel is told of: all that it says, where it says something."""

    about: frozenset[Subject] = frozenset(SUBJECTS)
    risk: Risk = "low"
    """At least."""
    tenants: frozenset[str] = frozenset()
    """Of whoever asks."""
    roles: frozenset[str] = frozenset()
    """Questions that somebody in one of these may answer, those that anybody may among them."""
    reviewer: Who | None = None
    """The one person who reads it."""


def notice_id(run: str, seq: int, channel: str, stage: Stage) -> str:
    """The id of the message to that channel about what the run's record at `seq` asks. It has no full stop."""
    return f"{run}#{seq}:{channel}" if stage == "asked" else f"{run}#{seq}:{channel}:{stage}"
