"""What is unknown, settled by asking a real server or under its key, or told to a person in full."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.cli.agents import counterfoil, ledger_of, run
from tests.servers.log import Log

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

QUERY = {
    "probe": {"tool": "bank__status", "arguments_from": {"key": "key"}},
    "happened": ["result.structuredContent.state == 'paid'", "result.structuredContent.key == key"],
    "absent": ["result.structuredContent.state == 'none'"],
}
SETTLED = "Everything is settled. What a person must undo by hand, `counterfoil runs` shows.\n"
KEY = {"kind": "key", "key": {"argument": "key"}, "valid_s": 3600}
POLICY = {
    "workflow": "pays",
    "transitions": [{"name": "any", "tools": ["*"]}],
}


def configured(folder: Path, **idempotency: Any) -> list[str]:
    """A gateway.yaml before the bank, whose calls may take a second."""
    pay: dict[str, Any] = {"effect": "write", "timeout_s": 1.0, "grace_s": 0.5}
    if idempotency:
        pay["idempotency"] = idempotency
    tools = {"bank__status": {"effect": "read"}, "bank__pay": pay}
    (folder / "policy.yaml").write_text(json.dumps(POLICY | {"tools": tools}))
    server = {"command": sys.executable, "args": ["-m", "tests.servers.bank_server", str(folder / "log")]}
    said = {"ledger": "ledger.db", "policies": "policy.yaml", "upstreams": {"bank": server}}
    (folder / "gateway.yaml").write_text(json.dumps(said))
    return ["--config", str(folder / "gateway.yaml")]


async def lost(config: list[str], to: str) -> str:
    """A payment whose answer never came, made through a gateway that is killed afterwards."""
    async with counterfoil("serve", *config, "--stdio", HOME=str(Path(config[1]).parent)) as window:
        told = (await window.call("bank__pay", {"amount": 5, "to": to}))["structuredContent"]
        assert (told["outcome"], told["executed"]) == ("timeout_unknown", "unknown")
        window.process.kill()
        return str(told["attempt"])


async def again(config: list[str], to: str) -> dict[str, Any]:
    async with counterfoil("serve", *config, "--stdio", HOME=str(Path(config[1]).parent)) as window:
        return await window.call("bank__pay", {"amount": 5, "to": to})


def paid(folder: Path) -> list[str]:
    return [one["to"] for one in Log(folder / "log").lines()]


async def test_a_payment_that_was_made_is_found_and_never_made_again(tmp_path: Path) -> None:
    config = configured(tmp_path, **KEY, query=QUERY)
    attempt = await lost(config, "lost")
    listed, _ = await run("reconcile", *ledger_of(tmp_path))
    assert "`bank__status` is asked again" in " ".join(listed.split())
    said, _ = await run("reconcile", *config, "--for", "120")
    assert said == SETTLED
    told = (await again(config, "lost"))["structuredContent"]
    assert (told["outcome"], told["executed"]) == ("held", True)
    assert told["evidence"][0]["says"] == "`bank__status` knows of it"
    assert paid(tmp_path) == ["lost"]
    shown, _ = await run("show", "last", *ledger_of(tmp_path))
    assert attempt
    assert "replayed" in shown


@pytest.mark.long
async def test_a_payment_that_was_not_made_is_proven_so_and_may_be_made(tmp_path: Path) -> None:
    config = configured(tmp_path, kind="query", query=QUERY)
    (tmp_path / "log").touch()
    # Without a key the server cannot tell one from another: the query asks for the empty one.
    text = (
        (tmp_path / "policy.yaml")
        .read_text()
        .replace('{"key": "key"}', '{"key": "\'\'"}')
        .replace("key == key", "key == ''")
    )
    (tmp_path / "policy.yaml").write_text(text)
    await lost(config, "dropped")
    said, _ = await run("reconcile", *config, "--for", "120")
    assert said.endswith(SETTLED)
    assert (await again(config, "dropped"))["structuredContent"]["to"] == "dropped"
    assert paid(tmp_path) == ["dropped"]


@pytest.mark.long
@pytest.mark.parametrize("to", ["lost", "dropped"])
async def test_under_a_key_a_payment_is_made_exactly_once_and_its_answer_told(to: str, tmp_path: Path) -> None:
    config = configured(tmp_path, **KEY)
    attempt = await lost(config, to)
    await run("reconcile", *config, "--for", "120")
    assert paid(tmp_path) == [to]
    told = await again(config, to)
    assert told["structuredContent"] == {"key": attempt, "amount": 5, "to": to}
    assert paid(tmp_path) == [to]


@pytest.mark.long
async def test_what_nobody_can_ask_is_a_persons_who_is_told_all(tmp_path: Path) -> None:
    config = configured(tmp_path)
    attempt = await lost(config, "lost")
    said, _ = await run("reconcile", *config, "--for", "120", expect=3)
    assert "A PERSON MUST SAY" in said
    told = json.loads((await run("reconcile", attempt, "--json", *ledger_of(tmp_path)))[0])
    assert (told["person"], told["arguments"]) == (True, {"amount": 5, "to": "lost"})
    assert told["question"] == "Did this call of `bank__pay` on `bank` happen, with exactly these arguments?"
    assert told["consequence"].startswith("a write call that cannot be undone")
    page, _ = await run("reconcile", attempt, "--markdown", *ledger_of(tmp_path))
    assert page.startswith("# Did bank\\_\\_pay happen?\n")
    assert f"`counterfoil resolve {attempt} --happened --reason … {' '.join(ledger_of(tmp_path))}`" in page
    await anyio.sleep(1)
    await run("resolve", attempt, "--happened", "--reason", "on the statement", *ledger_of(tmp_path))
    assert (await run("reconcile", *ledger_of(tmp_path)))[0] == SETTLED
    assert (await again(config, "lost"))["structuredContent"]["evidence"][0]["says"] == "on the statement"
    assert paid(tmp_path) == ["lost"]


async def test_an_attempt_that_is_settled_or_never_was_is_said_to_be_none(tmp_path: Path) -> None:
    config = configured(tmp_path)
    await again(config, "alice")
    _, said = await run("reconcile", "run_1.2", *ledger_of(tmp_path), expect=1)
    assert re.match(r"counterfoil: no unsettled attempt `run_1.2` is in this ledger", said)
