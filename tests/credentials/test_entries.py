"""`auth` of an upstream in gateway.yaml."""

import json
import re
from pathlib import Path

import pytest
from pydantic import SecretStr

from gateway.outbound.credentials.consented import Consented
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
    kinds = "`client_credentials`, `token_exchange`, `authorization_code`"
    nobody = "tokens are exchanged on behalf of whoever comes in with an access token, and nobody does here"
    assert wrong(tmp_path, text) == [
        "upstreams.a.auth: `auth` is only for a server with a `url`",
        "upstreams.b.headers.AUTHORIZATION: `AUTHORIZATION` is what `auth` says",
        f"upstreams.b.auth: {nobody}: say `agents: {{oauth: …}}`",
        f"upstreams.b.auth.token_url: {no_way}",
        "upstreams.b.auth.scope: scopes are words with one space between them",
        f"mcpServers.c.auth.type: one of {kinds} is wanted, not `password`",
        "mcpServers.c.auth.secret: no key `secret` is known here (did you mean `client_secret`?)",
        "mcpServers.d.auth: the key `client_secret` is missing",
        f"mcpServers.d.auth.token_url: {no_way}",
    ]


CONSENT = """
console: {url: "https://review.example"}
data: {encryption: {key: "${DATA_KEY}"}}
upstreams:
  mail:
    url: https://mail.example/mcp
    auth:
      type: authorization_code
      authorization_url: https://login.example/authorize
      token_url: https://login.example/token
      revocation_url: https://login.example/revoke
      issuer: https://login.example
      client_id: counterfoil
      scope: mail.read offline_access
"""
KEY = {"DATA_KEY": "ab" * 32}


def test_what_people_agree_to_is_read_and_people_come_back_to_an_address_of_that_server_alone(tmp_path: Path) -> None:
    settings = load_settings(written(tmp_path, CONSENT), KEY)
    (spec,) = specs_of(settings)
    assert isinstance(spec, HttpSpec)
    assert isinstance(spec.credential, Consented)
    flow = spec.credential.flow
    assert (flow.redirect, flow.issuer, flow.host, flow.client.client_secret) == (
        "https://review.example/console/connections/mail/callback",
        "https://login.example",
        "login.example",
        None,
    )
    assert "at https://review.example/console/connections" in spec.credential.nobody


def test_where_the_console_is_found_by_the_name_that_agents_have_that_is_enough(tmp_path: Path) -> None:
    text = CONSENT.replace('console: {url: "https://review.example"}', 'agents: {url: "https://gate.example"}')
    settings = load_settings(written(tmp_path, f"listen: {{host: 0.0.0.0}}\n{text}"), KEY)
    (spec,) = specs_of(settings)
    assert isinstance(spec, HttpSpec)
    assert isinstance(spec.credential, Consented)
    assert spec.credential.flow.redirect.startswith("https://gate.example/console/connections/")


def test_each_thing_that_consent_needs_and_is_not_there_is_told(tmp_path: Path) -> None:
    bare = CONSENT.partition("upstreams:")[2].replace("authorization_url: https://login.example/authorize", "")
    found = wrong(tmp_path, f"console: {{enabled: false}}\nupstreams:{bare}")
    assert [one.removeprefix("upstreams.mail.auth: ") for one in found] == [
        "people agree in the console, and it is switched off here: `console: {enabled: false}`",
        (
            "people come back from the provider to one exact address: say by which name browsers reach the console, "
            "`console: {url: …}`"
        ),
        "the key `authorization_url` is missing: where people agree",
        "what people agree to is kept encrypted: say with which key, `data: {encryption: {key: …}}`",
    ]
    strange = CONSENT.replace("https://login.example/authorize", "http://login.example/a")
    strange = (
        strange.replace("${DATA_KEY}", "${S}")
        .replace("/revoke", "/revoke")
        .replace("https://login.example/r", "ftp:/r")
    )
    assert [one.partition(": ")[0] for one in wrong(tmp_path, strange)] == [
        "data.encryption.key",
        "upstreams.mail.auth.authorization_url",
        "upstreams.mail.auth.revocation_url",
    ]
    other = CONSENT.replace("authorization_code", "client_credentials")
    assert [one for one in wrong(tmp_path, other) if "authorization_code" in one] == [
        f"upstreams.mail.auth.{name}: `{name}` is for `type: authorization_code`"
        for name in ("authorization_url", "revocation_url", "issuer")
    ]


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("authorization_url", "https://login.example/a?prompt=consent&state=1", "its query says `state`"),
        ("authorization_url", "https://login.example/a\nb", "people are sent there"),
        ("token_url", "https://login.example/a\tb", "secrets are sent there"),
        ("issuer", "", "what a provider calls itself is an address"),
        ("issuer", "login.example", "what a provider calls itself is an address"),
    ],
)
def test_an_address_that_would_never_do_is_told_before_anybody_is_sent_there(
    key: str, value: str, says: str, tmp_path: Path
) -> None:
    text = re.sub(rf"(?m)^( +{key}): .*", lambda found: f"{found[1]}: {json.dumps(value)}", CONSENT)
    (told,) = [one for one in wrong(tmp_path, text) if "DATA_KEY" not in one]
    assert told.startswith(f"upstreams.mail.auth.{key}: {says}")


def test_the_page_on_credentials_has_every_key_and_its_examples_are_taken(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "credentials.md").read_text()
    table = page.partition("| key | |")[2].partition("\n\n")[0]
    assert set(AuthEntry.model_fields) <= set(re.findall(r"`([a-z_]+)`", table))
    ourselves, on_behalf, watch, agreed = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "data.key").write_text("ab" * 32)
    agreed = agreed.replace("/run/secrets/data.key", str(tmp_path / "data.key"))
    told = {"CRM_CLIENT_SECRET": "a", "WATCH_SECRET": "b", "MAIL_CLIENT_SECRET": "c"}
    for text, names in ((ourselves, ["crm"]), (on_behalf + watch, ["crm", "crm-watch"]), (agreed, ["mail"])):
        settings = load_settings(written(tmp_path, text), told)
        assert [one.name for one in settings.upstreams] == names
        assert settings.warnings == ()
