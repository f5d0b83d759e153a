"""`auth` of an upstream in gateway.yaml."""

import re
from pathlib import Path

import pytest
from pydantic import SecretStr

from gateway.outbound.credentials.endpoint import OAuthClient
from gateway.outbound.credentials.entries import Auth, AuthEntry
from gateway.outbound.credentials.grants import TokenExchange
from gateway.outbound.upstream.spec import HttpSpec
from gateway.plan import specs_of
from gateway.settings import HttpUpstream, SettingsProblems, load_settings

GOOD = """
agents: {oauth: {issuer: https://as.example}}
upstreams:
  crm:
    url: https://crm.example/mcp
    auth:
      type: token_exchange
      token_url: "https://as.example/token"
      client_id: ${ID}
      client_secret: ${SECRET}
      scope: crm.read crm.write
      audience: crm
      resource: https://crm.example/mcp
      client_auth: post
"""


def written(folder: Path, text: str) -> Path:
    (folder / "gateway.yaml").write_text(text)
    return folder / "gateway.yaml"


def test_auth_of_an_upstream_is_read_with_its_references(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, GOOD), {"ID": "me", "SECRET": "cAnArY"})
    (crm,) = settings.upstreams
    assert isinstance(crm, HttpUpstream)
    assert crm.auth == Auth(
        "token_exchange",
        OAuthClient(
            "https://as.example/token",
            "me",
            SecretStr("cAnArY"),
            "crm.read crm.write",
            "crm",
            "https://crm.example/mcp",
            "post",
        ),
    )
    (spec,) = specs_of(settings)
    assert isinstance(spec, HttpSpec)
    assert isinstance(spec.credential, TokenExchange)
    assert "cAnArY" not in f"{settings!r} {spec!r}"


def wrong(folder: Path, text: str) -> list[str]:
    with pytest.raises(SettingsProblems) as told:
        load_settings(written(folder, text), {"S": "s", "BAD": "http://as.example/token?cAnArY"})
    return [str(one).partition("gateway.yaml:")[2].partition(": ")[2] for one in told.value.problems]


def test_what_does_not_fit_is_told_with_its_place(tmp_path: Path) -> None:
    text = """
upstreams:
  a: {command: x, auth: {type: client_credentials, token_url: https://a/t, client_id: a, client_secret: "${S}"}}
  b:
    url: https://b.example/mcp
    headers: {AUTHORIZATION: "${S}"}
    auth: {type: token_exchange, token_url: "${BAD}", client_id: a, client_secret: "${S}", scope: "a  b"}
mcpServers:
  c: {url: https://c.example/mcp, auth: {type: password, token_url: https://a/t, client_id: a, secret: b}}
  d: {url: https://d.example/mcp, auth: {type: client_credentials, token_url: https://u:p@a/t, client_id: a}}
"""
    no_way = "secrets are sent there: it must be https://, or http:// on this machine, without a password in it"
    nobody = "tokens are exchanged on behalf of whoever comes in with an access token, and nobody does here"
    assert wrong(tmp_path, text) == [
        "upstreams.a.auth: `auth` is only for a server with a `url`",
        "upstreams.b.headers.AUTHORIZATION: `AUTHORIZATION` is what `auth` says",
        f"upstreams.b.auth: {nobody}: say `agents: {{oauth: …}}`",
        f"upstreams.b.auth.token_url: {no_way}",
        "upstreams.b.auth.scope: scopes are words with one space between them",
        "mcpServers.c.auth: the key `client_secret` is missing",
        "mcpServers.c.auth.type: one of `client_credentials`, `token_exchange` is wanted, not `password`",
        "mcpServers.c.auth.secret: no key `secret` is known here (did you mean `client_secret`?)",
        "mcpServers.d.auth: the key `client_secret` is missing",
        f"mcpServers.d.auth.token_url: {no_way}",
    ]


def test_the_page_on_credentials_has_every_key_and_its_examples_are_taken(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "credentials.md").read_text()
    table = page.partition("| key | |")[2].partition("\n\n")[0]
    assert set(AuthEntry.model_fields) <= set(re.findall(r"`([a-z_]+)`", table))
    ourselves, on_behalf, watch = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    for text, names in ((ourselves, ["crm"]), (on_behalf + watch, ["crm", "crm-watch"])):
        settings = load_settings(written(tmp_path, text), {"CRM_CLIENT_SECRET": "a", "WATCH_SECRET": "b"})
        assert [one.name for one in settings.upstreams] == names
        assert settings.warnings == ()
