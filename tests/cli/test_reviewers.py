"""A reviewer is let in by what the commands print, at the real gateway, over HTTP."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from typer.testing import CliRunner

from gateway.cli.commands import app
from gateway.cli.purge import is_meant
from gateway.inbound.mcp.revoked import KNOWN_S
from gateway.model.consent import Consent, Holder
from gateway.outbound.ledger import open_ledger
from gateway.outbound.system_account import system_account
from tests.cli.agents import counterfoil, ledger_of, post

pytestmark = pytest.mark.anyio

PRESSED = {"sec-fetch-site": "same-origin", "origin": "null"}


def configured(folder: Path, **more: object) -> Path:
    config = folder / "gateway.yaml"
    config.write_text(
        json.dumps(
            {
                "listen": {"port": 0},
                "ledger": f"sqlite:///{folder / 'ledger.db'}",
                "run_tokens": {"key": "k" * 40},
                "mcpServers": {"dead": {"command": "no-such-program"}},
                "console": {"local_roles": ["finance"], **more},
            }
        )
    )
    return config


def said(*args: str, code: int = 0, state: Path | None = None) -> tuple[str, str]:
    """What the command prints, and what it says beside that."""
    ended = CliRunner().invoke(app, args, env={} if state is None else {"XDG_STATE_HOME": str(state)})
    assert ended.exit_code == code, ended.output
    return ended.stdout.strip(), ended.stderr


async def pressed(browser: httpx2.AsyncClient, link: str) -> int:
    """The status of pressing the link's button."""
    assert (await browser.get(link)).status_code in {200, 410}
    ticket = parse_qs(urlsplit(link).query)["ticket"][0]
    answer = await browser.post(link.partition("?")[0], data={"ticket": ticket}, headers=PRESSED)
    return answer.status_code


@pytest.mark.slow
async def test_serve_prints_a_link_and_the_commands_make_more_and_tokens(tmp_path: Path) -> None:
    config = configured(tmp_path)
    async with counterfoil("serve", "--config", str(config)) as gateway, httpx2.AsyncClient() as browser:
        url = await gateway.hear(r"listening at (http://\S+)/mcp")
        link = await gateway.hear(r"reviewers: (\S+), once, for 15 minutes")
        assert link.startswith(f"{url}/console/enter?ticket=")
        assert (await browser.get(f"{url}/console")).status_code == 401
        assert f"Continue as local:{system_account()}" in (await browser.get(link)).text
        assert await pressed(browser, link) == 303
        assert (await browser.get(f"{url}/console/nowhere")).status_code == 404  # and no longer 401
        async with httpx2.AsyncClient() as other:
            assert await pressed(other, link) == 410
            more = ("console", "--config", str(config), "--url", url)
            told, beside = said(*more, "--reviewer", "anna", "--tenant", "acme", "--role", "ops", "--minutes", "5")
            assert "for anna, once, for 5 minutes" in beside
            shown = (await other.get(told)).text
            assert "<dd>acme</dd>" in shown
            assert "<dd>ops</dd>" in shown
            assert await pressed(other, told) == 303
            assert "<dd>finance, owner</dd>" in (await other.get(said(*more)[0])).text
            token, beside = said("reviewer", "token", "--config", str(config), "--id", "anna", "--for", "1h")
            name = beside.rpartition(" -- ")[2].partition("`")[0]
            assert "revokes it" in beside
            other.cookies.clear()
            bearer = {"Authorization": f"Bearer {token}"}
            assert (await other.get(f"{url}/console/nowhere", headers=bearer)).status_code == 404
            status, answer = await post(f"{url}/mcp", "tools/list", headers=bearer)
            assert (status, "reviewer's credential" in answer["error"]["message"]) == (403, True)
            run_token, _ = said("run", "open", "--config", str(config), "--workflow", "starter")
            for agent in ({"Authorization": f"Bearer {run_token}"}, {"Counterfoil-Run": run_token}):
                assert (await other.get(f"{url}/console", headers=agent)).status_code == 403
            revoking = ("reviewer", "revoke", "--config", str(config), "--", name)
            assert (await asyncio.to_thread(said, *revoking))[0].startswith(f"{name} is revoked at")
            await asyncio.sleep(KNOWN_S)
            assert (await other.get(f"{url}/console/nowhere", headers=bearer)).status_code == 401


