"""A ledger whose payloads are encrypted at rest, or stored without their secrets: one wrapper, whatever is beneath.

Only payloads pass through it changed. Events hold digests, names and sentences, and stand as they are: without them
there is no chain, no index and no list.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from gateway.model.at_rest import redacted
from gateway.model.canonical import Digest, NotStrictJson, canonical, parse
from gateway.model.checkpoint import Checkpoint
from gateway.model.record import Record
from gateway.model.run import Tracked
from gateway.outbound.ledger.chain import intact
from gateway.outbound.payload_keys import NO_KEYS, Keyring, WrongKey
from gateway.ports import Append, Consents, DamagedRecord, Ledger, LockedPayload, Logged, Redactor, Stands

_NEEDED = ("policy", "source", "target", "definition")
"""What of an event cites policies and definitions of tools, which nothing may be left out of: they decide."""

_DEPTH = 10_000
"""Brackets within brackets: what was stored was parsed before."""


class GuardedLedger:
    """A `Ledger` over another one. `redactor` None: what is stored is what was said."""

    def __init__(self, inner: Ledger, keys: Keyring = NO_KEYS, redactor: Redactor | None = None) -> None:
        self._inner = inner
        self._keys = keys
        self._redactor = redactor

    @property
    def salt(self) -> bytes:
        """As `Ledger.salt`."""
        return self._inner.salt

    @property
    def consents(self) -> Consents:
        """As `Ledger.consents`: they come sealed."""
        return self._inner.consents

    async def append(self, step: Append) -> None:
        """As `Ledger.append`."""
        if step.payloads:
            needed = set(_cited(step.records)) if self._redactor is not None else frozenset[str]()
            stored = {
                digest: self._keys.sealed(digest, body if digest in needed else self._kept(body))
                for digest, body in step.payloads.items()
            }
            step = replace(step, payloads=stored)
        await self._inner.append(step)

    def _kept(self, body: bytes) -> bytes:
        if self._redactor is None:
            return body
        try:
            value = parse(body, max_depth=_DEPTH)
        except NotStrictJson:
            return body
        copy = self._redactor.redact(value)
        return body if copy == value else redacted(canonical(copy))

    async def payload(self, digest: Digest) -> bytes | None:
        """As `Ledger.payload`."""
        try:
            return await self._inner.payload(digest)
        except LockedPayload as locked:
            opened = self._opened(digest, locked.stored)
            if opened is None:
                raise
            return intact(opened, digest, self.salt)

    async def payloads(self, after: str = "", *, limit: int = 1000) -> Sequence[tuple[Digest, bytes]]:
        """As `Ledger.payloads`."""
        return [
            (digest, self._as_far_as_it_can(digest, stored))
            for digest, stored in await self._inner.payloads(after, limit=limit)
        ]

    def _as_far_as_it_can(self, digest: Digest, stored: bytes) -> bytes:
        try:
            opened = self._keys.opened(digest, stored)
        except WrongKey:
            return b""  # which has another digest: it is damaged
        return stored if opened is None else opened

    def _opened(self, digest: Digest, stored: bytes) -> bytes | None:
        try:
            return self._keys.opened(digest, stored)
        except WrongKey:
            raise DamagedRecord(
                f"the payload `{digest}` of the ledger was changed after it was encrypted: restore it from a backup"
            ) from None

    # --- all else as it is beneath ----------------------------------------------------------------------------------

    async def read(self, run: str, after: int = 0, *, limit: int | None = None) -> Sequence[tuple[Record, bytes]]:
        """As `Ledger.read`."""
        return await self._inner.read(run, after, limit=limit)

    async def find(
        self, kinds: Sequence[str], *, limit: int = 1000, before: tuple[str, int] | None = None
    ) -> Sequence[Record]:
        """As `Ledger.find`."""
        return await self._inner.find(kinds, limit=limit, before=before)

    async def named(self, names: Collection[str]) -> Sequence[Record]:
        """As `Ledger.named`."""
        return await self._inner.named(names)

    async def levels(self, accounts: Sequence[str]) -> Mapping[tuple[str, str], int]:
        """As `Ledger.levels`."""
        return await self._inner.levels(accounts)

    async def accounts(self, after: tuple[str, str] = ("", ""), *, limit: int = 1000) -> Sequence[Stands]:
        """As `Ledger.accounts`."""
        return await self._inner.accounts(after, limit=limit)

    async def tracked(self, *, states: Collection[str] | None = None) -> Sequence[Tracked]:
        """As `Ledger.tracked`."""
        return await self._inner.tracked(states=states)

    async def claim(self, seen: Tracked, owner: str, lease_until: float) -> bool:
        """As `Ledger.claim`."""
        return await self._inner.claim(seen, owner, lease_until)

    async def renew(self, owner: str, attempts: Collection[str], lease_until: float) -> None:
        """As `Ledger.renew`."""
        await self._inner.renew(owner, attempts, lease_until)

    async def now(self) -> float:
        """As `Ledger.now`."""
        return await self._inner.now()

    async def touch(self, *, store: bool) -> None:
        """As `Ledger.touch`."""
        await self._inner.touch(store=store)

    async def once(self, name: str, until: float) -> bool:
        """As `Ledger.once`."""
        return await self._inner.once(name, until)

    async def said(self, name: str) -> bool:
        """As `Ledger.said`."""
        return await self._inner.said(name)

    async def lax(self) -> Sequence[str]:
        """As `Ledger.lax`."""
        return await self._inner.lax()

    async def log(self, after: int = 0, *, limit: int = 1000) -> Sequence[Logged]:
        """As `Ledger.log`."""
        return await self._inner.log(after, limit=limit)

    async def strange(self) -> Sequence[str]:
        """As `Ledger.strange`."""
        return await self._inner.strange()

    async def links(self, after: int = 0, *, limit: int = 10_000) -> Sequence[tuple[int, str]]:
        """As `Ledger.links`."""
        return await self._inner.links(after, limit=limit)

    async def closed(self) -> int:
        """As `Ledger.closed`."""
        return await self._inner.closed()

    async def checkpoint(self, made: Checkpoint) -> bool:
        """As `Ledger.checkpoint`."""
        return await self._inner.checkpoint(made)

    async def checkpoints(self, *, limit: int = 1) -> Sequence[Checkpoint]:
        """As `Ledger.checkpoints`."""
        return await self._inner.checkpoints(limit=limit)

    async def erase(self, digests: Collection[Digest], at: float, seen: int) -> int:
        """As `Ledger.erase`."""
        return await self._inner.erase(digests, at, seen)

    async def erased(self, digests: Collection[Digest]) -> Mapping[Digest, float]:
        """As `Ledger.erased`."""
        return await self._inner.erased(digests)

    async def close(self) -> None:
        """As `Ledger.close`."""
        await self._inner.close()


def _cited(records: Sequence[Record]) -> Iterator[str]:
    for record in records:
        for name in _NEEDED:
            cited = getattr(record.event, name, None)
            if isinstance(cited, str):
                yield cited
