"""An event in its place, and the one codec of the ledger. The envelope is for ever, as the events are."""

from datetime import UTC, datetime
from hashlib import sha256

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter

from gateway.model.events import Event
from gateway.model.spelling import spelled

SCHEMA = 1
"""Version of the envelope and of the kinds of event; stands in every record."""

GENESIS = ""
"""The `previous` of a run's first record."""


class TraceContext(BaseModel):
    """Where the record was made, for joining telemetry to the ledger (lower-case hex)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trace_id: str
    span_id: str


class Record(BaseModel):
    """An event in its place: the unit of the ledger."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = Field(default=SCHEMA, ge=1, le=SCHEMA)
    run: str
    seq: int = Field(ge=1)
    """Place in the run, from 1 without gaps."""
    at: AwareDatetime
    previous: str
    """`link` of the record before it in this run; `GENESIS` for the first."""
    trace: TraceContext | None = None
    event: Event

    @property
    def id(self) -> str:
        """How other records, results and people cite this record."""
        return f"{self.run}#{self.seq}"

    @property
    def sealed(self) -> tuple[bytes, str]:
        """Its body, as `encode`, and the link of it: made once, so what is linked and what is stored are the same."""
        made: tuple[bytes, str] | None = self.__dict__.get("sealed")  # `cached_property` would take a lock before 3.12
        if made is None:
            body = spelled(self)
            made = self.__dict__["sealed"] = (body, link(body))
        return made

    def __copy__(self) -> "Record":
        """A copy, which may be changed before it is used, is not sealed yet."""
        copied = super().__copy__()
        copied.__dict__.pop("sealed", None)
        return copied


_RECORD = TypeAdapter(Record)


def encode(record: Record) -> bytes:
    """The one stored form of a record: canonical JSON. `decode` gives the record back, equal."""
    return record.sealed[0]


def decode(body: bytes) -> Record:
    """The record that `encode` wrote, also by an earlier version of this package.

    Raises: pydantic.ValidationError for what is not a record of a schema that we know.
    """
    return _RECORD.validate_json(body)


def link(body: bytes) -> str:
    """What the next record of the run cites as `previous`: SHA-256 over the encoded record, in hex.

    The encoded record holds its own `previous`, so the links are a chain.
    """
    return sha256(body).hexdigest()


def utc(seconds: float) -> datetime:
    """An aware time from seconds since the epoch."""
    return datetime.fromtimestamp(seconds, UTC)
