"""Which record cites which payload, and what is known of its run: what erasing is decided by."""

from typing import NamedTuple


class Cited(NamedTuple):
    """A payload and a record that cites it."""

    digest: str
    run: str
    seq: int
    at: float
    """When it was recorded, in seconds since the epoch."""
    attempt: str
    """That the record is about; empty where it is about none."""


class Citation(NamedTuple):
    """The same, with what is known of it once the whole log was read."""

    digest: str
    run: str
    seq: int
    at: float
    attempt: str
    data_class: str | None
    """Of the attempt's result, by the registry."""
    tenant: str
    principal: str
    """Who the run is bound to."""
    stopped: bool
    last_at: float
    """When anything was recorded in the run, but that payloads are erased."""
