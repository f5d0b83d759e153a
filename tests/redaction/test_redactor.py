import json
import time

import pytest
import redact_secret
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from gateway.outbound.redaction import BadPattern, DetectingRedactor, Rules, pattern_trouble

REDACTOR = DetectingRedactor()

# Put together here, so that no scanner of repositories takes them for real ones.
SECRETS = {
    "github_token": "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8",
    "aws_access_key_id": "AKIA" + "IOSFODNN7ABCDEFG",
    "stripe_credential": "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dcAbCd",
    "anthropic_api_key": "sk-ant-api03-" + "Ab3_" * 23 + "aAA",
    "api_key": "sk-" + "Ab3" * 16,
    "jwt": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
}
PERSONAL = {
    "email": "alice.smith+x@mail.acme.co.uk",
    "iban": "DE89 3704 0044 0532 0130 00",
    "card": "4111-1111-1111-1111",
    "phone": "+49 30 901820",
    "ip": "8.8.8.8",
}


@pytest.mark.parametrize(("kind", "secret"), [*SECRETS.items(), *PERSONAL.items()])
def test_what_is_secret_or_personal_is_replaced_by_its_kind_and_length_wherever_it_stands(
    kind: str, secret: str
) -> None:
    told = REDACTOR.redact({"a": [f"Grüße, see {secret}, please"], f"of {secret}": 1})
    marked = f"[redacted {kind} #1, {len(secret)} characters]"
    assert told == {"a": [f"Grüße, see {marked}, please"], f"of {marked}": 1}


@pytest.mark.parametrize(
    "text",
    [
        'db_password: "hunter2"',
        "PASSWORD='hunter2'",
        "export API_TOKEN=hunter2",
        "https://bob:hunter2@example.com/",
        "curl -H 'Authorization: Bearer hunter2-hunter2'",
        "Cookie: session=hunter2; theme=dark",
        '{\\"apiKey\\": \\"hunter2\\"}',
        "-----BEGIN RSA PRIVATE KEY-----\nhunter2 and cut off",
    ],
)
def test_what_is_called_a_secret_is_one_however_short(text: str) -> None:
    assert "hunter2" not in REDACTOR.redact_text(text)


def test_what_stands_under_the_name_of_a_secret_is_replaced_whatever_it_is() -> None:
    value = {
        "X-Api-Key": ["k", {"part": "p"}],
        "clientSecret": 7,
        "secret": None,
        "token": True,
        "nextPageToken": "abc",
    }
    assert REDACTOR.redact(value) == snapshot(
        {
            "X-Api-Key": [
                "[redacted named_secret #1, 1 characters]",
                {"part": "[redacted named_secret #2, 1 characters]"},
            ],
            "clientSecret": "[redacted named_secret #3, 1 characters]",
            "secret": None,
            "token": True,
            "nextPageToken": "abc",
        }
    )


def test_equal_secrets_look_equal_within_a_value_and_others_do_not() -> None:
    one, other = SECRETS["github_token"], SECRETS["stripe_credential"]
    assert REDACTOR.redact([one, other, one]) == [
        "[redacted github_token #1, 40 characters]",
        f"[redacted stripe_credential #2, {len(other)} characters]",
        "[redacted github_token #1, 40 characters]",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "the quick brown fox, max_tokens=4096, 12:30:45, 2026-11-30T12:05:57Z, v1.2, 10.1.2.3 and 127.0.0.1",
        "550e8400-e29b-41d4-a716-446655440000 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "run_01ARZ3NDEKTSV4RRFFQ69G5FAV, 1234567890123, 4111 1111 1111 1112, DE89 3704 0044 0532 0130 02",
        "password=$SECRET token=${TOKEN} secret: {x} tokens: 500",
    ],
)
def test_what_only_looks_like_it_stays_and_is_the_very_same_text(text: str) -> None:
    assert REDACTOR.redact_text(text) is text


def test_a_number_after_another_is_found_all_the_same() -> None:
    told = REDACTOR.redact_text("2026-11-30 4111 1111 1111 1111 and 1234 4111 1111 1111 1111")
    assert told == snapshot("2026-11-30 [redacted card #1, 19 characters] and 1234 [redacted card #1, 19 characters]")


