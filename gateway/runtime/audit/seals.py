"""The log against what was sealed of it: every checkpoint that is stored, and the head outside."""

from collections.abc import Iterator

from gateway.kernel.audit import Breach
from gateway.kernel.merkle import Tree
from gateway.model.checkpoint import Checkpoint
from gateway.model.note import BadNote, Note, key_id, origin_of, read_note
from gateway.ports import Ledger
from gateway.runtime.audit.report import Report, Wanted

ALL = 2**31 - 1
"""Checkpoints that are asked for: one a minute for four thousand years."""


class Seals:
    """What is known of the log's roots; each is compared when the log that is read has come to that size."""

    def __init__(self, ledger: Ledger, wanted: Wanted, report: Report) -> None:
        self._ledger = ledger
        self._wanted = wanted
        self._report = report
        self._origin = origin_of(ledger.salt)
        self._tree = Tree()
        self._sealed: dict[int, tuple[int, bytes, bool]] = {}
        """Size to the place and root of the checkpoint over it, and whether it is signed as it must be."""
        self._last = (0, 0)
        """Records, and place, up to which the log is what was sealed."""
        self._differs = False

    async def read(self) -> Iterator[Breach]:
        """What is wrong with the checkpoints themselves; their roots are known from then on."""
        stored = await self._ledger.checkpoints(limit=ALL)
        self._report.checkpoints = len(stored)
        found = [breach for one in reversed(stored) for breach in self._take(one)]
        return iter([*found, *self._of_head()])

    def _take(self, one: Checkpoint) -> Iterator[Breach]:
        where = f"checkpoint {one.size}"
        try:
            note = read_note(one.note)
        except BadNote as error:
            yield Breach("I1", where, f"its note cannot be read: {error}")
            return
        if note.origin != self._origin:
            yield Breach("I1", where, f"it is of another ledger, `{note.origin}`")
        elif note.size != one.size:
            yield Breach("I1", where, f"its note is over {note.size} records")
        elif (says := _not_its_peaks(one, note)) is not None:
            yield Breach("I1", where, says)
        else:
            says, signed = self._signed(note)
            if says is not None:
                yield Breach("I1", where, says)
            self._sealed[one.size] = one.place, note.root, signed

    def _signed(self, note: Note) -> tuple[str | None, bool]:
        """What is wrong with its signatures, and whether it counts as signed."""
        self._report.signers |= {one.key_id.hex() for one in note.signatures}
        if not self._wanted.keys or not note.signatures:
            return None, bool(note.signatures)
        known = {key_id(self._origin, key): key for key in self._wanted.keys}
        for one in note.signatures:
            key = known.get(one.key_id)
            if key is not None:
                good = self._wanted.signed(key, one.signature, note.text.encode())
                return (None, True) if good else ("its signature is forged", False)
        return f"it is signed by another key, {note.signatures[0].key_id.hex()}", False

    def _of_head(self) -> Iterator[Breach]:
        head = self._wanted.head
        if head is None:
            return
        self._report.head = head.size
        if head.origin != self._origin:
            says = f"another ledger stands in its place: the head is of `{head.origin}`, and this is `{self._origin}`"
            yield Breach("I1", "head", says)
        elif self._wanted.keys:
            says_of_head, signed = self._signed(head)
            if says_of_head is not None or not signed:
                yield Breach("I1", "head", says_of_head or "it is not signed by any of the keys")

    # --- while the log is read --------------------------------------------------------------------------------------

    def add(self, place: int, link: str) -> Iterator[Breach]:
        """One more record of the log, by its link."""
        try:
            self._tree.add(bytes.fromhex(link))
        except ValueError:
            self._tree.add(link.encode("utf-8", "surrogatepass"))  # which no checkpoint was made over
            yield Breach("I1", f"place {place}", "its link is no hash")
        size, head = self._tree.size, self._wanted.head
        if size in self._sealed:
            yield from self._compare(place, *self._sealed.pop(size))
        if head is not None and size == head.size and head.origin == self._origin and head.root != self._tree.root:
            yield Breach("I1", "head", f"the first {size} records are not those that the head was made over")

    def _compare(self, place: int, sealed_at: int, root: bytes, signed: bool) -> Iterator[Breach]:  # noqa: FBT001
        size, (before, place_before) = self._tree.size, self._last
        if root == self._tree.root:
            if self._wanted.keys and not signed and self._report.signed_up_to:
                # Who has no key leaves a ledger that was signed to those that have it.
                says = f"it is not signed by any of the keys, and the one over {self._report.signed_up_to} records is"
                yield Breach("I1", f"checkpoint {size}", says)
            self._report.sealed_up_to = size
            self._report.signed_up_to = size if signed else self._report.signed_up_to
            self._last = size, place
            if sealed_at != place:
                yield Breach("I1", f"checkpoint {size}", f"it names place {sealed_at}, and record {size} is at {place}")
        elif not self._differs:
            self._differs = True  # every later root differs as well
            says = f"records {before + 1} to {size}, places {place_before + 1} to {place}, are not what was sealed"
            yield Breach("I1", f"checkpoint {size}", says)

    def end(self) -> Iterator[Breach]:
        """What was sealed, and is not there."""
        size, head = self._tree.size, self._wanted.head
        self._report.root = self._tree.root.hex()
        if self._wanted.keys and size and not self._report.signed_up_to:
            yield Breach("I1", "checkpoints", "nothing of the ledger is signed by the key that was given")
        longest = max(self._sealed, default=0)
        if longest > size:
            yield Breach("I1", f"checkpoint {longest}", f"it is over {longest} records, and the log has {size}")
        if head is not None and head.origin == self._origin and head.size > size:
            yield Breach("I1", "head", f"the ledger was shortened: it had {head.size} records, and has {size}")


def _not_its_peaks(one: Checkpoint, note: Note) -> str | None:
    try:
        same = Tree(one.size, [bytes.fromhex(peak) for peak in one.peaks]).root == note.root
    except ValueError:
        same = False
    return None if same else "its peaks are not those of the root in its note"
