"""A reviewer is let in by what the commands print, at the real gateway, over HTTP."""

import json
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from typer.testing import CliRunner

from gateway.cli.commands import app
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
            assert "revokes it" in beside
            other.cookies.clear()
            bearer = {"Authorization": f"Bearer {token}"}
            assert (await other.get(f"{url}/console/nowhere", headers=bearer)).status_code == 404
            status, answer = await post(f"{url}/mcp", "tools/list", headers=bearer)
            assert (status, "reviewer's credential" in answer["error"]["message"]) == (403, True)
            run_token, _ = said("run", "open", "--config", str(config), "--workflow", "starter")
            for agent in ({"Authorization": f"Bearer {run_token}"}, {"Counterfoil-Run": run_token}):
                assert (await other.get(f"{url}/console", headers=agent)).status_code == 403


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
