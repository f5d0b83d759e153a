"""Which ledger a command is about: an address, or the file of a gateway, of which its keys are taken as well."""

import asyncio
import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperCommand, TyperGroup
from typer.testing import CliRunner, Result

from gateway.app import _ledger_option
from gateway.cli.commands import app
from gateway.model.tool import Silence
from gateway.outbound.ledger import open_ledger
from gateway.outbound.payload_keys import Keyring
from tests.runtime.house import house

KEY = bytes(range(32))
UNKNOWN, ASKED = "ATTEMPT", "APPROVAL"
NEEDS_NO_FILE = {"wrap": "it is a gateway itself, and what follows it is the server's own line"}
WORDS: dict[str, tuple[str, ...]] = {
    "approvals approve": (ASKED, "--yes"),
    "approvals list": (),
    "approvals reject": (ASKED,),
    "approvals return": (ASKED, "-m", "more"),
    "approvals revoke": (ASKED,),
    "approvals show": (ASKED,),
    "approvals watch": ("--once",),
    "cost": (),
    "explain": ("--run", "last"),
    "export": ("last",),
    "packet": (ASKED,),
    "postmortem": ("last",),
    "purge": ("--run", "run_1", "--yes"),
    "reconcile": (),
    "resolve": (UNKNOWN, "--happened", "-m", "seen"),
    "reviewer revoke": ("--id", "ann", "--tenant", "local"),
    "reviews": (),
    "run revoke": ("run_1",),
    "runs": (),
    "show": ("last",),
    "stop": ("--tool", "read", "-m", "mad"),
    "stops": (),
    "verify": (),
}
"""By its name, what a command needs to have something to do."""
ENDS = {"approvals revoke": 1, "explain": 3}
"""Other than with 0: there is no yes to take back, and what is explained is no yes."""


def commands() -> Iterator[tuple[str, TyperCommand]]:
    """Each command that may be told a ledger, by its name."""

    def under(group: TyperGroup, name: str) -> Iterator[tuple[str, TyperCommand]]:
        for word, one in group.commands.items():
            full = f"{name} {word}".strip()
            if isinstance(one, TyperGroup):
                yield from under(one, full)
            elif isinstance(one, TyperCommand) and any("--ledger" in option.opts for option in one.params):
                yield full, one

    root = typer.main.get_command(app)
    assert isinstance(root, TyperGroup)
    return under(root, "")


NAMES = [name for name, _ in commands() if name not in NEEDS_NO_FILE]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """An encrypted ledger with an answer, a question and an unknown outcome; the names of the two."""
    path = tmp_path_factory.mktemp("made") / "ledger.db"

    async def work() -> dict[str, str]:
        ledger = await open_ledger(f"sqlite:///{path}", keys=Keyring([KEY]))
        async with house(ledger, transitions=RULES) as it:
            await it.call("read", {"q": "canary"})
            await it.call("pay", {"n": 1})
            it.upstreams.will("write", Silence("gone"))
            await it.call("write", {"n": 2})
            run = await it.book.state_of("run_1")
        await ledger.close()
        return {ASKED: next(iter(run.approvals)), UNKNOWN: next(iter(run.unsettled))}

    return path, asyncio.run(work())


RULES: list[dict[str, Any]] = [
    {"name": "ask", "tools": ["pay"], "approval": {}},
    {"name": "all", "tools": ["read", "write"]},
]


@pytest.fixture
def config(made: tuple[Path, dict[str, str]], tmp_path: Path) -> Path:
    """A gateway's file with a copy of that ledger. The secret of its server is not here."""
    shutil.copy(made[0], tmp_path / "mine.db")
    (tmp_path / "data.key").write_text(KEY.hex())
    said = {
        "ledger": "mine.db",
        "data": {"encryption": {"key": "${file:data.key}"}},
        "upstreams": {"bank": {"url": "https://bank.example/mcp", "headers": {"Authorization": "${NOT_HERE}"}}},
    }
    (tmp_path / "gateway.yaml").write_text(json.dumps(said))
    return tmp_path / "gateway.yaml"


