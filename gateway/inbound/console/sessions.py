"""A reviewer's session: a sealed cookie, which the browser carries for us and can neither read nor change.

No gateway keeps sessions: any of those that share the key opens them. Only that one has ended is remembered.
"""

import base64
import binascii
import os
import secrets
from dataclasses import dataclass, replace
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gateway.model.canonical import NotStrictJson, dump_bytes, parse
from gateway.model.review import Reviewer

IDLE_S = 60 * 60.0
LONGEST_S = 12 * 60 * 60.0
RENEW_S = 60.0
"""A session that is used is written anew after so long, not with each answer."""

_NONCE = 12
_MAX_CHARS = 4096


class BrokenCookie(ValueError):
    """The cookie is none of ours, or not for this use."""


class Sealed:
    """Values that a browser carries, each sealed for one use."""

    def __init__(self, key: bytes) -> None:
        self._aead = AESGCM(key)

    def seal(self, use: str, value: Any) -> str:
        """URL-safe text."""
        nonce = os.urandom(_NONCE)
        sealed = nonce + self._aead.encrypt(nonce, dump_bytes(value), use.encode())
        return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()

    def open(self, use: str, text: str) -> Any:
        """What was sealed for that use.

        Raises: BrokenCookie.
        """
        try:
            if len(text) > _MAX_CHARS:
                raise BrokenCookie
            sealed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            return parse(self._aead.decrypt(sealed[:_NONCE], sealed[_NONCE:], use.encode()))
        except (binascii.Error, ValueError, InvalidTag, NotStrictJson):
            raise BrokenCookie from None


@dataclass(frozen=True, slots=True)
class Session:
    """One reviewer in one browser, from when they came in until they leave or time is up."""

    id: str
    reviewer: Reviewer
    csrf: str
    """What every form of this session must send along."""
    began_at: float
    seen_at: float
    link: str | None = None
    """The id of the link that it came by."""


def begun(reviewer: Reviewer, now: float, link: str | None = None) -> Session:
    """A session of its own, whatever the browser had before."""
    return Session(secrets.token_urlsafe(16), reviewer, secrets.token_urlsafe(24), now, now, link)


@dataclass(frozen=True, slots=True)
class Sessions:
    """Seals and opens sessions, and knows when their time is up."""

    sealed: Sealed
    idle_s: float = IDLE_S
    longest_s: float = LONGEST_S

    def written(self, session: Session) -> str:
        """As the cookie has it."""
        by = session.reviewer
        flags = [by.everywhere, by.approval, session.link]
        times = [session.began_at, session.seen_at]
        return self.sealed.seal(
            "session", [session.id, session.csrf, *times, by.tenant, by.id, sorted(by.roles), by.via, *flags]
        )

    def read(self, text: str, now: float) -> Session | None:
        """The session, if its time is not up."""
        try:
            name, csrf, began_at, seen_at, tenant, who, roles, via, everywhere, approval, link = self.sealed.open(
                "session", text
            )
        except BrokenCookie:
            return None
        reviewer = Reviewer(
            tenant=tenant, id=who, roles=frozenset(roles), via=via, everywhere=everywhere, approval=approval
        )
        session = Session(name, reviewer, csrf, began_at, seen_at, link)
        return session if self.left_s(session, now) > 0 else None

    def ends_at(self, session: Session) -> float:
        """However much it is used."""
        return session.began_at + self.longest_s

    def left_s(self, session: Session, now: float) -> float:
        """How long it lasts if nobody uses it."""
        return min(session.seen_at + self.idle_s, self.ends_at(session)) - now

    def renewed(self, session: Session, now: float) -> Session | None:
        """The session as it is to be written anew; None while that is not worth it."""
        return replace(session, seen_at=now) if now - session.seen_at >= RENEW_S else None
