"""The address of one HTTP server: requests out, responses in. The one place that knows which HTTP client we use."""

import base64
from collections.abc import Callable, Mapping
from urllib.parse import unquote, urlsplit, urlunsplit

from gateway.outbound.upstream.headers import merged
from gateway.outbound.upstream.http1 import CannotConnect, Http, Response
from gateway.outbound.upstream.negotiate import Client
from gateway.outbound.upstream.spec import HttpSpec, Patience

REUSE_S = 1.0
"""An idle connection is used again. Servers close theirs after 2 s (gunicorn), 5 s (uvicorn, Node); a call that meets
a closing one is a call of which nobody knows whether it arrived."""


class Place:
    """Where the server is, and what every request to it says."""

    def __init__(self, spec: HttpSpec, client: Client, patience: Patience) -> None:
        """Nothing is sent yet."""
        self.url, credentials = _without_credentials(spec.url)
        self.headers = merged({"user-agent": f"{client.name}/{client.version}"}, credentials, spec.headers)
        """Of each request; no other credential goes there."""
        self._patience = patience
        self._http: Http | None = None

    async def send(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        path: str | None = None,
        on_reached: Callable[[], None] | None = None,
    ) -> Response:
        """As `Http.send`.

        Raises: Unsendable, CannotConnect, Lost, BadResponse.
        """
        if self._http is None:
            try:
                self._http = Http(self.url, connect_s=self._patience.connect_s, reuse_s=REUSE_S)
            except ValueError as error:
                raise CannotConnect(f"its address cannot be used: {error}") from None
        return await self._http.send(method, headers, body, path=path, on_reached=on_reached)

    async def close(self) -> None:
        """Nothing is held open."""
        http, self._http = self._http, None
        if http is not None:
            await http.close()


def _without_credentials(url: str) -> tuple[str, dict[str, str]]:
    """The address, and what its `user:password@` means as a header [RFC 7617]."""
    parts = urlsplit(url)
    if parts.username is None:
        return url, {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    plain = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return plain, {"authorization": f"Basic {base64.b64encode(pair).decode('ascii')}"}
