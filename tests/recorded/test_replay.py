"""What Claude Code, Codex and Gemini CLI really sent is answered through the gateway as it is directly."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.outbound.ledger import open_ledger
from tests.cli.agents import run
from tests.real_clients import compare, drive
from tests.real_clients.agents.record import impersonal
from tests.real_clients.table import OURS_ON_STDIO, Target
from tests.recorded.replay import replayed

FILES = sorted(Path(__file__).parent.glob("*.json"))
OPENINGS = {"initialize", "server/discover"}


def seen(answers: Mapping[str, Any]) -> dict[str, Any]:
    """The answers in the form in which clients' sights are compared."""
    steps: dict[str, Any] = {}
    whole: dict[str, Any] = {"steps": steps}
    for name, answer in answers.items():
        method = name.split()[1]
        if method in OPENINGS:
            opening = answer["result"]
            whole |= {key: opening.get(key) for key in ("capabilities", "instructions", "supportedVersions")}
            whole["protocol"] = opening.get("protocolVersion")
        else:
            steps[compare.REFUSED if name.endswith(" wipe") else name] = answer
    return whole


def assert_alike(file: Path, direct: Target, through: Target) -> None:
    """Each recorded request is answered both ways, and but for the written differences alike."""

    async def both() -> tuple[dict[str, Any], dict[str, Any]]:
        first, second = await asyncio.gather(replayed(file, direct), replayed(file, through))
        return seen(first), seen(second)

    one, other = asyncio.run(both())
    assert compare.compared(one, other) == []
    assert "needs_approval" in compare.refusal(other)


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Target, Target]]:
    """Our server over HTTP, and a gateway over HTTP before it."""
    with drive.ours() as url, drive.gateway([url], tmp_path_factory.mktemp("gateway")) as front:
        yield {"url": url}, {"url": front}


@pytest.mark.slow
@pytest.mark.parametrize("file", [file for file in FILES if "-http" in file.name], ids=lambda file: file.stem)
def test_over_http_the_gateway_answers_as_the_server(file: Path, http: tuple[Target, Target]) -> None:
    assert_alike(file, *http)


@pytest.mark.slow
@pytest.mark.parametrize("file", [file for file in FILES if "-stdio" in file.name], ids=lambda file: file.stem)
def test_on_stdio_the_gateway_answers_as_the_server(file: Path, tmp_path: Path) -> None:
    assert_alike(file, {"command": OURS_ON_STDIO}, {"command": drive.wrapped(OURS_ON_STDIO, tmp_path)})


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("file", [file for file in FILES if "-stdio" in file.name], ids=lambda file: file.stem)
def test_what_they_sent_waits_for_a_person_and_is_made_once_one_agrees(file: Path, tmp_path: Path) -> None:
    command = drive.wrapped(OURS_ON_STDIO, tmp_path, "--hold", "60")

    async def both() -> Mapping[str, Any]:
        talk = asyncio.ensure_future(replayed(file, {"command": command}))
        await agreed(tmp_path / "ledger.db")
        return await talk

    answers = asyncio.run(both())
    (wiped,) = (answer for name, answer in answers.items() if name.endswith(" wipe"))
    assert wiped["result"].get("isError") is not True
    assert wiped["result"]["_meta"]["counterfoil/record"]["attempt"]


async def agreed(file: Path) -> None:
    """A person at another terminal says yes to the first question that there is."""
    for _ in range(400):
        await asyncio.sleep(0.1)
        if file.exists() and (asked := await questions(file)):
            await run("approvals", "approve", "--yes", asked[0], "--ledger", f"sqlite:///{file}")
            return
    raise AssertionError("nobody was asked")


async def questions(file: Path) -> list[str]:
    ledger = await open_ledger(f"sqlite:///{file}")
    try:
        return [str(getattr(one.event, "approval", "")) for one in await ledger.find(["approval.requested"])]
    finally:
        await ledger.close()


def test_all_three_are_recorded_both_ways_and_with_nothing_of_the_machine() -> None:
    names = {f"{client}-{front}" for client in ("claude-code", "codex", "gemini-cli") for front in ("http", "stdio")}
    assert {file.stem for file in FILES} == names
    for file in FILES:
        text = file.read_text()
        assert impersonal(text) == text
        assert json.loads(text)["transport"] == file.stem.rpartition("-")[2]
