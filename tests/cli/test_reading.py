"""What is read back from a ledger, whatever stands in it."""

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.cli.plain import visible
from gateway.model.canonical import digest
from gateway.model.principal import Principal
from gateway.model.tool import Silence, Tool
from gateway.outbound.ledger import open_ledger
from tests import world
from tests.cli.agents import ledger_of, run
from tests.runtime.house import house

pytestmark = pytest.mark.anyio
HOSTILE = "[/red]evil\x1b[8m\u202e"


async def a_ledger(folder: Path) -> None:
    """One run with a read, a denial and a question to a person, by a principal with a hostile name."""
    ledger = await open_ledger(ledger_of(folder)[1])
    upstreams = world.ScriptedUpstreams()
    upstreams.offer(world.tool("read", read=True), world.tool("pay"), Tool("bad", "fake", "bad", {"name": "bad"}))
    rules = [{"name": "r", "tools": ["read"]}, {"name": "p", "tools": ["pay"], "approval": {}}]
    async with house(ledger, upstreams=upstreams, transitions=rules) as it:
        who = Principal(HOSTILE)
        await it.engine.open_run(run="run_h", principal=who, origin="token", attribution={})
        for name, arguments in (("read", {"q": HOSTILE}), ("bad", {}), ("pay", {"note": HOSTILE})):
            proposed = world.proposal(name, arguments, run="run_h", principal=who)
            proposed = replace(proposed, arguments_digest=digest(arguments, ledger.salt))
            await it.engine.call(proposed, world.PatientCaller())
    await ledger.close()


async def test_hostile_text_in_a_ledger_neither_acts_nor_stops_the_reader(tmp_path: Path) -> None:
    await a_ledger(tmp_path)
    for command in (("runs",), ("show", "run_h"), ("show", "run_h", "--checks"), ("approvals", "list")):
        for columns in ("80", "120"):
            out, _ = await run(*command, *ledger_of(tmp_path), COLUMNS=columns)
            assert "\x1b" not in out
            assert "\u202e" not in out


async def test_one_step_shows_what_was_asked_and_what_came_back_in_full(tmp_path: Path) -> None:
    await a_ledger(tmp_path)
    out, _ = await run("show", "run_h", "--step", "2", *ledger_of(tmp_path))
    told = json.loads(out)
    assert told["record"]["event"]["tool"] == "read"
    assert told["result"]["content"] == [{"type": "text", "text": "ok"}]
    _, said = await run("show", "run_h", "--step", "99", *ledger_of(tmp_path), expect=1)
    assert said == "counterfoil: run `run_h` has no step 99 in this ledger; `counterfoil show run_h` lists them\n"


@pytest.mark.slow
async def test_an_erasure_that_means_nothing_says_so_and_an_export_says_what_it_wrote(tmp_path: Path) -> None:
    await a_ledger(tmp_path)
    ledger = ledger_of(tmp_path)
    told, _ = await run("purge", "--principal", "acme/nobody", "--dry-run", *ledger)
    assert "Nothing that may go is meant by that." in told
    _, said = await run("purge", "--run", "run_typo", "--dry-run", *ledger, expect=1)
    assert said == "counterfoil: no run `run_typo` is in this ledger; `counterfoil runs` lists them\n"
    file = tmp_path / "runs.jsonl"
    out, said = await run("export", "run_h", "--out", str(file), *ledger)
    assert (out, said) == ("", f"counterfoil: `{file}` has 1 run; `counterfoil verify --export {file}` checks it\n")


async def test_a_role_that_policy_asks_for_is_stated_and_recorded(tmp_path: Path) -> None:
    await a_ledger(tmp_path)
    listed, _ = await run("approvals", "list", "--json", *ledger_of(tmp_path))
    handle = json.loads(listed)[0]["approval"]
    await run("approvals", "approve", "--yes", handle, "--role", "finance", *ledger_of(tmp_path))
    shown, _ = await run("show", "run_h", "--json", *ledger_of(tmp_path))
    decided = next(one for one in json.loads(shown) if one["event"]["kind"] == "approval.decided")
    assert decided["event"]["by"]["roles"] == ["finance", "owner"]


