"""Keys that agents show: `cfk_<id>_<secret>`, of which only a digest is kept, in a file that people edit.

The file is read anew when it has changed, so a key is added, rotated or revoked without a restart: two keys of one
principal may be good at the same time. A file that is wrong changes nothing, and that is told.

The secret has 256 random bits, so one round of SHA-256 hides it: nobody can try them out, and no slow hash is needed
[OWASP, password storage: slow hashes are for what people choose].
"""

import hashlib
import logging
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import AwareDatetime, Field

from gateway.model.principal import Principal
from gateway.outbound.file_models import FilePart, read_as
from gateway.outbound.oidc.claims import NotLetIn
from gateway.outbound.yaml_files import Problem, Problems, read

PREFIX = "cfk_"
ID_PATTERN = r"[a-z0-9][a-z0-9-]{0,63}"
HASH_PATTERN = r"sha256:[0-9a-f]{64}"
PATTERNS = {
    f"^{ID_PATTERN}$": "a name of small letters, digits and `-`",
    f"^{HASH_PATTERN}$": "`sha256:` and 64 hex digits, as `counterfoil keys new` prints them,",
}
MAX_CHARS = 256
LOOK_S = 1.0
"""Between two looks at the file."""

_KEY = re.compile(rf"{PREFIX}({ID_PATTERN})_[A-Za-z0-9_-]{{43}}")
_LOG = logging.getLogger("counterfoil.agents")
_Word = Annotated[str, Field(min_length=1, max_length=256)]


class KeyEntry(FilePart):
    """One key, and who shows it."""

    id: Annotated[str, Field(pattern=f"^{ID_PATTERN}$")]
    """Its own; it stands in the key too, so that a key that is found somewhere can be revoked."""
    hash: Annotated[str, Field(pattern=f"^{HASH_PATTERN}$")]
    principal: _Word
    tenant: _Word = "local"
    roles: tuple[_Word, ...] = ()
    scopes: tuple[_Word, ...] = ()
    expires: AwareDatetime
    """A key that is good for ever is found by somebody, some day."""


class _Shape(FilePart):
    keys: tuple[KeyEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made."""

    text: str = field(repr=False)
    """What the agent shows. It is kept nowhere."""
    entry: KeyEntry


def new_key(
    *, principal: str, tenant: str, roles: tuple[str, ...], scopes: tuple[str, ...], id_: str, expires: float
) -> NewKey:
    """A key for that principal, until then, in seconds since the epoch.

    Raises: ValueError for names that the file does not take.
    """
    text = f"{PREFIX}{id_}_{secrets.token_urlsafe(32)}"
    until = datetime.fromtimestamp(int(expires), UTC)
    entry = KeyEntry(
        id=id_, hash=digest_of(text), principal=principal, tenant=tenant, roles=roles, scopes=scopes, expires=until
    )
    return NewKey(text, entry)


def digest_of(text: str) -> str:
    """What is kept of a key."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def load_keys(path: Path) -> Mapping[str, KeyEntry]:
    """The keys in the file, by their ids.

    Raises: Problems.
    """
    document = read(path)
    shape, problems = read_as(document, _Shape, PATTERNS)
    problems += document.problems
    found: dict[str, KeyEntry] = {}
    for place, entry in enumerate(shape.keys if shape is not None else ()):
        if entry.id in found:
            problems.append(document.problem(("keys", place, "id"), f"`{entry.id}` names two keys"))
        if entry.principal == "anonymous":
            problems.append(document.problem(("keys", place, "principal"), "whoever shows a key is not `anonymous`"))
        found[entry.id] = entry
    if problems:
        raise Problems(problems)
    return found


class AgentKeys:
    """The keys in a file, as it is now. One for each process."""

    def __init__(self, path: Path, monotonic: Callable[[], float]) -> None:
        """Raises: Problems."""
        self._path = path
        self._monotonic = monotonic
        self._looked_at = monotonic()
        self._looks = self._look()
        self._keys = load_keys(path)

    def holder(self, text: str, now: float) -> Principal:
        """Whose key it is, if it is good at that time.

        Raises: NotLetIn, in the same words for a key that never was and one that is none any more.
        """
        self._take()
        found = _KEY.fullmatch(text) if len(text) <= MAX_CHARS else None
        entry = self._keys.get(found[1]) if found is not None else None
        # Compared in any case, in the same time wherever it differs.
        same = secrets.compare_digest(digest_of(text), entry.hash if entry is not None else "")
        if entry is None or not same:
            raise NotLetIn("this gateway knows no such key")
        if now >= entry.expires.timestamp():
            raise NotLetIn(f"the key `{entry.id}` has expired")
        return Principal(entry.principal, entry.tenant, frozenset(entry.roles), frozenset(entry.scopes))

    def _take(self) -> None:
        """What the file says now is in force, at once: to wait until it settles would let a revoked key in once more.

        One that is read while it is being written may lack keys, until the next look.
        """
        if self._monotonic() - self._looked_at < LOOK_S:
            return
        self._looked_at, looks = self._monotonic(), self._look()
        if looks != self._looks:
            self._looks = looks
            self._read()

    def _read(self) -> None:
        try:
            self._keys = load_keys(self._path)
        except Problems as error:
            for line in str(error).split("\n"):
                _LOG.warning("%s", line)
            _LOG.warning("the keys as their file is now are not in force: those from before still are")
        else:
            _LOG.info("keys taken anew: %s", ", ".join(f"`{name}`" for name in self._keys) or "none")

    def _look(self) -> object:
        try:
            found = self._path.stat()
        except OSError as error:
            return error.errno
        return found.st_mtime_ns, found.st_size, found.st_ino


def key_problems(path: Path) -> list[Problem]:
    """What is wrong with the file."""
    try:
        load_keys(path)
    except Problems as error:
        return list(error.problems)
    return []
