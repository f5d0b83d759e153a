"""Who sends a request over HTTP: found by what it shows, never by what it says of itself.

    run token       header `Counterfoil-Run`, or the path: signed by this gateway
    key             `Authorization: Bearer cfk_…`: one of the file that `agents.keys` names
    access token    `Authorization: Bearer …`: of the authorization server that `agents.oauth` names
    certificate     its subject, in the header that `agents.mtls` names, from a proxy that it trusts
    nothing         somebody on this machine, where that is enough

Who shows several must be one and the same by all of them, and has no more than each of them gives.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import parse_qsl

from pydantic import SecretStr
from starlette.datastructures import Headers

from gateway.inbound.mcp.challenges import METADATA, Challenges, unsure
from gateway.inbound.mcp.door import Head, Scope, Turned
from gateway.inbound.mcp.identity import ANONYMOUS, RUN_HEADER, NotLetIn, check_no_reviewer, run_token
from gateway.inbound.mcp.revoked import RevokedRuns
from gateway.inbound.mcp.tokens import TYPE as RUN_TOKEN
from gateway.inbound.mcp.tokens import RunToken, type_of
from gateway.model.party import Behalf
from gateway.model.principal import Principal
from gateway.outbound.addresses import is_loopback
from gateway.outbound.agent_keys import PREFIX, AgentKeys
from gateway.outbound.oidc.asking import Unreachable
from gateway.outbound.oidc.claims import NotLetIn as NotVouched
from gateway.outbound.oidc.resource import ResourceSettings
from gateway.outbound.proxies import ProxySettings, is_trusted, vouched_for
from gateway.ports import LedgerUnavailable

_RUN_HEADER = RUN_HEADER.lower()
_BEARER = "bearer "
_IN_ADDRESSES = frozenset({"access_token", "token", "id_token", "api_key", "apikey", "key", "authorization"})
FORWARDED = frozenset({
    "cf-connecting-ip",
    "fastly-client-ip",
    "fly-client-ip",
    "forwarded",
    "true-client-ip",
    "via",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-envoy-external-address",
    "x-original-host",
    "x-original-url",
    "x-real-ip",
})  # fmt: skip
"""Headers by which proxies say that somebody else sends what they pass on, beside all that begin as the next."""
_FORWARDED = "x-forwarded-"
_BY_PROXIES = "1.0"
"""Of HTTP: no MCP client speaks it, and nginx does to those behind it unless told otherwise, with no such header."""
MAX_CHALLENGED = 64
"""Scopes of a token that are asked for again with those that it lacks, so that it does not lose them."""


class Tokens(Protocol):
    """As `oidc.access_tokens.AccessTokens`."""

    async def holder(self, token: str) -> Principal:
        """Raises: `oidc.claims.NotLetIn`, Unreachable."""
        ...


@dataclass(frozen=True, slots=True)
class Oauth:
    """The authorization server, and what is told of it."""

    told: ResourceSettings
    tokens: Tokens
    resource: str
    """Our own address for agents, by which tokens are asked for."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What is told to whoever asks [RFC 9728, 2]."""
        stepped = (scope for scopes in self.told.step_up.values() for scope in scopes)
        scopes = sorted({*self.told.required_scopes, *stepped})
        return {
            "resource": self.resource,
            "authorization_servers": [self.told.issuer],
            "bearer_methods_supported": ["header"],
            "resource_name": "Counterfoil",
            **({"scopes_supported": scopes} if scopes else {}),
        }


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who sends a request."""

    principal: Principal
    token: RunToken | None = None
    scopes: frozenset[str] | None = None
    """Of the access token; None for who came without one."""
    behalf: Behalf | None = None
    """The same, where an upstream is called on behalf of principals; and their access token, where one is shown it."""


ANYBODY = Visitor(ANONYMOUS)
CREDENTIALS = frozenset({"authorization", "cookie", _RUN_HEADER})


def without_credentials(headers: Mapping[str, str]) -> Mapping[str, str]:
    """What may go on with a request whose sender is known: nothing behind the door needs what they showed."""
    return {name: value for name, value in headers.items() if name not in CREDENTIALS}


class Doorkeeper:
    """Finds out who sends a request. One for each process; `now` is seconds since the epoch."""

    def __init__(
        self,
        *,
        run_key: bytes | None,
        now: Callable[[], float],
        anonymous: bool = True,
        keys: AgentKeys | None = None,
        oauth: Oauth | None = None,
        mtls: ProxySettings | None = None,
        revoked: RevokedRuns | None = None,
        on_behalf: bool = False,
        by_token: bool = False,
    ) -> None:
        """With `on_behalf` it goes on, in memory, who is somebody in particular, to upstreams that are called on behalf
        of principals; with `by_token` the access token as well, which such an upstream is shown.
        """
        self._run_key = run_key
        self._now = now
        self._anonymous = anonymous
        self._keys = keys
        self.oauth = oauth
        self._mtls = mtls
        self._revoked = revoked
        self._on_behalf = on_behalf
        self._by_token = by_token
        self._asks = not anonymous or (keys, oauth) != (None, None)
        """Whether what stands in `Authorization` is meant for us."""
        self._challenges = Challenges(
            None if oauth is None else _metadata_at(oauth.resource), () if oauth is None else oauth.told.required_scopes
        )

    async def visitor(self, scope: Scope, head: Head) -> Visitor:
        """Who sends it.

        Raises: Turned.
        """
        check_address(scope)
        segment = scope.get("path_params", {}).get("run")
        shown = head.only("authorization")
        by_proxy = None if self._mtls is None else self._by_certificate(scope, head, self._mtls)
        if segment is None and shown is None and by_proxy is None and _RUN_HEADER not in head.headers:
            return self._without(scope, head)
        token = await self._run_token(scope, segment, shown)
        by_token = await self._by_bearer(shown) if shown is not None and self._asks else None
        by_run = None if token is None else token.principal
        known = [who for who in (by_token, by_proxy, by_run) if who is not None]
        if not known:
            return self._without(scope, head)
        principal = together(known)
        if by_token is None or shown is None or _is_key(shown):
            return Visitor(principal, token, behalf=self._behalf(principal, None))
        return Visitor(principal, token, by_token.scopes, self._behalf(principal, _bearer(shown)))

    def _behalf(self, principal: Principal, shown: str | None) -> Behalf | None:
        if not self._on_behalf or principal.whose == ANONYMOUS.whose:
            return None  # whoever is nobody in particular has no account anywhere, whatever they are called
        passed = SecretStr(shown) if shown is not None and self._by_token else None
        return Behalf(principal.tenant, principal.id, passed, by_token=shown is not None)

    def check_scopes(self, visitor: Visitor, message: Mapping[str, Any]) -> None:
        """The access token is good for what the message asks.

        Policy judges each call all the same; this only tells a client what to ask its user for.

        Raises: Turned.
        """
        calls = message.get("method") == "tools/call"
        lacks, needed = self._lacking(visitor, message.get("params", {}).get("name") if calls else None)
        if lacks and visitor.scopes is not None:
            kept = sorted(visitor.scopes)[:MAX_CHALLENGED]
            raise self._challenges.too_little(lacks, {*needed, *(one for one in kept if _is_plain(one))})

    def lacking(self, visitor: Visitor, tool: str) -> frozenset[str]:
        """The scopes that their access token lacks for a call of that tool, by whichever request it is made."""
        return self._lacking(visitor, tool)[0]

    def _lacking(self, visitor: Visitor, tool: Any) -> tuple[frozenset[str], frozenset[str]]:
        """Of the scopes that are needed, those that are lacking; and all that are needed."""
        if self.oauth is None or visitor.scopes is None:
            return frozenset(), frozenset()
        told, name = self.oauth.told, tool if isinstance(tool, str) else ""
        steps = [scopes for pattern, scopes in told.step_up.items() if name and fnmatchcase(name, pattern)]
        needed = frozenset(told.required_scopes).union(*steps)
        return needed - visitor.scopes, needed

    # --- the parts of a request ---------------------------------------------------------------------------------------

    def _without(self, scope: Scope, head: Head) -> Visitor:
        proxied = self._mtls is not None and is_trusted(_peer(scope), self._mtls)
        if self._anonymous and not proxied and is_here(scope, head):
            return ANYBODY
        if self._anonymous:
            raise self._challenges.unknown(
                "only who is on this machine comes in without a credential, and this was sent or passed on by another: "
                "`agents:` in gateway.yaml says who else may",
                shown=False,
            )
        raise self._challenges.unknown(f"say who you are: {self._how()}", shown=False)

    def _how(self) -> str:
        ways = [
            *([f"an access token of {self.oauth.told.issuer}"] if self.oauth is not None else []),
            *(["a key from `counterfoil keys new`"] if self._keys is not None else []),
        ]
        bearer = f"`Authorization: Bearer …` with {' or '.join(ways)}, or " if ways else ""
        return f"{bearer}`{RUN_HEADER}` with a token from `counterfoil run open`"

    def _by_certificate(self, scope: Scope, head: Head, told: ProxySettings) -> Principal | None:
        subject = head.only(told.header)
        if not subject or not is_trusted(_peer(scope), told):
            return None
        try:
            return vouched_for(subject, told)
        except NotVouched as error:
            raise Turned(403, str(error)) from None

    async def _run_token(self, scope: Scope, segment: str | None, shown: str | None) -> RunToken | None:
        try:
            if shown is not None:
                check_no_reviewer(shown)
            token = run_token(Headers(raw=scope["headers"]), segment, self._run_key, self._now())
            if token is not None:
                await self._check_not_revoked(token)
        except NotLetIn as error:
            # Not 401: to MCP clients that is an invitation to start an OAuth flow.
            raise Turned(403, str(error)) from None
        return token

    async def _check_not_revoked(self, token: RunToken) -> None:
        if self._revoked is None:
            return
        try:
            run = await self._revoked.by(token.run, None if token.parent is None else token.parent.run)
        except LedgerUnavailable:
            raise unsure("the ledger cannot be read, so it is not known whether the run token was revoked") from None
        if run is not None:
            raise NotLetIn(f"the run token was revoked: the one of the run `{run}`")

    async def _by_bearer(self, shown: str) -> Principal:
        text = _bearer(shown)
        if type_of(text) == RUN_TOKEN:  # nor is it shown to anybody who might be asked about it
            raise self._challenges.unknown(f"a run token is shown in the header `{RUN_HEADER}`", shown=True)
        try:
            if _is_key(shown) and self._keys is not None:
                return self._keys.holder(text, self._now())
            if not _is_key(shown) and text and self.oauth is not None:
                return await self.oauth.tokens.holder(text)
        except NotVouched as error:
            raise self._challenges.unknown(str(error), shown=True) from None
        except Unreachable as error:
            raise unsure(f"the access token cannot be checked: {error}") from None
        raise self._challenges.unknown(f"what stands in `Authorization` lets nobody in here: {self._how()}", shown=True)


def check_address(scope: Scope) -> None:
    """No credential stands in the address: those are kept in logs and histories [RFC 6750, 2.3; RFC 9700, 4.3.2].

    Raises: Turned.
    """
    query = scope.get("query_string", b"")
    if not query:
        return
    names = {name.lower() for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True)}
    if names & _IN_ADDRESSES:
        raise Turned(400, "a credential has no place in an address: send it in a header, and take this one for known")


def together(known: Sequence[Principal]) -> Principal:
    """Who is each of these, with no more than each of them has; one that states no roles or scopes narrows none.

    Raises: Turned if they are not one and the same.
    """
    if len({one.whose for one in known}) > 1:
        raise Turned(403, "what came with the request speaks of two principals: show what belongs to one")
    roles, scopes = _common(one.roles for one in known), _common(one.scopes for one in known)
    return Principal(known[0].id, known[0].tenant, roles, scopes)


def _common(stated: Iterable[frozenset[str]]) -> frozenset[str]:
    # All at once: two that have nothing in common would else look like one that states none to the third.
    said = [one for one in stated if one]
    return frozenset.intersection(*said) if said else frozenset()


def _bearer(shown: str) -> str:
    return shown[len(_BEARER) :].strip() if shown.lower().startswith(_BEARER) else ""


def _is_key(shown: str | None) -> bool:
    return (
        shown is not None
        and shown[: len(_BEARER)].lower() == _BEARER
        and shown[len(_BEARER) :].strip().startswith(PREFIX)
    )


def _is_plain(scope: str) -> bool:
    return scope.isascii() and scope.isprintable() and not {'"', "\\", " "} & set(scope)


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def is_here(scope: Scope, head: Head) -> bool:
    """Whether who sends it is on this machine, and is no proxy that says that it passes on what others send."""
    peer = _peer(scope)
    return (not peer or _is_local(peer)) and not _is_passed_on(scope, head)


def _is_passed_on(scope: Scope, head: Head) -> bool:
    named = head.headers.keys()
    said = not named.isdisjoint(FORWARDED) or any(name.startswith(_FORWARDED) for name in named)
    return said or scope.get("http_version") == _BY_PROXIES


_is_local = lru_cache(maxsize=64)(is_loopback)
"""The few peers that there are on this machine ask over and over again."""


def _metadata_at(resource: str) -> str:
    scheme, _, rest = resource.partition("://")
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority}{METADATA}{slash}{path}"
