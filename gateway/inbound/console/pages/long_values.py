"""A value that is too long for the page of its question or its step: the whole of it, in parts."""

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from gateway.inbound.console.pages.site import Missing, Site, Wrong, linked
from gateway.inbound.console.shown.letters import shown

PART = 50_000
"""Characters of a whole value on one page."""


async def whole(site: Site, request: Request, text: str, *, at: str, back: tuple[str, str], masked: bool) -> Response:
    """The part of the text that is asked for; `back` is where it belongs, and how that is called.

    With `masked` it is said that it has masks, and where it is without them.
    """
    parts = max(1, -(-len(text) // PART))
    part = _number(request.query_params.get("part", "1"), parts)
    piece = text[(part - 1) * PART : part * PART]
    links = {other: linked(request.query_params, part=other) for other in range(1, parts + 1)}
    drawn = await asyncio.to_thread(shown, piece, strict=True)
    values: dict[str, Any] = {"at": at, "text": drawn, "part": part, "parts": links, "size": len(text), "back": back}
    values["unmasked"] = linked(request.query_params, secrets="shown") if masked else None
    return await site.page(request, "value.html", **values)


def _number(text: str, most: int) -> int:
    if not text.isdecimal() or not 1 <= int(text[:9]) <= most:
        raise Wrong(f"there are {most} parts")
    return int(text[:9])


def pointed(values: Any, at: str) -> Any:
    """The value at that JSON pointer.

    Raises: Missing.
    """
    for name in (part.replace("~1", "/").replace("~0", "~") for part in at.split("/")[1:]):
        match values:
            case dict() if name in values:
                values = values[name]
            case list() if name.isdecimal() and int(name[:9]) < len(values):
                values = values[int(name[:9])]
            case _:
                raise Missing("there is no value at that place")
    return values
