"""What the terminal says of effects that were undone, are to be, or are a person's to undo."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.model.tool import NotSent
from gateway.outbound.ledger import open_ledger
from tests import world
from tests.cli.agents import run
from tests.runtime.undoing import ASKS, answer, undoing

ENDS: Mapping[str, tuple[Mapping[str, Any], Any]] = {
    "undone": ({}, answer(refunded=True)),
    "failed": ({}, world.ok(isError=True)),
    "owed": ({}, NotSent("down")),
    "asked": (ASKS, answer(refunded=True)),
}
"""Changes of the policy, and what the refund answers."""


async def written(path: Path, end: str) -> str:
    """The address of a ledger in which a payment had to be undone."""
    fields, answered = ENDS[end]
    ledger = await open_ledger(str(path))
    try:
        async with undoing(ledger, **fields) as it:
            it.upstreams.will("refund", answered)
            await it.call("pay", {"amount": 5})
    finally:
        await ledger.close()
    return f"sqlite:///{path}"


LATER = [pytest.mark.slow, pytest.mark.long]
"""Commands take seconds, and the others of the kind are enough for every day."""


@pytest.mark.parametrize(
    ("end", "row", "closing", "state"),
    [
        pytest.param("undone", "UNDONE by step 6", "", "open", marks=LATER),
        ("failed", "NOT UNDONE, a person must:", "; a person must undo: run_1.2", "open, 1 for a person to undo"),
        pytest.param("owed", "to be undone", "; to be undone: run_1.2", "open, 1 to be undone", marks=LATER),
        ("asked", "to be undone", "; to be undone: run_1.2", "open, 1 to be undone"),
    ],
)  # fmt: skip
async def test_a_run_says_what_became_of_what_it_had_to_undo(
    tmp_path: Path, end: str, row: str, closing: str, state: str
) -> None:
    address = await written(tmp_path / "ledger.db", end)
    told, _ = await run("show", "run_1", "--ledger", address, COLUMNS="300")
    assert row in " ".join(told.split())
    assert told.rstrip().endswith(f"going on in phase open{closing}")
    assert ("to undo step 2" in told) == (end != "asked")
    [summary] = json.loads((await run("runs", "--json", "--ledger", address))[0])
    assert summary["state"] == state


@pytest.mark.parametrize(
    ("end", "says", "person"),
    [("owed", "`refund` is made to undo it", False), ("asked", "a person must agree to `refund` (`ap_", True)],
)  # fmt: skip
async def test_what_is_to_be_undone_is_not_settled(tmp_path: Path, end: str, says: str, *, person: bool) -> None:
    address = await written(tmp_path / "ledger.db", end)
    [packet] = json.loads((await run("reconcile", "--json", "--ledger", address))[0])
    assert (packet["attempt"], packet["state"], packet["person"]) == ("run_1.2", "to be undone", person)
    assert packet["goes_on"].startswith(says)


async def test_an_approval_says_what_it_would_undo_and_who_makes_the_call(tmp_path: Path) -> None:
    address = await written(tmp_path / "ledger.db", "asked")
    [asked] = json.loads((await run("approvals", "list", "--json", "--ledger", address))[0])
    assert (asked["tool"], asked["undoes"]) == ("refund", "run_1.2")
    told, _ = await run("approvals", "reject", asked["approval"], "--ledger", address)
    assert "undoes     run_1.2" in told
    assert "Rejected. run_1.2 is not undone by itself: somebody must do it." in " ".join(told.split())


async def test_what_undoes_a_call_is_explained_as_that(tmp_path: Path) -> None:
    address = await written(tmp_path / "ledger.db", "undone")
    told, _ = await run("explain", "--run", "run_1", "--seq", "2", "--ledger", address, COLUMNS="300")
    assert "1 call, 1 mutation, 0.5 cost, for `refund` to undo it with" in " ".join(told.split())
    told, _ = await run("explain", "--run", "run_1", "--seq", "6", "--ledger", address, COLUMNS="300")
    assert "set aside with `run_1.2`" in " ".join(told.split())
    assert "To undo attempt `run_1.2`: allowed by transition `refund`" in " ".join(told.split())
