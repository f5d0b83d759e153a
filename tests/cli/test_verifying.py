"""Verifiers of every kind behind `wrap` and `serve`: what a server says is not believed, and no secret is recorded."""

import asyncio
import json
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.agents import counterfoil, ledger_of, run

pytestmark = pytest.mark.anyio

TOKEN = "t0k3n-which-nobody-may-see"  # noqa: S105 - what must never be recorded

TEST = """
import json, os, pathlib
def test_the_money_has_moved():
    print("token", os.environ.get("BANK_TOKEN"))
    lines = pathlib.Path("effects.log").read_text().splitlines()
    assert any(json.loads(line)["to"] == "command" for line in lines)
"""

KINDS = ("command", "http", "sql", "file", "result")


def policy(python: str) -> dict[str, Any]:
    """Transfers to `command` are verified by a command, and so on."""
    pytest_ = [python, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "--junitxml=report.xml"]
    verifiers: dict[str, Any] = {
        "command": {"command": {"place": "bank", "run": pytest_, "junit": "report.xml", "inputs": ["*.py"]}},
        "http": {
            "http": {"place": "status", "path_from": "['transfers', args.to]"},
            "pass": ["result.json.amounts.exists(one, one == args.amount)"],
        },
        "sql": {
            "sql": {
                "place": "books",
                "query": "select total from t where who = :who",
                "parameters_from": {"who": "args.to"},
            },
            "pass": ["result.rows[0].total >= args.amount"],
        },
        "file": {"file": {"place": "bank", "path": "effects.log"}, "pass": ["result.size > 0"]},
        "result": {"result": {}, "pass": ["result.structuredContent.amount == args.amount"]},
    }
    return {
        "workflow": "bank",
        "verifiers": verifiers,
        "transitions": [
            {"name": f"by-{kind}", "tools": ["*transfer*"], "when": [f"args.to == '{kind}'"], "verify": kind}
            for kind in KINDS
        ],
    }


