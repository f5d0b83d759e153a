"""A request's body, read whole before anything acts on it, and handed on as if nobody had."""

import asyncio
from urllib.parse import parse_qs

from starlette.types import Message, Receive

from gateway.inbound.console.refusals import Refusal

MAX_BYTES = 1024 * 1024
TIMEOUT_S = 30.0
FORM = "application/x-www-form-urlencoded"


async def read_body(receive: Receive) -> bytes:
    """All of it.

    Raises: Refusal for one that is too long, too slow, or broken off.
    """
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await _all(receive)
    except TimeoutError:
        raise Refusal(408, "the body did not arrive in time", headers={"connection": "close"}) from None


async def _all(receive: Receive) -> bytes:
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(400, "the body was broken off")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MAX_BYTES:
            raise Refusal(413, f"the body is longer than {MAX_BYTES} bytes", headers={"connection": "close"})
    return bytes(body)


def replayed(body: bytes, receive: Receive) -> Receive:
    """Tells the body first, then whatever comes."""
    told = False

    async def receiving() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receiving


def field_of(body: bytes, content_type: str, name: str) -> str | None:
    """The form's field of that name, if it stands there once."""
    if content_type.partition(";")[0].strip().lower() != FORM:
        return None
    try:
        found = parse_qs(body.decode(), max_num_fields=1000).get(name, [])
    except ValueError:
        return None
    return found[0] if len(found) == 1 else None
