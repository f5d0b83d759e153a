"""`data` of a configuration: what is redacted, how payloads are encrypted at rest, and for how long they are kept."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from gateway.model.flaws import Place as Where
from gateway.model.policy import NAME_PATTERN, Name
from gateway.outbound.file_models import FilePart
from gateway.outbound.payload_keys import NO_KEYS, BadPayloadKey, Keyring, payload_key
from gateway.outbound.redaction import Rules, pattern_trouble
from gateway.outbound.yaml_files import Document, Problem

_KEY: Where = ("data", "encryption", "key")

EXPANDED: tuple[Where, ...] = (_KEY, ("data", "encryption", "old_keys", "*"))
"""Where references are replaced."""

KIND_PATTERN = r"^[a-z][a-z0-9_]{0,62}$"

PATTERNS = {KIND_PATTERN: "a name of lower-case letters, digits and `_`"}
"""Patterns of texts, and what is meant by them."""

_Days = Annotated[float, Field(gt=0, le=36_500)]
_Kind = Annotated[str, Field(pattern=KIND_PATTERN)]


@dataclass(frozen=True, slots=True)
class DataSettings:
    """What becomes of what agents and servers say."""

    keys: Keyring = NO_KEYS
    """That encrypt payloads at rest."""
    redaction: Rules = field(default_factory=Rules)
    """What is redacted wherever something is shown or sent out."""
    stored_redacted: bool = False
    """Whether payloads are stored without their secrets as well."""
    days: float | None = None
    """For how long payloads are kept; None: for ever."""
    days_of: Mapping[Name, float] = field(default_factory=dict)
    """The same by class of data, where that is said."""


class EncryptionEntry(FilePart):
    """The key that encrypts, and earlier ones that still decrypt."""

    key: str
    old_keys: tuple[str, ...] = ()


class RedactEntry(FilePart):
    """What is redacted."""

    personal: tuple[Literal["email", "phone", "iban", "card", "ip"], ...] | None = None
    patterns: dict[_Kind, str] = Field(default={}, max_length=100)
    fields: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = ()
    stored: bool = False


class RetentionEntry(FilePart):
    """For how many days payloads are kept."""

    days: _Days | None = None
    classes: dict[Annotated[str, Field(pattern=NAME_PATTERN)], _Days] = Field(default={})


class DataEntry(FilePart):
    """The section."""

    encryption: EncryptionEntry | None = None
    redact: RedactEntry = RedactEntry()
    retention: RetentionEntry = RetentionEntry()

    def settings(self, text: Callable[..., str]) -> DataSettings:
        """The settings. `text` gives what stands at these keys, with references replaced."""
        told = self.redact
        default = Rules()
        return DataSettings(
            keys=self._keys(self.encryption, text) if self.encryption is not None else NO_KEYS,
            redaction=Rules(
                default.personal if told.personal is None else frozenset(told.personal),
                dict(told.patterns),
                frozenset(told.fields),
            ),
            stored_redacted=told.stored,
            days=self.retention.days,
            days_of=dict(self.retention.classes),
        )

    def _keys(self, said: EncryptionEntry, text: Callable[..., str]) -> Keyring:
        old = (text("encryption", "old_keys", place) for place in range(len(said.old_keys)))
        return Keyring([payload_key(one) for one in (text("encryption", "key"), *old)])


def data_problems(document: Document) -> Iterator[Problem]:
    """All that does not fit together in the section."""
    section = document.value.get("data")
    if not isinstance(section, Mapping):
        return
    encryption = section.get("encryption")
    if isinstance(encryption, Mapping):
        old = encryption.get("old_keys")
        told = [(_KEY, encryption.get("key"))]
        told += [
            ((*_KEY[:2], "old_keys", place), one) for place, one in enumerate(old if isinstance(old, list) else ())
        ]
        for where, key in told:
            if isinstance(key, str) and "${" not in key:
                yield document.problem(where, "a key is referred to: `${NAME}`, `${file:/path}`")
    redact = section.get("redact")
    patterns = redact.get("patterns") if isinstance(redact, Mapping) else None
    for kind, pattern in (patterns if isinstance(patterns, Mapping) else {}).items():
        trouble = pattern_trouble(pattern) if isinstance(pattern, str) else None
        if trouble is not None:
            yield document.problem(("data", "redact", "patterns", kind), trouble)


def unfit_data(where: Where, text: str) -> str | None:
    """Why the value cannot be used, or None. Says nothing of the value itself."""
    if where[:2] != ("data", "encryption"):
        return None
    try:
        _ = payload_key(text)
    except BadPayloadKey as error:
        return str(error)
    return None
