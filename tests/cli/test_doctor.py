"""`counterfoil doctor`: what is told of an installation, and that a guard which is off is found."""

import asyncio
import json
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gateway.cli.commands import app
from gateway.cli.doctor import machine
from gateway.cli.doctor.remote import Remote, Said
from gateway.outbound.ledger import open_ledger
from gateway.outbound.notices import Channel
from tests.cli.agents import counterfoil, run

pytestmark = pytest.mark.anyio

SERVERS = Path(__file__).parents[1] / "servers"
NAMED = "transitions:\n  - { name: look, tools: [time__now], effect: [read] }\n"


def installed(folder: Path, policy: str, **config: Any) -> Path:
    (folder / "policies").mkdir(mode=0o700)
    (folder / "policies/work.yaml").write_text(f"workflow: work\n{policy}")
    server = {"command": sys.executable, "args": [str(SERVERS / "counting_server.py"), str(folder / "effects.log")]}
    told = {"ledger": f"sqlite:///{folder}/ledger.db", "policies": "policies", "upstreams": {"time": server}, **config}
    (folder / "gateway.yaml").write_text(json.dumps(told))
    return folder / "gateway.yaml"


def seen(folder: Path, policy: str, *, expect: int = 0, **config: Any) -> Mapping[str, tuple[str, str]]:
    """State and words by what they are about, of the last finding about it."""
    told = installed(folder, policy, **config)
    done = CliRunner().invoke(app, ["doctor", "--config", str(told), "--json"], env={"XDG_STATE_HOME": str(folder)})
    assert done.exit_code == expect, (done.output, done.exception)
    return {one["about"]: (one["state"], one["says"]) for one in json.loads(done.stdout)}


async def made(folder: Path) -> None:
    await (await open_ledger(f"sqlite:///{folder}/ledger.db")).close()


def test_a_sound_installation_has_nothing_wrong_and_its_canary_is_denied_and_recorded(tmp_path: Path) -> None:
    found = seen(tmp_path, NAMED)
    assert {about for about, (state, _) in found.items() if state == "wrong"} == set()
    assert found["canary work"] == ("ok", "denied and recorded (default-deny)")
    assert found["ledger"][0] == "warning", "there is none yet, and none is made for a look"
    assert not (tmp_path / "ledger.db").exists()
    assert found["upstream time"][0] == "ok"


async def test_a_ledger_that_is_there_is_written_to_and_its_run_is_over_afterwards(tmp_path: Path) -> None:
    await made(tmp_path)
    found = await asyncio.to_thread(seen, tmp_path, NAMED)
    assert [found[about][0] for about in ("ledger", "ledger file", "clock", "canary work")] == ["ok"] * 4
    assert found["durability"][0] in {"ok", "warning"}, "a test's folder may be in memory"
    ledger = await open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    (opened,) = await ledger.find(["run.opened"])
    kinds = [record.event.kind for record, _ in await ledger.read(opened.run)]
    assert kinds == ["run.opened", "proposal.denied", "run.stopped"]
    await ledger.close()


@pytest.mark.parametrize("pattern", ["*", "*__*"])
def test_a_policy_by_which_everything_passes_is_found_by_the_call_that_must_not(tmp_path: Path, pattern: str) -> None:
    found = seen(tmp_path, f'transitions:\n  - {{ name: all, tools: ["{pattern}"] }}\n', expect=1)
    assert found["canary work"] == ("wrong", "a destructive call that no rule names was LET THROUGH")
    assert found["policy work"][1] == "`all` allows every tool there is, whatever it does"


def test_a_policy_that_only_observes_is_told_and_meant_so(tmp_path: Path) -> None:
    found = seen(tmp_path, f"mode: observe\n{NAMED}")
    assert found["canary work"][0] == "warning"
    assert "LET THROUGH: the mode is `observe`" in found["canary work"][1]


def test_tools_that_are_not_pinned_are_told_once_for_all_policies_of_which_that_is_so(tmp_path: Path) -> None:
    file = installed(tmp_path, NAMED, workflow="work")
    (tmp_path / "policies/play.yaml").write_text(f"workflow: play\n{NAMED}")
    done = CliRunner().invoke(app, ["doctor", "--config", str(file), "--json"], env={"XDG_STATE_HOME": str(tmp_path)})
    told = [one["about"] for one in json.loads(done.stdout) if "not pinned" in one["says"]]
    assert told == ["tools play, work"]


def test_a_question_for_whatever_there_is_is_told(tmp_path: Path) -> None:
    policy = 'transitions:\n  - { name: ask, tools: ["*"], approval: { reason: look at it } }\n'
    assert seen(tmp_path, policy)["canary work"] == ("warning", "a call that no rule names waits for a person")


