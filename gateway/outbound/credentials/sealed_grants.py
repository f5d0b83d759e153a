"""A principal's grant at another provider: its tokens, opened and sealed.

Bound to its holder, so that whoever can write the store can give it to nobody else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from gateway.model.at_rest import sealed_by
from gateway.model.canonical import NotStrictJson, dump, dump_bytes, parse
from gateway.model.consent import Holder
from gateway.outbound.payload_keys import Keyring, WrongKey


@dataclass(frozen=True, slots=True)
class Grant:
    """What the provider gave, and what is known of it. Times are seconds since the epoch, by the ledger's clock."""

    provider: tuple[str, str]
    """The token endpoint that gave it and who we were there: it is shown to no other."""
    since: float
    """When its principal consented."""
    scope: str
    """What it is good for, in the provider's words."""
    access: SecretStr | None = field(repr=False)
    """None for one that is over."""
    refresh: SecretStr | None = field(repr=False)
    """None where the provider gave none."""
    got_at: float
    until: float | None
    """The end of the access token; None where the provider does not say."""


class CannotOpen(Exception):
    """What is kept there was not sealed for its holder by a key that is here."""


def sealed(keys: Keyring, holder: Holder, grant: Grant) -> bytes:
    """With the newest key.

    Raises: CannotOpen where there is none: a grant is never kept as it is.
    """
    if not keys.ids:
        raise CannotOpen
    value = {
        "provider": [*grant.provider],
        "since": grant.since,
        "scope": grant.scope,
        "access": _shown(grant.access),
        "refresh": _shown(grant.refresh),
        "got_at": grant.got_at,
        "until": grant.until,
    }
    return keys.sealed(_about(holder), dump_bytes(value))


def opened(keys: Keyring, holder: Holder, stored: bytes) -> Grant:
    """With whichever key sealed it.

    Raises: CannotOpen.
    """
    if sealed_by(stored) is None:  # whoever can write there could have put it there as it is
        raise CannotOpen
    try:
        body = keys.opened(_about(holder), stored)
        value = None if body is None else parse(body)
    except (WrongKey, NotStrictJson):
        raise CannotOpen from None
    if not isinstance(value, Mapping):
        raise CannotOpen
    return _grant(value)


def _grant(value: Mapping[str, Any]) -> Grant:
    token_url, client_id = value["provider"]
    return Grant(
        provider=(token_url, client_id),
        since=value["since"],
        scope=value["scope"],
        access=_hidden(value["access"]),
        refresh=_hidden(value["refresh"]),
        got_at=value["got_at"],
        until=value["until"],
    )


def _about(holder: Holder) -> str:
    """No digest of a payload begins so."""
    return f"consent {dump([*holder])}"


def _shown(token: SecretStr | None) -> str | None:
    return None if token is None else token.get_secret_value()


def _hidden(text: str | None) -> SecretStr | None:
    return None if text is None else SecretStr(text)
