"""What a client of the JSON API sends, read strictly: bounded, unambiguous, and nothing in it that is not asked for."""

from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import ClientDisconnect, Request

from gateway.inbound.console.api.problems import Place, Troubled
from gateway.model.canonical import NotStrictJson, parse

MAX_BODY_BYTES = 256 * 1024
"""A hundred decisions with a long reason each."""

M = TypeVar("M", bound=BaseModel)


async def body_of(request: Request, model: type[M]) -> M:
    """The body.

    Raises: Troubled.
    """
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise Troubled(415, "content_type", "the body must be `application/json`")
    raw = await _bounded(request)
    try:
        parse(raw)  # what two readers could take in two ways is refused before the one below reads it
    except NotStrictJson as error:
        raise Troubled(400, "json", str(error)) from None
    try:
        return model.model_validate_json(raw, strict=True)
    except ValidationError as error:
        raise _unfit(error, "the body is not what is asked for", pointer=True) from None


def query_of(request: Request, model: type[M]) -> M:
    """The parameters behind the path; one that is unknown or stands there twice is an error.

    Raises: Troubled.
    """
    given: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in given:
            raise Troubled(422, "query", f"the parameter `{name[:80]}` stands there twice", errors=(_twice(name),))
        given[name] = value
    try:
        return model.model_validate_strings(given)
    except ValidationError as error:
        raise _unfit(error, "the parameters are not what is asked for", pointer=False) from None


def _twice(name: str) -> Place:
    return Place(at=name[:80], says="it may stand there once")


async def _bounded(request: Request) -> bytes:
    held = bytearray()
    try:
        async for chunk in request.stream():
            held += chunk
            if len(held) > MAX_BODY_BYTES:
                raise Troubled(413, "size", f"the body is longer than {MAX_BODY_BYTES} bytes")
    except ClientDisconnect:
        raise Troubled(400, "json", "the body did not come to its end") from None
    return bytes(held)


def _unfit(error: ValidationError, detail: str, *, pointer: bool) -> Troubled:
    """Nothing of what was sent is said again."""
    details = error.errors(include_url=False, include_context=False, include_input=False)
    places = tuple(_place(one, pointer=pointer) for one in details[:20])
    return Troubled(422, "body" if pointer else "query", detail, errors=places)


def _place(found: ErrorDetails, *, pointer: bool) -> Place:
    parts = [str(part)[:80] for part in found["loc"]]
    says = found["msg"][:1].lower() + found["msg"][1:]
    if not pointer:
        return Place(at=".".join(parts), says=says)
    return Place(at="".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts), says=says)
