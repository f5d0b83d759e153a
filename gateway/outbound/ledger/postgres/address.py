"""`postgresql://…` -> where a ledger is, how it is shown, and what the driver is told. Knows no driver.

A password may stand in an address, so nothing here ever says more of one than `shown`, and an address that could be
read in two ways, one of which shows a part of the password, is refused.
"""

import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, urlencode, urlsplit

SCHEMES = ("postgresql:", "postgres:")

SCHEMA = "counterfoil"
"""The PostgreSQL schema that a ledger is in, where the address names no other."""

_FORM = "`postgresql://user@host:5432/database`"

_SECRET = frozenset({"password"})
_DRIVERS = frozenset(
    {
        "database", "dbname", "host", "passfile", "port", "sslcert", "sslcrl", "sslkey", "sslmode", "sslrootcert",
        "target_session_attrs", "user",
    }
)  # fmt: skip
"""What the driver understands; anything else it would hand to the server as a setting."""

_HOSTS = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.%]+\]|%2[Ff][A-Za-z0-9._%/-]*)?(:[0-9]{1,5})?")
_SCHEMA_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class Address:
    """Where a ledger is in a PostgreSQL server."""

    dsn: str = field(repr=False)
    """For the driver. It may hold a password."""
    schema: str
    """A name that needs no quotes."""
    shown: str
    """The whole address, without what is secret; who has the password otherwise can use it as it stands."""
    several: bool
    """Whether it names several servers, of which the one that takes writes is meant."""


def is_postgres(url: str) -> bool:
    """Whether the address is for a PostgreSQL server, well-formed or not."""
    return url.lower().startswith(SCHEMES)


def parse(url: str) -> Address:
    """What the address says.

    Raises: ValueError, whose message shows no part of an address that is not understood.
    """
    try:
        parts = urlsplit(url)
        told = dict(parse_qsl(parts.query, strict_parsing=True, keep_blank_values=True)) if parts.query else {}
    except ValueError:
        raise ValueError(f"the ledger address is not of the form {_FORM}") from None
    auth, _, hosts = parts.netloc.rpartition("@")
    # Whatever of these stands unescaped in a password moves a part of it to where it would be shown.
    if "@" in auth or "@" in parts.path + parts.query or parts.fragment or not parts.path.startswith("/"):
        raise ValueError(
            f"the ledger address is not of the form {_FORM}; "
            "in a password `@`, `/`, `?`, `#`, `:` and `%` are written `%40`, `%2F`, `%3F`, `%23`, `%3A` and `%25`"
        )
    named = hosts.split(",")
    if not all(_HOSTS.fullmatch(one) and _port(one) <= _MAX_PORT for one in named):
        raise ValueError(f"the ledger address is not of the form {_FORM}: its host or port is none")
    schema = told.pop("schema", SCHEMA)
    if not _SCHEMA_NAME.fullmatch(schema):
        raise ValueError("the `schema` of a ledger address is lower-case letters, digits and `_`, and not `pg_…`")
    unknown = sorted(set(told) - _DRIVERS - _SECRET)
    if unknown:
        known = ", ".join(f"`{name}`" for name in sorted({*_DRIVERS, "schema"}))
        raise ValueError(f"a ledger address for PostgreSQL takes no parameters but {known}")
    several = len(named) > 1 or "," in told.get("host", "")
    return Address(_spelled(parts, parts.netloc, told), schema, _shown(parts, auth, hosts, told, schema), several)


_MAX_PORT = 65_535


def _port(host: str) -> int:
    """The port in it; 0 for none."""
    told = host.rpartition("]")[2].partition(":")[2]
    return int(told) if told.isdecimal() else 0


def shown(url: str) -> str:
    """The address, of whatever kind of ledger, without what is secret."""
    if not is_postgres(url):
        return url
    try:
        return parse(url).shown
    except ValueError:
        return "postgresql:…"


def _shown(parts: SplitResult, auth: str, hosts: str, told: dict[str, str], schema: str) -> str:
    user = auth.partition(":")[0]
    plain = {name: value for name, value in told.items() if name not in _SECRET}
    if schema != SCHEMA:
        plain["schema"] = schema
    return _spelled(parts, f"{user}@{hosts}" if user else hosts, plain)


def _spelled(parts: SplitResult, netloc: str, told: dict[str, str]) -> str:
    query = urlencode(told, safe="/,:")
    return f"postgresql://{netloc}{parts.path}{'?' if query else ''}{query}"
