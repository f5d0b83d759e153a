"""Makes the ledger's checkpoints: so many records under one root, signed if there is a key, and kept outside too.

It reads the log's links and nothing else, in small batches, beside everything. What it goes on from it trusts only if
its own key signed it or the head outside says the same; else it reads the log anew from the start. So it never signs
what a changed table of checkpoints would have it sign, and never covers up that the log is shorter, or another one,
than what the head is of: then it stops, and says so.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from gateway.kernel.merkle import Tree
from gateway.model.checkpoint import Checkpoint
from gateway.model.note import Note, Signature, key_id, origin_of, read_note
from gateway.ports import Clock, Ledger, LedgerUnavailable

_LOG = logging.getLogger("counterfoil.sealing")

EVERY_S = 60.0
"""Between checkpoints, where nothing else is said; what is newer than the last can be taken back unseen."""
MANY = 5_000
"""Records that do not wait so long."""
LOOK_S = 5.0
"""Between looks at how many wait; one costs a read of one row."""
BATCH = 250
"""Links that are taken before the event loop has its turn again: less than a millisecond."""
LAST_S = 0.5
"""How long an orderly end waits for the last checkpoint."""
_BACK = 20
"""How many checkpoints are looked through for one that can be trusted."""


class Signer(Protocol):
    """Whoever has the key."""

    @property
    def public(self) -> bytes:
        """Its public half, 32 bytes."""
        ...

    def sign(self, data: bytes) -> bytes:
        """The signature, 64 bytes."""
        ...


class Head(Protocol):
    """The newest checkpoint, where whoever can write the ledger cannot."""

    def read(self) -> Note | None:
        """The newest that was written. Raises: ValueError."""
        ...

    def write(self, note: Note) -> bool:
        """Whether it is the newest now. Raises: ValueError."""
        ...


Signed = Callable[[bytes, bytes, bytes], bool]
"""(public key, signature, data) -> whether they belong together."""


@dataclass(frozen=True, slots=True)
class Sealing:
    """How checkpoints are made."""

    key: Signer | None = None
    """None: they are not signed."""
    signed: Signed | None = None
    """Asked whether a checkpoint is of our own key."""
    head: Head | None = None
    every_s: float = EVERY_S


UNSIGNED = Sealing()
"""Where nothing is said."""


class Unsealable(Exception):
    """The log is not what was sealed of it. Nothing more is sealed until a person has looked."""


class Sealer:
    """Seals one ledger. One for each process; any number may be at work on one ledger."""

    def __init__(self, ledger: Ledger, clock: Clock, how: Sealing) -> None:
        self.trouble: str | None = None
        """Why nothing is sealed now."""
        self._ledger = ledger
        self._clock = clock
        self._how = how
        self._origin = origin_of(ledger.salt)
        self._own: Checkpoint | None = None
        """The last that we made or went on from."""
        self._sealed_at = clock.monotonic()

    async def keep(self) -> None:
        """Runs for ever: a checkpoint every so often, sooner if many records wait."""
        while True:
            await self._clock.sleep(min(LOOK_S, self._how.every_s))
            await self._safely(self._look)

    async def last(self) -> None:
        """What was recorded by now is sealed, if that takes no time to speak of."""
        try:
            await asyncio.wait_for(self._safely(self.seal), LAST_S)
        except TimeoutError:
            _LOG.info("the last records are not sealed yet; the next gateway seals them")

    async def _safely(self, work: Callable[[], Awaitable[object]]) -> None:
        try:
            _ = await work()
        except Unsealable as error:
            self._say(str(error), logging.ERROR)
        except (LedgerUnavailable, ValueError) as error:
            self._say(f"no checkpoint was made: {error}", logging.WARNING)
        else:
            self.trouble = None

    def _say(self, trouble: str, level: int) -> None:
        if trouble != self.trouble:
            _LOG.log(level, "%s", trouble)
        self.trouble = trouble

    async def _look(self) -> None:
        """Seals if it is time; another gateway that has just done so spares us the work."""
        newest = next(iter(await self._ledger.checkpoints(limit=1)), None)
        waiting = await self._ledger.closed() - (newest.place if newest is not None else 0)
        if waiting <= 0 and newest == self._own:
            return
        made_ago = self._clock.now() - newest.at if newest is not None else self._how.every_s
        rested = self._clock.monotonic() - self._sealed_at >= self._how.every_s
        if waiting >= MANY or (rested and not 0 <= made_ago < self._how.every_s):
            _ = await self.seal()

    async def seal(self) -> Checkpoint | None:
        """The checkpoint over all that is recorded; None if nothing new is, or another gateway was quicker.

        Raises: Unsealable, LedgerUnavailable, ValueError for a head that cannot be read or written.
        """
        stored = list(await self._ledger.checkpoints(limit=_BACK))
        if self._how.key is None and stored and _note(stored[0]).signatures:
            return None  # a ledger that was signed once is left to those who have the key
        head = await asyncio.to_thread(self._how.head.read) if self._how.head is not None else None
        if head is not None and head.origin != self._origin:
            raise Unsealable(f"the head is of another ledger, `{head.origin}`; this one is `{self._origin}`")
        base = next((one for one in stored if self._trusted(one, head)), None)
        tree, place = await self._grown(base, head)
        self._sealed_at = self._clock.monotonic()
        made = self._made(tree, place)
        if stored and tree.size < stored[0].size:
            raise Unsealable(f"a checkpoint says that there are {stored[0].size} records, and there are {tree.size}")
        if stored and tree.size == stored[0].size:
            if made.peaks == stored[0].peaks:  # whoever made it may have died before it told so, or had no key
                await self._tell_outside(_note(made), head)
            return None
        if not tree.size or not await self._ledger.checkpoint(made):
            return None
        self._own = made
        await self._tell_outside(_note(made), head)
        return made

    def _trusted(self, one: Checkpoint, head: Note | None) -> bool:
        """Whether the log may be gone on from there: it says what it seems to say, and somebody vouches for that."""
        try:
            note, tree = _note(one), _tree(one)
        except ValueError:
            return False
        if (note.origin, note.size, note.root) != (self._origin, one.size, tree.root):
            return False
        if self._own is not None and one == self._own:
            return True
        if head is not None and (head.size, head.root) == (note.size, note.root):
            return True
        key = self._how.key
        if key is None:
            return head is None
        ours = [by.signature for by in note.signatures if by.key_id == key_id(self._origin, key.public)]
        signed = self._how.signed
        return signed is not None and any(signed(key.public, found, note.text.encode()) for found in ours)

    async def _grown(self, base: Checkpoint | None, head: Note | None) -> tuple[Tree, int]:
        """The tree over all that can no longer change, and the place of its last record.

        Raises: Unsealable.
        """
        tree, place = (_tree(base), base.place) if base is not None else (Tree(), 0)
        known = dict(self._known(head))
        end = await self._ledger.closed()
        if end < place:
            raise Unsealable(f"the log ends at place {end}, and was sealed up to place {place}")
        while place < end:
            links = [one for one in await self._ledger.links(place, limit=BATCH) if one[0] <= end]
            if not links:
                break
            for place, link in links:
                tree.add(_bytes(link, place))
                if tree.size in known and tree.root != known[tree.size]:
                    raise Unsealable(f"the first {tree.size} records are not those that were sealed")
            await asyncio.sleep(0)
        if tree.size < max(known, default=0):
            raise Unsealable(f"the log has {tree.size} records, and was sealed over {max(known)}")
        return tree, place

    def _known(self, head: Note | None) -> Iterator[tuple[int, bytes]]:
        """Sizes that the log had, with its roots then."""
        if head is not None:
            yield head.size, head.root
        if self._own is not None:
            yield self._own.size, _tree(self._own).root

    def _made(self, tree: Tree, place: int) -> Checkpoint:
        note, key = Note(self._origin, tree.size, tree.root), self._how.key
        if key is not None:
            signature = Signature(self._origin, key_id(self._origin, key.public), key.sign(note.text.encode()))
            note = Note(note.origin, note.size, note.root, (signature,))
        return Checkpoint(tree.size, place, tuple(peak.hex() for peak in tree.peaks), self._clock.now(), str(note))

    async def _tell_outside(self, note: Note, head: Note | None) -> None:
        if self._how.head is not None and (head is None or head.size < note.size):
            _ = await asyncio.to_thread(self._how.head.write, note)


def _note(one: Checkpoint) -> Note:
    """Raises: BadNote."""
    return read_note(one.note)


def _tree(one: Checkpoint) -> Tree:
    """Raises: ValueError."""
    return Tree(one.size, [bytes.fromhex(peak) for peak in one.peaks])


def _bytes(link: str, place: int) -> bytes:
    try:
        return bytes.fromhex(link)
    except ValueError:
        raise Unsealable(f"the record at place {place} has a link that is none") from None
