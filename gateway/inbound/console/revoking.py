"""What lets nobody in any more: a link or a token with the sessions that came of it, or all that one reviewer has.

As with run tokens it is a name in the ledger, which all gateways share that take the credential: said once, by a
command that needs no gateway, and in force everywhere within two seconds.
"""

from collections.abc import Awaitable, Callable
from hashlib import sha256

from gateway.inbound.console.credentials import BadCredential
from gateway.model.canonical import dump_bytes
from gateway.model.review import Reviewer

REVOKED = "it has been revoked"
OUT = "you are let in no more: whoever keeps this gateway has revoked all that you have"


def of_credential(name: str) -> str:
    """What is said in the ledger when the link or token with that id is revoked."""
    return f"console:revoked:{name}"


def of_reviewer(tenant: str, name: str) -> str:
    """What is said in the ledger when all is revoked that this reviewer has, or gets while it is remembered."""
    return f"console:out:{sha256(dump_bytes([tenant, name])).hexdigest()}"


async def check(said: Callable[[str], Awaitable[bool]], reviewer: Reviewer, credential: str | None) -> None:
    """Neither the reviewer nor what they came by was revoked. `said` is `Ledger.said`, or `Revoked.has`, by which that
    may be two seconds old.

    Raises: BadCredential, LedgerUnavailable.
    """
    if credential is not None and await said(of_credential(credential)):
        raise BadCredential(REVOKED)
    if await said(of_reviewer(reviewer.tenant, reviewer.id)):
        raise BadCredential(OUT)
