"""What we show to upstreams: tokens that are asked for at an authorization server, and shown to nobody else."""

from collections.abc import Callable

from gateway.outbound.credentials.credential import Credential
from gateway.outbound.credentials.entries import Auth


def credential_of(
    auth: Auth, monotonic: Callable[[], float], chance: Callable[[], float], *, upstream: str = "", page: str = ""
) -> Credential:
    """The tokens for one upstream, none of which is asked for yet. `monotonic` and `chance` as in `Kept`; `page` is
    where people connect accounts of theirs, and beneath it, under the upstream's name, where they come back to.
    """
    from gateway.outbound.credentials.grants import ClientCredentials, TokenExchange  # noqa: PLC0415 - few ask for any

    if auth.kind == "authorization_code":
        return _consented(auth, monotonic, chance, upstream, page)
    kind = TokenExchange if auth.kind == "token_exchange" else ClientCredentials
    return kind(auth.client, monotonic, chance)


def _consented(
    auth: Auth, monotonic: Callable[[], float], chance: Callable[[], float], upstream: str, page: str
) -> Credential:
    from gateway.outbound.credentials.consent_flow import ConsentFlow  # noqa: PLC0415 - few ask for any
    from gateway.outbound.credentials.consented import Consented  # noqa: PLC0415 - the same

    redirect = f"{page}/{upstream}/callback"
    flow = ConsentFlow(auth.client, auth.authorization_url, redirect, auth.issuer)
    return Consented(upstream, flow, page, auth.revocation_url, monotonic, chance)