def test_a_cards_number_is_found_as_a_number_too() -> None:
    assert REDACTOR.redact({"n": 4111111111111111, "at": 1796040357000}) == {
        "n": "[redacted card #1, 16 characters]",
        "at": 1796040357000,
    }


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(),
        lambda kids: st.lists(kids) | st.dictionaries(st.text(), kids),
    )
)
@settings(max_examples=60, deadline=None)
def test_any_value_keeps_its_form_and_is_redacted_once(value: object) -> None:
    once = REDACTOR.redact(value)
    assert REDACTOR.redact(once) == once


@pytest.mark.parametrize("secret", SECRETS.values())
@pytest.mark.parametrize(
    "around", ["token {}", 'password: "{}"', "Authorization: Bearer {}", "Cookie: a={}", "u://a:{}@h"]
)
def test_what_was_redacted_once_is_not_redacted_again(around: str, secret: str) -> None:
    once = REDACTOR.redact_text(around.format(secret))
    assert secret not in once
    assert REDACTOR.redact_text(once) == once


def test_what_cannot_be_searched_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = redact_secret.WholeInputLimits(max_input_bytes=10, max_findings=10)
    monkeypatch.setattr("gateway.outbound.redaction.secrets.LIMITS", limits)
    assert REDACTOR.redact_text("more than ten") == "[redacted unsearchable_text #1, 13 characters]"


def test_broken_unicode_hides_nothing() -> None:
    assert REDACTOR.redact_text("\ud800" + SECRETS["github_token"]) == "\ud800[redacted github_token #1, 40 characters]"


def test_a_deployment_says_its_own_patterns_fields_and_which_personal_data_counts() -> None:
    rules = Rules(frozenset({"email"}), {"customer": r"(?i)\bkd-([0-9]+)"}, frozenset({"date_of_birth"}))
    told = DetectingRedactor(rules).redact({"dateOfBirth": "1990", "text": "KD-12 of a@b.co, 8.8.8.8"})
    assert told == snapshot(
        {
            "dateOfBirth": "[redacted named_secret #1, 4 characters]",
            "text": "KD-[redacted customer #2, 2 characters] of [redacted email #3, 6 characters], 8.8.8.8",
        }
    )


@pytest.mark.parametrize(
    ("pattern", "trouble"),
    [
        ("[a-z", "not a pattern of RE2: missing ]: [a-z"),
        (r"(a)\1", "not a pattern of RE2: invalid escape sequence: \\1"),
        ("(?=a)", "not a pattern of RE2: invalid perl operator: (?="),
        ("a*", "the pattern finds nothing as well (it matches the empty text)"),
        ("a" * 1001, "a pattern has at most 1000 characters"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_told(pattern: str, trouble: str) -> None:
    assert pattern_trouble(pattern) == trouble
    with pytest.raises(BadPattern):
        DetectingRedactor(Rules(patterns={"mine": pattern}))


@pytest.mark.parametrize(
    "text", ["a", "-----BEGIN RSA PRIVATE KEY-----", "password=", "1 ", "a@", ":", "4111 1111 1111 1112 "]
)
def test_a_text_that_is_made_to_be_slow_takes_a_time_that_grows_with_its_length(text: str) -> None:
    redactor = DetectingRedactor(Rules(patterns={"slow": "(a+)+$", "slower": "(x+x+)+y"}))

    def took(size: int) -> float:
        began = time.process_time()
        redactor.redact_text(text * (size // len(text)))
        return time.process_time() - began

    assert took(128 * 1024) < 1.0  # 4 s a MiB are promised; what is not linear takes minutes


def test_json_within_a_text_is_looked_at() -> None:
    told = REDACTOR.redact_text(json.dumps({"password": "x" * 5, "note": SECRETS["github_token"]}))
    assert json.loads(told) == snapshot(
        {
            "password": "[redacted assigned_secret #1, 5 characters]",
            "note": "[redacted github_token #2, 40 characters]",
        }
    )
