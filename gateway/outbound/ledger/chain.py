"""A step's records as they are stored, each the continuation of the one before. The same for every ledger."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from gateway.model.at_rest import redacted_copy, sealed_by
from gateway.model.canonical import Digest, digest_bytes
from gateway.model.record import GENESIS, Record, decode, link
from gateway.outbound.ledger.accounts import check_postings
from gateway.ports import Append, Conflict, DamagedRecord, LockedPayload, Occupied, Tracked, UnreadableRecord

ROOM = 65_536
"""Bytes that `touch` stores, always in the same place: more than most appends, so that these will fit as well."""

UNOPENED = (0, GENESIS)
"""Version and head of a run without records."""


class Entry(NamedTuple):
    """One record, its stored bytes and the hash that the next one cites."""

    record: Record
    body: bytes
    link: str


def entries(step: Append) -> Sequence[Entry]:
    """The step's records, encoded; they follow `expected` and each other without a gap.

    Raises: ValueError for records that do not, for attempts of another run, and for postings or texts that no ledger
    can hold: the caller is wrong.
    """
    version, head = step.expected
    made: list[Entry] = []
    for record in step.records:
        if (record.run, record.seq, record.previous) != (step.run, version + 1, head):
            raise ValueError(f"record `{record.id}` does not continue run `{step.run}` after {version} records")
        body, linked = record.sealed
        version, head = version + 1, linked
        made.append(Entry(record, body, head))
    for tracked in step.track:
        if tracked.run != step.run:
            raise ValueError(f"attempt `{tracked.attempt}` of run `{tracked.run}` cannot be tracked by `{step.run}`")
    if not storable(
        (step.run, *step.beside, *step.untrack, *step.payloads, *(text for one in step.track for text in _texts(one)))
    ):
        raise ValueError(f"a text in a step of run `{step.run!r}` cannot be stored by every ledger")
    check_postings(step)
    return made


def storable(values: Iterable[Any]) -> bool:
    """Whether the texts among these, also in lists of texts, are such as every ledger can hold: Unicode without NUL,
    which PostgreSQL has no way to store, and without half a surrogate pair. What asks for others asks for nothing.
    """
    return all(
        storable(value) if isinstance(value, list | tuple) else not isinstance(value, str) or _is_text(value)
        for value in values
    )


def _is_text(value: str) -> bool:
    return "\0" not in value and (value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value))


def _texts(tracked: Tracked) -> Collection[str]:
    return tracked.attempt, tracked.state, tracked.hold or "", tracked.owner


def check_expected(step: Append, found: tuple[int, str]) -> None:
    """The run is where the caller believes it to be.

    Raises: Conflict.
    """
    _check_at(step.run, step.expected, found)


def check_beside(step: Append, head_of: Callable[[str], tuple[int, str]]) -> None:
    """The runs that the step was decided by are where the caller believes them to be.

    Raises: Conflict.
    """
    for run, expected in step.beside.items():
        _check_at(run, expected, head_of(run))


def _check_at(run: str, expected: tuple[int, str], found: tuple[int, str]) -> None:
    if found != expected:
        at = "the same version with another head" if found[0] == expected[0] else f"version {found[0]}"
        raise Conflict(f"run `{run}` was expected at version {expected[0]} and is at {at}")


def check_holds(step: Append, holder: Callable[[Digest], Tracked | None]) -> None:
    """No two attempts would have the same hold after the step; `holder` is who has it before.

    Raises: Occupied.
    """
    new: dict[str, Tracked] = {}
    for tracked in step.track:
        if tracked.hold is not None:
            held = holder(tracked.hold)
            if held is not None and held.attempt not in step.untrack and held.attempt not in new:
                _check_same(tracked, held)
            for other in new.values():
                _check_same(tracked, other)
        new[tracked.attempt] = tracked


def _check_same(tracked: Tracked, other: Tracked) -> None:
    if other.hold == tracked.hold and other.attempt != tracked.attempt:
        raise Occupied(other)


def decoded(body: bytes, stored_link: str) -> Record:
    """The record in these stored bytes, which are those that were linked when they were written.

    A changed last record would otherwise make every append a `Conflict` for ever, with nothing to see.

    Raises: DamagedRecord, UnreadableRecord.
    """
    if link(body) != stored_link:
        raise DamagedRecord(
            "a record of the ledger was changed after it was written (`counterfoil verify` says which): restore it "
            "from a backup"
        )
    try:
        return decode(body)
    except ValueError:
        raise UnreadableRecord(
            "a record of the ledger cannot be understood: it was written by a newer version; upgrade this one"
        ) from None


def intact(body: bytes, digest: Digest, salt: bytes) -> bytes | None:
    """The stored payload, which is the one that was stored under this digest: what is sent, judged or shown is what was
    recorded. None where only a copy without its secrets is stored.

    Raises: DamagedRecord, LockedPayload.
    """
    key_id = sealed_by(body)
    if key_id is not None:
        raise LockedPayload(digest, key_id.hex(), body)
    if redacted_copy(body) is not None:
        return None
    if digest_bytes(body, salt) != digest:
        raise DamagedRecord(
            f"the payload `{digest}` of the ledger was changed after it was written: restore it from a backup"
        )
    return body
