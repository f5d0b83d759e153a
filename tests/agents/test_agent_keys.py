"""Keys of agents: what the file keeps of them, and what becomes of them when it changes."""

import hashlib
import json
import logging
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gateway.cli.commands import app
from gateway.model.principal import Principal
from gateway.outbound.agent_keys import LOOK_S, AgentKeys, NewKey, load_keys, new_key
from gateway.outbound.oidc.claims import NotLetIn
from gateway.outbound.yaml_files import Problems
from tests.inbound.fake_gate import T0, ToldClock


def made(id_: str = "ci-1", **more: Any) -> NewKey:
    said: dict[str, Any] = {"principal": "ci", "tenant": "acme", "roles": ("dev",), "scopes": (), "expires": T0 + 60}
    return new_key(id_=id_, **{**said, **more})


def written(file: Path, *keys: NewKey) -> Path:
    lines = [f"  - {key.entry.model_dump_json()}\n" for key in keys]
    file.write_text(f"keys:\n{''.join(lines)}" if keys else "keys: []\n")
    return file


class Gateway:
    """What one knows of a file, as its clock goes on."""

    def __init__(self, file: Path) -> None:
        self.clock = ToldClock()
        self.keys = AgentKeys(file, self.clock.monotonic)

    def knows(self, key: NewKey, now: float = T0) -> Principal | str:
        try:
            return self.keys.holder(key.text, now)
        except NotLetIn as error:
            return str(error)

    def look(self) -> None:
        """A second goes by, and somebody asks."""
        self.clock.tell(LOOK_S)
        self.knows(made("nobody"))


CI = Principal("ci", "acme", frozenset({"dev"}))
NONE = "this gateway knows no such key"


def test_of_a_key_only_a_digest_is_kept() -> None:
    key = made()
    assert re.fullmatch(r"cfk_ci-1_[A-Za-z0-9_-]{43}", key.text)
    assert key.entry.hash == f"sha256:{hashlib.sha256(key.text.encode()).hexdigest()}"
    assert key.text not in repr(key)
    assert made().text != key.text


def test_a_key_is_good_until_its_end(tmp_path: Path) -> None:
    key = made()
    gateway = Gateway(written(tmp_path / "keys.yaml", key))
    assert gateway.knows(key, T0 + 59) == CI
    assert gateway.knows(key, T0 + 60) == "the key `ci-1` has expired"
    assert gateway.knows(made(), T0) == NONE
    assert gateway.knows(made("ci-2"), T0) == NONE
    assert gateway.knows(NewKey(key.text + "A" * 1000, key.entry), T0) == NONE


def test_a_key_is_rotated_without_a_moment_in_which_none_is_good(tmp_path: Path) -> None:
    old, new = made("ci-1"), made("ci-2", expires=T0 + 600)
    gateway = Gateway(written(tmp_path / "keys.yaml", old))
    written(tmp_path / "keys.yaml", old, new)
    gateway.look()
    assert (gateway.knows(old), gateway.knows(new)) == (CI, CI)
    written(tmp_path / "keys.yaml", new)
    assert gateway.knows(old) == CI
    gateway.clock.tell(LOOK_S)  # and it is the first that is asked for since: nobody else had the file read
    assert (gateway.knows(old), gateway.knows(new)) == (NONE, CI)


def test_a_file_that_is_wrong_or_gone_changes_nothing_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key, file = made(), tmp_path / "keys.yaml"
    gateway = Gateway(written(file, key))
    caplog.set_level(logging.INFO, "counterfoil.agents")
    file.write_text("keys: [{id: broken}]\n")
    for _ in range(3):
        gateway.look()
    assert gateway.knows(key) == CI
    assert "keys.0: the key `hash` is missing" in caplog.text
    assert caplog.text.count("are not in force") == 1
    file.unlink()
    for _ in range(3):
        gateway.look()
    assert gateway.knows(key) == CI
    assert key.text not in caplog.text
    written(file)
    gateway.look()
    assert gateway.knows(key) == NONE
    assert "keys taken anew: none" in caplog.text


def entry(**more: Any) -> dict[str, Any]:
    return {**made().entry.model_dump(mode="json"), **more}


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ([entry(), entry()], "`ci-1` names two keys"),
        ([entry(principal="anonymous")], "whoever shows a key is not `anonymous`"),
        ([entry(hash="sha256:abc")], "`sha256:` and 64 hex digits, as `counterfoil keys new` prints them, is wanted"),
        ([entry(id="Ci")], "a name of small letters, digits and `-` is wanted"),
        ([entry(expires="tomorrow")], "expires"),
        ([entry(expires="2027-01-01T00:00:00")], "expires"),
        ([entry(salt="x")], "no key `salt` is known here"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_place(tmp_path: Path, keys: list[Any], why: str) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text(json.dumps({"keys": keys}))
    with pytest.raises(Problems) as refused:
        load_keys(file)
    assert why in str(refused.value)


# --- the command ------------------------------------------------------------------------------------------------------


def ran(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["keys", *arguments])
    return done.exit_code, done.stdout, done.stderr


def test_what_the_command_prints_goes_into_the_file_as_it_is(tmp_path: Path) -> None:
    code, key, said = ran(
        "new", "--principal", "ci", "--tenant", "acme", "--role", "dev", "--for", "1h", "--id", "ci-7"
    )
    assert code == 0
    file = tmp_path / "keys.yaml"
    file.write_text("keys:\n" + said.splitlines()[-1] + "\n")
    assert AgentKeys(file, ToldClock().monotonic).holder(key.strip(), datetime.now(UTC).timestamp()) == CI
    assert key.strip() not in said
    code, listed, _ = ran("list", str(file))
    assert (code, re.sub(r"until \S+", "until …", listed)) == (0, "ci-7  acme/ci  until …  role dev\n")


def test_a_key_is_called_after_its_principal_and_the_day() -> None:
    code, key, _ = ran("new", "--principal", "Build Bot (CI)!")
    assert code == 0
    assert re.match(r"cfk_build-bot-ci-20\d{6}_", key)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("new", "--principal", "ci", "--id", "C I"), "`C I` is no name of a key"),
        (("new", "--principal", "anonymous"), "whoever shows a key is not `anonymous`"),
        (("new", "--principal", "c" * 300), "names of one to 256 characters are wanted"),
        (("new", "--principal", "ci", "--for", "soon"), "`soon` is no duration"),
        (("list", "/nonexistent.yaml"), "/nonexistent.yaml:1:1: "),
    ],
)
def test_what_the_command_cannot_do_it_says_in_a_line(arguments: tuple[str, ...], why: str) -> None:
    code, printed, said = ran(*arguments)
    assert (code, printed) == (2, "")
    assert why in said
