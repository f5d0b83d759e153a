"""Every client's real-looking files, through init and back."""

import json
import stat
from pathlib import Path

import pytest

from gateway.outbound.clients import changes
from gateway.outbound.clients.gateway_file import fitting
from gateway.outbound.clients.importing import shown_as, undoing
from gateway.outbound.clients.sheet import Unusable
from gateway.settings import HttpUpstream, StdioUpstream, load_settings
from tests.clients.machine import FILES, SECRETS, a_machine, config_of, done, furnish, planned, records_of, tree

ENVIRON = {name: f"value-of-{name}" for name in ("GITHUB_TOKEN", "GIT_TOKEN", "DOCS_KEY", "DOCS_TOKEN", "DOCS_USER",
                                                  "JIRA_TOKEN", "JIRA_SITE", "REMOTE_TOKEN", "HOME")}  # fmt: skip


def expected(name: str) -> str:
    return (Path(__file__).parent / "expected" / name).read_bytes().decode()


def test_every_server_that_the_gateway_can_serve_stands_in_its_file_once(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    furnish(machine)
    done(machine)
    assert config_of(machine).read_text().replace(str(machine.project), "PROJECT") == expected("gateway.yaml")


def test_what_moves_and_what_is_left_is_said_with_its_reason(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    furnish(machine)
    notes = "".join(f"{note}\n" for note in planned(machine).notes)
    assert notes.replace(str(machine.project), "PROJECT").replace(str(machine.home), "~") == expected("notes.txt")


@pytest.mark.parametrize("name", ["cursor.user.json", "codex.user.toml", "zed.user.json", "vscode.project.json"])
def test_a_clients_file_keeps_all_but_the_servers_that_moved(name: str, tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    furnish(machine, name.partition(".")[0])
    source = (FILES / name).read_bytes()
    (found,) = [change for change in planned(machine, name.partition(".")[0]).changes if change.before == source]
    assert found.after is not None
    assert found.after.decode() == expected(name)


def test_the_made_file_is_one_that_serve_takes(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    furnish(machine)
    done(machine)
    made = config_of(machine)
    made.write_text(made.read_text().replace("/run/secrets/local", str(tmp_path / "local")))
    (tmp_path / "local").write_text("from-a-file\n")
    upstreams = {one.name: one for one in load_settings(made, ENVIRON).upstreams}
    postgres, desktop, tickets, git = (
        upstreams[name] for name in ("postgres-prod", "brave-search", "tickets", "my-git")
    )
    assert isinstance(postgres, StdioUpstream)
    assert postgres.args[-1] == "postgresql://app:hunter2hunter2@db.internal/app"
    assert isinstance(desktop, StdioUpstream)
    assert {name: value.get_secret_value() for name, value in desktop.env.items()} == {
        "BRAVE_API_KEY": "BSA-NEVERSHOWN",
        "NOTE": "costs ${5}",
    }
    assert isinstance(tickets, StdioUpstream)
    assert tickets.args == ("--password", "NEVERSHOWN")
    assert isinstance(git, StdioUpstream)
    assert git.env["GIT_PASSWORD"].get_secret_value() == "NEVERSHOWN\n[mcp_servers.no]\n"
    docs, local = upstreams["docs"], upstreams["local"]
    assert isinstance(docs, HttpUpstream)
    assert docs.headers["X-Api-Key"].get_secret_value() == "value-of-DOCS_KEY"
    assert isinstance(local, StdioUpstream)
    assert local.env["LOCAL_SECRET"].get_secret_value() == "from-a-file"


def test_no_secret_is_shown_or_stands_in_a_file_that_had_none(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    furnish(machine)
    made = planned(machine)
    shown = [*made.notes]
    for change in made.changes:
        if change.path.parent.suffix != ".secrets":
            shown += [shown_as(change.before, change.path), shown_as(change.after, change.path)]
    assert [line for line in shown if any(secret in line for secret in SECRETS)] == []
    yaml = next(change for change in made.changes if change.path == config_of(machine))
    assert yaml.after is not None
    assert not any(secret.encode() in yaml.after for secret in SECRETS)
    changes.apply(made.changes, records_of(machine))
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in machine.project.rglob("gateway*/**/*")}
    modes[config_of(machine)] = stat.S_IMODE(config_of(machine).stat().st_mode)
    modes |= {path: stat.S_IMODE(path.stat().st_mode) for path in records_of(machine).rglob("*") if path.is_file()}
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE((machine.project / "gateway.secrets").stat().st_mode) == 0o700
    assert stat.S_IMODE((machine.project / ".mcp.json").stat().st_mode) == 0o640


def test_undo_gives_every_byte_back_and_leaves_nothing(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    furnish(machine)
    before = tree(tmp_path)
    done(machine)
    assert tree(tmp_path) != before
    changes.take_back([one.change for one in undoing(records_of(machine))], records_of(machine))
    assert tree(tmp_path) == before
    assert not (machine.project / "gateway.secrets").exists()
    assert undoing(records_of(machine)) == []


def test_a_second_init_changes_nothing_and_the_gateway_is_never_behind_itself(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    furnish(machine)
    done(machine)
    assert planned(machine).changes == []


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "/usr/bin/counterfoil", "args": ["serve", "--config", "x"]},
        {"command": "uvx", "args": ["counterfoil", "wrap", "--", "x"]},
        {"command": "python", "args": ["-m", "gateway", "wrap"]},
        {"command": "C:/bin/counterfoil.exe"},
        {"url": "http://localhost:8321/mcp"},
        {"url": "http://127.0.0.1:8321/runs/x/mcp"},
    ],
)
def test_a_gateway_under_another_name_is_known_for_one(entry: dict[str, object], tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    (machine.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"gw": entry}}))
    assert planned(machine).changes == []


def test_servers_that_come_later_join_those_that_are_there(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    before = furnish(machine, "cursor")
    done(machine, "cursor")
    first = config_of(machine).read_text()
    laid = furnish(machine, "claude-desktop", "vscode")
    done(machine)
    assert set(first.splitlines()) < set(config_of(machine).read_text().splitlines())
    assert config_of(machine).read_text().count("server-filesystem") == 1  # Claude Desktop has the same as Cursor
    cursor = machine.home / ".cursor" / "mcp.json"
    mine = b'    "new": {"command": "new"},\r\n    "counterfoil": {'
    cursor.write_bytes(cursor.read_bytes().replace(b'    "counterfoil": {', mine))
    done(machine)
    assert b'"new"' not in cursor.read_bytes()
    assert cursor.read_bytes().count(b'"counterfoil"') == 1
    assert '  new:\n    command: "new"\n' in config_of(machine).read_text()
    taken = undoing(records_of(machine))
    assert [one.change.path for one in taken if one.lost is not None] == []
    changes.take_back([one.change for one in taken], records_of(machine))
    assert {path: path.read_bytes() for path in laid} == laid
    assert cursor.read_bytes() == before.pop(cursor).replace(
        b'    "docs"', b'    "new": {"command": "new"},\r\n    "docs"'
    )
    assert {path: path.read_bytes() for path in before} == before


def test_two_clients_with_two_servers_of_one_name_have_both(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    for folder, command in ((".cursor", "one"), (".vscode", "two")):
        (machine.project / folder).mkdir()
        root = "mcpServers" if folder == ".cursor" else "servers"
        (machine.project / folder / "mcp.json").write_text(json.dumps({root: {"My Server": {"command": command}}}))
    (machine.project / ".mcp.json").write_text(json.dumps({"mcpServers": {"my_server": {"command": "three"}}}))
    done(machine)
    assert config_of(machine).read_text().splitlines()[3:] == [
        "  my-server:",
        '    command: "three"',
        "  my-server-cursor:",
        '    command: "one"',
        "  my-server-vscode:",
        '    command: "two"',
    ]


def test_a_configuration_of_ones_own_is_added_to_and_given_back(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    furnish(machine, "vscode")
    for own in (
        "listen: {port: 1}\r\nmcpServers:\r\n    # mine\r\n    time: {command: other}\r\nledger: l.db\r\n",
        "mcpServers: {time: {command: other}}\n",
        "mcpServers: {}\n",
        "upstreams:\n  time: {command: other, env: {A_TOKEN: NEVERSHOWN}}",
    ):
        config_of(machine).write_bytes(own.encode())
        config_of(machine).chmod(0o644)
        made = done(machine, "vscode")
        names = {one.name for one in load_settings(config_of(machine), ENVIRON).upstreams}
        assert {"perplexity", "time"} <= names
        assert ("time-vscode" in names) == ("other" in own)
        assert stat.S_IMODE(config_of(machine).stat().st_mode) == 0o644
        shown = [shown_as(change.after, change.path) for change in made.changes]
        assert not any("NEVERSHOWN" in text for text in shown)
        changes.take_back([one.change for one in undoing(records_of(machine))], records_of(machine))
        assert config_of(machine).read_bytes() == own.encode()


@pytest.mark.parametrize("own", ["{mcpServers: ", "- a\n", "mcpServers:\n", "{ledger: x}\n", "a: 1\na: 2\n"])
def test_a_configuration_that_cannot_be_added_to_is_said_and_nothing_is_planned(own: str, tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    furnish(machine, "vscode")
    config_of(machine).write_text(own)
    with pytest.raises(Unusable):
        planned(machine)


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (".mcp.json", b'{"mcpServers": {"a": }}', "PROJECT/.mcp.json:1:22: a value is wanted; mend that"),
        (".mcp.json", b'{"a": 1}\n{"b": 1}', "PROJECT/.mcp.json:2:1: nothing may stand behind the value; mend that"),
        (".mcp.json", b'{"a": 1, "a": 2}', "PROJECT/.mcp.json:1:10: the key `a` stands twice in one object; mend that"),
        (
            ".mcp.json",
            b'{"a": "\\x"}',
            "PROJECT/.mcp.json:1:7: the text holds an escape that JSON does not know; mend that",
        ),
        (".mcp.json", b"[" * 200, "PROJECT/.mcp.json:1:102: is nested deeper than 100 levels; mend that"),
        (".mcp.json", b"\xff\xfe", "`PROJECT/.mcp.json` is not UTF-8; save it as UTF-8"),
        (".codex/config.toml", b"a = ", "PROJECT/.codex/config.toml: invalid value (at end of document); mend that"),
        (".mcp.json", None, "`PROJECT/.mcp.json` is no plain file; move it away"),
    ],
)
def test_a_file_that_cannot_be_used_is_said_in_one_line(
    path: str, body: bytes | None, message: str, tmp_path: Path
) -> None:
    machine = a_machine(tmp_path)
    file = machine.project / path
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(body) if body is not None else file.mkdir()
    with pytest.raises(Unusable) as caught:
        planned(machine)
    said = str(caught.value).replace(str(machine.project), "PROJECT")
    assert said == f"{message}, or leave its client out"


def test_a_symbolic_link_is_not_replaced(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    furnish(machine, "claude-code")
    file = machine.project / ".mcp.json"
    file.rename(tmp_path / "real")
    file.symlink_to(tmp_path / "real")
    with pytest.raises(Unusable, match="is a symbolic link"):
        planned(machine)


def test_an_unreadable_file_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = a_machine(tmp_path)
    furnish(machine, "claude-code")

    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refused)  # root, as which tests may run, can read every file
    with pytest.raises(Unusable, match=r"cannot be read \(permission denied\); mend that, or leave its client out"):
        planned(machine)


def test_an_empty_file_has_no_servers(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    (machine.project / ".mcp.json").write_text("")
    assert planned(machine).changes == []


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("gateway", "the-gateway"),
        ("Gateway", "the-gateway"),
        ("gateway__x", "gateway-x"),
        ("gateways", "gateways"),
        ("my gateway", "my-gateway"),
        ("gateway!", "the-gateway"),
    ],
)
def test_no_server_gets_the_name_that_begins_the_gateways_own_tools(name: str, given: str) -> None:
    assert fitting(name) == given