@pytest.mark.slow
@pytest.mark.long
async def test_wrap_lets_its_own_user_in_and_a_console_can_be_switched_off(
    time_server: list[str], tmp_path: Path
) -> None:
    own = ("wrap", *ledger_of(tmp_path), "--listen", "127.0.0.1:0", "--", *time_server)
    off = configured(tmp_path, enabled=False)
    async with (
        counterfoil(*own, XDG_STATE_HOME=str(tmp_path)) as wrapped,
        counterfoil("serve", "-c", str(off)) as without,
    ):
        async with httpx2.AsyncClient() as browser:
            link = await wrapped.hear(r"reviewers: (\S+), once")
            assert await pressed(browser, link) == 303
            more, _ = said("console", "--url", link.partition("/console")[0], state=tmp_path)
            assert await pressed(browser, more) == 303
            url = await without.hear(r"listening at (http://\S+)/mcp")
            assert (await browser.get(f"{url}/console")).status_code == 404
        assert not [line for line in without.said if "reviewers:" in line]
    assert "the console is switched off in that file" in said("console", "-c", str(off), code=2)[1]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("console", "--url", "http://review.example"), "`http://review.example`: `https://` and a host is wanted"),
        (("console", "--config", "no-such.yaml"), "no-such.yaml"),
        (("console", "--approval", "ap_1", "--connections"), "`--approval` and `--connections` exclude each other"),
        (("reviewer", "token", "--id", "a", "--for", "2y"), "`2y` is no time up to 366d"),
        (("reviewer", "token", "--id", "a", "--unattended"), "`--unattended` is about `--for-assistant`"),
        (("reviewer", "token", "--id", "a", "--for", "400d"), "`400d` is no time up to 366d"),
    ],
)
def test_what_cannot_be_made_is_said_in_one_line(args: tuple[str, ...], says: str, tmp_path: Path) -> None:
    told, beside = said(*args, code=2, state=tmp_path)
    assert (told, says in beside, "Traceback" in beside) == ("", True, False)


def test_where_a_port_is_not_known_the_address_is_asked_for(tmp_path: Path) -> None:
    _, beside = said("console", "--config", str(configured(tmp_path)), code=2)
    assert "say with `--url` where it is" in beside


NEEDED_ELSEWHERE = """
ledger: {ledger}
policies: policies
run_tokens: {{key: "{key}"}}
mcpServers: {{crm: {{url: "https://crm.example/mcp", headers: {{Authorization: "Bearer ${{CRM_TOKEN}}"}}}}}}
notify: [{{name: team, webhook: "https://hooks.example/x", secret: "${{HOOK_SECRET}}"}}]
console:
  local_roles: [finance]
  oidc: {{issuer: "https://idp.example", client_id: a, client_secret: "${{OIDC_SECRET}}", roles_claim: roles}}
"""
POLICY = "workflow: w\ntools: {crm__read: {effect: read}}\ntransitions: [{name: any, tools: ['*']}]\n"


