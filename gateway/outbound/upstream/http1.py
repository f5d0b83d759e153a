"""Keep-alive HTTP/1.1 to one address. A request is sent once, on a connection of its own while it lasts, or not at all.

Our own, because a general client costs several times the CPU of all else on the path of a call. It therefore does
nothing else: no redirects, cookies, proxies, decompression, retries or pipelining.
"""

import asyncio
import os
import re
import socket
import ssl as tls
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import starmap
from typing import Any
from urllib.parse import urlsplit

import aiohappyeyeballs
from aiohappyeyeballs.types import AddrInfoType

from gateway.outbound.system_trust import system_trust
from gateway.outbound.upstream.http1_connection import (
    BadResponse,
    CannotConnect,
    Connection,
    HttpFailure,
    Lost,
    Response,
    TooLarge,
    Unsendable,
)

__all__ = ["BadResponse", "CannotConnect", "Http", "HttpFailure", "Lost", "Response", "TooLarge", "Unsendable"]

_GOODBYE_S = 0.5
_NEXT_ADDRESS_S = 0.25
"""The next address of a name is tried beside one that has not answered for so long [RFC 8305, 5]."""

_KNOWN_LINES = 64
"""Most headers of a call are those of the one before: judged and encoded once."""

_PORTS = {"http": 80, "https": 443}

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_HOST = re.compile(r"[0-9A-Za-z._-]+|\[[0-9A-Fa-f:.]+\]")
_PATH = re.compile(r"/[\x21\x22\x24-\x7e]*")

_OURS = frozenset({
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
})  # fmt: skip
"""The headers that frame a message or name its server: what they say must be what is done."""

_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})


