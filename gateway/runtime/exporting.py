"""Runs for somebody who has not the ledger: their records, what these cite, and proofs that all of it was in the log.

A line of JSON each, in this order: what it is, the newest checkpoint, then run by run its records and, after each
record, the payloads that it cites for the first time. `check` reads it back and trusts nothing of it but the
checkpoint's root, for which there are signatures.
"""

import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gateway.kernel.merkle import BadProof, Parts, Range, included, path
from gateway.model.at_rest import redacted_copy, sealed_by
from gateway.model.canonical import Digest, NotStrictJson, canonical, parse
from gateway.model.note import BadNote, Note, origin_of, read_note
from gateway.model.record import GENESIS, link
from gateway.ports import Ledger, Logged, Redactor
from gateway.runtime.wire import ANY_DEPTH

VERSION = 1
"""Of the form of the lines."""
_BATCH = 2_000
_DIGEST = re.compile(rb'"(c1:[0-9a-f]{64})"')

Line: TypeAlias = Mapping[str, Any]


async def exported(ledger: Ledger, runs: Sequence[str], redactor: Redactor | None) -> AsyncIterator[Line]:
    """The lines. Without a redactor all is as it was said.

    Raises: LedgerUnavailable.
    """
    newest = next(iter(await ledger.checkpoints(limit=1)), None)
    numbers = await _numbers(ledger, frozenset(runs))
    size = 0 if newest is None else newest.size
    paths = {number: path(number, size) for _, number in numbers if number < size}
    roots = await _roots(ledger, {part for parts in paths.values() for part in parts})
    yield {"counterfoil_export": VERSION, "origin": origin_of(ledger.salt), "runs": list(runs), "raw": redactor is None}
    if newest is not None:
        yield {"checkpoint": newest.note}
    told = set[str]()
    for one, number in sorted(numbers, key=lambda pair: (runs.index(pair[0].run), pair[0].seq)):
        way = [roots[part].hex() for part in paths[number]] if number in paths else None
        yield _record(one, number, way, redactor)
        for cited in _DIGEST.findall(one.body):
            digest = cited.decode()
            if digest not in told:
                told.add(digest)
                line = await _payload(ledger, Digest(digest), redactor)
                if line is not None:
                    yield line


async def _numbers(ledger: Ledger, runs: frozenset[str]) -> list[tuple[Logged, int]]:
    """The records of these runs, each with its number in the log, from 0."""
    found, number, after = list[tuple[Logged, int]](), 0, 0
    while batch := await ledger.log(after, limit=_BATCH):
        for one in batch:
            if one.run in runs:
                found.append((one, number))
            number += 1
        after = batch[-1].place
    return found


async def _roots(ledger: Ledger, wanted: Iterable[Range]) -> dict[Range, bytes]:
    """The root of each of these parts of the log: those of one length never overlap, so one pass does for all."""
    by_length = defaultdict[int, list[Range]](list)
    for part in wanted:
        by_length[part[1] - part[0]].append(part)
    groups, after = [Parts(parts) for parts in by_length.values()], 0
    while any(not one.complete for one in groups) and (batch := await ledger.links(after, limit=_BATCH)):
        for after, chained in batch:  # noqa: B007 - the last one counts
            for group in groups:
                group.add(bytes.fromhex(chained))
    return {part: root for group in groups for part, root in group.roots.items()}


def _record(one: Logged, number: int, way: Sequence[str] | None, redactor: Redactor | None) -> Line:
    record = parse(one.body, max_depth=ANY_DEPTH)
    # Links, places and names of runs are what it is proven by; what was said stands in the event.
    event = record["event"] if redactor is None else redactor.redact(record["event"])
    line = {"record": {**record, "event": event}, "link": one.link, "number": number, "path": way}
    return line if event == record["event"] else {**line, "redacted": True}


async def _payload(ledger: Ledger, digest: Digest, redactor: Redactor | None) -> Line | None:
    """What is told of it; None of what is no payload."""
    rows = await ledger.payloads(digest[:-1], limit=1)
    if not rows or rows[0][0] != digest:
        at = (await ledger.erased([digest])).get(digest)
        return None if at is None else {"payload": digest, "erased_at": at}
    stored = rows[0][1]
    if sealed_by(stored) is not None:
        return {"payload": digest, "encrypted": True}
    copy = redacted_copy(stored)
    value = parse(stored if copy is None else copy, max_depth=ANY_DEPTH)
    shown = value if redactor is None else redactor.redact(value)
    line = {"payload": digest, "value": shown}
    return line if copy is None and shown == value else {**line, "redacted": True}


# --- read back ------------------------------------------------------------------------------------------------------


class BadExport(ValueError):
    """It is no export, or not what was in the log. The message is one line."""


@dataclass(slots=True)
class Checked:
    """What an export proves."""

    origin: str = ""
    note: Note | None = None
    """The checkpoint that it is proven by; its signatures are not checked here."""
    records: int = 0
    proven: int = 0
    """Records that are under the checkpoint; later ones only continue those."""
    redacted: int = 0
    """Records whose links are proven, and whose words were taken out."""
    payloads: int = 0
    runs: dict[str, int] = field(default_factory=dict)


def check(lines: Iterable[bytes]) -> Checked:
    """What is proven of all the lines.

    Raises: BadExport.
    """
    found, heads = Checked(), dict[str, tuple[int, str]]()
    for number, line in enumerate(lines, 1):
        try:
            _checked(parse(line, max_depth=ANY_DEPTH), number, found, heads)
        except (NotStrictJson, KeyError, TypeError, AttributeError, ValueError, BadProof, BadNote) as error:
            why = (
                str(error)
                if isinstance(error, BadExport | BadProof | BadNote | NotStrictJson)
                else "it is no such line"
            )
            raise BadExport(f"line {number}: {why}") from None
    if not found.origin:
        raise BadExport("it is empty")
    return found


def _checked(told: Any, number: int, found: Checked, heads: dict[str, tuple[int, str]]) -> None:
    if number == 1:
        if told["counterfoil_export"] != VERSION:
            raise BadExport("it is of a form that this version does not know")
        found.origin = str(told["origin"])
    elif "checkpoint" in told:
        found.note = read_note(told["checkpoint"])
        if found.note.origin != found.origin:
            raise BadExport(f"its checkpoint is of another ledger, `{found.note.origin}`")
    elif "record" in told:
        _check_record(told, found, heads)
    else:
        found.payloads += str(told["payload"]).startswith("c1:")


def _check_record(told: Any, found: Checked, heads: dict[str, tuple[int, str]]) -> None:
    record, chained = told["record"], str(told["link"])
    run, seq = str(record["run"]), int(record["seq"])
    version, head = heads.get(run, (0, GENESIS))
    if (seq, record["previous"]) != (version + 1, head):
        raise BadExport(f"`{run}#{seq}` does not continue the record before it")
    if told.get("redacted"):
        found.redacted += 1
    elif link(canonical(record)) != chained:
        raise BadExport(f"`{run}#{seq}` is not what was recorded")
    if told["path"] is not None:
        way = [bytes.fromhex(part) for part in told["path"]]
        note = found.note
        if note is None or included(bytes.fromhex(chained), int(told["number"]), note.size, way) != note.root:
            raise BadExport(f"`{run}#{seq}` is not under the root of the checkpoint")
        found.proven += 1
    heads[run] = seq, chained
    found.records += 1
    found.runs[run] = seq
