"""What waits for a person, and the person's answers, in the terminal."""

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from typer.testing import CliRunner, Result

from gateway.cli.commands import app
from gateway.model.tool import Silence
from gateway.outbound.ledger import open_ledger
from tests import world
from tests.cli.agents import LIMIT_S, ledger_of
from tests.runtime.house import House, house

pytestmark = pytest.mark.anyio

AGO_S = 7_200.0
"""How long ago all of this was, so that nothing can still act on what was sent."""

ASKS: Mapping[str, Any] = {
    "transitions": [
        {"name": "change", "tools": ["write"], "approval": {"risk": "low"}},
        {
            "name": "pay",
            "tools": ["pay"],
            "approval": {"risk": "high", "reasons": "rejection", "reuse": {"times": 3, "for_s": 600.0}},
        },
    ]
}


@asynccontextmanager
async def gateway(folder: Path, **fields: Any) -> AsyncIterator[House]:
    """A gateway on the folder's ledger."""
    ledger = await open_ledger(ledger_of(folder)[1])
    try:
        clock = world.ToldClock(time.time() - AGO_S)  # commands read the machine's own
        async with house(ledger, clock=clock, **{**ASKS, **fields}) as it:
            yield it
    finally:
        await ledger.close()


async def asked(folder: Path, *calls: tuple[str, dict[str, Any]], **fields: Any) -> list[str]:
    """The names of the questions that these calls of one run became, in order."""
    async with gateway(folder, **fields) as it:
        for tool, arguments in calls:
            it.clock.tell(1)
            await it.call(tool, arguments)
        approvals = (await it.book.state_of("run_1")).approvals.values()
        return [one.id for one in sorted(approvals, key=lambda one: one.seq)]


