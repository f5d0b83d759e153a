"""What we show to upstreams: tokens that are asked for at an authorization server, kept in memory, and shown to nobody
else.
"""

from collections.abc import Callable

from gateway.outbound.credentials.credential import Credential
from gateway.outbound.credentials.entries import Auth


def credential_of(auth: Auth, monotonic: Callable[[], float], chance: Callable[[], float]) -> Credential:
    """The tokens for one upstream, none of which is asked for yet. `monotonic` and `chance` as in `Kept`."""
    from gateway.outbound.credentials.grants import ClientCredentials, TokenExchange  # noqa: PLC0415 - few ask for any

    kind = TokenExchange if auth.kind == "token_exchange" else ClientCredentials
    return kind(auth.client, monotonic, chance)