def test_what_a_reviewer_has_is_revoked_by_its_id_or_by_their_name(tmp_path: Path) -> None:
    config = configured(tmp_path)
    at = ("--config", str(config))
    told = said("console", *at, "--url", "http://127.0.0.1:1")[1]
    command = told.partition("`counterfoil ")[2].partition("`")[0].split()
    assert command[:2] == ["reviewer", "revoke"]
    assert (
        "there is no ledger" in said(*command[:2], "--ledger", f"sqlite:///{tmp_path}/no.db", *command[4:], code=1)[1]
    )
    asyncio.run(made(f"sqlite:///{tmp_path / 'ledger.db'}"))
    on = f"at every gateway on sqlite:///{tmp_path / 'ledger.db'}"
    assert said(*command)[0].endswith(f"is revoked {on}"), "as it stands there, it finds the ledger"
    assert said(*command)[0].endswith(f"was revoked before {on}")
    revoked, noted = said("reviewer", "revoke", *at, "--id", "anna", "--tenant", "acme")
    assert (revoked, noted) == (f"all of `anna` in the tenant `acme` is revoked {on}", "")
    revoked, noted = said("reviewer", "revoke", *at, "--id", "anna")
    assert "in the tenant `local`" in revoked
    assert "in another tenant is still let in: say `--tenant`" in noted, "she may be of another one"
    for tenant in ("acme", "other"):
        asyncio.run(connected(f"sqlite:///{tmp_path / 'ledger.db'}", Holder(tenant, "anna", "mail")))
    again = said("reviewer", "revoke", *at, "--id", "anna", "--tenant", "acme")[0]
    assert again.endswith("\n1 account at other providers disconnected, of which their providers are not told")
    assert asyncio.run(held(f"sqlite:///{tmp_path / 'ledger.db'}")) == [Holder("other", "anna", "mail")]
    assert "say either" in said("reviewer", "revoke", *at, code=2)[1]
    assert "say either" in said("reviewer", "revoke", *at, "--id", "anna", *command[4:], code=2)[1]
    assert "is no id of a token" in said("reviewer", "revoke", *at, "anna", code=2)[1]


def test_a_principal_whose_name_has_slashes_is_disconnected_by_it_with_its_tenant_and_without(tmp_path: Path) -> None:
    ledger = f"sqlite:///{tmp_path / 'ledger.db'}"
    asyncio.run(made(ledger))
    for told in ("spiffe://corp/anna", "acme/spiffe://corp/anna"):
        for name in ("spiffe://corp/anna", "anna"):
            asyncio.run(connected(ledger, Holder("acme", name, "mail")))
        found, _ = said("purge", "--principal", told, "--yes", "--json", "--ledger", ledger)
        assert json.loads(found)["connections"] == 1
        assert asyncio.run(held(ledger)) == [Holder("acme", "anna", "mail")]
    assert (is_meant("acme/anna", "acme", "anna"), is_meant("acme/anna", "other", "anna")) == (True, False)


async def made(url: str) -> None:
    """There is a ledger."""
    await (await open_ledger(url)).close()


async def connected(url: str, holder: Holder) -> None:
    """That principal has connected an account."""
    ledger = await open_ledger(url)
    await ledger.consents.drop(holder)
    assert await ledger.consents.put(Consent(holder, "c_1", 1, b"sealed"), None)
    await ledger.close()


async def held(url: str) -> Sequence[Holder]:
    """Who of that name has."""
    ledger = await open_ledger(url)
    try:
        return await ledger.consents.held("anna")
    finally:
        await ledger.close()


def test_a_command_needs_no_secret_of_the_file_that_it_does_not_use(tmp_path: Path) -> None:
    config = tmp_path / "gateway.yaml"
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "w.yaml").write_text(POLICY)
    config.write_text(NEEDED_ELSEWHERE.format(ledger=f"sqlite:///{tmp_path}/l.db", key="k" * 40))
    at = ("--config", str(config))
    link, _ = said("console", *at)
    assert link.startswith("http://127.0.0.1:8321/console/enter?ticket=")
    assert said("reviewer", "token", *at, "--id", "anna")[0]
    assert said("run", "open", *at, "--workflow", "w")[0]
    assert "there is no ledger" in said("run", "revoke", "run_1", *at, code=1)[1]
    assert "there is no ledger" in said("verify", *at, code=2)[1]
    assert "`HOOK_SECRET` is not set" in said("notify", "test", *at, code=2)[1]
    assert "CRM_TOKEN" not in said("notify", "test", *at, code=2)[1]
    missing = {"key": "${RUN_KEY}", "ledger": "l.db"}
    config.write_text(NEEDED_ELSEWHERE.format(**missing))
    assert "`RUN_KEY` is not set" in said("console", *at, code=2)[1]
    config.write_text(NEEDED_ELSEWHERE.format(**missing) + "consol: {}\n")
    assert "no key `consol` is known here" in said("console", *at, code=2)[1], "all of the file is to be well-formed"