def invoked(folder: Path, *args: str, expect: int = 0) -> Result:
    """The command, in this process."""
    env = {"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}
    done = CliRunner().invoke(app, [*args, *ledger_of(folder)], env=env)
    assert done.exit_code == expect, (done.output, done.exception)
    return done


async def invoke(folder: Path, *args: str, expect: int = 0) -> Result:
    """As `invoked`, which has a loop of its own."""
    return await asyncio.to_thread(invoked, folder, *args, expect=expect)


PAY: tuple[tuple[str, dict[str, Any]], ...] = (("write", {"n": 1}), ("pay", {"n": 2}), ("pay", {"n": 3}))


async def test_the_list_is_by_consequence_and_then_age_and_groups_what_is_alike(tmp_path: Path) -> None:
    write, first, second = await asked(tmp_path, *PAY)
    rows = json.loads((await invoke(tmp_path, "approvals", "list", "--json")).stdout)
    assert [row["approval"] for row in rows] == [first, second, write]
    assert [(row["risk"], row["state"], row["arguments"]) for row in rows] == [
        ("high", "awaiting", {"n": 2}),
        ("high", "awaiting", {"n": 3}),
        ("low", "awaiting", {"n": 1}),
    ]
    shown = (await invoke(tmp_path, "approvals", "list")).stdout
    assert "and 1 like it:" in shown
    assert f'{second} {{"n": 3}}' in shown
    assert shown.index(first) < shown.index(write)


async def test_several_are_answered_at_once_and_each_stands_for_itself(tmp_path: Path) -> None:
    write, first, second = await asked(tmp_path, *PAY)
    done = await invoke(tmp_path, "approvals", "approve", "--yes", write, first, "ap_nothing", first, expect=1)
    assert "no approval `ap_nothing` is in this ledger" in done.output
    assert done.output.count("Approved, for this exact action, once.") == 2
    refused = await invoke(tmp_path, "approvals", "reject", second, expect=1)
    assert refused.output == f"counterfoil: say why: a no to `{second}` wants a reason: `--reason`\n"
    await invoke(tmp_path, "approvals", "reject", second, "-m", "too much")
    again = await invoke(tmp_path, "approvals", "approve", "--yes", second, expect=1)
    assert "rejected by" in again.output
    rows = json.loads((await invoke(tmp_path, "approvals", "list", "--json", "--all")).stdout)
    assert [(row["approval"], row["state"], row["said"]) for row in rows] == [
        (write, "approved", ""),
        (first, "approved", ""),
        (second, "rejected", "too much"),
    ]
    assert (await invoke(tmp_path, "approvals", "list")).stdout == "Nothing waits for a person.\n"


async def test_a_yes_goes_as_far_as_it_is_said_to_and_policy_offers(tmp_path: Path) -> None:
    write, first, second = await asked(tmp_path, *PAY)
    assert (
        "for one call only"
        in (await invoke(tmp_path, "approvals", "approve", "--yes", write, "--times", "2", expect=1)).output
    )
    assert (
        "3 calls at most"
        in (await invoke(tmp_path, "approvals", "approve", "--yes", first, "--times", "9", expect=1)).output
    )
    assert (
        "stand for 600 s"
        in (await invoke(tmp_path, "approvals", "approve", "--yes", first, "--for", "1h", expect=1)).output
    )
    assert (
        "no duration"
        in (await invoke(tmp_path, "approvals", "approve", "--yes", first, "--for", "soon", expect=2)).output
    )
    assert (
        "Approved, for 2 calls until "
        in (await invoke(tmp_path, "approvals", "approve", "--yes", first, "--times", "2", "--for", "5m")).stdout
    )
    assert (
        "Approved, for 3 calls until "
        in (await invoke(tmp_path, "approvals", "approve", "--yes", second, "--for", "5m")).stdout
    )


WIDE = {"times": 50, "for_s": 600.0, "varies": ["to", "n"], "within": ["args.n <= 9000"]}


async def test_a_yes_that_goes_further_says_which_arguments_may_be_others_and_within_what(tmp_path: Path) -> None:
    fields = {"transitions": [{"name": "pay", "tools": ["pay"], "approval": {"reuse": WIDE}}]}
    first, second = await asked(tmp_path, ("pay", {"n": 2, "to": "a"}), ("pay", {"n": 3, "to": "b"}), **fields)
    once = (await invoke(tmp_path, "approvals", "approve", "--yes", first)).stdout
    assert '"n": 2' in once, "the whole action is shown"
    assert "may differ" not in once
    wide = (await invoke(tmp_path, "approvals", "approve", "--yes", second, "--times", "9")).stdout
    before, _, after = wide.partition("Approved, for 9 calls until ")
    assert "how often: 9 calls in all\n  how long: for 10 minutes from the answer on" in before
    for said in (before, after):
        assert "may differ: to, n; any value, and all else as shown\n  only if: args.n <= 9000" in said


async def test_nobody_says_yes_where_nobody_can_be_asked_unless_it_is_said_that_it_was_seen(tmp_path: Path) -> None:
    write, first, second = await asked(tmp_path, *PAY)
    bare = await invoke(tmp_path, "approvals", "approve", write, expect=2)
    assert f"nobody can be asked here: look with `counterfoil approvals show {write} --ledger " in bare.output
    digests = {
        row["approval"]: row["action"]
        for row in json.loads((await invoke(tmp_path, "approvals", "list", "--json")).stdout)
    }
    other = await invoke(tmp_path, "approvals", "approve", first, "--action", digests[second], expect=1)
    assert "is about another action than" in other.output
    several = await invoke(tmp_path, "approvals", "approve", first, second, "--action", digests[first], expect=2)
    assert "`--action` is about one question" in several.output
    done = await invoke(tmp_path, "approvals", "approve", first, "--action", digests[first])
    assert f"{first}: Approved, for this exact action, once." in done.stdout
    states = [
        row["state"] for row in json.loads((await invoke(tmp_path, "approvals", "list", "--json", "--all")).stdout)
    ]
    assert states == ["awaiting", "approved", "awaiting"]


async def test_a_time_beyond_all_calendars_is_refused_in_one_line(tmp_path: Path) -> None:
    [one] = await asked(tmp_path, ("pay", {"n": 2}))
    for told, why in (("999999999w", "no duration"), ("31d", "at most 30 days")):
        refused = await invoke(tmp_path, "approvals", "approve", "--yes", one, "--for", told, expect=2)
        assert why in refused.output
        assert "Traceback" not in refused.output


@pytest.mark.slow
def test_a_person_at_a_terminal_is_shown_all_of_it_and_asked(tmp_path: Path) -> None:
    [one] = asyncio.run(asked(tmp_path, ("write", {"n": 1, "text": "hello"})))
    for answer, told, status in ((b"\n", f"nothing was recorded about `{one}`", 1), (b"y\n", "Approved, for this", 0)):
        ours, theirs = pty.openpty()
        env = {**os.environ, "TERM": "dumb", "COLUMNS": "160"}
        command = [sys.executable, "-m", "gateway", "approvals", "approve", one, *ledger_of(tmp_path)]
        process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
        os.close(theirs)
        os.set_blocking(ours, False)
        try:
            asyncio.run(_seen(ours, '"text": "hello"', "Approve this exact action, once? [y/N]"))
            os.write(ours, answer)
            asyncio.run(_seen(ours, told))
            assert process.wait(LIMIT_S) == status
        finally:
            process.kill()
            process.wait()
            os.close(ours)


async def test_a_question_goes_back_with_what_is_wanted(tmp_path: Path) -> None:
    [one] = await asked(tmp_path, ("pay", {"n": 2}))
    assert (await invoke(tmp_path, "approvals", "return", one, expect=2)).exit_code == 2, "it must say what"
    done = await invoke(tmp_path, "approvals", "return", one, "-m", "show the invoice")
    assert "Returned. The agent is told which evidence is wanted" in done.stdout
    [row] = json.loads((await invoke(tmp_path, "approvals", "list", "--json", "--all")).stdout)
    assert (row["state"], row["said"]) == ("returned", "show the invoice")


async def test_the_first_of_two_people_is_told_that_another_must_agree(tmp_path: Path) -> None:
    fields = {"transitions": [{"name": "pay", "tools": ["pay"], "approval": {"quorum": 2}}]}
    [one] = await asked(tmp_path, ("pay", {"n": 2}), **fields)
    assert "It waits for 1 more person." in (await invoke(tmp_path, "approvals", "approve", "--yes", one)).stdout
    assert "awaiting, 1 of 2" in (await invoke(tmp_path, "approvals", "list")).stdout
    assert "has said yes" in (await invoke(tmp_path, "approvals", "approve", "--yes", one, expect=1)).output


async def test_an_unknown_outcome_waits_in_the_same_list_and_is_settled_with_a_typed_answer(tmp_path: Path) -> None:
    async with gateway(tmp_path, transitions=[{"name": "any", "tools": ["*"]}]) as it:
        it.upstreams.will("write", *[Silence("gone")] * 3)
        for number in range(3):
            await it.call("write", {"n": number})
        unknown = sorted((await it.book.state_of("run_1")).unsettled)
    rows = json.loads((await invoke(tmp_path, "approvals", "list", "--json")).stdout)
    assert [(row["about"], row["name"], row["state"]) for row in rows] == [
        ("attempt", name, "unknown") for name in unknown
    ]
    which = "say which one it is: `--happened`, `--did-not-happen`, `--retry`, `--compensate` or `--stop-run`"
    for options in ((), ("--happened", "--retry")):
        assert which in (await invoke(tmp_path, "resolve", unknown[0], *options, "-m", "r", expect=2)).output
    assert "say how you know" in (await invoke(tmp_path, "resolve", unknown[0], "--happened", expect=2)).output
    first = await invoke(tmp_path, "resolve", unknown[0], "--happened", "-m", "listed")
    assert first.stdout.endswith("Recorded as happened; an equal call is answered from that.\n")
    undo = await invoke(tmp_path, "resolve", unknown[1], "--compensate", "-m", "listed", expect=1)
    assert "cannot be undone by the gateway" in undo.output
    await invoke(tmp_path, "resolve", unknown[1], "--retry", "-m", "not listed")
    stopped = await invoke(tmp_path, "resolve", unknown[2], "--stop-run", "-m", "nobody knows")
    assert "Its run is stopped for good" in stopped.stdout
    assert (
        "is in this ledger" in (await invoke(tmp_path, "resolve", "run_1.99", "--happened", "-m", "r", expect=1)).output
    )


async def test_watching_once_shows_what_waits_as_it_is_now(tmp_path: Path) -> None:
    names = await asked(tmp_path, *PAY)
    shown = (await invoke(tmp_path, "approvals", "watch", "--once")).stdout
    assert shown.startswith("3 wait for a person\n")
    assert "\x1b" not in shown
    lines = (await invoke(tmp_path, "approvals", "watch", "--once", "--json")).stdout.splitlines()
    assert {(json.loads(line)["event"], json.loads(line)["name"]) for line in lines} == {
        ("waits", one) for one in names
    }


@pytest.mark.slow
async def test_a_script_that_watches_is_told_line_by_line_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    [first] = await asked(tmp_path, ("write", {"n": 1}))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "gateway",
        "approvals",
        "watch",
        "--json",
        *ledger_of(tmp_path),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        with anyio.fail_after(LIMIT_S):
            told = [json.loads(await process.stdout.readline())]
            names = await asked(tmp_path, ("pay", {"n": 2}))
            told.append(json.loads(await process.stdout.readline()))
            await invoke(tmp_path, "approvals", "approve", "--yes", first)
            told.append(json.loads(await process.stdout.readline()))
            process.send_signal(signal.SIGINT)
            assert (await process.wait(), await process.stdout.read()) == (0, b"")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert [(one["event"], one["name"]) for one in told] == [("waits", first), ("waits", names[-1]), ("gone", first)]


@pytest.mark.slow
def test_a_terminal_is_redrawn_and_rung_when_something_new_waits(tmp_path: Path) -> None:
    asyncio.run(asked(tmp_path, ("write", {"n": 1})))
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    command = [sys.executable, "-m", "gateway", "approvals", "watch", "--bell", *ledger_of(tmp_path)]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    os.set_blocking(ours, False)
    try:
        seen = asyncio.run(_seen(ours, "1 waits for a person"))
        assert "\x07" not in seen
        asyncio.run(asked(tmp_path, ("pay", {"n": 2})))
        seen = asyncio.run(_seen(ours, "2 wait for a person", "\x07"))
        assert "\x1b[" in seen
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


async def _seen(terminal: int, *wanted: str) -> str:
    """What the terminal was written, once all of this is there."""
    seen = ""
    with anyio.fail_after(LIMIT_S):
        while not all(one in seen for one in wanted):
            try:
                seen += os.read(terminal, 65_536).decode(errors="replace")
            except BlockingIOError:
                await asyncio.sleep(0.02)
    return seen


async def test_a_yes_that_may_still_be_used_is_taken_back(tmp_path: Path) -> None:
    write, *_ = await asked(tmp_path, *PAY)
    early = await invoke(tmp_path, "approvals", "revoke", write, expect=1)
    assert "no yes" in early.output
    await invoke(tmp_path, "approvals", "approve", "--yes", write)
    done = await invoke(tmp_path, "approvals", "revoke", write, "-m", "a mistake")
    assert "Taken back; 0 calls had been made by it." in done.output
    async with gateway(tmp_path) as it:
        shown = await it.call("write", {"n": 1})
        assert shown.refusal is not None
        assert "took back the yes to this action: a mistake" in shown.refusal.reason
