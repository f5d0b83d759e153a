"""No access token is believed that is not its server's own word, for this gateway, now."""

import base64
import hmac
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from gateway.model.principal import Principal
from gateway.outbound.oidc.asking import Unreachable
from gateway.outbound.oidc.claims import NotLetIn
from gateway.outbound.oidc.key_set import ANEW_S, DOWN_S, KEPT_S, STALE_S
from gateway.outbound.oidc.people import OidcSettings, person_of
from gateway.outbound.oidc.resource import Claims
from tests.agents.tokens import ALL_CLAIMS, RESOURCE, Issuer
from tests.console.provider import EC, RSA, SECRET, pem, public

pytestmark = pytest.mark.anyio


def part(value: Any) -> bytes:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")


def hs256_with_the_public_key(idp: Issuer) -> str:
    """By hand: libraries that know of the trick refuse to sign so."""
    said = part({"alg": "HS256", "typ": "at+jwt", "kid": "one"}) + b"." + part(idp.claims())
    mac = base64.urlsafe_b64encode(hmac.digest(pem(RSA[0]), said, "sha256")).rstrip(b"=")
    return (said + b"." + mac).decode()


def unsigned(idp: Issuer) -> str:
    return (part({"alg": "none", "kid": "one"}) + b"." + part(idp.claims()) + b".").decode()


def with_another_payload(idp: Issuer) -> str:
    head, _, signature = idp.token().split(".")
    return f"{head}.{part(idp.claims(sub='admin')).decode()}.{signature}"


def made(**more: Any) -> Callable[[Issuer], str]:
    return lambda idp: idp.token(**more)


FORGED = "the access token was not signed by the provider"
NOT_SIGNED = "the access token is not signed with a key that only the provider has"
LACKS = "the access token lacks what is needed, or is malformed"
ELSE = "the access token is meant for somebody else"
FUTURE = "the access token is from the future: compare the clocks of the gateway and the provider"
EXTENSIONS = "the access token asks for extensions that this gateway does not know"
NONE = "that is no access token of the provider"
BOUND = "the access token is bound to a key, and this gateway asks for no proof of one"
FOR_CLIENTS = "that is an ID token, which is for a client and lets nobody in here"
OTHER_KIND = "that is another kind of token, and no access token"
JWK = {"jwk": public("one", RSA[1])}