def run(tmp_path: Path, *words: str, **env: str) -> Result:
    own = {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": "", "COUNTERFOIL_DATA_KEY": "", "COUNTERFOIL_LEDGER": ""}
    return CliRunner().invoke(app, words, env={**own, "COLUMNS": "200", "NO_COLOR": "1", **env})


def told(name: str, names: dict[str, str]) -> list[str]:
    return [*name.split(), *(names.get(word, word) for word in WORDS[name])]


def test_every_command_that_may_be_told_a_ledger_takes_the_gateways_own_file() -> None:
    lacking = {name for name, one in commands() if not any({"--config", "-c"} <= {*each.opts} for each in one.params)}
    assert lacking == NEEDS_NO_FILE.keys()
    assert sorted(NAMES) == sorted(WORDS)


@pytest.mark.parametrize("name", NAMES)
def test_each_finds_the_ledger_and_its_keys_and_needs_no_other_secret(
    made: tuple[Path, dict[str, str]], config: Path, tmp_path: Path, name: str
) -> None:
    done = run(tmp_path, *told(name, made[1]), "--config", str(config))
    assert done.exit_code == ENDS.get(name, 0), done.output
    assert "encrypted" not in done.output
    assert "there is no ledger" not in done.output


@pytest.mark.parametrize("name", NAMES)
def test_each_says_of_a_file_that_cannot_be_read_that_it_cannot(
    made: tuple[Path, dict[str, str]], tmp_path: Path, name: str
) -> None:
    for ledger in ((), ("--ledger", str(made[0]))):
        done = run(tmp_path, *told(name, made[1]), "-c", str(tmp_path / "no.yaml"), *ledger)
        assert done.exit_code == 2
        assert done.output == f"counterfoil: {tmp_path / 'no.yaml'}:1:1: cannot be read: no such file or directory\n"


def test_an_address_goes_before_the_file_whose_keys_are_taken(
    made: tuple[Path, dict[str, str]], config: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.db"
    shutil.copy(made[0], other)
    run(tmp_path, "stop", "--all", "-m", "there", "--ledger", str(other))
    shown = run(tmp_path, "show", "last", "--step", "2", "--ledger", str(other), "--config", str(config))
    assert "canary" in shown.stdout
    assert "canary" not in run(tmp_path, "show", "last", "--step", "2", "--ledger", str(other)).stdout
    for words, thrown in (
        (("--config", str(config)), 0),
        (("--config", str(config), "--ledger", str(other)), 1),
        ((), 1),
    ):
        found = run(tmp_path, "stops", "--json", *words, COUNTERFOIL_LEDGER=str(other))
        assert len(json.loads(found.stdout)) == thrown, words


def test_a_wrong_file_is_told_with_its_place(config: Path, tmp_path: Path) -> None:
    config.write_text('{"ledgr": "mine.db"}')
    done = run(tmp_path, "runs", "--config", str(config))
    assert done.exit_code == 2
    assert f"{config}:1:2: ledgr: no key `ledgr` is known here (did you mean `ledger`?)\n" in done.output


def test_whoever_is_asked_by_a_gateway_is_told_the_file_where_its_ledger_has_keys() -> None:
    assert _ledger_option("sqlite:////a/l.db", Path("/a {b}/gateway.yaml")) == " --config '/a {{b}}/gateway.yaml'"
    assert _ledger_option("sqlite:////a/l.db") == " --ledger /a/l.db"


def test_what_people_are_told_to_type_leads_back_to_the_same_ledger(
    made: tuple[Path, dict[str, str]], config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    packet = json.loads(run(tmp_path, "packet", made[1][ASKED], "--json", "--config", config.name).stdout)
    monkeypatch.chdir("/")
    rejecting = next(one["command"] for one in packet["options"] if " reject " in one["command"])
    assert "Rejected." in run(tmp_path, *shlex.split(rejecting)[1:]).stdout
    stopped = run(tmp_path, "stop", "--all", "-m", "mad", "--config", str(config)).stdout
    assert f"--reason … --config {config}`" in stopped
    listed = run(tmp_path, "approvals", "list", "--config", str(config), "--all").stdout
    assert f"Add `--config {config}` to each." in listed
    assert f" --config {config}" in run(tmp_path, "show", "last", "--html", "--config", str(config)).stdout
    beside = run(tmp_path, "stops", "--config", str(config), "--ledger", str(tmp_path / "mine.db")).stdout
    assert f" --ledger {tmp_path / 'mine.db'} --config {config}`" in beside