def test_a_configuration_that_cannot_be_used_is_told_with_its_places(tmp_path: Path) -> None:
    found = seen(tmp_path, NAMED, expect=1, limits={"concurrent": {"per_princpal": 5}})
    assert "per_princpal" in found["configuration"][1]


def test_a_provider_that_cannot_be_asked_or_is_another_one_is_wrong(tmp_path: Path) -> None:
    """One that answers is the one whose issuer it names itself."""

    class Metadata(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            here = f"http://{self.headers['host']}"
            said = json.dumps({"issuer": here, "jwks_uri": f"{here}/keys"}).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Metadata) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        here = f"http://127.0.0.1:{server.server_port}"
        try:
            for folder, issuer, code in (("right", here, 0), ("another", f"{here}/realms/acme", 1)):
                (tmp_path / folder).mkdir()
                found = seen(tmp_path / folder, NAMED, expect=code, agents={"oauth": {"issuer": issuer}})
                assert found["provider of agents"][0] == ("wrong" if code else "ok")
        finally:
            server.shutdown()
            thread.join(5)
    (tmp_path / "gone").mkdir()
    found = seen(tmp_path / "gone", NAMED, expect=1, agents={"oauth": {"issuer": here}})
    assert found["provider of agents"] == ("wrong", f"`{here}`: the provider cannot be reached")


def test_a_server_that_does_not_come_up_is_wrong(tmp_path: Path) -> None:
    found = seen(tmp_path, NAMED, expect=1, upstreams={"time": {"command": "/nowhere/at-all"}})
    assert found["upstream time"][0] == "wrong"


def test_a_server_that_is_called_as_who_calls_is_nothing_wrong_and_where_people_come_back_to_is_told(
    tmp_path: Path,
) -> None:
    at = {name: f"https://login.example/{name}" for name in ("authorization_url", "token_url")}
    auth = {"type": "authorization_code", "client_id": "counterfoil", **at}
    found = seen(
        tmp_path,
        NAMED,
        console={"url": "https://review.example"},
        data={"encryption": {"key": "${COUNTERFOIL_TEST_KEY:-" + "ab" * 32 + "}"}},
        upstreams={"mail": {"url": "https://mail.example/mcp", "auth": auth}},
    )
    assert found["upstream mail"][0] == "ok"
    assert found["consent mail"] == (
        "ok",
        (
            "people go to `login.example`, which must know the address to which they come back: "
            "https://review.example/console/connections/mail/callback"
        ),
    )


@pytest.mark.parametrize(
    ("mode", "which", "about"),
    [
        (0o666, "gateway.yaml", "configuration"),
        (0o777, "policies", "policies"),
        (0o640, "counterfoil/run-tokens.key", "run tokens"),
        (0o604, "ledger.db", "ledger file"),
        (0o620, "keys/agents.yaml", "agents' keys"),
        (0o777, "keys", "agents' keys"),
        (0o602, "secret", "secrets"),
    ],
)
async def test_what_others_can_change_or_read_is_wrong(tmp_path: Path, mode: int, which: str, about: str) -> None:
    await made(tmp_path)
    config, key = installed(tmp_path, NAMED), tmp_path / "counterfoil/run-tokens.key"
    key.parent.mkdir(mode=0o700)
    key.write_text("00" * 32)
    key.chmod(0o600)
    agents, secret = tmp_path / "keys/agents.yaml", tmp_path / "secret"
    agents.parent.mkdir(mode=0o700)
    for file in (agents, secret):
        file.touch(mode=0o600)
    (tmp_path / which).chmod(mode)
    policies = [tmp_path / "policies", tmp_path / "policies/work.yaml"]
    found = [
        *machine.files(config, policies, agents),
        *machine.secrets(key, [secret]),
        *machine.ledger_file(tmp_path / "ledger.db"),
    ]
    assert [one.about for one in found if one.state == "wrong"] == [about]


def test_a_file_of_somebody_else_is_theirs_to_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = installed(tmp_path, NAMED)
    monkeypatch.setattr("os.geteuid", lambda: config.stat().st_uid + 1)
    found = next(machine.files(config, (), None))
    mine = config.stat().st_uid == 0  # root may change it anyhow
    assert (found.state, found.says.endswith("decide what agents may do")) == (
        ("ok", False) if mine else ("wrong", True)
    )


def test_a_link_that_others_can_replace_is_as_good_as_a_file(tmp_path: Path) -> None:
    config, loose = installed(tmp_path, NAMED), tmp_path / "loose"
    loose.mkdir()
    (loose / "gateway.yaml").symlink_to(config)
    assert [one.state for one in machine.files(loose / "gateway.yaml", (), None)] == ["ok"]
    loose.chmod(0o777)
    (found,) = machine.files(loose / "gateway.yaml", (), None)
    assert (found.state, found.do) == ("wrong", f"chmod go-w {loose}")
    loose.chmod(0o1777)  # as of /tmp, where nobody replaces what is another's
    assert [one.state for one in machine.files(loose / "gateway.yaml", (), None)] == ["ok"]


