"""The doorkeeper that a configuration describes."""

from collections.abc import Awaitable, Callable

from gateway.inbound.mcp.doorkeeper import Doorkeeper, Oauth
from gateway.inbound.mcp.revoked import RevokedRuns
from gateway.outbound.agent_entries import AgentSettings
from gateway.outbound.agent_keys import AgentKeys
from gateway.outbound.oidc.resource import ResourceSettings
from gateway.ports import Clock

ENDPOINT = "/mcp"


def doorkeeper_of(
    told: AgentSettings,
    *,
    url: str,
    run_key: bytes | None,
    clock: Clock,
    said: Callable[[str], Awaitable[bool]],
    opened_from: Callable[[str], Awaitable[str | None]],
    on_behalf: bool = False,
    by_token: bool = False,
) -> Doorkeeper:
    """Who comes in at that address; `said` and `opened_from` as in `RevokedRuns`, `on_behalf` and
    `by_token` as in `Doorkeeper`.

    Raises: ValueError for a file of keys that cannot be used.
    """
    return Doorkeeper(
        run_key=run_key,
        now=clock.now,
        anonymous=told.anonymous,
        keys=None if told.keys is None else AgentKeys(told.keys, clock.monotonic),
        oauth=None if told.oauth is None else _oauth(told.oauth, f"{url}{ENDPOINT}", clock),
        mtls=told.mtls,
        revoked=RevokedRuns(said, opened_from, clock.monotonic),
        on_behalf=on_behalf,
        by_token=by_token,
    )


def _oauth(told: ResourceSettings, resource: str, clock: Clock) -> Oauth:
    from gateway.outbound.oidc.access_tokens import AccessTokens  # noqa: PLC0415 - most gateways take none

    audience = resource if told.audience is None else told.audience
    return Oauth(told, AccessTokens(told, audience, now=clock.now, monotonic=clock.monotonic), resource)


def introduction(told: AgentSettings) -> str:
    """Who comes in, in one line, for whoever started the gateway."""
    ways = [
        *([f"access tokens of {told.oauth.issuer}"] if told.oauth is not None else []),
        *([f"the keys in {told.keys}"] if told.keys is not None else []),
        *(["client certificates that a proxy vouches for"] if told.mtls is not None else []),
        "run tokens (`counterfoil run open`)",
    ]
    by = ", ".join(ways)
    if told.anonymous:
        return f"agents: anybody on this machine comes in as `anonymous`, without a credential; else by {by}"
    return f"agents: nobody comes in without a credential; by {by}"
