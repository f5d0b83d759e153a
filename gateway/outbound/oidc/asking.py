"""One question to a provider: bounded in time and size, never followed elsewhere, and never sent through a proxy."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_plus

from pydantic import SecretStr

from gateway.model.canonical import NotStrictJson, parse
from gateway.outbound.system_trust import system_trust

TIMEOUT_S = 10.0
MAX_BODY = 512 * 1024
HEADERS = {"accept": "application/json", "accept-encoding": "identity"}


class Unreachable(Exception):
    """The provider cannot be asked, or answers what is no answer. The message says which."""


async def ask(
    method: str, url: str, form: Mapping[str, str] | None = None, auth: tuple[str, str] | None = None
) -> tuple[int, Mapping[str, Any]]:
    """Status and JSON object of the answer; an empty one where it is other JSON, or says nothing [RFC 7009, 2.2].
    `auth` is a client's id and secret.

    Raises: Unreachable.
    """
    import httpx2  # noqa: PLC0415 - most gateways ask nobody, and it costs a tenth of a second

    # As a form has them [RFC 6749, 2.3.1].
    encoded = None if auth is None else (quote_plus(auth[0]), quote_plus(auth[1]))
    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            httpx2.AsyncClient(verify=system_trust(), trust_env=False, follow_redirects=False, timeout=None) as client,
            client.stream(method, url, data=form, auth=encoded, headers=HEADERS) as answer,
        ):
            received = bytearray()
            async for piece in answer.aiter_raw():
                received += piece
                if len(received) > MAX_BODY:
                    raise Unreachable("the provider's answer is too long")
            said = parse(bytes(received)) if received else {}
            return answer.status_code, said if isinstance(said, Mapping) else {}
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError):
        raise Unreachable("the provider cannot be reached") from None
    except (NotStrictJson, ValueError):
        raise Unreachable("the provider's answer is no JSON") from None


def introduced(
    form: dict[str, str], client_id: str, secret: SecretStr | None, *, basic: bool
) -> tuple[dict[str, str], tuple[str, str] | None]:
    """The form, and with `basic` the pair for a header, with which we say who we are [RFC 6749, 2.3.1, 3.2.1]."""
    if secret is None:
        return {**form, "client_id": client_id}, None
    if basic:
        return form, (client_id, secret.get_secret_value())
    return {**form, "client_id": client_id, "client_secret": secret.get_secret_value()}, None
