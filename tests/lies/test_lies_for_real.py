"""Each lie once, with real processes: what `show` tells is what is so, and nobody is told that all is well."""

from itertools import cycle
from pathlib import Path

import pytest

from tests.lies.ground import KINDS
from tests.lies.lived import TEXT
from tests.lies.real import PUT, believing, shop, window
from tests.servers.lying_server import LIES

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.long]

STANDS = {"error": "attempted", "shape": "committed"}
"""Of lies about an effect that is there; of all others it has failed."""


@pytest.mark.parametrize(("lie", "kind"), [*zip(sorted(LIES), cycle(KINDS), strict=False)])
async def test_a_lie_is_seen_through(tmp_path: Path, lie: str, kind: str) -> None:
    it = shop(tmp_path, {"shop": believing(kind)})
    async with window(it) as agent:
        answer = await agent.call(PUT, {"id": "a1", "text": TEXT, "lie": lie})
        assert (answer.get("isError") is True) == (lie != "shape")
        if lie not in STANDS:
            assert answer["structuredContent"]["outcome"] == "verification_failed"
        else:
            assert "stopped" not in answer["_meta"]["counterfoil/record"]  # which is ours, not what the liar put there
        for _ in range(2):
            told = await agent.call("gateway__finish", {"says": "it is stored, and all tests pass"})
            assert told["structuredContent"]["finished"] is False
        seen = (await agent.call("gateway__status", {}))["structuredContent"]
        assert (seen["phase"]["name"], seen["state"]) == ("doubt", "running")
    stands = STANDS.get(lie, "failed")
    assert [one["standing"] for one in await it.told("show", "last", "--changes")] == [stands]
    events = await it.events()
    found = [(one["verdict"], one["self_reported"]) for one in events if one["kind"] == "evidence.recorded"]
    assert found[0] == ("fail" if lie not in STANDS else "pass", False)
    kinds = [one["kind"] for one in events]
    assert (kinds.count("intent.recorded"), kinds.count("finish.refused")) == (1, 2)
    assert "run.stopped" not in kinds
    assert [one["target"] for one in events if one["kind"] == "phase.moved"] == ["doubt"]
