"""Why a value of a configuration cannot be used. Nothing is said of the value itself, which may be a secret."""

import re
from urllib.parse import urlsplit

from gateway.model.flaws import Place
from gateway.outbound.ledger.postgres.address import is_postgres, parse
from gateway.outbound.seal_keys import BadKey, seal_key
from gateway.outbound.server_entries import ADDRESSES

SQLITE = "sqlite:///"
MEMORY = "memory:"
MIN_KEY_LENGTH = 32
"""Characters of the key that signs run tokens [RFC 7518, 3.2: no shorter than the hash]."""


def unfit(place: Place, text: str) -> str | None:
    """Why the value cannot be used, or None. Says nothing of the value itself."""
    if "\0" in text:
        return "the value holds a NUL character"
    match place:
        case ("ledger",):
            return _unfit_ledger(text)
        case ("run_tokens", "key") if len(text) < MIN_KEY_LENGTH:
            return f"a key of at least {MIN_KEY_LENGTH} characters is wanted, and this one has {len(text)}"
        case ("seal", "key"):
            return _unfit_seal_key(text)
        case ("seal", "head"):
            return None if text else "the path names no file"
        case (_, _, "headers", _) if not text.isprintable():
            return "a header's value is one line, without control characters"
        case (section, _, key) if key in ADDRESSES and section != "places":
            return None if _is_address(text) else "an address that begins with `http://` or `https://` is wanted"
        case _:
            return None


def _unfit_ledger(text: str) -> str | None:
    if is_postgres(text):
        try:
            parse(text)
        except ValueError as error:
            return str(error)
        return None
    if text != MEMORY and not text.startswith(SQLITE) and re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text):
        return "a ledger is `sqlite:///relative.db`, `sqlite:////absolute/path.db` or `postgresql://user@host:5432/database`"
    if text != text.strip() or "://" in text.removeprefix("sqlite://"):
        return "a ledger's address has no spaces around it and no second `://` in it"
    return None if text.removeprefix(SQLITE) else "the address names no file"


def _unfit_seal_key(text: str) -> str | None:
    try:
        _ = seal_key(text)
    except BadKey as error:
        return f"{error}; `counterfoil keygen` makes one"
    return None


def _is_address(text: str) -> bool:
    try:
        parsed = urlsplit(text)
        return parsed.scheme in {"http", "https"} and bool(parsed.hostname) and (parsed.port or 1) > 0
    except ValueError:
        return False
