"""`counterfoil stop` and `stops`: a person at the machine stops what goes out, and lets it go on."""

import json
from pathlib import Path

import pytest

from tests.cli.test_approvals import gateway, invoke
from tests.runtime.house import refused

pytestmark = pytest.mark.anyio


async def test_a_running_gateway_obeys_what_is_typed_beside_it(tmp_path: Path) -> None:
    async with gateway(tmp_path) as it:
        assert (await invoke(tmp_path, "stops")).stdout.startswith("Nothing is stopped on ")
        told = await invoke(tmp_path, "stop", "--tool", "read", "--reason", "it reads too much")
        said = told.stdout.replace("\n", " ")
        assert said.startswith("Stopped the tool `read` for every gateway on "), "it says in which ledger"
        assert ": switch 1. `counterfoil stop --lift 1 --reason …" in said
        assert "look whether it is spelled so, and whether this is the gateway's ledger" in said, (
            "nobody ever called it"
        )
        assert refused(await it.call("read")) == ("denied", "switch")
        (one,) = json.loads((await invoke(tmp_path, "stops", "--json")).stdout)
        assert (one["switch"], one["tool"], one["tenant"], one["reason"]) == (1, "read", None, "it reads too much")
        assert "it reads too much" in (await invoke(tmp_path, "stops")).stdout
        shown = (await invoke(tmp_path, "show", "switches")).stdout
        assert "it reads too much" in shown
        assert "()" not in shown, "it has no workflow, phase or budget to speak of"
        assert "going on" not in shown
        told = await invoke(tmp_path, "stop", "--lift", "1", "-m", "mended")
        assert told.stdout.startswith("Lifted switch 1.")
        assert refused(await it.call("read")) == ("denied", "default-deny"), "as policy has it"
        told = await invoke(tmp_path, "stop", "--principal", "local:user", "--tenant", "local", "-m", "again")
        assert "spelled" not in told.stdout
        assert "the principal `local:user` for the tenant `local`" in told.stdout.replace("\n", " ")


async def test_a_run_is_stopped_for_good(tmp_path: Path) -> None:
    async with gateway(tmp_path) as it:
        told = await invoke(tmp_path, "stop", "--run", "run_1", "--reason", "it is lost")
        assert told.stdout.startswith("Stopped the run `run_1` for good.")
        assert refused(await it.call("read")) == ("human_escalation", "person")


@pytest.mark.parametrize(
    ("arguments", "says", "code"),
    [
        (("--reason", "x"), "say what is stopped", 2),
        (("--all", "--tool", "pay", "--reason", "x"), "say what is stopped", 2),
        (("--all",), "say why", 2),
        (("--tool", "", "--reason", "x"), "a name is empty", 2),
        (("--lift", "7", "--reason", "x"), "no switch 7 is thrown", 1),
        (("--run", "run_9", "--reason", "x"), "no run `run_9` is known", 1),
    ],
)
async def test_what_cannot_be_meant_is_said_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], says: str, code: int
) -> None:
    async with gateway(tmp_path):
        told = await invoke(tmp_path, "stop", *arguments, expect=code)
        assert says in told.stderr
