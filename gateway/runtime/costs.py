"""What runs cost, read from the ledger run by run: memory is that of one run and of the figures. Nothing is written.

A run's attempts and different results are remembered while it is read; of runs only the dearest are kept.
"""

import heapq
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from gateway.kernel.reduce import CorruptLedger
from gateway.kernel.tally import Sums, Tally
from gateway.kernel.weights import Composed, Given, Load, Weighed
from gateway.model.canonical import Digest
from gateway.model.costs import (
    GROUPINGS,
    By,
    Context,
    Costs,
    Figures,
    Group,
    Measured,
    Priced,
    Repeated,
    Tokens,
    Weight,
)
from gateway.model.events import ReceiptRecorded, RunOpened
from gateway.model.record import Record
from gateway.ports import DamagedRecord, Ledger, UnreadableRecord
from gateway.runtime.newest import newest

MOST = 1_000
"""Groups of one kind that are told."""
HEAVY = 100
"""Results that are told."""
NAMED = 10
"""Damaged runs that are named."""
PAGE = 200
"""Records that are in memory at once."""
KEPT = 4_096
"""Definitions whose length is remembered: the same few stand in most runs."""

SPENDING = (
    "run.opened",
    "proposal.denied",
    "proposal.replayed",
    "proposal.held",
    "approval.requested",
    "approval.decided",
    "approval.expired",
    "approval.withdrawn",
    "attempt.resumed",
    "attempt.resent",
    "attempt.suspended",
    "attempt.unsent",
    "attempt.unknown",
    "attempt.abandoned",
    "receipt.recorded",
    "evidence.recorded",
)
"""Kinds of which a run has one in a time in which it cost something, unless that is a call under way. Without intents,
which are the longest records: to find the runs all of these are read once more.
"""
AMISS = timedelta(minutes=5)
"""By less than that the clocks of gateways differ, so that records of one time stand among those of another."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which costs."""

    run: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    workflow: str | None = None
    tenant: str | None = None

    def inside(self, at: datetime) -> bool:
        """Whether that is in the time that is asked about: from `since` on, and before `until`."""
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)

    def fits(self, opened: RunOpened) -> bool:
        """Whether a run that was opened so is asked about."""
        workflow = self.workflow is None or opened.workflow == self.workflow
        return workflow and (self.tenant is None or opened.principal.tenant == self.tenant)


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Counts tokens of payloads."""

    source: str
    count: Callable[[bytes], int]


class NoSuchCost(Exception):
    """There is no such run."""


async def costs_of(ledger: Ledger, wanted: Wanted, tokenizer: Tokenizer | None = None) -> Costs:
    """The costs that are asked for. With a tokenizer every result is read, and counted.

    Raises: NoSuchCost, LedgerUnavailable; CorruptLedger or UnreadableRecord if the one run that is named is damaged.
    """
    scales, total = _Scales(ledger, tokenizer), _Total()
    async for name in _runs(ledger, wanted):
        try:
            tally = await tallied(ledger, name, wanted, scales)
        except (CorruptLedger, UnreadableRecord):
            if wanted.run is not None:
                raise
            total.damaged(name)
            continue
        if tally is None and wanted.run is not None:
            raise NoSuchCost(f"no run `{name}` is in this ledger; `counterfoil runs` lists them")
        if tally is not None:
            total.take(name, tally)
    return total.told(wanted, tokenizer)


async def _runs(ledger: Ledger, wanted: Wanted) -> AsyncIterator[str]:
    """Each run once that may have something in that time, the newest first."""
    if wanted.run is not None:
        yield wanted.run
    elif wanted.since is None:
        async for record in newest(ledger, ("run.opened",)):
            yield record.run
    else:
        told: set[str] = set()
        kinds = SPENDING if wanted.until is None else (*SPENDING, "intent.recorded")  # its end may lie behind `until`
        async for record in newest(ledger, kinds):
            if record.at < wanted.since - AMISS:
                break
            if record.run not in told and wanted.inside(record.at):
                told.add(record.run)
                yield record.run
        for name in {one.run for one in await ledger.tracked(states={"open"})} - told:
            yield name


async def tallied(ledger: Ledger, name: str, wanted: Wanted, scales: "_Scales") -> Tally | None:
    """The run, added up; None if there is none, or if it is not asked about.

    Raises: LedgerUnavailable.
    """
    tally, after = Tally(wanted.inside), 0
    while some := await ledger.read(name, after, limit=PAGE):
        for record, _ in some:
            if isinstance(record.event, RunOpened) and not wanted.fits(record.event):
                return None
            tally.add(record, await scales.weigh(tally, record, counts=wanted.inside(record.at)))
        after += len(some)
    return tally if after else None


class _Scales:
    """Finds out how long payloads are, by reading them; of most results the receipt says it."""

    def __init__(self, ledger: Ledger, tokenizer: Tokenizer | None) -> None:
        self._ledger = ledger
        self._tokenizer = tokenizer
        self._known: OrderedDict[Digest, Load | None] = OrderedDict()

    async def weigh(self, tally: Tally, record: Record, *, counts: bool) -> Mapping[Digest, Load]:
        """What the tally needs to know of the payloads of this record."""
        cited = tally.wanted(record.event)
        if self._tokenizer is not None and isinstance(record.event, ReceiptRecorded) and counts:
            cited = record.event.result
        load = None if cited is None else await self._load(cited)
        return {} if cited is None or load is None else {cited: load}

    async def _load(self, cited: Digest) -> Load | None:
        """None where it was erased or changed."""
        if cited in self._known:
            self._known.move_to_end(cited)
            return self._known[cited]
        try:
            body = await self._ledger.payload(cited)
        except DamagedRecord:
            body = None
        tokens = None if body is None or self._tokenizer is None else self._tokenizer.count(body)
        load = self._known[cited] = None if body is None else Load(len(body), tokens)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return load


# --- all runs together ------------------------------------------------------------------------------------------------


@dataclass
class _Total:
    runs: int = 0
    unreadable: list[str] = field(default_factory=list)
    unreadable_more: int = 0
    whole: Sums = field(default_factory=Sums)
    by: dict[By, dict[str, Sums]] = field(default_factory=lambda: {by: {} for by in GROUPINGS})
    more: dict[By, int] = field(default_factory=dict)
    context: dict[str, Composed] = field(default_factory=dict)
    results: list[tuple[int, str, int, Digest, Given]] = field(default_factory=list)
    policies: set[Digest] = field(default_factory=set)

    def damaged(self, run: str) -> None:
        """The run is not in the figures."""
        if len(self.unreadable) < NAMED:
            self.unreadable.append(run)
        else:
            self.unreadable_more += 1

    def take(self, run: str, tally: Tally) -> None:
        """All of the run is in the figures, if there is anything."""
        whole, opened = tally.whole, tally.opened
        if not whole.any:
            return
        self.runs += 1
        self.whole.take(whole)
        self.policies |= tally.policies
        self._group("run", run, whole)
        if opened is not None:
            self._group("principal", f"{opened.principal.tenant}/{opened.principal.id}", whole)
        for place, sums in tally.places.items():
            self._group("phase", place.phase, sums)
            self._group("transition", place.transition, sums)
            self._group("tool", place.tool, sums)
        for tool, composed in tally.context.items():
            self.context.setdefault(tool, Composed()).take(composed)
        told = (
            (one.times * one.size_bytes - one.spared, run, one.step, digest, one)
            for digest, one in tally.given.items()
            if one.times
        )
        self.results = heapq.nlargest(HEAVY, (*self.results, *told), key=lambda one: one[0])

    def _group(self, by: By, name: str, sums: Sums) -> None:
        groups = self.by[by]
        groups.setdefault(name, Sums()).take(sums)
        if by == "run" and len(groups) > 2 * MOST:  # a run comes once, so that none that is let go comes back
            kept = heapq.nlargest(MOST, groups.items(), key=lambda one: _dear(one[1]))
            self.more[by] = self.more.get(by, 0) + len(groups) - len(kept)
            self.by[by] = dict(kept)

    def told(self, wanted: Wanted, tokenizer: Tokenizer | None) -> Costs:
        """As it is told to others."""
        counted = tokenizer is not None
        groups, more = dict[By, tuple[Group, ...]](), dict(self.more)
        for by, found in self.by.items():
            kept = heapq.nlargest(MOST, found.items(), key=lambda one: _dear(one[1]))
            groups[by] = tuple(Group(name=name, figures=_figures(sums, counted=counted)) for name, sums in kept)
            if len(found) > len(kept):
                more[by] = more.get(by, 0) + len(found) - len(kept)
        return Costs(
            since=None if wanted.since is None else wanted.since.isoformat(timespec="seconds"),
            until=None if wanted.until is None else wanted.until.isoformat(timespec="seconds"),
            runs=self.runs,
            unreadable=tuple(self.unreadable),
            unreadable_more=self.unreadable_more,
            policies=tuple(sorted(self.policies)),
            tokenizer=None if tokenizer is None else tokenizer.source,
            all=_figures(self.whole, counted=counted),
            groups=groups,
            more=more,
            context=_context(self.context, counted=counted),
            results=tuple(_repeated(*one[1:]) for one in self.results),
        )


def _dear(sums: Sums) -> tuple[int, int, int]:
    """By what groups stand in order: cost, then what was put before a model, then calls."""
    return sums.cost + sums.verifier_cost, sums.result_bytes, sums.calls


def _figures(sums: Sums, *, counted: bool) -> Figures:
    return Figures(
        measured=Measured(**{name: getattr(sums, name) for name in Measured.model_fields}),
        priced=Priced(calls=sums.cost / 1_000_000, verifiers=sums.verifier_cost / 1_000_000),
        tokens=Tokens(
            estimated=sums.estimated,
            counted=sums.counted if counted else None,
            uncounted=sums.uncounted if counted else 0,
        ),
        reported_tokens=sums.reported,
    )


def _context(found: Mapping[str, Composed], *, counted: bool) -> tuple[Context, ...]:
    told = tuple(
        Context(
            tool=tool,
            results=_weight(one.results, counted=counted),
            again=_weight(one.again, counted=counted),
            refusals=one.refusals,
            definitions=_weight(one.definitions, counted=counted),
            unweighed=one.unweighed,
        )
        for tool, one in found.items()
    )
    return tuple(
        heapq.nlargest(MOST, told, key=lambda one: one.results.size_bytes + one.definitions.size_bytes),
    )


def _weight(one: Weighed, *, counted: bool) -> Weight:
    tokens = Tokens(
        estimated=one.estimated, counted=one.counted if counted else None, uncounted=one.uncounted if counted else 0
    )
    return Weight(times=one.times, size_bytes=one.size_bytes, tokens=tokens)


def _repeated(run: str, step: int, digest: Digest, one: Given) -> Repeated:
    whole, again = one.times * one.size_bytes - one.spared, one.again * one.size_bytes - one.spared_again
    return Repeated(
        run=run, step=step, tool=one.tool, result=digest, times=one.times, size_bytes=whole, again_bytes=again
    )
