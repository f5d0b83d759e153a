"""That one record is in the ledger, for whoever has not the ledger: the record, its place in the tree, a root."""

import binascii
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.kernel.merkle import BadProof, Parts, Range, included, path
from gateway.model.note import BadNote, Note, read_note
from gateway.model.record import link
from gateway.ports import Ledger, Logged

VERSION = 1
"""Of the form of `as_json`."""
_BATCH = 2_000


class NotProvable(Exception):
    """There is no such record, or no checkpoint over it yet."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A record's stored bytes, its number in the log from 0, and the way from there to a checkpoint's root."""

    body: bytes
    index: int
    path: Sequence[bytes]
    note: str

    def check(self) -> Note:
        """The checkpoint that the record is under. Its signatures are not checked here.

        Raises: BadProof.
        """
        try:
            note = read_note(self.note)
        except BadNote as error:
            raise BadProof(f"its checkpoint cannot be read: {error}") from None
        if included(bytes.fromhex(link(self.body)), self.index, note.size, self.path) != note.root:
            raise BadProof("the record is not under the root of the checkpoint")
        return note

    def as_json(self) -> dict[str, Any]:
        """As it is handed on."""
        return {
            "counterfoil_proof": VERSION,
            "record": b64encode(self.body).decode(),
            "index": self.index,
            "path": [part.hex() for part in self.path],
            "checkpoint": self.note,
        }

    @classmethod
    def of_json(cls, told: Any) -> "Proof":
        """The proof that was handed on.

        Raises: BadProof.
        """
        try:
            if told["counterfoil_proof"] != VERSION:
                raise BadProof("it is of a form that this version does not know")
            body, parts = b64decode(told["record"], validate=True), [bytes.fromhex(part) for part in told["path"]]
            return cls(body, int(told["index"]), parts, str(told["checkpoint"]))
        except (KeyError, TypeError, ValueError, binascii.Error) as error:
            raise error if isinstance(error, BadProof) else BadProof("it is no proof of this gateway's") from None


async def proof_of(ledger: Ledger, run: str, seq: int) -> Proof:
    """That this record is in the ledger, under its newest checkpoint. The links are read twice.

    Raises: NotProvable, LedgerUnavailable.
    """
    newest = next(iter(await ledger.checkpoints(limit=1)), None)
    if newest is None:
        raise NotProvable("the ledger has no checkpoint yet; a gateway makes one")
    found = await _find(ledger, run, seq, newest.place)
    if found is None:
        raise NotProvable(
            f"no record `{run}#{seq}` is under the newest checkpoint, which is over {newest.size} records"
        )
    index, record = found
    parts = path(index, newest.size)
    roots = await _roots(ledger, parts)
    return Proof(record.body, index, [roots[part] for part in parts], newest.note)


async def _find(ledger: Ledger, run: str, seq: int, end: int) -> tuple[int, Logged] | None:
    index = 0
    async for one in _log(ledger, end):
        if (one.run, one.seq) == (run, seq):
            return index, one
        index += 1
    return None


async def _log(ledger: Ledger, end: int) -> AsyncIterator[Logged]:
    after = 0
    while after < end:
        batch = [one for one in await ledger.log(after, limit=_BATCH) if one.place <= end]
        if not batch:
            return
        for one in batch:
            yield one
        after = batch[-1].place


async def _roots(ledger: Ledger, parts: Sequence[Range]) -> dict[Range, bytes]:
    """The root of each part."""
    found, after = Parts(parts), 0
    while not found.complete:
        batch = await ledger.links(after, limit=_BATCH)
        if not batch:
            raise NotProvable("the log is shorter than its newest checkpoint says; `counterfoil verify` says more")
        for after, chained in batch:  # noqa: B007 - the last one counts
            found.add(bytes.fromhex(chained))
    return found.roots
