"""What gateway.yaml says of agents, and every mistake in it with its place."""

import ipaddress
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from gateway.inbound.mcp import doorkeeper_of, introduction
from gateway.model.principal import Principal
from gateway.outbound.agent_entries import AgentSettings
from gateway.outbound.oidc.resource import Claims, Introspected, ResourceSettings
from gateway.outbound.proxies import ProxySettings
from gateway.settings import SettingsProblems, load_settings
from tests.agents.asking import Front
from tests.inbound.fake_gate import ToldClock
from tests.inbound.served import KEY

pytestmark = pytest.mark.anyio

SECRET = "s3cr3t-0123456789"  # noqa: S105 - what must never be shown
ENVIRON = {"HOME": "/home/ann", "SECRET": SECRET, "EMPTY": ""}

FULL = """
listen: {host: 0.0.0.0}
agents:
  url: https://gateway.example/
  keys: keys.yaml
  oauth:
    issuer: https://idp.example/realms/acme
    audience: https://gateway.example/mcp
    jwks: https://idp.example/keys
    introspection: {url: https://idp.example/introspect, client_id: gateway, client_secret: "${SECRET}"}
    claims: {principal: email, tenant: org, roles: realm_access.roles, scopes: scp}
    roles_map: {dev: [deployer]}
    tenants: [acme]
    clients: [agent]
    required_scopes: [mcp]
    step_up: {"pay__*": [pay]}
  mtls:
    header: X-Client-Subject
    trusted_proxies: [10.0.0.0/24, "fd00::1"]
    subjects:
      "CN=ci,O=acme": {principal: ci, tenant: acme, roles: [deployer], scopes: [mcp]}
"""


def load(folder: Path, text: str) -> AgentSettings:
    file = folder / "gateway.yaml"
    file.write_text(f"{text}\nupstreams: {{fs: {{command: fs-server}}}}\n", encoding="utf-8")
    (folder / "keys.yaml").write_text("keys: []\n")
    return load_settings(file, ENVIRON).agents


def told(folder: Path, text: str) -> list[str]:
    with pytest.raises(SettingsProblems) as refused:
        load(folder, text)
    assert SECRET not in str(refused.value)
    return str(refused.value).replace(f"{folder}/", "").replace("gateway.yaml:", "").split("\n")


def test_all_that_can_be_said_is_taken_as_it_is_meant(tmp_path: Path) -> None:
    found = load(tmp_path, FULL)
    networks = (ipaddress.ip_network("10.0.0.0/24"), ipaddress.ip_network("fd00::1"))
    ci = Principal("ci", "acme", frozenset({"deployer"}), frozenset({"mcp"}))
    assert found == AgentSettings(
        url="https://gateway.example",
        anonymous=False,
        keys=tmp_path / "keys.yaml",
        oauth=ResourceSettings(
            issuer="https://idp.example/realms/acme",
            audience="https://gateway.example/mcp",
            keys="https://idp.example/keys",
            introspection=Introspected("https://idp.example/introspect", "gateway", SecretStr(SECRET)),
            claims=Claims("email", "org", "realm_access.roles", "scp"),
            roles_map={"dev": ("deployer",)},
            tenants=("acme",),
            clients=("agent",),
            required_scopes=("mcp",),
            step_up={"pay__*": ("pay",)},
        ),
        mtls=ProxySettings("x-client-subject", networks, {"CN=ci,O=acme": ci}),
    )
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    ("text", "anonymous"),
    [
        ("", True),
        ("agents: {}", True),
        ("agents: {anonymous: loopback}", True),
        ("agents: {anonymous: never}", False),
        ("agents: {keys: keys.yaml}", False),
        ("agents: {keys: keys.yaml, anonymous: loopback}", True),
        ("agents: {oauth: {issuer: 'https://idp.example'}}", False),
        ("listen: {host: 0.0.0.0}\nagents: {url: 'https://gateway.example'}", False),
        ("listen: {host: 0.0.0.0}\nagents: {url: 'https://gateway.example', anonymous: loopback}", False),
    ],
)
def test_nobody_in_particular_comes_in_only_where_nobody_else_could(
    tmp_path: Path,
    text: str,
    anonymous: bool,  # noqa: FBT001
) -> None:
    assert load(tmp_path, text).anonymous is anonymous


def test_reviewers_from_elsewhere_find_the_console_by_the_name_that_agents_use(tmp_path: Path) -> None:
    def url(text: str) -> str | None:
        load(tmp_path, text)
        return load_settings(tmp_path / "gateway.yaml", ENVIRON).console.url

    far, agents = "listen: {host: 0.0.0.0}\n", "agents: {url: 'https://gateway.example/'}\n"
    assert url(far + agents) == "https://gateway.example"
    assert url(agents) is None
    assert url(far + agents + "console: {url: 'https://review.example'}") == "https://review.example"


def test_who_starts_a_gateway_is_told_who_comes_in(tmp_path: Path) -> None:
    assert introduction(AgentSettings()) == (
        "agents: anybody on this machine comes in as `anonymous`, without a credential; "
        "else by run tokens (`counterfoil run open`)"
    )
    assert introduction(load(tmp_path, FULL)) == (
        "agents: nobody comes in without a credential; by access tokens of https://idp.example/realms/acme, "
        f"the keys in {tmp_path}/keys.yaml, client certificates that a proxy vouches for, "
        "run tokens (`counterfoil run open`)"
    )


