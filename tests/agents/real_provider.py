"""A certified OpenID provider from npm, as a process, and a person who signs in at it."""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from tests.real_servers import node, npm_packages

PINS = {"oidc-provider": "9.13.3"}
SCRIPT = Path(__file__).parent.parent / "servers" / "oidc" / "provider.mjs"
GATEWAYS = "gateway-secret"


@dataclass
class RealProvider:
    """Where it is, and how one gets its tokens."""

    port: int
    keys: Path
    agreeing: Mapping[str, Any] | None = None
    """What the script takes as its fourth argument."""

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def token(self, client: str, resource: str, scope: str = "mcp") -> str:
        """An access token for that client itself."""
        form = {"grant_type": "client_credentials", "resource": resource, "scope": scope}
        async with httpx2.AsyncClient(trust_env=False) as http:
            answer = await http.post(f"{self.issuer}/token", data=form, auth=(client, f"{client}-secret"))
        assert answer.status_code == 200, answer.text
        token: str = answer.json()["access_token"]
        return token

    async def revoke(self, client: str, token: str) -> None:
        """The token is good for nothing more."""
        async with httpx2.AsyncClient(trust_env=False) as http:
            path = f"{self.issuer}/token/revocation"
            answer = await http.post(path, data={"token": token}, auth=(client, f"{client}-secret"))
        assert answer.status_code == 200, answer.text

    @contextlib.asynccontextmanager
    async def running(self, kid: str) -> AsyncIterator[None]:
        """It runs, and signs with a new key of that name."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        told: dict[str, Any] = {**json.loads(RSAAlgorithm.to_jwk(key)), "kid": kid, "use": "sig", "alg": "RS256"}
        self.keys.write_text(json.dumps({"keys": [told]}))
        library = await asyncio.to_thread(npm_packages, PINS)
        process = await asyncio.create_subprocess_exec(
            str(node()),
            str(SCRIPT),
            str(library / "node_modules" / "oidc-provider"),
            str(self.port),
            str(self.keys),
            *([] if self.agreeing is None else [json.dumps(self.agreeing)]),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"]},
        )
        try:
            assert process.stdout is not None
            with anyio.fail_after(40):
                while b"listening" not in await process.stdout.readline():
                    assert process.returncode is None
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
            await process.wait()


def provider(folder: Path) -> RealProvider:
    """One for a test, on a port that is free now."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    return RealProvider(port, folder / "provider-keys.json")


async def signed_in(address: str, name: str, ends: str) -> str:
    """A person opens the address, says who they are and agrees; the address to which they are sent back."""
    async with httpx2.AsyncClient(trust_env=False) as browser:
        for _ in range(12):
            if address.startswith(ends):
                return address
            page = await browser.get(address)
            if page.status_code == 200:
                found = re.search(r'name="prompt" value="(\w+)"', page.text)
                assert found is not None, page.text
                form = {"prompt": found[1], "login": name, "password": "x"}
                page = await browser.post(address, data=form)
            assert page.has_redirect_location, page.text
            there = page.headers["location"]
            parts = urlsplit(address)
            address = there if "://" in there else f"{parts.scheme}://{parts.netloc}{there}"
    raise AssertionError(address)
