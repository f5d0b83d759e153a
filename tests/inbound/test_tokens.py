import base64
import json
from typing import Any

import jwt
import pytest

from gateway.inbound.mcp.tokens import ALGORITHM, AUDIENCE, TYPE, BadToken, RunToken, mint, verify
from gateway.model.principal import Parent, Principal

KEY = b"k" * 32
NOW = 1_800_000_000.0
ALICE = Principal("alice", "acme", frozenset({"deployer", "reader"}))
CLAIMS: dict[str, Any] = {
    "aud": AUDIENCE,
    "exp": int(NOW) + 60,
    "iat": int(NOW),
    "roles": ["reader"],
    "run": "run_1",
    "sub": "alice",
    "tenant": "acme",
    "workflow": "release",
}


def signed(claims: dict[str, Any], key: bytes = KEY, algorithm: str = ALGORITHM, **headers: Any) -> str:
    return jwt.encode(claims, key, algorithm=algorithm, headers={"typ": TYPE, **headers})


def without_signature(claims: dict[str, Any]) -> str:
    parts = ({"alg": "none", "typ": TYPE}, claims)
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts) + "."


def test_what_was_minted_is_what_is_verified() -> None:
    token = mint(KEY, run="run_1", principal=ALICE, workflow="release", expires_at=NOW + 60, now=NOW)
    assert verify(KEY, token, NOW + 59.9) == RunToken("run_1", ALICE, "release", NOW + 60)


@pytest.mark.parametrize("authority", [None, frozenset(), frozenset({"repo:write", "repo:read"})])
def test_a_token_says_what_its_run_is_opened_from_and_for_what(authority: frozenset[str] | None) -> None:
    scoped, parent = Principal("alice", "acme", scopes=frozenset({"a", "b"})), Parent("run_0", authority)
    token = mint(KEY, run="run_1", principal=scoped, workflow="w", expires_at=NOW + 60, now=NOW, parent=parent)
    assert verify(KEY, token, NOW) == RunToken("run_1", scoped, "w", NOW + 60, parent)


@pytest.mark.parametrize(
    "claims",
    [
        {"parent": 5},
        {"parent": "run_0", "authority": "a"},
        {"parent": "run_0", "authority": [1]},
        {"authority": ["a"]},
        {"scope": ["a"]},
    ],
)
def test_what_a_parent_passes_on_is_never_guessed_at(claims: dict[str, Any]) -> None:
    with pytest.raises(BadToken, match="wrong type"):
        verify(KEY, signed(CLAIMS | claims), NOW)


def test_a_token_fits_into_one_segment_of_a_path() -> None:
    token = mint(KEY, run="run_1", principal=ALICE, workflow="release", expires_at=NOW + 60, now=NOW)
    assert set(token) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")


def test_a_token_ends_at_the_second_that_it_names() -> None:
    with pytest.raises(BadToken, match=r"^the run token has expired$"):
        verify(KEY, signed(CLAIMS), NOW + 60)


FOREIGN = "the run token was not signed by this gateway"
MALFORMED = "the run token is malformed"
LACKS = "the run token lacks a claim or has one of the wrong type"


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("", MALFORMED),
        ("a.b.c", MALFORMED),
        ("run_1", MALFORMED),
        ("${RUN}", MALFORMED),
        (signed(CLAIMS, b"x" * 32), FOREIGN),
        (signed(CLAIMS)[:-4] + "AAAA", FOREIGN),
        (without_signature(CLAIMS), MALFORMED),
        (signed(CLAIMS, b"k" * 64, "HS512"), MALFORMED),
        (signed(CLAIMS, algorithm="HS384", key=b"k" * 48), MALFORMED),
        (signed(CLAIMS, typ="JWT"), "the token is no run token"),
        (signed(CLAIMS, typ=None), "the token is no run token"),
        (signed({**CLAIMS, "aud": "other"}), "the token is meant for somebody else"),
        (signed({**CLAIMS, "aud": [AUDIENCE]}), "the token is meant for somebody else"),
        *((signed({name: value for name, value in CLAIMS.items() if name != gone}), LACKS) for gone in CLAIMS),
        (signed({**CLAIMS, "run": ""}), LACKS),
        (signed({**CLAIMS, "run": 1}), LACKS),
        (signed({**CLAIMS, "tenant": None}), LACKS),
        (signed({**CLAIMS, "roles": "admin"}), LACKS),
        (signed({**CLAIMS, "roles": [1]}), LACKS),
        (signed({**CLAIMS, "exp": 1e12}), LACKS),
        (signed({**CLAIMS, "sub": "a" * 5000}), "the run token is too long"),
    ],
)
def test_no_other_token_speaks_for_a_run(token: str, said: str) -> None:
    with pytest.raises(BadToken) as refused:
        verify(KEY, token, NOW)
    assert str(refused.value) == said


def test_a_key_that_can_be_guessed_signs_nothing() -> None:
    with pytest.raises(ValueError, match=r"^the key of the run tokens must have at least 32 bytes$"):
        mint(b"short", run="r", principal=ALICE, workflow="w", expires_at=NOW, now=NOW)
    with pytest.raises(ValueError, match=r"^the key of the run tokens must have at least 32 bytes$"):
        verify(b"short", "a.b.c", NOW)