FORGERIES: list[tuple[Callable[[Issuer], str], str]] = [
    (made(key=RSA[1]), FORGED),
    (made(key=RSA[1], header={"kid": "two"}), FORGED),
    (made(key=RSA[1], header={"kid": "../../../../dev/null"}), FORGED),
    (made(key=RSA[1], header={"kid": "one' OR '1'='1"}), FORGED),
    (made(key=RSA[1], header={"jku": "http://127.0.0.1:9/keys"}), FORGED),
    (made(key=RSA[1], header={"x5u": "http://127.0.0.1:9/chain.pem"}), FORGED),
    (made(key=RSA[1], header=JWK), FORGED),
    (made(header={"crit": ["exp"], "exp": 1}), "the access token is malformed"),
    (made(header={"b64": False, "crit": ["b64"]}), EXTENSIONS),
    (unsigned, NOT_SIGNED),
    (made(key="", algorithm="none"), NOT_SIGNED),
    (made(key=SECRET.encode() * 3, algorithm="HS256"), NOT_SIGNED),
    (hs256_with_the_public_key, NOT_SIGNED),
    (made(key=EC, algorithm="ES256"), FORGED),
    (made(algorithm="RS512"), FORGED),
    (with_another_payload, FORGED),
    (lambda idp: idp.token()[:-6], FORGED),
    (made(aud="http://127.0.0.1:8321"), ELSE),
    (made(aud=f"{RESOURCE}/"), ELSE),
    (made(aud=[RESOURCE.upper(), "https://other.example/mcp"]), ELSE),
    (made(aud=None), LACKS),
    (made(iss="https://evil.example"), "the access token is from another provider"),
    (made(iss=None), LACKS),
    (made(exp=1), "the access token has expired"),
    (made(exp=None), LACKS),
    (made(exp="soon"), LACKS),
    (made(exp=True), LACKS),
    (made(exp=float("nan")), "the access token has expired"),
    (made(nbf=2**33), FUTURE),
    (made(iat=2**33), FUTURE),
    (made(sub=None), LACKS),
    (made(sub="local:root"), "a name that begins with `local:` is for users of the gateway's own machine"),
    (made(sub="anonymous"), "nobody who shows a token can be called `anonymous`"),
    (made(sub="a\nb"), "the provider does not say your `sub`"),
    (made(sub="ci "), "the provider does not say your `sub`"),
    (made(cnf={"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}), BOUND),
    (made(nonce="n"), FOR_CLIENTS),
    (made(at_hash="h"), FOR_CLIENTS),
    (made(typ="ID"), OTHER_KIND),
    (made(token_use="id"), OTHER_KIND),  # noqa: S106 - what a server says of it
    (made(header={"typ": "logout+jwt"}), OTHER_KIND),
    (made(header={"typ": "counterfoil-run"}), OTHER_KIND),
    (made(header={"typ": 7}), OTHER_KIND),
    (lambda _: "opaque", NONE),
    (lambda _: "", NONE),
    (lambda _: "a.b", NONE),
    (lambda _: "a.b.c.d.e", NONE),
    (lambda _: "é.é.é", NONE),
    (lambda _: "a.b.c", "the access token is malformed"),
    (lambda _: "a" * 17_000, "the access token is too long"),
]


@pytest.mark.parametrize(("token", "why"), FORGERIES, ids=range(len(FORGERIES)))
async def test_what_is_not_the_servers_word_for_us_lets_nobody_in(
    idp: Issuer, token: Callable[[Issuer], str], why: str
) -> None:
    with pytest.raises(NotLetIn) as refused:
        await idp.tokens().holder(token(idp))
    assert str(refused.value) == why
    assert idp.openid.fetched <= 1


@pytest.mark.parametrize("header", [None, {"typ": "JWT"}, {"typ": None}, {"typ": "application/at+jwt"}, {"kid": None}])
async def test_whom_a_good_token_speaks_of_comes_in(idp: Issuer, header: Any) -> None:
    who = await idp.tokens().holder(idp.token(header=header))
    assert who == Principal("ci", "local", frozenset(), frozenset({"mcp"}))
    assert await idp.tokens().holder(idp.token(aud=["https://other.example", RESOURCE])) == who


async def test_claims_say_tenant_principal_roles_and_scopes_as_settings_have_it(idp: Issuer) -> None:
    tokens = idp.tokens(
        claims=ALL_CLAIMS, roles_map={"dev": ("deployer", "reader")}, tenants=("acme",), clients=("agent",)
    )
    said: dict[str, Any] = {
        "email": "ci@acme.example",
        "email_verified": True,
        "org": "acme",
        "realm_access": {"roles": ["dev", "admin", 7]},
        "scp": ["repo:read", "repo:write"],
        "azp": "agent",
    }
    who = await tokens.holder(idp.token(**said))
    scopes = frozenset({"repo:read", "repo:write"})
    assert who == Principal("ci@acme.example", "acme", frozenset({"deployer", "reader"}), scopes)
    for more, why in (
        ({"email_verified": "true"}, "the provider has not verified your e-mail address"),
        ({"org": "other"}, "agents of your organisation may not come in here"),
        ({"org": None}, "the provider does not say your `org`"),
        ({"azp": "another"}, "the access token was given to a client that may not come in here"),
        ({"azp": None}, "the access token was given to a client that may not come in here"),
        ({"client_id": "another"}, "the access token was given to a client that may not come in here"),
    ):
        with pytest.raises(NotLetIn) as refused:
            await tokens.holder(idp.token(**{**said, **more}))
        assert str(refused.value) == why


async def test_no_tenant_of_a_provider_is_the_one_of_this_machine_unless_that_is_said(idp: Issuer) -> None:
    claims, token = Claims(tenant="org"), idp.token(org="local")
    for tenants in ((), ("acme",)):
        with pytest.raises(NotLetIn) as refused:
            await idp.tokens(claims=claims, tenants=tenants).holder(token)
        assert str(refused.value) == "a tenant that is called `local` is for this gateway's own machine"
    assert (await idp.tokens(claims=claims, tenants=("local",)).holder(token)).tenant == "local"
    reviewers = OidcSettings("https://idp.example", "x", tenant_claim="org", roles_claim="roles")
    said = {"sub": "ann", "org": "local", "roles": ["owner"]}
    with pytest.raises(NotLetIn):
        person_of(said, reviewers)
    assert person_of(said, replace(reviewers, allowed_tenants=("local",))).tenant == "local"
    assert person_of(said, replace(reviewers, tenant_claim=None)).tenant == "local"


async def test_a_token_is_over_a_minute_after_its_end_and_no_later(idp: Issuer) -> None:
    tokens, token = idp.tokens(), idp.token()
    idp.clock.tell(359)
    await tokens.holder(token)
    idp.clock.tell(1)
    with pytest.raises(NotLetIn):
        await tokens.holder(token)


# --- keys -------------------------------------------------------------------------------------------------------------


async def test_new_keys_are_found_and_old_ones_forgotten(idp: Issuer) -> None:
    tokens = idp.tokens()
    await tokens.holder(idp.token())
    idp.openid.keys = [public("two", RSA[1])]
    with pytest.raises(NotLetIn):  # asked a moment ago
        await tokens.holder(idp.token(RSA[1], header={"kid": "two"}))
    idp.clock.tell(ANEW_S)
    await tokens.holder(idp.token(RSA[1], header={"kid": "two"}))
    with pytest.raises(NotLetIn):
        await tokens.holder(idp.token())
    assert idp.openid.fetched == 2


async def test_forged_names_of_keys_cause_no_storm(idp: Issuer) -> None:
    tokens = idp.tokens()
    for number in range(50):
        with pytest.raises(NotLetIn):
            await tokens.holder(idp.token(RSA[1], header={"kid": f"k{number}"}))
        idp.clock.tell(ANEW_S / 25)
    assert idp.openid.fetched == 2


async def test_while_the_server_is_down_its_keys_hold_on_for_hours_and_no_longer(idp: Issuer) -> None:
    tokens = idp.tokens()
    await tokens.holder(idp.token())
    idp.openid.down = True
    idp.clock.tell(KEPT_S)
    for _ in range(5):
        await tokens.holder(idp.token())
        idp.clock.tell(ANEW_S)
    with pytest.raises(Unreachable):  # whether it has such a key cannot be said
        await tokens.holder(idp.token(RSA[1], header={"kid": "two"}))
    idp.clock.tell(STALE_S)
    with pytest.raises(Unreachable):
        await tokens.holder(idp.token())
    idp.openid.down = False
    with pytest.raises(Unreachable) as refused:
        await tokens.holder(idp.token())
    assert str(refused.value) == "the provider could not be reached a moment ago"
    idp.clock.tell(DOWN_S)
    await tokens.holder(idp.token())


async def test_keys_may_be_at_an_address_that_settings_say(idp: Issuer) -> None:
    told = idp.tokens(keys=f"{idp.openid.url}/keys")
    idp.openid.metadata = {"issuer": "https://evil.example"}
    await told.holder(idp.token())
    with pytest.raises(Unreachable) as refused:
        await idp.tokens().holder(idp.token())
    assert str(refused.value) == "the provider calls itself otherwise than the `issuer` that is configured"


async def test_secrets_and_keys_of_other_uses_are_no_keys(idp: Issuer) -> None:
    secret = base64.urlsafe_b64encode(b"k" * 32).rstrip(b"=").decode()
    idp.openid.keys = [
        {"kty": "oct", "k": secret, "kid": "oct", "alg": "HS256"},
        {**public("enc", RSA[0]), "use": "enc"},
        {"kty": "RSA", "kid": "broken"},
    ]
    tokens = idp.tokens()
    for token in (
        jwt.encode(idp.claims(), b"k" * 32, "HS256", {"kid": "oct"}),
        idp.token(header={"kid": "enc"}),
        idp.token(header={"kid": "broken"}),
        idp.token(header={"kid": None}),
    ):
        with pytest.raises(NotLetIn):
            await tokens.holder(token)


# --- tokens that say nothing ------------------------------------------------------------------------------------------


async def test_an_opaque_token_is_asked_about_once_in_a_while(idp: Issuer) -> None:
    tokens = idp.tokens(introspection=idp.introspected())
    idp.openid.active["opaque"] = {"active": True, **idp.claims()}
    for _ in range(3):
        assert (await tokens.holder("opaque")).id == "ci"
    assert idp.openid.asked_about == 1
    idp.openid.active.clear()  # revoked
    idp.clock.tell(10)
    with pytest.raises(NotLetIn) as refused:
        await tokens.holder("opaque")
    assert str(refused.value) == "the access token is not active: it has expired, was revoked, or never was"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"aud": "https://other.example"}, ELSE),
        ({"aud": None}, ELSE),
        ({"iss": "https://evil.example"}, "the access token is from another provider"),
        ({"exp": 1}, "the access token has expired"),
        ({"nbf": 2**33}, FUTURE),
        ({"sub": None}, "the provider does not say your `sub`"),
        ({"cnf": {"jkt": "x"}}, BOUND),
        ({"typ": "Refresh"}, OTHER_KIND),
    ],
)
async def test_what_is_said_of_a_token_is_checked_too(idp: Issuer, said: Any, why: str) -> None:
    idp.openid.active["opaque"] = {"active": True, **idp.claims(**said)}
    with pytest.raises(NotLetIn) as refused:
        await idp.tokens(introspection=idp.introspected()).holder("opaque")
    assert str(refused.value) == why


