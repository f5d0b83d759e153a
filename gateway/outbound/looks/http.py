"""A request to an address below a place's own: never to another host, never above, never redirected, and bounded."""

import hashlib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import httpx2

from gateway.model.canonical import NotStrictJson, dump_bytes, parse
from gateway.model.policy import HttpLook
from gateway.outbound.looks.faults import CannotLook
from gateway.outbound.looks.places import UrlPlace
from gateway.outbound.system_trust import system_trust

MAX_BODY = 1024 * 1024
MAX_DEPTH = 128

_TOLD = ("content-type", "content-length", "etag", "last-modified", "date")
"""Headers of the answer that are told."""

_SAFE = "-._~!$&'()*+,;=:@"
"""Characters of a step that stand as they are [RFC 3986, 3.3]."""

_DECODED = 4
"""How often a server might decode a path."""


async def ask(look: HttpLook, told: Mapping[str, Any], place: UrlPlace) -> dict[str, Any]:
    """What the server answers.

    Raises: CannotLook.
    """
    url = f"{place.url.rstrip('/')}{_path(look, told)}{_query(look, told)}"
    _check(url, place)
    body = _body(look, told)
    headers = {**place.headers, "Accept-Encoding": "identity"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    try:
        return await _asked(look, url, headers, body, place)
    except httpx2.ConnectError:
        raise CannotLook(f"`{place.name}` cannot be reached") from None
    except httpx2.HTTPError:
        raise CannotLook(f"`{place.name}` gave no whole answer") from None
    except (httpx2.InvalidURL, ValueError):
        raise CannotLook(f"what to ask `{place.name}` is no request") from None


async def _asked(
    look: HttpLook, url: str, headers: Mapping[str, str], body: bytes | None, place: UrlPlace
) -> dict[str, Any]:
    # Proxies and credentials of the environment are not ours to use; certificates are judged as by the system.
    async with (
        httpx2.AsyncClient(verify=system_trust(), trust_env=False, follow_redirects=False, timeout=None) as client,
        client.stream(look.method, url, headers=dict(headers), content=body) as answer,
    ):
        if answer.headers.get("content-encoding", "identity").lower() != "identity":
            raise CannotLook(f"the answer of `{place.name}` is compressed, which was not asked for")
        received = bytearray()
        async for piece in answer.aiter_raw():
            received += piece
            if len(received) > MAX_BODY:
                raise CannotLook(f"the answer of `{place.name}` is larger than {MAX_BODY // 1024} kB")
        said = {name: answer.headers[name] for name in _TOLD if name in answer.headers}
        seen = {"status": answer.status_code, "headers": said}
        return seen if look.method == "HEAD" else {**seen, **_content(bytes(received), said.get("content-type", ""))}


def _content(body: bytes, kind: str) -> dict[str, Any]:
    """The body as JSON, if it says that it is that, else as text, if it is one; and its digest."""
    told: dict[str, Any] = {"digest": f"sha256:{hashlib.sha256(body).hexdigest()}"}
    plain = kind.partition(";")[0].strip().lower()
    try:
        if plain == "application/json" or plain.endswith("+json"):
            return {**told, "json": parse(body, max_depth=MAX_DEPTH)}
        return {**told, "text": body.decode()}
    except (NotStrictJson, UnicodeDecodeError):
        return told


# --- what is asked --------------------------------------------------------------------------------------------------


def _path(look: HttpLook, told: Mapping[str, Any]) -> str:
    steps: Any = told.get("path", look.path)
    if isinstance(steps, str):
        steps = steps.removeprefix("/").split("/") if steps else []
    if steps is None:
        return ""
    if not isinstance(steps, list) or not all(isinstance(one, str | int) and one is not True for one in steps):
        raise CannotLook("`path_from` gives no text and no list of texts")
    return "".join(f"/{_step(str(one))}" for one in steps)


def _step(step: str) -> str:
    """The step as it is sent. However often somebody decodes it, it is one step, and not one that leads up."""
    seen = step
    for _ in range(_DECODED):
        if seen in {"", ".", ".."} or any(one in "/\\" or not one.isprintable() for one in seen):
            raise CannotLook("a step of the path leads elsewhere than one step down")
        seen = unquote(seen)
    return quote(step, safe=_SAFE)


def _query(look: HttpLook, told: Mapping[str, Any]) -> str:
    asked = {**look.query, **told.get("query", {})}
    pairs = [(name, one) for name, value in asked.items() for one in (value if isinstance(value, list) else [value])]
    spelled = [f"{quote(name, safe='')}={quote(_scalar(name, one), safe='')}" for name, one in pairs]
    return f"?{'&'.join(spelled)}" if spelled else ""


def _scalar(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise CannotLook(f"the parameter `{name}` is no text, number or truth value")


def _body(look: HttpLook, told: Mapping[str, Any]) -> bytes | None:
    if "json" in told:
        return dump_bytes(told["json"])
    return dump_bytes(look.body) if look.body is not None else None


def _check(url: str, place: UrlPlace) -> None:
    """INVARIANT: whatever a formula gives, the request goes to the place's own host and stays below its path."""
    base, asked = urlsplit(place.url), urlsplit(url)
    same = (base.scheme, base.netloc) == (asked.scheme, asked.netloc)
    top = base.path.rstrip("/")
    if not same or not (asked.path == top or asked.path.startswith(f"{top}/") or not asked.path):
        raise CannotLook("the request would leave its place")
