"""State that a client carries for us: sealed, so that it can be neither read, changed nor used for anything else.

`requestState` is attacker-controlled input [MCP 2026-07-28, multi round-trip requests], and so is a task's id.
Whatever comes back is bound to who may use it, to the request that it belongs to, and to a time; a seal does not make
it good for one use only, which is the business of whoever acts on it.
"""

import base64
import binascii
import hashlib
import os
from collections.abc import Callable
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gateway.model.canonical import NotStrictJson, dump_bytes, parse
from gateway.model.principal import Principal

_NONCE = 12
_LABEL = b"counterfoil/sealed-state/1"


_NOT_YOURS = "it is not a state that this gateway gave out to you, or was changed"


class BrokenSeal(ValueError):
    """The state is none of ours, or not for this use. The message says which, and nothing of what is inside."""


class Seals:
    """Seals and opens. Gateways that share `key` open one another's."""

    def __init__(self, key: bytes | None, now: Callable[[], float]) -> None:
        """`key` None: one that lives and dies with this process."""
        self._aead = AESGCM(hashlib.sha256(_LABEL + (key if key is not None else os.urandom(32))).digest())
        self._now = now

    def now(self) -> float:
        """Seconds since the epoch, by the clock that ends what was sealed."""
        return self._now()

    def seal(self, kind: str, principal: Principal, about: str, state: dict[str, Any], lives_s: float) -> str:
        """URL-safe text. `about` is what the state belongs to: a digest of the request, or nothing."""
        bound = [kind, principal.tenant, principal.id, about, self._now() + lives_s, state]
        nonce = os.urandom(_NONCE)
        sealed = nonce + self._aead.encrypt(nonce, dump_bytes(bound), _LABEL)
        return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()

    def open(self, text: str, principal: Principal, about: str, *kinds: str) -> tuple[str, dict[str, Any]]:
        """The kind of the state, and the state.

        Raises: BrokenSeal.
        """
        try:
            sealed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            bound = parse(self._aead.decrypt(sealed[:_NONCE], sealed[_NONCE:], _LABEL))
            kind, tenant, owner, meant, until, state = bound
        except (binascii.Error, ValueError, InvalidTag, NotStrictJson):
            raise BrokenSeal(_NOT_YOURS) from None
        if (tenant, owner) != principal.whose:
            raise BrokenSeal(_NOT_YOURS)  # nobody learns that another's is there
        if kind not in kinds or meant != about:
            raise BrokenSeal("it was given out for another request")
        if self._now() > until:
            raise BrokenSeal("it has expired")
        return kind, state