@pytest.mark.parametrize("said", [{}, {"active": "true"}, {"active": 1}])
async def test_what_is_no_answer_is_neither_yes_nor_no(idp: Issuer, said: Any) -> None:
    idp.openid.active["opaque"] = said
    with pytest.raises(Unreachable):
        await idp.tokens(introspection=idp.introspected()).holder("opaque")


async def test_a_server_that_is_down_lets_nobody_in_and_sends_nobody_away(idp: Issuer) -> None:
    idp.openid.down = True
    tokens = idp.tokens(introspection=idp.introspected())
    for token in ("opaque", idp.token()):
        with pytest.raises(Unreachable):
            await tokens.holder(token)


async def test_where_no_keys_are_wanted_signed_tokens_are_asked_about(idp: Issuer) -> None:
    token = idp.token(RSA[1])
    tokens = idp.tokens(keys="none", introspection=idp.introspected())
    with pytest.raises(NotLetIn):
        await tokens.holder(token)
    idp.openid.active[token] = {"active": True, **idp.claims(sub="other")}
    idp.clock.tell(10)
    assert (await tokens.holder(token)).id == "other"
    assert idp.openid.fetched == 0


async def test_what_was_said_is_not_kept_without_end(idp: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.outbound.oidc.introspection.MAX_KEPT", 2)
    tokens = idp.tokens(introspection=idp.introspected())
    for token in ("a", "b", "c", "a"):
        with pytest.raises(NotLetIn):
            await tokens.holder(token)
    assert idp.openid.asked_about == 4


# --- servers that say what is no answer -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ({"jwks_uri": None}, "an endpoint of the provider is missing, or not reached over TLS"),
        ({"jwks_uri": "http://keys.example/"}, "an endpoint of the provider is missing, or not reached over TLS"),
        ({"jwks_uri": "http://[::1/"}, "an endpoint of the provider is missing, or not reached over TLS"),
        ({"jwks_uri": "{}/.well-known/openid-configuration"}, "the provider does not say its keys"),
        ({"jwks_uri": "{}/nothing"}, "the provider's answer is no JSON"),
    ],
)
async def test_without_keys_nothing_can_be_said(idp: Issuer, metadata: Any, why: str) -> None:
    idp.openid.metadata = {name: said and said.format(idp.openid.url) for name, said in metadata.items()}
    with pytest.raises(Unreachable) as refused:
        await idp.tokens().holder(idp.token())
    assert str(refused.value) == why


async def test_an_answer_without_end_is_none(idp: Issuer) -> None:
    idp.openid.metadata = {"more": "x" * 600_000}
    with pytest.raises(Unreachable) as refused:
        await idp.tokens().holder(idp.token())
    assert str(refused.value) == "the provider's answer is too long"


async def test_a_key_for_an_algorithm_that_is_not_taken_opens_nothing(idp: Issuer) -> None:
    strange = ec.generate_private_key(ec.SECP256K1())
    idp.openid.keys = [{**json.loads(ECAlgorithm.to_jwk(strange.public_key())), "kid": "one"}]
    with pytest.raises(NotLetIn) as refused:
        await idp.tokens().holder(idp.token())
    assert str(refused.value) == NOT_SIGNED
    with pytest.raises(NotLetIn):
        await idp.tokens().holder(idp.token(strange, "ES256K"))


async def test_a_name_of_a_key_is_a_text(idp: Issuer) -> None:
    head = part({"alg": "RS256", "kid": ["one"]}) + b"." + part(idp.claims()) + b".AAAA"
    with pytest.raises(NotLetIn) as refused:
        await idp.tokens().holder(head.decode())
    assert str(refused.value) == "the access token is malformed"
