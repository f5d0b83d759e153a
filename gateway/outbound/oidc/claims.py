"""Verified claims -> the names of who they speak of, or why not."""

from collections.abc import Collection, Mapping
from typing import Any

LOCAL = "local"
"""The tenant of whoever is of none: keys, run tokens and reviewers that name no other, and accounts of the machine."""
MAX_CHARS = 256
MAX_ROLES = 200


class NotLetIn(Exception):
    """The provider does not vouch for somebody who may come in. The message says why, and shows no token."""


def name_of(claims: Mapping[str, Any], claim: str) -> str:
    """What whoever came is called here, by that claim.

    Raises: NotLetIn.
    """
    name = text_of(claims, claim)
    if claim == "email" and claims.get("email_verified") is not True:
        raise NotLetIn("the provider has not verified your e-mail address")
    if name.startswith("local:"):
        raise NotLetIn("a name that begins with `local:` is for users of the gateway's own machine")
    return name


def tenant_of(claims: Mapping[str, Any], claim: str | None, allowed: Collection[str]) -> str:
    """Their tenant here; that of this machine's own people and agents where no claim says one.

    Raises: NotLetIn, also for a provider's tenant that is called like this one, unless that is said to be the same.
    """
    if claim is None:
        return LOCAL
    tenant = text_of(claims, claim)
    if tenant == LOCAL and LOCAL not in allowed:
        raise NotLetIn(f"a tenant that is called `{LOCAL}` is for this gateway's own machine")
    return tenant


def text_of(claims: Mapping[str, Any], name: str) -> str:
    """One line that is not empty, of a bounded length, without spaces around it, which nobody would see.

    Raises: NotLetIn.
    """
    found = claim_of(claims, name)
    fits = isinstance(found, str) and 0 < len(found) <= MAX_CHARS and found.isprintable() and found == found.strip()
    if not fits:
        raise NotLetIn(f"the provider does not say your `{name}`")
    assert isinstance(found, str)  # noqa: S101 - INVARIANT: it fits
    return found


def words_of(claims: Mapping[str, Any], name: str | None) -> tuple[str, ...]:
    """A list of words, or words with spaces between; what is neither says none. Never more than a bounded number."""
    found = None if name is None else claim_of(claims, name)
    listed = found.split() if isinstance(found, str) else found if isinstance(found, list) else []
    return tuple(one for one in listed[:MAX_ROLES] if isinstance(one, str) and one and len(one) <= MAX_CHARS)


def roles_of(claims: Mapping[str, Any], name: str | None, ours: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    """Their roles in our words; where there is no table, they are called the same."""
    theirs = words_of(claims, name)
    return frozenset(theirs) if not ours else frozenset(role for one in theirs for role in ours.get(one, ()))


def claim_of(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by its name, which may be an address with dots, else by the steps to it: `realm_access.roles`."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for step in name.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found
