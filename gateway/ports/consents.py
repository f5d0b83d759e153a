"""Where consents are kept, beside the log and never in it; the same for all gateways of one ledger."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from gateway.model.consent import Consent, Holder


class Stand(NamedTuple):
    """Which consent it is, and how often it was renewed."""

    name: str
    version: int


class Consents(Protocol):
    """One consent at most for each holder. All raise LedgerUnavailable."""

    async def read(self, holder: Holder) -> Consent | None:
        """The holder's."""
        ...

    async def stands(self, holders: Collection[Holder]) -> Mapping[Holder, Stand]:
        """How those of them that have one stand."""
        ...

    async def put(self, made: Consent, seen: Consent | None) -> bool:
        """Whether `made` stands in the place of `seen`, durably: only if that is there still, by name and version; and
        of None, only if there is none.
        """
        ...

    async def claim(self, seen: Consent, owner: str, lease_until: float) -> bool:
        """Whether `owner` renews it now: only if it and its lease are still those of `seen`.

        No clock is asked: whether a lease has run out is for the caller to say.
        """
        ...

    async def drop(self, holder: Holder) -> Consent | None:
        """There is none any more; the one that there was, as it was last."""
        ...

    async def held(self, principal: str, tenant: str | None = None) -> Sequence[Holder]:
        """All that a principal of that name holds; with a tenant, the one of that tenant."""
        ...