TLS = "an address that begins with `https://` is wanted; `http://` only on this machine"
ISSUER = "issuer: 'https://i.example'"
URL = "url: 'http://i.example'"
LITERAL = "no reference is replaced here: write out what is meant, for it is no secret"
REFER = "a secret is not written here but referred to: `${NAME}`"
MTLS = "header: x-s, subjects: {s: {principal: p}}"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "agents: {url: 'http://gateway.example'}",
            ["1:15: agents.url: `https://` and a host is wanted, and no path; `http://` only on this machine"],
        ),
        ("agents: {anonymous: always}", ["1:21: agents.anonymous: one of `loopback`, `never` is wanted, not `always`"]),
        ("agents: {key: k}", ["1:10: agents.key: no key `key` is known here (did you mean `keys`?)"]),
        (
            "agents: {keys: none.yaml}",
            [
                (
                    "1:16: agents.keys: the keys in that file cannot be used: none.yaml:1:1: "
                    "cannot be read: no such file or directory"
                )
            ],
        ),
        ("agents: {oauth: {issuer: 'http://i.example'}}", [f"1:26: agents.oauth.issuer: {TLS}"]),
        (
            f"agents: {{oauth: {{{ISSUER}, jwks: 'http://i.example'}}}}",
            [f"1:53: agents.oauth.jwks: {TLS}"],
        ),
        (
            f"agents: {{oauth: {{{ISSUER}, jwks: none}}}}",
            ["1:53: agents.oauth.jwks: with `none` every token is asked about: say where, in `introspection`"],
        ),
        (
            f"agents: {{oauth: {{{ISSUER}, audience: '${{EMPTY:-}}'}}}}",
            ["1:57: agents.oauth.audience: it is empty"],
        ),
        (
            f"agents: {{oauth: {{{ISSUER}, introspection: {{{URL}, client_id: c, client_secret: x}}}}}}",
            [
                f"1:68: agents.oauth.introspection.url: {TLS}",
                f"1:117: agents.oauth.introspection.client_secret: {REFER}",
            ],
        ),
        (
            f"agents: {{oauth: {{{ISSUER}, roles_map: {{a: [b]}}, tenants: [t]}}}}",
            [
                "1:47: agents.oauth.roles_map: `roles_map` is for what `claims.roles` names",
                "1:68: agents.oauth.tenants: `tenants` is for what `claims.tenant` names",
            ],
        ),
        (
            f"agents: {{oauth: {{{ISSUER}, required_scopes: ['a b']}}}}",
            [
                (
                    "1:65: agents.oauth.required_scopes.0: a scope without spaces, quotes and backslashes is wanted, "
                    "not `a b`"
                )
            ],
        ),
        (
            f"agents: {{oauth: {{{ISSUER}, step_up: {{'${{TOOL}}': [a]}}, clients: ['${{EMPTY:-x}}']}}}}",
            [f"1:57: agents.oauth.step_up.${{TOOL}}: {LITERAL}", f"1:84: agents.oauth.clients.0: {LITERAL}"],
        ),
        (
            f"agents: {{mtls: {{{MTLS}, trusted_proxies: [0.0.0.0/0, proxy]}}}}",
            [
                f"1:{column}: agents.mtls.trusted_proxies.{place}: an address or a network is wanted, "
                "such as `10.0.0.7` or `10.0.0.0/24`, and not all there are"
                for place, column in ((0, 79), (1, 90))
            ],
        ),
        (
            "agents: {mtls: {header: Authorization, subjects: {s: {principal: p}}, trusted_proxies: [10.0.0.7]}}",
            ["1:25: agents.mtls.header: the name of a header that only the proxy sets is wanted"],
        ),
        (
            "agents: {mtls: {header: X-S, subjects: {s: {principal: anonymous}}, trusted_proxies: [10.0.0.7]}}",
            ["1:56: agents.mtls.subjects.s.principal: whoever shows a certificate is not `anonymous`"],
        ),
    ],
)
def test_what_cannot_be_meant_is_told_with_its_place(tmp_path: Path, text: str, lines: list[str]) -> None:
    assert told(tmp_path, text) == lines


async def test_what_the_file_says_is_who_comes_in(tmp_path: Path) -> None:
    async def said(_: str) -> bool:
        return False

    async def opened_from(_: str) -> None:
        return None

    told = replace(load(tmp_path, FULL), anonymous=False)
    clock = ToldClock()
    front = Front(
        doorkeeper_of(told, url="https://gateway.example", run_key=KEY, clock=clock, said=said, opened_from=opened_from)
    )
    found = await front.send({}, path="/.well-known/oauth-protected-resource", verb="GET")
    assert found.json["resource"] == "https://gateway.example/mcp"
    assert (await front.call({"x-client-subject": "CN=ci,O=acme"}, peer=("10.0.0.9", 1))).status == 200
    assert front.came == Principal("ci", "acme", frozenset({"deployer"}), frozenset({"mcp"}))
    assert (await front.call({"authorization": "Bearer cfk_x"})).status == 401
    assert (await front.call({})).status == 401
