"""Evidence that is about objects: which ones a call is about is what policy says, until it is found to be untrue."""

from pathlib import Path
from typing import Any

import pytest

from tests.lies.ground import verifiers
from tests.lies.lived import Lived, lived

pytestmark = pytest.mark.anyio

KEPT = "a1-other"
"""The order that must stay as it is; a liar that is to put `a1` puts it there."""


def about(verify: str) -> dict[str, Any]:
    """Every order is an object; the one to be kept is proven by `kept`, all others by a verifier of that name."""
    known = verifiers()
    return {
        "tools": {"put": {"effect": "write", "objects": ["args.id"]}, "look": {"effect": "read"}},
        "phases": {"open": {}, "never": {}},
        "transitions": [
            {"name": "keep", "tools": ["put"], "when": [f"args.id == '{KEPT}'"], "verify": "kept"},
            {"name": "put", "tools": ["put"], **({"verify": verify} if verify else {})},
            {"name": "leave", "tools": ["look"], "to": "never"},
        ],
        "verifiers": known | {"kept": known["sql"] | {"about": ["args.id"]}},
        "success": {"evidence": ["kept"], "phase": "never"},
    }


async def fresh(it: Lived) -> bool:
    """Whether it is still proven that the order is as it should be."""
    return (await it.run()).evidence["kept"].fresh


async def test_a_write_of_another_order_leaves_evidence_fresh(tmp_path: Path) -> None:
    async with lived(tmp_path, **about("probe")) as it:
        await it.put(None, KEPT)
        assert await fresh(it)
        assert (await it.put(None, "c1")).refusal is None
        assert await fresh(it)
        assert (await it.put(None, KEPT, by="again")).refusal is not None
        assert (await it.events("evidence.recorded"))[-1].verdict == "fail"


@pytest.mark.parametrize("lie", ["other", "nothing", "half", "twice", "schema"])
async def test_who_did_not_do_what_was_asked_may_have_done_anything(tmp_path: Path, lie: str) -> None:
    async with lived(tmp_path, **about("probe")) as it:
        await it.put(None, KEPT)
        await it.put(lie)
        assert not await fresh(it)
        told = await it.finish()
        assert {"what": "never", "says": "the run must be in this phase, and is in `open`"} in told["missing"]
        assert ("kept" in [one["what"] for one in told["missing"]]) == (lie == "other")


async def test_what_is_looked_at_after_it_is_fresh_again(tmp_path: Path) -> None:
    async with lived(tmp_path, **about("probe")) as it:
        await it.put(None, KEPT)
        await it.put("nothing")
        await it.finish()
        assert await fresh(it)
        await it.put(None, "c1")
        assert await fresh(it)


async def test_without_a_verifier_the_call_is_about_what_it_says(tmp_path: Path) -> None:
    """As the docs say: `objects` are worth no more than the server that is trusted with them."""
    async with lived(tmp_path, **about("")) as it:
        await it.put(None, KEPT)
        await it.put("other")
        assert [len(it.world.seen(one)) for one in (KEPT, "a1")] == [2, 0]
        assert await fresh(it)
