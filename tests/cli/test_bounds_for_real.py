"""A large file, read by a real server, told in part to real clients of both eras and read whole by them."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from tests.cli.agents import LIMIT_S, counterfoil, ledger_of, run

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

COUNTERFOIL = str(Path(sys.executable).with_name("counterfoil"))
ERAS = ("legacy", "2026-07-28")
TEXT = "".join(f"{number:05} grüße\n" for number in range(12_000))
MOST = 16_384
POLICY = {
    "workflow": "reading",
    "result": {"max_bytes": MOST, "repeat": "reference"},
    "tools": {"*read*": {"effect": "read"}},
    "transitions": [{"name": "reads", "tools": ["*read*"]}],
}


def command(folder: Path, server: list[str], *options: str) -> list[str]:
    """Ours before a server that may read the folder."""
    (folder / "large.txt").write_text(TEXT)
    (folder / "policy.yaml").write_text(json.dumps(POLICY))
    ours = ["wrap", "--policy", str(folder / "policy.yaml"), *ledger_of(folder), *options]
    return [*ours, "--", *server, str(folder)]


async def read_all(client: Client, uri: str) -> str:
    """What is there, range after range, as a model would follow it."""
    text = ""
    for _ in range(100):
        first, *more = (await client.read_resource(uri)).contents
        text += first.text  # type: ignore[union-attr]
        if not more:
            return text
        uri = str(more[0].uri)
    raise AssertionError("it never ends")


async def reads(client: Client, folder: Path, *, sure: bool) -> str:
    """Reads the file twice, and follows what it is told; the address of the whole text.

    `sure`: the client stays until its answer has ended. The SDK's hangs up on a stream of events as soon as it has what
    it wants, and who has left by then counts as one that did not get it.
    """
    (template,) = (await client.list_resource_templates()).resource_templates
    assert template.uri_template.startswith("gateway://artifact/")
    told: list[Any] = []
    for tail in ({}, {"tail": 99_999}):  # the same answer to two calls; the SDK holds it against the output schema
        told.append(await client.call_tool("read_text_file", {"path": str(folder / "large.txt"), **tail}))
        assert not told[-1].is_error
    first, again = told
    assert len(first.model_dump_json()) < MOST + 2_000
    head, tail_text = re.split(r"\[counterfoil: bytes .*\]\n", first.content[0].text)
    assert TEXT.startswith(head)
    assert TEXT.endswith(tail_text)
    assert "are left out here" in first.structured_content["content"]
    assert first.content[1].type == "resource_link"
    uri = str(first.content[1].uri)
    assert await read_all(client, uri) == TEXT
    if sure:
        assert "byte for byte, the one that you have of step 2" in again.content[0].text
        assert len(again.model_dump_json()) < 4_000
    lines = (await client.read_resource(f"{uri}?line=100&lines=2")).contents[0]
    assert lines.text == "00099 grüße\n00100 grüße\n"  # type: ignore[union-attr]
    return uri


@pytest.mark.parametrize("era", [pytest.param(ERAS[0], marks=pytest.mark.long), ERAS[1]])
async def test_over_stdio(era: str, filesystem_server: list[str], tmp_path: Path) -> None:
    there = StdioServerParameters(command=COUNTERFOIL, args=command(tmp_path, filesystem_server), env={**os.environ})
    with anyio.fail_after(LIMIT_S):
        async with Client(there, mode=era) as client:
            await reads(client, tmp_path, sure=True)
    told = json.loads((await run("cost", "last", "--context", "--json", *ledger_of(tmp_path)))[0])
    (context,) = told["context"]
    assert context["results"]["size_bytes"] < MOST + 4_000
    assert told["all"]["measured"]["result_bytes"] > 2 * len(TEXT.encode())


async def test_over_http_and_through_another_gateway_of_the_same_ledger(
    filesystem_server: list[str], tmp_path: Path
) -> None:
    listens = command(tmp_path, filesystem_server, "--listen", "127.0.0.1:0")
    async with counterfoil(*listens) as one, counterfoil(*listens) as other:
        here, there = [await it.hear(r"listening at (http://\S+/mcp)") for it in (one, other)]
        for era in ERAS:
            with anyio.fail_after(LIMIT_S):
                async with Client(here, mode=era) as client:
                    uri = await reads(client, tmp_path, sure=era != "legacy")
                async with Client(there, mode=era) as client:
                    assert await read_all(client, uri) == TEXT
    await run("verify", *ledger_of(tmp_path))
