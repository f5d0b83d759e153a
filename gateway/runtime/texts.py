"""Policies for people: those in force, and the older texts that runs began under."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from gateway.kernel.rules import Rules
from gateway.model.canonical import Digest
from gateway.model.events import RunOpened
from gateway.model.policy import Policy
from gateway.model.review import Reviewer
from gateway.runtime.book import Book
from gateway.runtime.policies import PolicyMissing

MAX_LOOKED = 2_000
"""Runs, the newest, that are looked at for the texts under which they began."""


@dataclass(frozen=True, slots=True)
class Text:
    """A policy's text, by its digest."""

    workflow: str
    digest: Digest
    in_force: bool
    policy: Policy
    last_used: datetime | None = None
    """When a run began under it last, as far as was looked."""


async def in_force(book: Book) -> list[Text]:
    """The policies under which new runs begin."""
    found = [book.policies.current(workflow) for workflow in book.policies.in_force()]
    return [Text(one.policy.workflow, one.digest, in_force=True, policy=one.policy) for one in found]


class Older(NamedTuple):
    """Texts that runs began under."""

    rows: Sequence[tuple[str, Digest, datetime]]
    """Workflow, digest and last use of those that are in force no more."""
    looked: int
    """How many runs were looked at."""
    used: frozenset[Digest]
    """All texts under which these runs began, those in force among them."""


async def older(book: Book, by: Reviewer) -> Older:
    """The texts under which runs began that the reviewer may see.

    Raises: LedgerUnavailable.
    """
    current = set(book.policies.in_force().values())
    seen: dict[Digest, tuple[str, Digest, datetime]] = {}
    records = await book.ledger.find(["run.opened"], limit=MAX_LOOKED)
    opened = [(one, one.event) for one in records if isinstance(one.event, RunOpened)]
    for record, event in opened:
        if by.sees(event.principal.tenant) and event.policy not in seen:
            seen[event.policy] = (event.workflow, event.policy, record.at)
    old = [row for row in seen.values() if row[1] not in current]
    return Older(old, len(records), frozenset(seen))


async def text_of(book: Book, cited: str) -> Text | None:
    """The policy of that digest; None if the ledger has no text of it that this version can read.

    Raises: LedgerUnavailable.
    """
    try:
        rules: Rules = await book.policies.of(Digest(cited))
    except PolicyMissing:
        return None
    current = book.policies.in_force().get(rules.policy.workflow) == rules.digest
    return Text(rules.policy.workflow, rules.digest, current, rules.policy)


def spelled(policy: Policy) -> str:
    """The whole text, as far as its author said something."""
    said = policy.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return json.dumps(said, ensure_ascii=False, indent=2)
