"""The body of a request that does not come at once: read to its end, and no further than is borne."""

from gateway.inbound.mcp.door import CLOSE, Message, Receive, Turned

MAX_DRAINED_BYTES = 64 * 1024 * 1024
"""Of a body that is refused: read so far, so that the client hears why instead of a reset."""


class ClientGone(Exception):
    """Nobody is left to answer."""


async def rest_of(message: Message, receive: Receive, most: int) -> bytes:
    """The whole body, whose first part is given.

    Raises: ClientGone; Turned for one that is longer than `most`.
    """
    body, size = bytearray(), 0
    while True:
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        size += len(part)
        if size <= most:
            body += part
        if size > MAX_DRAINED_BYTES or not message.get("more_body", False):
            break
        message = await receive()
    if size > most:
        raise Turned(413, f"the body is longer than {most} bytes", headers=(CLOSE,))
    return bytes(body)
