"""What every answer of the console says to the browser: nothing foreign runs in it, and nobody frames or keeps it."""

from starlette.types import Message, Send

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_NAMES = frozenset(name for name, _ in HEADERS)


def guarded(send: Send, cookie: str | None = None) -> Send:
    """As `send`, with these headers in place of any that an answer brings itself, and that cookie if it sets none."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in _NAMES]
            sets = any(name.lower() == b"set-cookie" for name, _ in kept)
            more = [(b"set-cookie", cookie.encode())] if cookie is not None and not sets else []
            message = {**message, "headers": [*kept, *HEADERS, *more]}
        await send(message)

    return sending
