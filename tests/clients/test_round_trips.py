"""Files in any formatting: what is not meant stays as it is, byte for byte, and undo gives everything back."""

import json
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.outbound.clients import changes, jsonc, toml_tables
from gateway.outbound.clients.importing import undoing
from tests.clients.machine import a_machine, config_of, done, planned, records_of

NAMES = st.sampled_from(["time", "My Server", "counter", "c", "ü", "off", "a.b", "ws"])
BLANK = st.sampled_from(["", " ", "\n", "\t", "\n    ", ' // it\'s a "comment" {\n', "/* } */", "\r\n  "])
ENTRIES: dict[str, dict[str, Any]] = {
    "off": {"command": "x", "disabled": True},
    "ws": {"type": "ws", "url": "https://a/b"},
}
"""What stays with the client; all others move."""


@st.composite
def json_files(draw: st.DrawFn) -> str:
    """A file with servers in an unusual but allowed form."""
    trailing = draw(st.booleans())

    def blank() -> str:
        return draw(BLANK)

    def listed(items: list[str], brackets: str) -> str:
        comma = f"{blank()}," if trailing and items else ""
        return f"{brackets[0]}{blank()}{f'{blank()},{blank()}'.join(items)}{comma}{blank()}{brackets[1]}"

    def written(value: Any) -> str:
        match value:
            case dict():
                return listed(
                    [f"{json.dumps(key)}{blank()}:{blank()}{written(item)}" for key, item in value.items()], "{}"
                )
            case list():
                return listed([written(item) for item in value], "[]")
            case _:
                return json.dumps(value, ensure_ascii=draw(st.booleans()))

    servers = {
        name: ENTRIES.get(name, {"command": f"run {name}", "args": ["}", '\\"', "𝄞"]})
        for name in draw(st.lists(NAMES, unique=True, max_size=6))
    }
    others: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
        st.sampled_from(["theme", "a", "mcp"]), st.sampled_from([1.0, None, [{}], "// no", [1, []]])
    )
    whole = {**draw(others), "mcpServers": servers, **{f"{key}2": value for key, value in draw(others).items()}}
    text = f"{blank()}{written(whole)}{blank()}"
    if draw(st.booleans()):
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    return ("\ufeff" if draw(st.booleans()) else "") + text


@settings(max_examples=30, deadline=None)
@given(json_files())
def test_a_json_file_is_changed_only_among_its_servers_and_given_back(source: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        machine = a_machine(Path(folder))
        file = machine.project / ".mcp.json"
        file.write_bytes(source.encode())
        before = jsonc.read(source)
        servers = before.value["mcpServers"]
        moving = [name for name in servers if name not in ENTRIES]
        done(machine)
        after = file.read_bytes().decode()
        if not moving:
            assert after == source
            return
        place = before.members[()]["mcpServers"]
        tail = len(source) - place.end
        assert after[: place.value_start] == source[: place.value_start]
        assert after[len(after) - tail :] == source[place.end :]
        assert list(jsonc.read(after).value["mcpServers"]) == [
            "counterfoil" if name == moving[-1] else name for name in servers if name not in moving[:-1]
        ]
        assert comments(after) == comments(source)
        assert planned(machine).changes == []
        changes.take_back([one.change for one in undoing(records_of(machine))], records_of(machine))
        assert file.read_bytes() == source.encode()
        assert not config_of(machine).exists()


def comments(source: str) -> int:
    """Of those outside the servers' own entries."""
    sheet = jsonc.read(source)
    for member in sorted(sheet.members["mcpServers",].values(), reverse=True, key=lambda one: one.start):
        source = source[: member.start] + source[member.end :]
    return source.count("/* } */") + source.count("// it's")


SPACE = st.sampled_from(["", "\n", "# a [comment]\n", "\n\n", "  # 'more'\n"])


@st.composite
def toml_files(draw: st.DrawFn) -> str:
    """A file with servers as tables, in an unusual but allowed form."""
    text = draw(SPACE) + 'model = "o3" # [mcp_servers.none]\n' + draw(SPACE)
    for name in draw(st.lists(st.sampled_from(["time", '"My Server"', "'x.y'", "off", "z"]), unique=True, max_size=4)):
        text += (
            draw(st.sampled_from([f"[mcp_servers.{name}]", f" [ mcp_servers . {name} ] # head"])) + "\n" + draw(SPACE)
        )
        text += draw(st.sampled_from(['command = "run"', "command='run' # [x]", 'command = """\\\n  run"""'])) + "\n"
        text += draw(SPACE)
        text += draw(st.sampled_from(['args = [\n "]", # [\n  "[a]",\n]\n', "args = ['''\n[b]\n''']\n", ""]))
        text += "enabled = false\n" if name == "off" else ""
        if draw(st.booleans()):
            text += draw(SPACE) + f'[mcp_servers.{name}.env]\nA = "\'"\n'
        if draw(st.booleans()):
            text += draw(SPACE) + f"[other.{name}]\nk = 1\n"
    text += draw(st.sampled_from(["", "[[last]]\na = {b = [1, 2]}", "[last]\na = 1 # end"]))
    return text.replace("\n", "\r\n") if draw(st.booleans()) else text


@settings(max_examples=30, deadline=None)
@given(toml_files())
def test_a_toml_file_loses_only_the_tables_of_its_servers_and_is_given_back(source: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        machine = a_machine(Path(folder))
        file = machine.project / ".codex" / "config.toml"
        file.parent.mkdir()
        file.write_bytes(source.encode())
        before = tomllib.loads(source.replace("\r\n", "\n"))
        moving = {name for name in before.get("mcp_servers", {}) if name != "off"}
        done(machine)
        after = tomllib.loads(file.read_bytes().decode().replace("\r\n", "\n"))
        if moving:
            assert {*before["mcp_servers"]} - moving | {"counterfoil"} == after["mcp_servers"].keys()
            assert planned(machine).changes == []
        changes.take_back([one.change for one in undoing(records_of(machine))], records_of(machine))
        assert file.read_bytes() == source.encode()
        for text in toml_tables.read(source).texts:
            written = source[text.start : text.end].replace("\r\n", "\n")
            assert tomllib.loads(f"a = {written}")["a"] == text.value
