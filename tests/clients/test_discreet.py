"""What is taken for a secret, and what of a file is shown."""

import time

import pytest

from gateway.outbound.clients import jsonc, toml_tables
from gateway.outbound.clients.discreet import is_secret, shown
from gateway.outbound.clients.gateway_file import texts_of


@pytest.mark.parametrize(
    ("place", "text", "before"),
    [
        (("headers", "X-Anything"), "abc", ""),
        (("headers", "Authorization"), "Bearer abc", ""),
        (("env", "GITHUB_TOKEN"), "x", ""),
        (("env", "OPENAI_API_KEY"), "x", ""),
        (("env", "DB"), "postgres://u:p@host/db", ""),
        (("env", "PGPASSWORD"), "p", ""),
        (("env", "SOME"), "ghp_0123456789abcdefghij", ""),
        (("args", 1), "x", "--api-key"),
        (("args", 1), "--token=x", ""),
        (("args", 1), "Authorization: Bearer x", "--header"),
        (("args", 1), "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", ""),
        (("url",), "https://host/mcp?api_key=abc", ""),
        (("url",), "https://host/s/ZDc0YjQ3ODItYzM0Ni00/mcp", ""),
        (("url",), "https://user:word@host/mcp", ""),
    ],
)
def test_these_are_kept_out_of_readable_files(place: tuple[str | int, ...], text: str, before: str) -> None:
    assert is_secret(place, text, before)


@pytest.mark.parametrize(
    ("place", "text", "before"),
    [
        (("headers", "Authorization"), "Bearer ", ""),
        (("headers", "Accept"), "text/plain", ""),
        (("env", "LOG_LEVEL"), "debug", ""),
        (("env", "GIT_AUTHOR_NAME"), "Anna", ""),
        (("env", "DB"), "sqlite:///x.db", ""),
        (("args", 1), "@modelcontextprotocol/server-filesystem", "-y"),
        (("args", 1), "mcp-server-git==2026.10.19", ""),
        (("args", 1), "/home/anna/Documents", ""),
        (("url",), "https://api.githubcopilot.com/mcp/", ""),
        (("url",), "http://127.0.0.1:8080/mcp", ""),
        (("args", 1), "", "--token"),
    ],
)
def test_these_are_not(place: tuple[str | int, ...], text: str, before: str) -> None:
    assert not is_secret(place, text, before)


@pytest.mark.parametrize("piece", ["x", "token", "a=", "${", "://", "key: ", "token=", "A1", '"', " = "])
def test_a_long_text_costs_no_more_than_its_length(piece: str) -> None:
    begun = time.process_time()
    is_secret(("args", 0), piece * 30_000)
    assert time.process_time() - begun < 5  # a backtracking pattern took hours


def test_of_a_json_file_only_what_cannot_be_a_secret_is_shown() -> None:
    source = """{ // password: hunter2
  "a": "S1", "url": "https://h/mcp?token=S2", "args": ["--token", "S3", "plain"], /* sk-abcdefgh12345 */
  "env": {"command": "S4", "B": "${B}", "C": "${C:-S5}"}, "n": 1, "headers": {"A": "Bearer ${env:X}"}, "command": "x"
}"""
    assert (
        shown(source, jsonc.read(source).texts)
        == """{ // password: •••
  "a": "•••", "url": "•••", "args": ["--token", "•••", "plain"], /* ••• */
  "env": {"command": "•••", "B": "${B}", "C": "•••"}, "n": 1, "headers": {"A": "Bearer ${env:X}"}, "command": "x"
}"""
    )


def test_of_a_toml_file_too() -> None:
    source = (
        'a = "S1" # key = S2\n[mcp_servers.x]\ncommand = "x"\nenv = { K = "S3" }\nhttp_headers = {"A b" = \'S4\'}\n'
    )
    assert shown(source, toml_tables.read(source).texts) == (
        'a = "•••" # key = •••\n[mcp_servers.x]\ncommand = "x"\nenv = { K = "•••" }\nhttp_headers = {"A b" = "•••"}\n'
    )


def test_of_a_configuration_of_the_gateway_too() -> None:
    source = "run_tokens: {key: S1}\nledger: l.db\nmcpServers:\n  a:\n    command: x\n    env: {K: S2, L: '${L}'}\n"
    assert shown(source, texts_of(source)) == (
        'run_tokens: {key: "•••"}\nledger: l.db\nmcpServers:\n  a:\n    command: x\n    env: {K: "•••", L: \'${L}\'}\n'
    )
