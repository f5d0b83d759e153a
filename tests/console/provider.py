"""An OpenID provider that keeps to the rules of the flow, and says in its tokens whatever a test has it say."""

import base64
import hashlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote_plus, urlsplit

import jwt
import uvicorn
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

CLIENT, SECRET = "counterfoil", "it's a secret: ü"
RSA = [rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2)]
EC = ec.generate_private_key(ec.SECP256R1())


def public(name: str, key: Any) -> dict[str, Any]:
    """The key as a provider shows it."""
    algorithm = ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey) else RSAAlgorithm
    told: dict[str, Any] = json.loads(algorithm.to_jwk(key.public_key()))
    return {**told, "kid": name, "use": "sig", "alg": "ES256" if algorithm is ECAlgorithm else "RS256"}


def pem(key: Any) -> bytes:
    """The key that everybody may know, as text."""
    told: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return told


@dataclass
class Asked:
    """What the token endpoint was asked for, and what for."""

    claims: dict[str, Any]
    """Such as an honest provider says."""
    query: Mapping[str, str]
    """Of the authorization request."""


def honest(asked: Asked) -> str:
    """The token of a provider that says the truth."""
    return jwt.encode(asked.claims, RSA[0], "RS256", {"kid": "one"})


@dataclass
class OpenId:
    """The provider. What it answers may be changed while it runs."""

    url: str = ""
    person: dict[str, Any] = field(default_factory=lambda: {"sub": "anna", "org": "acme", "groups": ["fin"]})
    token: Callable[[Asked], str] = honest
    keys: list[dict[str, Any]] = field(default_factory=lambda: [public("one", RSA[0])])
    metadata: dict[str, Any] = field(default_factory=dict)
    down: bool = False
    now: float = 0.0
    fetched: int = 0
    """How often its keys were asked for."""
    active: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What it says of tokens that it knows, when it is asked about one."""
    asked_about: int = 0
    """How often it was."""
    secrets: list[str] = field(default_factory=list)
    """How clients showed who they are."""
    _codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def app(self) -> ASGIApp:
        return Starlette(
            routes=[
                Route("/.well-known/openid-configuration", self._configured),
                Route("/authorize", self._authorize),
                Route("/token", self._token, methods=["POST"]),
                Route("/keys", self._shown),
                Route("/introspect", self._introspected, methods=["POST"]),
            ]
        )

    async def _configured(self, _: Request) -> Response:
        if self.down:
            return Response(status_code=503)
        endpoints = {"authorization_endpoint": "/authorize", "token_endpoint": "/token", "jwks_uri": "/keys"}
        said = {name: f"{self.url}{path}" for name, path in endpoints.items()}
        return JSONResponse({"issuer": self.url, **said, **self.metadata})

    async def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        assert (asked["response_type"], asked["code_challenge_method"]) == ("code", "S256")
        code = f"code-{len(self._codes)}"
        self._codes[code] = asked
        return RedirectResponse(f"{asked['redirect_uri']}?code={code}&state={asked['state']}", 303)

    async def _token(self, request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        asked = self._codes.pop(form["code"], None)
        if asked is None or not self._proven(asked, form) or not self._known(request, form):
            return JSONResponse({"error": "invalid_grant"}, 400)
        claims = {"iss": self.url, "aud": CLIENT, "iat": int(self.now), "exp": int(self.now) + 300}
        said = Asked({**claims, "nonce": asked["nonce"], **self.person}, asked)
        return JSONResponse({"access_token": "unused", "token_type": "Bearer", "id_token": self.token(said)})

    def _proven(self, asked: Mapping[str, str], form: Mapping[str, str]) -> bool:
        made = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).rstrip(b"=").decode()
        return made == asked["code_challenge"] and form["redirect_uri"] == asked["redirect_uri"]

    def _known(self, request: Request, form: Mapping[str, str]) -> bool:
        shown = request.headers.get("authorization")
        self.secrets.append("form" if shown is None else "header")
        if shown is None:
            return (form.get("client_id"), form.get("client_secret", SECRET)) == (CLIENT, SECRET)
        name, _, secret = base64.b64decode(shown.removeprefix("Basic ")).decode().partition(":")
        return (unquote_plus(name), unquote_plus(secret)) == (CLIENT, SECRET)

    async def _introspected(self, request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        self.asked_about += 1
        if self.down or not self._known(request, form):
            return JSONResponse({"error": "invalid_client"}, 503 if self.down else 401)
        return JSONResponse(self.active.get(form["token"], {"active": False}))

    async def _shown(self, _: Request) -> Response:
        if self.down:
            return Response(status_code=503)
        self.fetched += 1
        return JSONResponse({"keys": self.keys})


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@contextmanager
def stage() -> Iterator[Callable[[float], OpenId]]:
    """A server on a free port of loopback; what it gives is a new provider there, whose clock stands at some time."""
    playing: list[ASGIApp] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await playing[-1](scope, receive, send)

    def new(now: float) -> OpenId:
        made = OpenId(url, now=now)
        playing.append(made.app())
        return made

    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        server = _Server(uvicorn.Config(app, log_level="error", lifespan="off", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()  # who comes before it is ready waits
        try:
            yield new
        finally:
            server.should_exit = True
            thread.join(10)
            assert not thread.is_alive()


def query_of(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