def test_a_secret_that_others_can_read_or_that_is_written_out_is_told(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("k" * 40)
    secret.chmod(0o644)
    found = seen(tmp_path, NAMED, run_tokens={"key": "${file:secret}"})
    assert found["secrets"] == ("warning", f"others can read the secret `{secret}`")
    (tmp_path / "other").mkdir()
    found = seen(tmp_path / "other", NAMED, run_tokens={"key": "k" * 40})
    assert found["secrets"][0] == "warning"
    assert "run_tokens.key: this looks like a secret that is written out" in found["secrets"][1]


def test_who_comes_in_is_told(tmp_path: Path) -> None:
    assert seen(tmp_path, NAMED)["agents"][0] == "warning"
    (tmp_path / "other").mkdir()
    state, says = seen(tmp_path / "other", NAMED, agents={"anonymous": "never"})["agents"]
    assert (state, says.partition(";")[0]) == ("ok", "nobody comes in without a credential")
    mtls = {"header": "X-Subject", "trusted_proxies": ["127.0.0.1"], "subjects": {"CN=ci": {"principal": "ci"}}}
    (tmp_path / "third").mkdir()
    state, says = seen(tmp_path / "third", NAMED, agents={"mtls": mtls})["agents"]
    assert (state, says.partition(":")[0]) == ("warning", "a proxy on this machine is believed about certificates")


def test_a_disk_that_forgets_or_is_full_or_shared_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/x / ext4 rw 0 0\nnone {tmp_path} tmpfs rw 0 0\nn {tmp_path}/far nfs4 rw 0 0\nbroken\n")
    kinds = [machine._file_system(Path(one), mounts) for one in ("/etc/x", f"{tmp_path}/l.db", f"{tmp_path}/far/l.db")]
    assert kinds == ["ext4", "tmpfs", "nfs4"]
    for free, state in ((2**20, "wrong"), (2**29, "warning"), (2**40, "ok")):
        monkeypatch.setattr("shutil.disk_usage", lambda _, left=free: _Free(left))
        assert [one.state for one in machine.room(tmp_path)] == [state]


class _Free:
    def __init__(self, free: int) -> None:
        self.free = free


def test_who_cannot_be_reached_is_told_and_content_that_leaves_too(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = "http://127.0.0.1:9/v1/traces"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", nowhere)
    told = {"OTEL_EXPORTER_OTLP_ENDPOINT": nowhere, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
    unreached, content = machine.telemetry(None, told)
    assert (unreached.state, content.state) == ("warning", "warning")
    assert [one.state for one in machine.telemetry("none", told)] == ["warning"]  # the file goes before
    assert [one.state for one in machine.telemetry("spans", {})] == ["ok", "warning"]
    assert "127.0.0.1:9" in unreached.says
    (channel,) = machine.channels([Channel("ops", webhook="http://127.0.0.1:9/secret-path")])
    assert (channel.state, "secret" in channel.says) == ("warning", False)


def test_a_door_that_lets_everybody_in_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked of it is answered with 200."""
    remote = Remote("http://127.0.0.1:1", b"k" * 32, "work")
    monkeypatch.setattr(remote, "_ask", lambda *_args: Said(200, {"result": {"structuredContent": {"outcome": "ok"}}}))
    found = {one.about: one.state for one in remote.looked()}
    assert found.pop("gateway") == "ok"
    assert found.pop("anonymous") == "warning"
    assert set(found.values()) == {"wrong"}
    assert len(found) == 7


def test_nobody_there_is_one_line() -> None:
    done = CliRunner().invoke(app, ["doctor", "--url", "http://127.0.0.1:9"])
    assert done.exit_code == 1
    assert "nobody answers at `127.0.0.1:9`" in done.stdout
    assert CliRunner().invoke(app, ["doctor"]).exit_code == 2


@pytest.mark.slow
async def test_a_running_gateway_passes_and_its_canary_stands_in_the_ledger(tmp_path: Path) -> None:
    config = installed(tmp_path, NAMED, listen={"port": 0})
    async with counterfoil("serve", "--config", str(config), XDG_STATE_HOME=str(tmp_path)) as gateway:
        url = await gateway.hear(r"listening at (http://\S+)/mcp")
        told, _ = await run(
            "doctor", "--config", str(config), "--url", url, "--json", XDG_STATE_HOME=str(tmp_path), expect=0
        )
    found = {one["about"]: (one["state"], one["says"]) for one in json.loads(told)}
    assert {about for about, (state, _) in found.items() if state == "wrong"} == set()
    assert found["canary over HTTP"] == ("ok", "its denial is recorded in this ledger")
    assert found["an agent's token at the console"][0] == "ok"
