"""Steps for the ledgers' tests: a run as its one writer knows it, and the attempts that it tracks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.model.canonical import Digest
from gateway.model.events import ApprovalRequested, Event, OutcomeDelivered, RunOpened, Who
from gateway.model.record import GENESIS, Record, encode, link, utc
from gateway.model.run import Tracked
from gateway.ports import Append, Exhausted, Ledger, Posting

T0 = 1_800_000_000.0

POLICY = Digest("c1:policy")


@dataclass
class Line:
    """What it appends next continues what it appended last, whether or not that was stored."""

    run: str
    expected: tuple[int, str] = (0, GENESIS)
    at: float = T0

    def step(self, *events: Event, **fields: Any) -> Append:
        """The next step; one small event if none is given."""
        version, head = expected = self.expected
        records = []
        for event in events or (small(),):
            record = Record(run=self.run, seq=version + 1, at=utc(self.at + version), previous=head, event=event)
            records.append(record)
            version, head = version + 1, link(encode(record))
        self.expected = version, head
        return Append(self.run, expected, records, **fields)

    def tracking(self, *attempts: Tracked, untrack: Sequence[str] = ()) -> Append:
        """The next step, which tracks these."""
        return self.step(track=attempts, untrack=untrack)

    def paying(self, payloads: Mapping[Digest, bytes]) -> Append:
        """The next step, which cites these."""
        return self.step(payloads=payloads)


def small(attempt: str = "att_1") -> OutcomeDelivered:
    return OutcomeDelivered(attempt=attempt)


def opened(goal: str = "") -> RunOpened:
    return RunOpened(principal=Who(tenant="local", id="user"), workflow="test", policy=POLICY, phase="open", goal=goal)


def asked(approval: str = "apr_1") -> ApprovalRequested:
    return ApprovalRequested(
        tool="pay",
        arguments=Digest("c1:arguments"),
        policy=POLICY,
        phase="open",
        checks=(),
        approval=approval,
        action=Digest("c1:action"),
        rule="pay",
        expires_at=utc(T0 + 60),
        reason="a person must agree",
    )


def attempt(
    name: str,
    run: str = "run_1",
    *,
    state: str = "open",
    hold: str | None = None,
    owner: str = "gw_1",
    lease_until: float = T0,
) -> Tracked:
    return Tracked(name, run, state, None if hold is None else Digest(hold), owner, lease_until)


def posting(
    account: str, amount: int, *, unit: str = "calls", limit: int | None = None, until: float | None = None
) -> Posting:
    return Posting(account, unit, amount, limit, until)


def posts(run: str, *postings: Posting) -> Append:
    """The first step of that run, which posts these."""
    return Line(run).step(opened(), postings=postings)


async def refused(ledger: Ledger, step: Append) -> tuple[object, ...]:
    """What of the account the ledger says when it refuses the step."""
    with pytest.raises(Exhausted) as raised:
        await ledger.append(step)
    return raised.value.account, raised.value.unit, raised.value.level, raised.value.limit
