"""A message as an HTTP request, signed by the rules of Standard Webhooks: id, timestamp and body.

[standard-webhooks/spec: "Webhook scheme", "Signature scheme", "Retries"]. The address is the operator's own, so it may
be one of a private network; nothing that agents or servers say chooses it.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from gateway.model.canonical import dump_bytes
from gateway.model.notice import Notice
from gateway.outbound.system_trust import system_trust
from gateway.ports import NotTaken

TIMEOUT_S = 10.0
"""For one request, from the look-up of its name to the answer's headers."""

PREFIX = "whsec_"
LEAST_KEY, MOST_KEY = 24, 64
"""Bytes of a key [Signature scheme: between 192 and 512 bits]."""

GONE = 410
"""Whoever listens there wants no more [Retries]."""


class BadSecret(ValueError):
    """The text is no key to sign with. The message does not show it."""


def key_of(secret: str) -> bytes:
    """The key that the text is: `whsec_` and base64, or else its own bytes.

    Raises: BadSecret.
    """
    if secret.startswith(PREFIX):
        try:
            key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        except (binascii.Error, ValueError):
            raise BadSecret("what stands after `whsec_` is not base64") from None
    else:
        key = secret.encode()
    if not LEAST_KEY <= len(key) <= MOST_KEY:
        raise BadSecret(f"a key of {LEAST_KEY} to {MOST_KEY} bytes is wanted, and this one has {len(key)}")
    return key


def signed(notice_id: str, body: bytes, key: bytes, at_s: int) -> dict[str, str]:
    """The headers that say which message it is, when it was sent, and that whoever has the key sent it."""
    mac = hmac.digest(key, f"{notice_id}.{at_s}.".encode() + body, hashlib.sha256)
    signature = f"v1,{base64.b64encode(mac).decode()}"
    return {"webhook-id": notice_id, "webhook-timestamp": str(at_s), "webhook-signature": signature}


@dataclass(frozen=True, slots=True)
class Webhook:
    """A `Notifier` that posts to an address. Redirects are not followed; proxies of the environment are not used."""

    url: str = field(repr=False)
    key: bytes = field(repr=False)
    now: Callable[[], float]
    """Seconds since the epoch, by the machine's clock: receivers refuse what is five minutes off their own."""
    timeout_s: float = TIMEOUT_S
    together: int = 4
    """As `Notifier.together`."""

    @property
    def trouble(self) -> str | None:
        """As `Notifier.trouble`: an address and a key were checked where they were read."""
        return None

    async def send(self, notice: Notice) -> NotTaken | None:
        """As `Notifier.send`."""
        import httpx2  # noqa: PLC0415 - most gateways tell nobody, and it costs a tenth of a second

        at_s = int(self.now())
        said = {"type": notice.kind, "timestamp": _iso(at_s), "data": {**notice.data, **_texts(notice)}}
        body = dump_bytes(said)
        headers = {"content-type": "application/json", "user-agent": "counterfoil"}
        headers |= signed(notice.id, body, self.key, at_s)
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self._posted(body, headers)
        except (TimeoutError, httpx2.TimeoutException):
            return NotTaken(f"it gave no answer within {self.timeout_s:g} s")
        except httpx2.ConnectError:
            return NotTaken("it cannot be reached")
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError):
            return NotTaken("it broke the connection, or what it said is no HTTP")

    async def _posted(self, body: bytes, headers: Mapping[str, str]) -> NotTaken | None:
        import httpx2  # noqa: PLC0415 - most gateways tell nobody, and it costs a tenth of a second

        async with (
            httpx2.AsyncClient(verify=system_trust(), trust_env=False, follow_redirects=False, timeout=None) as client,
            client.stream("POST", self.url, headers=dict(headers), content=body) as answer,
        ):
            return _judged(answer.status_code, answer.headers.get("retry-after"), self.now())


def _texts(notice: Notice) -> dict[str, str]:
    return {"notice": notice.id, "title": notice.title, "text": notice.body}


def _iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _judged(status: int, retry_after: str | None, now: float) -> NotTaken | None:
    """What the answer's first lines say; its body is nobody's concern."""
    if 200 <= status < 300:  # noqa: PLR2004 - [Retries: any of 2xx]
        return None
    said = "which is a redirect and not followed" if 300 <= status < 400 else "which is no 2xx"  # noqa: PLR2004
    if status == GONE:
        return NotTaken("it answered 410: it wants no more messages", never=True)
    return NotTaken(f"it answered {status}, {said}", _seconds(retry_after, now))


def _seconds(retry_after: str | None, now: float) -> float | None:
    """How long to wait, as seconds or a date say [RFC 9110, 10.2.3]; None for what is neither."""
    if retry_after is None:
        return None
    if retry_after.strip().isdecimal():
        return float(retry_after)
    try:
        until = parsedate_to_datetime(retry_after)
    except (ValueError, OverflowError):  # whatever no calendar can hold
        return None
    until = until if until.tzinfo is not None else until.replace(tzinfo=UTC)
    return max(0.0, until.timestamp() - now)
