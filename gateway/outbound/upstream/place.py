"""The address of one HTTP server: requests out, responses in. The one place that knows which HTTP client we use."""

import base64
import re
from collections.abc import Callable, Mapping
from urllib.parse import unquote, urlsplit, urlunsplit

from gateway.model.party import Behalf
from gateway.outbound.credentials.credential import NoToken
from gateway.outbound.upstream.headers import merged
from gateway.outbound.upstream.http1 import CannotConnect, Http, Response, Unsendable
from gateway.outbound.upstream.negotiate import Client
from gateway.outbound.upstream.spec import HttpSpec, Patience

REUSE_S = 1.0
"""An idle connection is used again. Servers close theirs after 2 s (gunicorn), 5 s (uvicorn, Node); a call that meets
a closing one is a call of which nobody knows whether it arrived."""


class Unvouched(CannotConnect):
    """There is no token in the name of who calls: nothing is wrong with the connection, or with the server."""

    def __init__(self, reason: str, *, needs_account: bool) -> None:
        super().__init__(reason)
        self.needs_account = needs_account


ANOTHER = "its principal has connected another account by now: ask again"
_UNAUTHORIZED = 401
_BAD_TOKEN = re.compile(r"(?i)\bbearer\b.*\berror\s*=\s*\"?invalid_token\b", re.DOTALL)


class Place:
    """Where the server is, and what every request to it says."""

    def __init__(self, spec: HttpSpec, client: Client, patience: Patience, behalf: Behalf | None = None) -> None:
        """Nothing is sent yet. With `behalf` all of it is for that principal."""
        self.url, credentials = _without_credentials(spec.url)
        self.headers = merged({"user-agent": f"{client.name}/{client.version}"}, credentials, spec.headers)
        """Of each request; no other credential goes there."""
        self._credential = spec.credential
        self._behalf = behalf
        self._account: str | None = None
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
        behalf: Behalf | None = None,
    ) -> Response:
        """As `Http.send`, with a token where the upstream wants one. What is not for `behalf` is for whom the last was.

        Where the server says that the token was no good, it did nothing for it [RFC 6750, 3.1: `invalid_token`]: so
        the request is sent once more with another. No other answer, and no loss, has it sent again.

        Raises: Unsendable, CannotConnect, Lost, BadResponse.
        """
        http, credential = self._connected(), self._credential
        if credential is None:
            return await http.send(method, headers, body, path=path, on_reached=on_reached)
        behalf = self._for(behalf) if credential.personal else None

        async def sent(token: str) -> Response:
            shown = {**headers, "authorization": f"Bearer {token}"}
            return await http.send(method, shown, body, path=path, on_reached=on_reached)

        token = await self._token(behalf)
        self._behalf = behalf  # not sooner: of one for whom there is no token, the next request would get none either
        response = await sent(token)
        if response.status != _UNAUTHORIZED:
            return response
        again = credential.refused(behalf, token)
        if not again or not _BAD_TOKEN.search(response.headers.get("www-authenticate", "")):
            return response
        try:
            second = await sent(await self._token(behalf))
        except (CannotConnect, Unsendable):
            return response  # not a byte of the second went out: the first answer is what came of it
        except BaseException:
            response.release()
            raise
        response.release()
        return second

    def _for(self, behalf: Behalf | None) -> Behalf | None:
        former = self._behalf
        if behalf is None or former is None:
            return behalf or former
        if (behalf.tenant, behalf.principal) != (former.tenant, former.principal):
            # INVARIANT: connections are never shared. Were this one, nothing may go over it in another's name.
            raise Unsendable("this connection is another principal's")
        return former if behalf.token is None else behalf

    async def _token(self, behalf: Behalf | None) -> str:
        credential = self._credential
        assert credential is not None  # noqa: S101 - INVARIANT: who asks has one
        try:
            token = await credential.token(behalf)
        except NoToken as error:
            if not credential.personal:
                raise CannotConnect(str(error)) from None
            raise Unvouched(str(error), needs_account=error.needs_account) from None
        account = credential.account(behalf)
        self._account = account if self._account is None else self._account
        if account is None or account != self._account:
            # INVARIANT: what was begun with one account, such as a session, is shown no token of another.
            raise Unvouched(ANOTHER, needs_account=False)
        return token

    def _connected(self) -> Http:
        if self._http is None:
            try:
                self._http = Http(self.url, connect_s=self._patience.connect_s, reuse_s=REUSE_S)
            except ValueError as error:
                raise CannotConnect(f"its address cannot be used: {error}") from None
        return self._http

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
