"""No token is believed that is not the provider's own word, for us, on this very sign-in."""

import base64
import hmac
import json
from collections.abc import Callable
from typing import Any

import jwt
import pytest

from gateway.outbound.oidc.key_set import ANEW_S, KEPT_S
from tests.console.provider import CLIENT, EC, RSA, SECRET, Asked, honest, pem, public
from tests.console.signing import SigningMaker

pytestmark = pytest.mark.anyio


def signed(key: Any = RSA[0], algorithm: str = "RS256", kid: str | None = "one", **more: Any) -> Callable[[Asked], str]:
    def token(asked: Asked) -> str:
        claims = {name: value for name, value in {**asked.claims, **more}.items() if value is not None}
        return jwt.encode(claims, key, algorithm, {} if kid is None else {"kid": kid})

    return token


def hs256_with_the_public_key(asked: Asked) -> str:
    """By hand: libraries that know of the trick refuse to sign so."""

    def part(value: Any) -> bytes:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=")

    said = part({"alg": "HS256", "typ": "JWT", "kid": "one"}) + b"." + part(asked.claims)
    mac = base64.urlsafe_b64encode(hmac.digest(pem(RSA[0]), said, "sha256")).rstrip(b"=")
    return (said + b"." + mac).decode()


NOT_SIGNED = "The ID token is not signed with a key that only the provider has"
FORGED = "The ID token was not signed by the provider"
ELSE = "The ID token is meant for somebody else"
ANOTHER = "The ID token is from another provider"
LACKS = "The ID token lacks what is needed, or is malformed"
GIVEN = "The ID token was given to somebody else"
SIGN_INS = "The ID token is for another sign-in"


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (signed(RSA[1]), FORGED),
        (signed(RSA[1], kid="two"), FORGED),
        (signed("", "none"), NOT_SIGNED),
        (signed(SECRET.encode() * 3, "HS256"), NOT_SIGNED),
        (hs256_with_the_public_key, NOT_SIGNED),
        (signed(EC, "ES256"), FORGED),
        (signed(RSA[0], "RS512"), FORGED),
        (signed(aud="somebody-else"), ELSE),
        (signed(aud=["somebody-else", "others"]), ELSE),
        (signed(aud=None), LACKS),
        (signed(iss="https://evil.example"), ANOTHER),
        (signed(iss=None), LACKS),
        (signed(exp=1), "The ID token has expired"),
        (signed(exp=None), LACKS),
        (signed(exp="soon"), LACKS),
        (signed(iat=2**33), "The ID token is from the future: compare the clocks of the gateway and the provider"),
        (signed(nbf=2**33), "The ID token is from the future: compare the clocks of the gateway and the provider"),
        (signed(azp="somebody-else"), GIVEN),
        (signed(aud=[CLIENT, "somebody-else"]), GIVEN),
        (signed(aud=[CLIENT, "somebody-else"], azp="somebody-else"), GIVEN),
        (signed(nonce="of another sign-in"), SIGN_INS),
        (signed(nonce=None), LACKS),
        (signed(nonce=7), SIGN_INS),
        (signed(sub=None), LACKS),
        (lambda asked: honest(asked)[:-6], FORGED),
        (lambda _: "a.b", "The ID token is malformed"),
        (lambda _: "a" * 70_000, "The ID token is too long"),
        (signed(org="other"), "People of your organisation do not review here"),
        (signed(org=None), "The provider does not say your `org`"),
        (signed(org=["acme"]), "The provider does not say your `org`"),
        (signed(sub="local:root"), "A name that begins with `local:` is for users of the gateway&#x27;s own machine"),
    ],
    ids=range(31),
)
async def test_no_token_is_believed_that_is_not_the_providers_word_on_this_sign_in(
    signing: SigningMaker, token: Callable[[Asked], str], why: str
) -> None:
    async with signing() as it:
        it.openid.token = token
        assert (await it.refused()).replace("<code>", "`").replace("</code>", "`") == why


@pytest.mark.parametrize(
    "token",
    [signed(), signed(aud=[CLIENT]), signed(azp=CLIENT), signed(aud=[CLIENT, "x"], azp=CLIENT), signed(kid=None)],
    ids=range(5),
)
async def test_what_is_the_providers_word_is_believed(signing: SigningMaker, token: Callable[[Asked], str]) -> None:
    async with signing() as it:
        it.openid.token = token
        browser, _ = await it.signed_in()
        assert await browser.who() is not None


async def test_a_key_for_secrets_among_the_providers_keys_is_no_key(signing: SigningMaker) -> None:
    async with signing() as it:
        it.openid.keys = [{"kty": "oct", "kid": "one", "k": "c2VjcmV0", "alg": "HS256"}, {"kty": "odd", "kid": "x"}, 7]  # type: ignore[list-item]
        it.openid.token = signed(kid="one")
        assert await it.refused() == FORGED


# --- keys that change -----------------------------------------------------------------------------------------------


async def test_a_new_key_is_fetched_once_it_is_met_and_forged_ones_do_not_have_us_ask_for_each(
    signing: SigningMaker,
) -> None:
    async with signing() as it:
        await it.signed_in()
        it.openid.keys, it.openid.token = [public("ec", EC)], signed(EC, "ES256", "ec")
        assert (await it.refused(), it.openid.fetched) == (FORGED, 1)
        it.console.clock.tell(ANEW_S)
        it.openid.now += ANEW_S
        browser, _ = await it.signed_in()
        assert (await browser.who() is not None, it.openid.fetched) == (True, 2)
        it.openid.token = signed(RSA[1], kid="forged")
        for _ in range(3):
            assert await it.refused() == FORGED
        assert it.openid.fetched == 2
        it.console.clock.tell(ANEW_S)
        it.openid.now += ANEW_S
        for _ in range(3):
            assert await it.refused() == FORGED
        assert it.openid.fetched == 3


async def test_a_key_that_was_withdrawn_is_good_for_an_hour_at_most(signing: SigningMaker) -> None:
    async with signing() as it:
        await it.signed_in()
        it.openid.keys = [public("two", RSA[1])]
        it.console.clock.tell(KEPT_S)
        it.openid.now += KEPT_S
        assert await it.refused() == FORGED
