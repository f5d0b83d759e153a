"""What a provider says of itself at its issuer [OpenID Connect Discovery 1.0, 4]."""

from collections.abc import Mapping
from typing import Any

from gateway.outbound.addresses import is_safe
from gateway.outbound.oidc.asking import Unreachable, ask

_PATH = "/.well-known/openid-configuration"


async def discovered(issuer: str) -> Mapping[str, Any]:
    """Its metadata, which name this very issuer.

    Raises: Unreachable.
    """
    status, said = await ask("GET", f"{issuer.rstrip('/')}{_PATH}")
    if status != 200:  # noqa: PLR2004 - OK
        raise Unreachable("the provider does not say where its endpoints are")
    if said.get("issuer") != issuer:
        raise Unreachable("the provider calls itself otherwise than the `issuer` that is configured")
    return said


def endpoint(said: Mapping[str, Any], name: str) -> str:
    """The address under that name.

    Raises: Unreachable for none, and for one at which others could listen.
    """
    found = said.get(name)
    if not isinstance(found, str) or not is_safe(found):
        raise Unreachable("an endpoint of the provider is missing, or not reached over TLS")
    return found
