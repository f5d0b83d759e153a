"""Signed webhooks against a real receiver: taken, refused, hung, reset, redirected; and what each means."""

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from inline_snapshot import snapshot

from gateway.model.notice import Notice
from gateway.outbound.notices.webhook import BadSecret, Webhook, key_of, signed
from gateway.ports import NotTaken
from tests.notices.receiver import SECRET, Script, hangs, receiving, resets, says

pytestmark = pytest.mark.anyio

NEVER = "Fri, 31 Dec 99999999999999999999 23:59:59 GMT"

TOLD = Notice("run_1#4:ops", "approval.asked", "Approval wanted: pay", "Tool: pay\nWhy: €", {"risk": "high"})


def hook(url: str, timeout_s: float = 5.0) -> Webhook:
    return Webhook(url, key_of(SECRET), time.time, timeout_s)


async def test_a_message_is_signed_so_that_the_libraries_of_the_standard_verify_it() -> None:
    async with receiving() as it:
        assert await hook(it.url).send(TOLD) is None
    (got,) = it.got
    assert got.path == "POST /hook HTTP/1.1"
    assert got.id == TOLD.id
    assert abs(int(got.headers["webhook-timestamp"]) - time.time()) < 60
    assert got.said["type"] == "approval.asked"
    assert got.data == {
        "risk": "high",
        "notice": "run_1#4:ops",
        "title": "Approval wanted: pay",
        "text": "Tool: pay\nWhy: €",
    }


def test_the_signature_is_that_of_the_specifications_example() -> None:
    body = b'{"test": 2432232314}'
    headers = signed("msg_p5jXN8AQM9LWM0D4loKWxJek", body, key_of(SECRET), 1614265330)
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@pytest.mark.parametrize(
    ("script", "comes"),
    [
        (says("200 OK"), None),
        (says("500 Internal Server Error"), NotTaken("it answered 500, which is no 2xx")),
        (says("503 Busy", "Retry-After: 120"), NotTaken("it answered 503, which is no 2xx", 120.0)),
        (says("429 Slow", "Retry-After: soon"), NotTaken("it answered 429, which is no 2xx")),
        (says("429 Slow", f"Retry-After: {NEVER}"), NotTaken("it answered 429, which is no 2xx")),
        (says("410 Gone"), NotTaken("it answered 410: it wants no more messages", never=True)),
        (
            says("307 Elsewhere", "Location: http://127.0.0.1:1/"),
            NotTaken("it answered 307, which is a redirect and not followed"),
        ),
        (resets, NotTaken("it broke the connection, or what it said is no HTTP")),
        (lambda out: out.write(b"hello\r\n\r\n"), NotTaken("it broke the connection, or what it said is no HTTP")),
    ],
)
async def test_what_an_answer_means(script: Script, comes: NotTaken | None) -> None:
    async with receiving(script) as it:
        assert await hook(it.url).send(TOLD) == comes
    assert len(it.got) == 1


async def test_a_date_in_retry_after_is_understood() -> None:
    until = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    async with receiving(says("503 Busy", f"Retry-After: {until}")) as it:
        said = await hook(it.url).send(TOLD)
    assert said is not None
    assert said.retry_after_s is not None
    assert 80 < said.retry_after_s <= 90


async def test_whoever_says_nothing_is_not_waited_for() -> None:
    async with receiving(hangs) as it:
        assert await hook(it.url, 0.2).send(TOLD) == NotTaken("it gave no answer within 0.2 s")


async def test_nobody_there_is_told_without_the_address() -> None:
    async with receiving() as it:
        pass
    assert await hook(it.url).send(TOLD) == NotTaken("it cannot be reached")
    assert "127.0.0.1" not in repr(hook(it.url))


@pytest.mark.parametrize(
    ("secret", "length"),
    [("whsec_" + "A" * 32, 24), ("x" * 24, 24), ("ü" * 20, 40), ("whsec_" + "A" * 84 + "AA==", 64)],
)
def test_a_key_is_base64_behind_its_prefix_or_the_text_itself(secret: str, length: int) -> None:
    assert len(key_of(secret)) == length


def test_what_is_no_key_is_told_without_it() -> None:
    told = []
    for secret in ("whsec_???", "short", "x" * 65, "whsec_AAAA"):
        with pytest.raises(BadSecret) as raised:
            key_of(secret)
        told.append(str(raised.value))
    assert told == snapshot(
        [
            "what stands after `whsec_` is not base64",
            "a key of 24 to 64 bytes is wanted, and this one has 5",
            "a key of 24 to 64 bytes is wanted, and this one has 65",
            "a key of 24 to 64 bytes is wanted, and this one has 3",
        ]
    )