class Bank:
    """A folder with an effect log and a test, a database, and a status page at an address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "bank"
        self.folder.mkdir()
        (self.folder / "test_bank.py").write_text(TEST)
        self.log = self.folder / "effects.log"
        self.books = folder / "books.db"
        with sqlite3.connect(self.books) as made:
            made.executescript("create table t (who text, total int); insert into t values ('sql', 5);")
        made.close()
        self.policy = folder / "policy.yaml"
        self.policy.write_text(json.dumps(policy(sys.executable)))
        self.port = 0
        self.authorized: set[str] = set()

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.authorized |= {line for line in head.splitlines() if line.lower().startswith("authorization")}
        who = head.split()[1].rpartition("/")[2]
        done = [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []
        body = json.dumps({"amounts": [one["amount"] for one in done if one["to"] == who], "you": head}).encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        )
        await writer.drain()
        writer.close()


@asynccontextmanager
async def open_bank(folder: Path) -> AsyncIterator[Bank]:
    it = Bank(folder)
    server = await asyncio.start_server(it.answer, "127.0.0.1", 0)
    it.port = server.sockets[0].getsockname()[1]
    try:
        yield it
    finally:
        server.close()


async def evidence(*ledger: str) -> list[dict[str, Any]]:
    shown, _ = await run("show", "last", "--json", *ledger)
    return [one["event"] for one in json.loads(shown) if one["event"]["kind"] == "evidence.recorded"]


@pytest.mark.slow
async def test_each_kind_of_verifier_behind_wrap(effects_server: list[str], tmp_path: Path) -> None:
    async with open_bank(tmp_path) as bank:
        places = {
            "bank": str(bank.folder),
            "books": f"sqlite:///{bank.books}",
            "status": f"http://127.0.0.1:{bank.port}",
        }
        options = [word for name, value in places.items() for word in ("--place", f"{name}={value}")]
        command = (
            "wrap",
            *ledger_of(tmp_path),
            "--policy",
            str(bank.policy),
            *options,
            "--",
            *effects_server,
            str(bank.log),
        )
        async with counterfoil(*command) as window:
            for at, kind in enumerate(KINDS):
                lied = await window.call(
                    "transfer_lies", {"amount": 5, "to": kind}, **{"claudecode/toolUseId": f"l{at}"}
                )
                if kind in {"command", "http"}:
                    assert lied["structuredContent"]["outcome"] == "verification_failed"
                done = await window.call("transfer", {"amount": 5, "to": kind}, **{"claudecode/toolUseId": f"d{at}"})
                assert done["structuredContent"] == {"amount": 5, "to": kind}, done
        found = await evidence(*ledger_of(tmp_path))
    passed = {one["verifier"]: one for one in found if one["verdict"] == "pass"}
    assert {name: one.get("source", "tool") for name, one in passed.items()} == {kind: kind for kind in KINDS}
    assert [name for name, one in passed.items() if one["self_reported"]] == ["result"]
    assert passed["command"]["scope"]["revision"].startswith("sha256:")
    assert passed["http"]["scope"]["path"] == ["transfers", "http"]


@pytest.mark.slow
async def test_behind_serve_nothing_secret_of_a_place_is_recorded(effects_server: list[str], tmp_path: Path) -> None:
    async with open_bank(tmp_path) as bank:
        server = {"command": effects_server[0], "args": [*effects_server[1:], str(bank.log)]}
        config = {
            "ledger": f"sqlite:///{tmp_path / 'ledger.db'}",
            "policies": "policy.yaml",
            "mcpServers": {"bank": server},
            "places": {
                "bank": {"folder": "bank", "env": {"BANK_TOKEN": "${TOKEN}"}},
                "books": {"database": "sqlite:///books.db"},
                "status": {
                    "url": f"http://127.0.0.1:{bank.port}/api",
                    "headers": {"Authorization": "Bearer ${TOKEN}"},
                },
            },
        }
        (tmp_path / "gateway.yaml").write_text(json.dumps(config))
        async with counterfoil("serve", "--stdio", "--config", str(tmp_path / "gateway.yaml"), TOKEN=TOKEN) as window:
            for kind in KINDS:
                done = await window.call("bank__transfer", {"amount": 5, "to": kind}, **{"claudecode/toolUseId": kind})
                assert done["structuredContent"] == {"amount": 5, "to": kind}, done
            assert TOKEN not in "".join(window.said)
        assert bank.authorized == {f"Authorization: Bearer {TOKEN}"}
        found = await evidence(*ledger_of(tmp_path))
    assert [one["verdict"] for one in found] == ["pass"] * len(KINDS)
    stored = b"".join(one.read_bytes() for one in tmp_path.glob("ledger.db*"))
    assert TOKEN.encode() not in stored
    assert b"[hidden]" in stored


async def test_a_policy_whose_places_were_not_named_ends_the_command(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(json.dumps(policy("python")))
    ledger = ledger_of(tmp_path)
    _, said = await run("wrap", *ledger, "--policy", str(file), "--place", f"bank={tmp_path}", "--", "x", expect=2)
    assert "verifiers.http.http.place: this gateway has no place `status`" in said
    assert "verifiers.sql.sql.place: this gateway has no place `books`" in said
    assert "`bank`" not in said
    checked, _ = await run("check", str(file))
    assert "no place" not in checked


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("nonsense", "a place is `--place NAME=VALUE`"),
        ("a=/no/such/folder", "the place `a` cannot be used: it is no folder that is there"),
        (f"a=postgresql:{TOKEN}", "the place `a` cannot be used: a database is"),
        ("a=${NO_SUCH}", "the place `a` cannot be used: the variable `NO_SUCH` is not set"),
    ],
)
async def test_a_place_that_is_none_ends_the_command(place: str, says: str) -> None:
    _, said = await run("wrap", "--place", place, "--", "x", expect=2)
    assert says in said
    assert TOKEN not in said


async def test_pin_prints_what_a_policy_pins(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("a")
    printed, said = await run("pin", "--files", str(tmp_path), "tests/**", "none.ini")
    assert said == "counterfoil: WARNING: `none.ini` named no file; what is pinned is that there is none\n"
    head, one, none = printed.splitlines()
    assert head == "pinned:"
    assert one.startswith('  "tests/**": sha256:')
    assert none.startswith('  "none.ini": sha256:')
    (tmp_path / "tests" / "conftest.py").write_text("")
    again, _ = await run("pin", "--files", str(tmp_path), "tests/**")
    assert again.splitlines()[1] != one
    (tmp_path / "gateway.yaml").write_text(
        json.dumps({"upstreams": {"a": {"command": "x"}}, "places": {"repo": {"folder": "."}}})
    )
    placed, _ = await run("pin", "--config", str(tmp_path / "gateway.yaml"), "--files", "repo", "tests/**")
    assert placed == again
    _, said = await run("pin", "--config", str(tmp_path / "gateway.yaml"), "--files", "rpeo", expect=2)
    assert "no folder among its places that is named `rpeo`" in said
    _, said = await run("pin", "--files", str(tmp_path), "../x", expect=2)
    assert "a path below the place is wanted" in said
