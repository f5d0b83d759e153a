"""A program that knows nothing but the OpenAPI document finds no answer that the document does not promise."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from gateway.inbound.console.api import TABLE
from gateway.model.tool import Silence
from tests import real_servers
from tests.console.reviewing import API, BOB, Reviewing, reviewing, served

pytestmark = pytest.mark.anyio

REQUIREMENTS = ("schemathesis==4.32.5",)
"""In a venv of its own: it wants an older `jsonschema-rs` than we do."""
LIMIT_S = 400


async def test_the_document_tells_of_each_operation_once_and_of_every_refusal() -> None:
    async with reviewing() as at, at.as_(BOB) as client:
        told = (await client.get(f"{API}/openapi.json")).json()
    assert (told["openapi"], told["servers"]) == ("3.1.1", [{"url": API}])
    named = {one["operationId"] for by_method in told["paths"].values() for one in by_method.values()}
    assert named == {one.name for one in TABLE}
    decide = told["paths"]["/approvals/{id}/decision"]["post"]
    assert set(decide["responses"]) == {"200", "400", "401", "403", "404", "409", "413", "415", "422", "429", "503"}
    assert decide["requestBody"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/DecisionIn"}
    assert "agent" not in told["components"]["securitySchemes"]
    assert _unknown_references(told) == []


def _unknown_references(told: dict[str, Any]) -> list[str]:
    text = json.dumps(told)
    cited = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    return sorted(cited - told["components"]["schemas"].keys())


@pytest.mark.slow
@pytest.mark.long
async def test_a_few_requests_of_every_kind_find_nothing_that_the_document_does_not_promise(tmp_path: Path) -> None:
    await _explored(tmp_path, examples=5, phases="fuzzing,stateful")


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("phases", ["examples,coverage", "fuzzing", "stateful"])
async def test_many_requests_of_every_kind_find_nothing_that_the_document_does_not_promise(
    phases: str, tmp_path: Path
) -> None:
    await _explored(tmp_path, examples=20, phases=phases)


async def _explored(folder: Path, *, examples: int, phases: str) -> None:
    try:
        program = await anyio.to_thread.run_sync(lambda: real_servers.venv(REQUIREMENTS) / "bin" / "schemathesis")
    except real_servers.CannotInstall as error:
        if os.environ.get("CI"):
            pytest.fail(f"no schemathesis to test with: {error}")
        pytest.skip(f"NOT EXPLORED: {error}")
    async with served() as at:
        await _lived_in(at)
        process = await asyncio.create_subprocess_exec(
            str(program),
            "run",
            f"{at.url}{API}/openapi.json",
            f"--header=Authorization: Bearer {at.token(BOB, lives_s=1e9)}",
            "--exclude-path=/events",  # a stream that goes on is no answer to wait for
            f"--phases={phases}",
            f"--max-examples={examples}",
            "--checks=all",
            "--seed=7",
            "--workers=1",
            "--request-timeout=20",
            "--no-color",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=folder,  # it leaves files where it runs
            env={**os.environ, "COLUMNS": "200", "HYPOTHESIS_STORAGE_DIRECTORY": os.devnull},
        )
        with anyio.fail_after(LIMIT_S):
            said, _ = await process.communicate()
    assert process.returncode == 0, said.decode(errors="replace")[-12_000:]


async def _lived_in(at: Reviewing) -> None:
    """There is something of each kind to be found."""
    for amount in range(3):
        await at.ask(amount)
    at.it.upstreams.will("write", Silence("gone"))
    await at.it.call("write", {"n": 1})
    at.it.clock.tell(2)
