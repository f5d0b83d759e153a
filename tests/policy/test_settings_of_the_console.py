"""What gateway.yaml says of the console, and every mistake in it with its place."""

from pathlib import Path

import pytest
from pydantic import SecretStr

from gateway.outbound.oidc.people import OidcSettings
from gateway.settings import ConsoleSettings, SettingsProblems, load_settings

SECRET = "s3cr3t-0123456789"  # noqa: S105 - what must never be shown
ENVIRON = {"HOME": "/home/ann", "SECRET": SECRET, "EMPTY": ""}

FULL = """
console:
  url: https://review.example/
  local_roles: [finance]
  sessions: {idle_s: 600, longest_s: 3600}
  oidc:
    issuer: https://idp.example/realms/acme
    client_id: counterfoil
    client_secret: ${SECRET}
    scopes: [openid, email]
    id_claim: email
    tenant_claim: org
    roles_claim: realm_access.roles
    roles_map: {finance-approvers: [finance, payments]}
    allowed_tenants: [acme]
"""


def load(folder: Path, text: str) -> ConsoleSettings:
    file = folder / "gateway.yaml"
    file.write_text(f"{text}\nupstreams: {{fs: {{command: fs-server}}}}\n", encoding="utf-8")
    return load_settings(file, ENVIRON).console


def told(folder: Path, text: str) -> list[str]:
    with pytest.raises(SettingsProblems) as refused:
        load(folder, text)
    assert SECRET not in str(refused.value)
    return str(refused.value).replace(f"{folder}/gateway.yaml:", "").split("\n")


def test_all_that_can_be_said_is_taken_as_it_is_meant(tmp_path: Path) -> None:
    found = load(tmp_path, FULL)
    assert found == ConsoleSettings(
        enabled=True,
        url="https://review.example",
        local_roles=("finance",),
        idle_s=600,
        longest_s=3600,
        oidc=OidcSettings(
            issuer="https://idp.example/realms/acme",
            client_id="counterfoil",
            client_secret=SecretStr(SECRET),
            scopes=("openid", "email"),
            id_claim="email",
            tenant_claim="org",
            roles_claim="realm_access.roles",
            roles_map={"finance-approvers": ("finance", "payments")},
            allowed_tenants=("acme",),
        ),
    )
    assert SECRET not in repr(found)


def test_all_of_it_has_a_default(tmp_path: Path) -> None:
    assert load(tmp_path, "") == load(tmp_path, "console: {}") == ConsoleSettings()
    assert load(tmp_path, "console: {enabled: false}").enabled is False


OIDC = "issuer: https://idp.example, client_id: c, roles_claim: groups"
WHERE = "`https://` and a host is wanted, and no path; `http://` only on this machine"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("console: {url: review.example}", [f"1:16: console.url: {WHERE}"]),
        ("console: {url: 'http://review.example'}", [f"1:16: console.url: {WHERE}"]),
        ("console: {url: 'https://review.example/console'}", [f"1:16: console.url: {WHERE}"]),
        ("console: {url: 'https://me:pw@review.example'}", [f"1:16: console.url: {WHERE}"]),
        ("console: {enabled: 1}", ["1:20: console.enabled: `true` or `false` is wanted, not the number `1`"]),
        (
            "console: {local_role: [x]}",
            ["1:11: console.local_role: no key `local_role` is known here (did you mean `local_roles`?)"],
        ),
        (
            "console: {sessions: {idle_s: 1}}",
            ["1:30: console.sessions.idle_s: a number of at least 60 is wanted"],
        ),
        (
            f"console: {{oidc: {{{OIDC}, client_secret: plain}}}}",
            ["1:97: console.oidc.client_secret: a secret is not written here but referred to: `${NAME}`"],
        ),
        (
            f"console: {{oidc: {{{OIDC}, client_secret: '${{EMPTY:-}}'}}}}",
            ["1:97: console.oidc.client_secret: it is empty"],
        ),
        (
            "console: {oidc: {issuer: 'http://idp.example', client_id: c, roles_claim: r}}",
            [
                (
                    "1:26: console.oidc.issuer: an address that begins with `https://` is wanted; "
                    "`http://` only on this machine"
                )
            ],
        ),
        (
            "console: {oidc: {issuer: 'https://idp.example', client_id: c}}",
            [
                (
                    "1:11: console.oidc: say who may review: `tenant_claim` with `allowed_tenants`, or `roles_claim`; "
                    "not all that it knows"
                )
            ],
        ),
        (
            "console: {oidc: {issuer: 'https://idp.example', client_id: c, allowed_tenants: [a], roles_map: {a: [b]}}}",
            [
                "1:63: console.oidc.allowed_tenants: `allowed_tenants` is for what `tenant_claim` names",
                "1:85: console.oidc.roles_map: `roles_map` is for what `roles_claim` names",
            ],
        ),
        ("console: {oidc: {issuer: 'https://idp.example', roles_claim: r}}", [
            "1:11: console.oidc: the key `client_id` is missing",
        ]),
    ],
    ids=range(13),
)  # fmt: skip
def test_each_mistake_is_told_in_its_place(tmp_path: Path, text: str, lines: list[str]) -> None:
    assert told(tmp_path, text) == lines
