"""The log, record by record: is it what was recorded, does it follow, is it legal, and what does it cite?"""

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from gateway.kernel.asking import listed
from gateway.kernel.audit import Breach, Step, Together, breaches, refused
from gateway.kernel.reduce import CorruptLedger, reduce
from gateway.kernel.rules import Rules
from gateway.model.alike import alike_digest
from gateway.model.canonical import SCHEME, Digest, NotStrictJson, parse
from gateway.model.events import (
    Event,
    Replayed,
    RunOpened,
)
from gateway.model.policy import Policy
from gateway.model.policy.older import newer
from gateway.model.record import SCHEMA, Record, decode, link
from gateway.model.run import Run
from gateway.ports import Ledger, Logged, UnreadableRecord
from gateway.runtime.audit.lines import Line, Lines
from gateway.runtime.audit.report import Cited, Report, Unreadable, Wanted
from gateway.runtime.book import given_way, subjects, tracked_as
from gateway.runtime.explain import Kept, NotRecorded, again, differences, rules_in, same, stored_in, verdict_of
from gateway.runtime.wire import ANY_DEPTH

_DIGEST = re.compile(rb'"(c1:[0-9a-f]{64})"')
_STORED = (
    "arguments",
    "definition",
    "policy",
    "result",
    "answer",
    "artifact",
    "round",
    "said",
    "source",
    "target",
    "plan",
    "note",
    "claim",
)
"""Fields of events that cite payloads, wherever they are digests. `hold`, `alike` and `action` cite none."""
_POLICIES = 64
"""Texts that are kept at hand."""