async def test_what_an_observing_policy_let_pass_is_told_call_by_call(tmp_path: Path) -> None:
    ledger = await open_ledger(ledger_of(tmp_path)[1])
    upstreams = world.ScriptedUpstreams()
    upstreams.offer(world.tool("pay"))
    rules = [{"name": "p", "tools": ["pay"], "when": ["args.amount < 5"]}]
    async with house(ledger, upstreams=upstreams, transitions=rules, mode="observe") as it:
        await it.engine.open_run(run="run_o", principal=Principal("local:user"), origin="token", attribution={})
        await it.call("pay", {"amount": 9}, run="run_o")
    await ledger.close()
    shown, _ = await run("show", "run_o", *ledger_of(tmp_path), COLUMNS="120")
    assert "not enforced: conditions (p): the condition" in shown


async def test_runs_stand_whole_in_eighty_columns(tmp_path: Path) -> None:
    await a_ledger(tmp_path)
    narrow, _ = await run("runs", *ledger_of(tmp_path), COLUMNS="80")
    assert "1 call, 0 mutations" in narrow
    assert max(map(len, narrow.splitlines())) <= 80


@pytest.mark.slow
async def test_of_another_tenant_it_is_said_which_one_whoever_asks_belongs_to(tmp_path: Path) -> None:
    ledger = await open_ledger(ledger_of(tmp_path)[1])
    upstreams = world.ScriptedUpstreams()
    upstreams.offer(world.tool("pay"))
    rules = [{"name": "p", "tools": ["pay"], "approval": {}}]
    async with house(ledger, upstreams=upstreams, transitions=rules) as it:
        for name, who in (("run_a", Principal("ci", "acme")), ("run_b", Principal("ci", "globex"))):
            await it.engine.open_run(run=name, principal=who, origin="token", attribution={})
            proposed = world.proposal("pay", {"n": 1}, run=name, principal=who)
            proposed = replace(proposed, arguments_digest=digest({"n": 1}, ledger.salt))
            await it.engine.call(proposed, world.PatientCaller())
    await ledger.close()
    for command in (("runs",), ("approvals", "list"), ("approvals", "list", "--all")):
        told, _ = await run(*command, *ledger_of(tmp_path))
        assert "acme/ci" in told
        assert "globex/ci" in told
    assert "acme/ci, phase" in (await run("show", "run_a", *ledger_of(tmp_path)))[0]


async def test_one_damaged_run_hides_no_other(tmp_path: Path) -> None:
    await a_ledger(tmp_path)
    ledger = await open_ledger(ledger_of(tmp_path)[1])
    async with house(ledger):
        pass
    await ledger.close()
    with closing(sqlite3.connect(ledger_of(tmp_path)[1].removeprefix("sqlite:///"))) as db, db:
        assert db.execute("UPDATE event SET body = zeroblob(9) WHERE run = 'run_h' AND seq = 2").rowcount == 1
    out, _ = await run("runs", "--json", *ledger_of(tmp_path))
    states = {one["run"]: one["state"] for one in json.loads(out)}
    assert states == {"run_h": "cannot be read: `counterfoil verify` says why", "run_1": "open"}


UNSHOWN = "(erased, changed or encrypted)"