class Http:
    """The way to one address. For one event loop."""

    def __init__(self, url: str, *, connect_s: float, reuse_s: float = 1.0, ssl: tls.SSLContext | None = None) -> None:
        """`connect_s` is for DNS, TCP and TLS together; a connection that was idle for `reuse_s` is not used again.

        Raises: ValueError. Its words do not show the address.
        """
        try:
            scheme, self._host, self._port, self._path = _parts(url)
            host = _host_line(self._host, self._port, scheme)
        except ValueError:
            raise ValueError("it is not http:// or https://, a host, and perhaps a port and a path") from None
        self._addresses = _literal(self._host, self._port)
        self._tls = scheme == "https"
        self._ssl = ssl
        self._connect_s = connect_s
        self._reuse_s = reuse_s
        self._start = lru_cache(_KNOWN_LINES)(partial(_start, host))
        self._line = lru_cache(_KNOWN_LINES)(_line)
        self._open: set[Connection] = set()
        self._idle: dict[Connection, float] = {}  # since when; the last in is the first out
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    async def send(
        self,
        method: str,
        headers: Mapping[str, str] | Sequence[tuple[str, str]],
        body: bytes = b"",
        *,
        path: str | None = None,
        on_reached: Callable[[], None] | None = None,
    ) -> Response:
        """The response, once its head is here.

        `on_reached` is called right before the first byte may be written: until then nothing can have reached the
        server, from then on nobody knows.

        Raises: Unsendable, CannotConnect, Lost, BadResponse.
        """
        head = self._head(method, headers, self._path if path is None else path, len(body))
        connection = self._idle_one() or await self._connect()
        return await connection.exchange(method, head, body, on_reached)

    async def close(self) -> None:
        """Every connection is closed; whoever still waited for a response is told so."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        gone = [connection.gone for connection in self._open]
        for connection in list(self._open):
            connection.abort()
        if gone:
            await asyncio.wait(gone, timeout=_GOODBYE_S)

    # --- the request ------------------------------------------------------------------------------------------------

    def _head(
        self, method: str, headers: Mapping[str, str] | Sequence[tuple[str, str]], path: str, length: int
    ) -> bytes:
        items = headers.items() if isinstance(headers, Mapping) else headers
        fields = b"".join(starmap(self._line, items))
        if length or method in _WITH_BODY:
            return b"%b%bContent-Length: %d\r\n\r\n" % (self._start(method, path), fields, length)
        return b"%b%b\r\n" % (self._start(method, path), fields)

    # --- the connections --------------------------------------------------------------------------------------------

    def _idle_one(self) -> Connection | None:
        if self._idle:
            too_old = asyncio.get_running_loop().time() - self._reuse_s
            while self._idle:
                connection, since = self._idle.popitem()
                if since > too_old and connection.fresh():
                    return connection
                connection.abort()
        return None

    async def _connect(self) -> Connection:
        try:
            async with asyncio.timeout(self._connect_s):
                connection = await self._opened()
        except (OSError, RuntimeError, UnicodeError) as error:  # a RuntimeError is how uvloop says some of its OSErrors
            raise CannotConnect(_why(error)) from None
        if self._closed:
            connection.abort()
            raise CannotConnect("it was closed by us")
        return connection

    async def _opened(self) -> Connection:
        # Not by the loop alone: uvloop cannot try the addresses of a name side by side.
        if self._closed:
            raise CannotConnect("it was closed by us")
        loop = asyncio.get_running_loop()
        addresses = self._addresses or await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        sock = await aiohappyeyeballs.start_connection(addresses, happy_eyeballs_delay=_NEXT_ADDRESS_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        secured: dict[str, Any] = {}
        if self._tls:
            secured = {"ssl": self._ssl or system_trust(), "server_hostname": self._host.partition("%")[0]}
        _, connection = await loop.create_connection(
            lambda: Connection(self._freed, self._dropped), sock=sock, **secured
        )
        self._open.add(connection)
        connection.gone.add_done_callback(lambda _: self._open.discard(connection))
        return connection

    def _freed(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        self._idle[connection] = loop.time()
        if self._sweep is None:
            self._sweep = loop.call_later(self._reuse_s, self._close_old)

    def _dropped(self, connection: Connection) -> None:
        self._idle.pop(connection, None)

    def _close_old(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweep = None
        too_old = loop.time() - self._reuse_s
        for connection in [connection for connection, since in self._idle.items() if since <= too_old]:
            connection.abort()
        if self._idle:
            self._sweep = loop.call_at(next(iter(self._idle.values())) + self._reuse_s, self._close_old)


def _parts(url: str) -> tuple[str, str, int, str]:
    parts = urlsplit(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if parts.scheme not in _PORTS or not parts.hostname or parts.username is not None or not _PATH.fullmatch(path):
        raise ValueError
    return parts.scheme, parts.hostname, _PORTS[parts.scheme] if parts.port is None else parts.port, path


def _literal(host: str, port: int) -> list[AddrInfoType] | None:
    # Known without a resolver: neither a thread nor a name server can hold it up.
    try:
        return [*socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)]
    except socket.gaierror:
        return None


def _host_line(host: str, port: int, scheme: str) -> str:
    # Of an IPv6 literal without its zone, which means nothing to the other side [RFC 6874].
    plain = f"[{host.partition('%')[0]}]" if ":" in host else host.encode("idna").decode("ascii")
    if not _HOST.fullmatch(plain):
        raise ValueError
    return f"Host: {plain}\r\n" if port == _PORTS[scheme] else f"Host: {plain}:{port}\r\n"


def _start(host: str, method: str, path: str) -> bytes:
    if not _TOKEN.fullmatch(method) or not _PATH.fullmatch(path):
        raise Unsendable("its method or path cannot be sent")
    return f"{method} {path} HTTP/1.1\r\n{host}".encode("ascii")


def _line(name: str, value: str) -> bytes:
    if not _TOKEN.fullmatch(name) or name.lower() in _OURS:
        raise Unsendable(f"the header `{name.encode('ascii', 'backslashreplace').decode()[:64]}` cannot be sent")
    if not _VALUE.fullmatch(value):
        raise Unsendable(f"the value of the header `{name[:64]}` cannot be sent")
    return f"{name}: {value}\r\n".encode("ascii")


def _why(error: Exception) -> str:
    # Never in the library's words: they show the address.
    match error:
        case TimeoutError():
            return "there was no connection in time"
        case socket.gaierror() | UnicodeError():
            return "its name cannot be resolved"
        case tls.CertificateError():
            return "there is no trust in its certificate"
        case tls.SSLError():
            return "it does not speak TLS as we do"
        case OSError(errno=int(number)):
            return os.strerror(number).lower()
        case _:
            return "none of its addresses can be reached"
