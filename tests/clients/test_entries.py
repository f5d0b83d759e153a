"""One server of a client -> one of `gateway.yaml`, or the reason why it stays where it is."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.outbound.clients import jsonc
from gateway.outbound.clients.entries import server_of
from gateway.outbound.clients.sheet import Unusable
from gateway.outbound.clients.table import client_named
from gateway.outbound.clients.variables import CannotSay
from gateway.outbound.references import MAX_FILE_BYTES, expand
from tests.clients.machine import a_machine, config_of, furnish, planned

STDIO = {"command": "x"}
HTTP = {"url": "https://h/mcp"}


@pytest.mark.parametrize(
    ("client", "entry", "why"),
    [
        ("zed", "x", "it is no mapping of keys to values"),
        ("zed", {"command": {"path": "x"}}, "`command` is no text"),
        ("zed", {}, "say `command`, to start a server, or `url`, to reach one"),
        ("zed", {**STDIO, **HTTP}, "`url` and `command` exclude each other"),
        ("zed", {**STDIO, "args": "y"}, "`args` is no list"),
        ("zed", {**STDIO, "args": [1]}, "`args.0` is no text"),
        ("zed", {**STDIO, "env": []}, "`env` is no mapping of names to texts"),
        ("zed", {**STDIO, "env": {"PIN": 1234}}, "`env.PIN` is no text"),
        ("zed", {**STDIO, "env": {"A": "\ud800"}}, "the text holds half of a surrogate pair"),
        ("zed", {**STDIO, "args": ["\0"]}, "`args` holds a text that is too long, or a NUL character"),
        ("zed", {**STDIO, "args": ["x" * MAX_FILE_BYTES]}, "`args` holds a text that is too long, or a NUL character"),
        ("zed", {**STDIO, "enabled": False}, "it is switched off there"),
        ("zed", {**STDIO, "cwd": "here"}, "`cwd` is relative, and to what depends on the window"),
        ("zed", {"url": "ftp://h"}, "its address does not begin with `http://` or `https://`"),
        ("zed", {**HTTP, "headers": {"A": "b\nc"}}, "the header `A` is more than one line"),
        ("zed", {**HTTP, "headersHelper": "x"}, "`headersHelper`: the gateway knows nothing like it"),
        ("cursor", {**HTTP, "type": 1}, "`type` is no text"),
        ("claude-code", {**STDIO, "env": {"T": "${T:-ghp_0123456789abcdef}"}},
         "the default of `T` may be a secret; set the variable instead"),
        ("codex", {**STDIO, "env_vars": [{"name": "x"}]}, "`env_vars` is no list of names"),
        ("codex", {**HTTP, "enabled_tools": []}, "`enabled_tools`: which tools may be used is for the policy to say"),
        ("codex", {**HTTP, "env_http_headers": 1}, "`env_http_headers` is no mapping of names to texts"),
        ("codex", {**HTTP, "http_headers_helper": "x"}, "`http_headers_helper`: the gateway knows nothing like it"),
    ],
)  # fmt: skip
def test_what_the_gateway_could_not_serve_alike_is_left(client: str, entry: Any, why: str) -> None:
    with pytest.raises(CannotSay) as caught:
        server_of(entry, client_named(client), None)
    assert str(caught.value) == why


def test_a_type_that_the_gateway_does_not_speak_is_left_with_its_own_words() -> None:
    with pytest.raises(CannotSay, match=r"`http`"):
        server_of({**HTTP, "type": "ws"}, client_named("cursor"), None)


@pytest.mark.parametrize("kind", ["http", "streamable-http", "streamableHttp"])
def test_every_spelling_of_streamable_http_is_one(kind: str) -> None:
    server = server_of({**HTTP, "type": kind}, client_named("gemini"), None)
    assert server.entry("n", "s") == ({"url": "https://h/mcp"}, {})


def test_relative_programs_of_a_project_are_started_in_it() -> None:
    for entry in ({"command": "./x"}, {"command": "x", "args": ["../y"]}, {"command": "x", "args": ["."]}):
        server = server_of(entry, client_named("cursor"), Path("/p"))
        assert server.entry("n", "s")[0]["cwd"] == "/p"
    assert "cwd" not in server_of({"command": "x"}, client_named("cursor"), Path("/p")).entry("n", "s")[0]
    given = server_of({"command": "./x", "cwd": "sub"}, client_named("cursor"), Path("/p"))
    assert given.entry("n", "s")[0]["cwd"] == "/p/sub"


def test_a_secret_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    secrets = {"A_TOKEN": "ends\n\n", "B/TOKEN": "plain", "C_TOKEN": "ü\ttab"}
    entry, files = server_of({**STDIO, "env": secrets}, client_named("zed"), None).entry("n", "s")
    (tmp_path / "s").mkdir()
    for name, body in files.items():
        (tmp_path / "s" / name).write_text(body)
    assert {key: expand(value, {}, tmp_path) for key, value in entry["env"].items()} == secrets
    assert list(files) == ["n.env.A_TOKEN", "n.env.B_TOKEN", "n.env.C_TOKEN"]


@pytest.mark.parametrize("own", ['mcp_servers = {a = {command = "x"}}', '[mcp_servers]\na = {command = "x"}',
                                 'mcp_servers.a.command = "x"', '[mcp_servers]\na.command = "x"'])  # fmt: skip
def test_a_server_that_is_no_table_of_its_own_is_left_with_how_to_write_it(own: str, tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    file = machine.project / ".codex" / "config.toml"
    file.parent.mkdir()
    file.write_text(own)
    made = planned(machine)
    assert made.changes == []
    hint = "it is no table of its own; write it as `[mcp_servers.a]`"
    assert made.notes == [f"{file}: `a` is left with Codex: {hint}"]


def test_secrets_that_are_there_are_neither_written_over_nor_followed_elsewhere(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    furnish(machine, "zed")
    folder = machine.project / "gateway.secrets"
    folder.mkdir()
    (folder / "tickets.args.1").write_text("another\n")
    added = [change.path.name for change in planned(machine).changes]
    assert added[:2] == ["tickets-zed.args.1", "wiki.headers.Authorization"]
    (folder / "tickets.args.1").unlink()
    folder.rmdir()
    folder.symlink_to(tmp_path)
    with pytest.raises(Unusable, match="is to hold secrets, and is no folder; move it away"):
        planned(machine)


def test_an_edit_that_did_more_than_it_should_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = a_machine(tmp_path)
    furnish(machine, "zed")
    monkeypatch.setattr(jsonc.JsonSheet, "moved", lambda *_: "{}")
    with pytest.raises(Unusable, match="is written in a way that init cannot change safely"):
        planned(machine)


def test_how_an_editor_asks_is_kept_when_servers_are_added_later(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    file = machine.project / ".vscode" / "mcp.json"
    file.parent.mkdir()
    ours = {"command": "counterfoil", "env": {"INPUT_A": "${input:a}"}}
    file.write_text(json.dumps({"servers": {"counterfoil": ours, "new": {"command": "new"}}}))
    config_of(machine).write_text("mcpServers: {a: {command: a, env: {A: '${INPUT_A:-}', B: '${B}'}}}\n")
    after = next(change.after for change in planned(machine).changes if change.path == file)
    assert after is not None
    assert json.loads(after)["servers"]["counterfoil"]["env"] == {"INPUT_A": "${input:a}", "B": "${env:B}"}
