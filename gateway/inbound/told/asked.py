"""What people were asked in a run, what each of them said, and how long it took: from the records alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from gateway.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalSeen,
    ApprovalWithdrawn,
    AttemptRefuted,
    AttemptUnknown,
    CompensationFailed,
    EscalationAcknowledged,
    ReceiptRecorded,
    RunStopped,
    Verdict,
    Who,
)
from gateway.model.record import Record


class Said(NamedTuple):
    """What one person said, or that nobody did."""

    step: int
    at: datetime
    who: str
    """Empty where it was nobody."""
    word: str
    """`approved`, `rejected`, `happened`, …"""
    reason: str
    took_s: float
    """Since it was asked."""
    looked_s: float | None = None
    """How long they looked at it, as their page says."""


@dataclass(slots=True)
class Asked:
    """A question, or what else waited for a person."""

    step: int
    at: datetime
    name: str
    about: str
    """The tool, or what it was about in a few words."""
    why: str = ""
    said: list[Said] = field(default_factory=list)
    seen_s: float | None = None
    """Until somebody looked at it first."""

    @property
    def answered(self) -> bool:
        """Whether it waits no more, as far as its own records say."""
        return bool(self.said)


def asked_in(records: Iterable[Record]) -> Sequence[Asked]:
    """In the order in which it was asked."""
    found = _Found()
    for record in records:
        found.add(record)
    return tuple(found.asked)


@dataclass
class _Found:
    asked: list[Asked] = field(default_factory=list)
    by_name: dict[str, Asked] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)
    stopped: Record | None = None

    def add(self, record: Record) -> None:
        """What the record says of people, if anything."""
        event = record.event
        if isinstance(event, Verdict) and (attempt := getattr(event, "attempt", None)) is not None:
            self.tools.setdefault(attempt, event.tool)
        match event:
            case ApprovalRequested():
                self._ask(record, event.approval, event.tool, event.because or event.reason)
            case AttemptUnknown():
                self._ask(record, event.attempt, self.tools.get(event.attempt, ""), f"did it happen? {event.reason}")
            case CompensationFailed():
                self._ask(record, f"undo {event.attempt}", self.tools.get(event.attempt, ""), event.reason)
            case RunStopped():
                self.stopped = record
                if event.by is not None:
                    self._say(self._ask(record, record.run, "the run", ""), record, event.by, "stopped", event.reason)
            case EscalationAcknowledged():
                asked = self._ask(self.stopped or record, record.run, "the run, which ended for a person", "")
                self._say(asked, record, event.by, "took over", event.reason)
            case _:
                self._answered(record)

    def _answered(self, record: Record) -> None:
        event = record.event
        asked = self.by_name.get(getattr(event, "approval", None) or getattr(event, "attempt", None) or "")
        if asked is None:
            return
        match event:
            case ApprovalSeen() if asked.seen_s is None:
                asked.seen_s = (record.at - asked.at).total_seconds()
            case ApprovalDecided():
                self._say(asked, record, event.by, event.decision, event.reason, event.active_s)
            case ApprovalWithdrawn():
                self._say(asked, record, event.by, "withdrawn", event.reason)
            case ApprovalExpired():
                self._say(asked, record, None, "expired", "nobody answered in time")
            case ReceiptRecorded():
                word = "happened" if event.source != "upstream" else "answered late"
                who = event.by if event.source == "person" else None
                self._say(asked, record, who, word, event.reason or f"by the {event.source}")
            case AttemptRefuted():
                word = "did not happen, made again" if event.again else "did not happen"
                self._say(asked, record, event.by, word, event.reason)
            case _:
                pass

    def _ask(self, record: Record, name: str, about: str, why: str) -> Asked:
        asked = self.by_name[name] = Asked(record.seq, record.at, name, about, why)
        self.asked.append(asked)
        return asked

    def _say(
        self, asked: Asked, record: Record, who: Who | None, word: str, reason: str, looked_s: float | None = None
    ) -> None:
        took_s = (record.at - asked.at).total_seconds()
        name = "" if who is None else who.id
        asked.said.append(Said(record.seq, record.at, name, word, reason, took_s, looked_s))
