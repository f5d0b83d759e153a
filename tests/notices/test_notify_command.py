"""`counterfoil notify test`, as a person types it; and what a gateway says of its channels."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.agents import run
from tests.notices.receiver import SECRET, receiving, says

pytestmark = pytest.mark.anyio


def config(folder: Path, *channels: Mapping[str, object]) -> list[str]:
    file = folder / "gateway.yaml"
    file.write_text(json.dumps({"notify": channels, "upstreams": {"fs": {"command": "fs"}}}))
    return ["-c", str(file)]


async def test_a_test_message_says_what_came_of_it_channel_by_channel(tmp_path: Path) -> None:
    async with receiving() as hook, receiving(says("500 Broken")) as broken, receiving(secret=None) as json_hook:
        channels = [
            {"name": "hook", "webhook": hook.url, "secret": "${SECRET}"},
            {"name": "broken", "webhook": broken.url, "secret": "${SECRET}"},
            {"name": "apprise", "apprise": f"json://127.0.0.1:{json_hook.port}/"},
        ]
        told, _ = await run("notify", "test", *config(tmp_path, *channels), expect=1, SECRET=SECRET)
    assert told.splitlines() == [
        "hook: delivered",
        "broken: NOT DELIVERED: it answered 500, which is no 2xx",
        "apprise: delivered",
    ]
    assert [got.said["type"] for got in hook.got] == ["test"]
    assert json_hook.got[0].said["title"] == "A test message of Counterfoil"


@pytest.mark.slow
@pytest.mark.long
async def test_one_channel_alone_is_tried(tmp_path: Path) -> None:
    async with receiving() as hook:
        one = {"name": "hook", "webhook": hook.url, "secret": SECRET}
        told, _ = await run("notify", "test", "hook", *config(tmp_path, one, {"name": "team", "apprise": "json://x"}))
    assert told == "hook: delivered\n"


@pytest.mark.slow
@pytest.mark.long
async def test_a_channel_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    _, err = await run("notify", "test", "x", *config(tmp_path, {"name": "team", "apprise": "json://x"}), expect=2)
    assert err == "counterfoil: no channel is named `x`; there are: `team`\n"
    _, err = await run("notify", "test", *config(tmp_path), expect=2)
    assert err == "counterfoil: `notify` names no channel\n"