class Walk:
    """One pass over the log."""

    def __init__(self, ledger: Ledger, wanted: Wanted, report: Report, together: Together, cited: Cited) -> None:
        self.moved: set[str] = set()
        """Attempts that moved since `meanwhile`."""
        self.lost: set[str] = set()
        """Runs of which a record is not what it was, so that their state cannot be told."""
        self._ledger = ledger
        self._wanted = wanted
        self._report = report
        self._together = together
        self._cited = cited
        self._lines = Lines(ledger)
        self._policies: OrderedDict[Digest, Policy | None] = OrderedDict()
        self._rules: OrderedDict[Digest, Rules | None] = OrderedDict()
        self._meanwhile = False

    def meanwhile(self) -> None:
        """What comes now was appended while the tables were read."""
        self._meanwhile = True
        self._together.stood = {}

    async def take(self, one: Logged) -> None:
        """The next record of the log.

        Raises: Unreadable, LedgerUnavailable.
        """
        self._report.records += 1
        self._report.runs += one.seq == 1
        line = await self._lines.before(one.run, one.seq)
        record = self._record(one)
        self._chain(one, line, record)
        after = None
        if record is not None and line.run is not None:
            after = await self._step(line.run, record, one.link)
        if after is None:
            self.lost.add(one.run)
        if one.seq > line.seq:
            self._lines.moved(one.run, after, one.seq, one.link)
        if record is not None:
            self._cited.cite([(digest, record.id) for digest in _payloads(record.event)], _others(one.body))

    def _broken(self, number: str, where: str, says: str) -> None:
        self._report.broken(Breach(number, where, says))

    # --- as it is stored --------------------------------------------------------------------------------------------

    def _record(self, one: Logged) -> Record | None:
        """The record in the stored bytes; None if they are not what was recorded."""
        where = f"{one.run}#{one.seq}"
        if link(one.body) != one.link:
            self._broken("I1", where, f"its bytes, at place {one.place}, are not those that were recorded")
            return None
        try:
            record = decode(one.body)
        except ValueError as error:
            if _schema_of(one.body) > SCHEMA:
                raise Unreadable(f"record `{where}` was written by a newer version; verify with that one") from error
            self._broken("I1", where, f"what stands at place {one.place} is no record")
            return None
        if (record.run, record.seq) != (one.run, one.seq):
            self._broken("I1", where, f"at place {one.place} stands the record `{record.id}` in its stead")
            return None
        if record.event.kind != one.kind:
            self._broken("I18", where, f"it is filed as `{one.kind}` and is `{record.event.kind}`: lists go by that")
        return record

    def _chain(self, one: Logged, line: Line, record: Record | None) -> None:
        where, due = f"{one.run}#{one.seq}", line.seq + 1
        if one.seq > due:
            gone = f"{one.run}#{due}" if one.seq == due + 1 else f"{one.run}#{due} to #{one.seq - 1}"
            self._broken("I1", gone, f"gone: the log has nothing of it before `{where}`, at place {one.place}")
        elif one.seq < due:
            self._broken("I1", where, f"it stands at place {one.place}, after `{one.run}#{line.seq}`")
        elif record is not None and record.previous != line.head:
            self._broken("I1", where, "it does not continue the record before it")
        else:
            return
        line.run = None  # what its run is cannot be told from here on

    # --- as it is meant ---------------------------------------------------------------------------------------------

    async def _step(self, before: Run, record: Record, chained: str) -> Run | None:
        """The run after the record, if that can follow."""
        try:
            after = reduce(before, record, chained)
        except CorruptLedger as error:
            self._report.broken(refused(before, record, str(error)))
            return None
        event = record.event
        if isinstance(event, RunOpened) and event.parent is not None:
            self._together.opened_from(await self._lines.state_of(event.parent))
        step = Step(before, record, after, await self._policy(before.policy))
        for breach in breaches(step):
            self._report.broken(breach)
        tracked = {name: tracked_as(after, after.attempts[name]) for name in subjects(after, event)}
        asked, answered = listed(after, event)
        tracked |= dict.fromkeys(answered) | asked
        for breach in self._together.note(step, tracked, given_way(before, event)):
            self._report.broken(breach)
        if self._meanwhile:
            self.moved |= {one for one in (*tracked, given_way(before, event)) if one is not None}
        if isinstance(event, Replayed):
            await self._replayed(before, record, event)
        if self._wanted.judge:
            await self._judge(before, record)
        return after

    async def _replayed(self, before: Run, record: Record, event: Replayed) -> None:
        """What a call was answered from was recorded of an equal call: 2000 and 2000.0 are, 1 and 2 are not."""
        attempt = before.attempts.get(event.attempt)
        if attempt is None or attempt.intent.arguments == event.arguments:
            return
        asked, made = await self._payload(event.arguments), await self._payload(attempt.intent.arguments)
        if asked is None or made is None:
            return  # erased: it cannot be told any more
        one, other = (
            alike_digest(dict(each), self._ledger.salt) or cited
            for each, cited in ((asked, event.arguments), (made, attempt.intent.arguments))
        )
        if one != other:
            self._broken("I6", record.id, f"it was answered from the record of `{attempt.id}`, whose arguments differ")

    async def _payload(self, digest: Digest) -> Mapping[str, Any] | None:
        try:
            body = await self._ledger.payload(digest)
            found = parse(body, max_depth=ANY_DEPTH) if body is not None else None
        except (UnreadableRecord, NotStrictJson):
            return None  # told where payloads are looked at
        return found if isinstance(found, dict) else None

    async def _policy(self, cited: Digest | None) -> Policy | None:
        if cited is None:
            return None
        if cited not in self._policies:
            body = await self._payload(cited)
            try:
                self._policies[cited] = Policy.model_validate(newer(dict(body))) if body is not None else None
            except ValueError:
                self._policies[cited] = None  # in the language of another version
            while len(self._policies) > _POLICIES:
                self._policies.popitem(last=False)
        return self._policies[cited]

    # --- judged again -----------------------------------------------------------------------------------------------

    async def _judge(self, before: Run, record: Record) -> None:
        verdict = verdict_of(record)
        if verdict is None:
            return
        try:
            rules = await self._compiled(verdict.policy)
            arguments = await stored_in(self._ledger, verdict.arguments)
            definition = await stored_in(self._ledger, verdict.definition)
            kept = Kept(before, record, verdict, self._ledger.salt, rules, arguments, definition)
            judged = again(kept)
        except (NotRecorded, NotStrictJson):
            self._report.not_judged += 1
            return
        if same(differences(verdict, judged.verdict)):
            self._report.judged += 1
        elif judged.assumed:
            self._report.not_judged += 1
        else:
            self._report.judged += 1
            says = f"by its own policy it becomes `{judged.verdict.kind}` today, or another one than was recorded"
            self._broken("I17", record.id, says)

    async def _compiled(self, cited: Digest) -> Rules | None:
        if cited not in self._rules:
            self._rules[cited] = await rules_in(self._ledger, cited)
            while len(self._rules) > _POLICIES:
                self._rules.popitem(last=False)
        return self._rules[cited]


def _schema_of(body: bytes) -> int:
    try:
        found = parse(body, max_depth=ANY_DEPTH)
    except NotStrictJson:
        return 0
    version = found.get("schema_version") if isinstance(found, dict) else None
    return version if isinstance(version, int) else 0


def _payloads(event: Event) -> Iterator[Digest]:
    """What the event cites that must be stored, or was erased."""
    for name in _STORED:
        cited = getattr(event, name, None)
        if isinstance(cited, str) and cited.startswith(f"{SCHEME}:"):  # not the `source` of a receipt, say
            yield Digest(cited)


def _others(body: bytes) -> Iterator[str]:
    """Whatever else in a record may be a payload's digest, such as what a precondition's probe found."""
    for found in _DIGEST.findall(body):
        yield found.decode()