@pytest.mark.slow
@pytest.mark.long
async def test_a_changed_payload_is_never_shown_as_what_was_recorded_and_hides_nothing_else(tmp_path: Path) -> None:
    ledger, upstreams = await open_ledger(ledger_of(tmp_path)[1]), world.ScriptedUpstreams()
    upstreams.offer(world.tool("write"), world.tool("pay"))
    rules = [{"name": "w", "tools": ["write"]}, {"name": "p", "tools": ["pay"], "approval": {}}]
    async with house(ledger, upstreams=upstreams, transitions=rules) as it:
        upstreams.will("write", Silence("gone"), Silence("gone"))
        for name, note in (("write", "first"), ("write", "second"), ("pay", "third"), ("pay", "fourth")):
            await it.call(name, {"note": note})
    await ledger.close()
    with closing(sqlite3.connect(ledger_of(tmp_path)[1].removeprefix("sqlite:///"))) as db, db:
        changed = "UPDATE payload SET body = CAST(? AS BLOB) WHERE CAST(body AS TEXT) = ?"
        for note, body in (("first", '{"note":"evil"}'), ("third", '{"note":')):
            assert db.execute(changed, (body, f'{{"note":"{note}"}}')).rowcount == 1
    for command, whole in (
        (("show", "last"), ("second", "fourth")),
        (("approvals", "list"), ("second", "fourth")),
        (("reconcile", "--json"), ("second",)),
    ):
        out, _ = await run(*command, *ledger_of(tmp_path), COLUMNS="200")
        assert "evil" not in out
        assert [one for one in ("second", "fourth") if one in out] == list(whole)
        assert UNSHOWN in out or command[0] == "reconcile"
    told = json.loads((await run("reconcile", "--json", *ledger_of(tmp_path)))[0])
    assert [one["arguments"] for one in told] == [None, {"note": "second"}]
    packet, _ = await run("reconcile", told[0]["attempt"], *ledger_of(tmp_path))
    assert UNSHOWN in packet


@pytest.mark.slow
@pytest.mark.long
async def test_one_damaged_run_hides_nothing_that_waits_in_another(tmp_path: Path) -> None:
    ledger, upstreams = await open_ledger(ledger_of(tmp_path)[1]), world.ScriptedUpstreams()
    upstreams.offer(world.tool("write"), world.tool("pay"))
    rules = [{"name": "w", "tools": ["write"]}, {"name": "p", "tools": ["pay"], "approval": {}}]
    async with house(ledger, upstreams=upstreams, transitions=rules) as it:
        await it.open("run_2")
        for name in ("run_1", "run_2"):
            upstreams.will("write", Silence("gone"))
            await it.call("write", {"run": name}, run=name)
            await it.call("pay", {"run": name}, run=name)
    await ledger.close()
    with closing(sqlite3.connect(ledger_of(tmp_path)[1].removeprefix("sqlite:///"))) as db, db:
        assert db.execute("UPDATE event SET body = zeroblob(9) WHERE run = 'run_1' AND seq = 2").rowcount == 1
    why = "a record of the ledger was changed after it was written"
    told = json.loads((await run("reconcile", "--json", *ledger_of(tmp_path)))[0])
    assert [(one["run"], one.get("trouble", "").partition(" (")[0]) for one in told] == [("run_1", why), ("run_2", "")]
    out, _ = await run("reconcile", *ledger_of(tmp_path), COLUMNS="200")
    assert f"CANNOT BE READ: {why}" in out
    _, error = await run("reconcile", told[0]["attempt"], *ledger_of(tmp_path), expect=2)
    assert f"attempt `{told[0]['attempt']}` cannot be read: {why}" in error
    asked = json.loads((await run("approvals", "list", "--json", *ledger_of(tmp_path)))[0])
    states = {one["run"]: one["state"] for one in asked if one["about"] == "approval"}
    assert states == {"run_1": "cannot be read: `counterfoil verify` says why", "run_2": "awaiting"}


@pytest.mark.parametrize("char", "\u3164\u115f\u2800\ufe0f\U000e0100\u00a0\u034f\u200b\u202e\x1b")
def test_what_leaves_no_ink_is_spelled_on_a_terminal(char: str) -> None:
    assert visible(f"a{char}b \n", keep="\n") == f"a\\u{{{ord(char):x}}}b \n"
