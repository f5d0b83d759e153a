"""Servers that lie, and every kind of verifier: the state of the run tells the truth, and no lie is a success."""

from pathlib import Path
from typing import Any

import pytest

from tests import world
from tests.lies.ground import KINDS, policy
from tests.lies.lived import Lived, lived
from tests.servers.lying_server import LIES, TRUE

pytestmark = pytest.mark.anyio

BARE: dict[str, Any] = {"phases": {"open": {}}}
"""A workflow without phases, in which evidence alone is success."""


def bare(kind: str) -> dict[str, Any]:
    transitions = [{"name": "put", "tools": ["put"], "verify": kind}, {"name": "look", "tools": ["look"]}]
    return BARE | {"transitions": transitions, "success": {"evidence": [kind]}}


async def never_done(it: Lived) -> None:
    """However often the agent says so, and once the verifier may be asked again as well."""
    for wait_s in (0.0, 0.0, 11.0):
        it.house.clock.tell(wait_s)
        told = await it.finish()
        assert (told["finished"], told.get("outcome")) == (False, None)
        assert told["missing"]
    assert (await it.run()).stopped is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lie", sorted(set(LIES) - TRUE))
async def test_what_is_not_so_fails_whatever_the_server_says(tmp_path: Path, lie: str, kind: str) -> None:
    async with lived(tmp_path, kind) as it:
        shown = await it.put(lie)
        assert shown.refusal is not None
        assert (shown.refusal.outcome, shown.refusal.executed) == ("verification_failed", True)
        run = await it.run()
        assert (run.phase, await it.stands()) == ("doubt", ["failed"])
        [found] = await it.events("evidence.recorded")
        assert (found.verdict, found.self_reported, found.attempt) == ("fail", False, "run_1.2")
        await never_done(it)
        assert {one.verdict for one in await it.events("evidence.recorded")} == {"fail"}


@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_done_as_it_is_said_is_committed_and_a_success(tmp_path: Path, kind: str) -> None:
    async with lived(tmp_path, kind) as it:
        assert (await it.put(None)).refusal is None
        run = await it.run()
        assert run.stopped is not None
        assert (run.phase, run.stopped.outcome, await it.stands()) == ("stored", "verified_success", ["committed"])


@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_done_and_said_to_have_failed_is_no_success_by_itself(tmp_path: Path, kind: str) -> None:
    async with lived(tmp_path, kind) as it:
        shown = await it.put("error")
        assert shown.result is not None
        assert shown.result["isError"] is True
        assert ((await it.run()).phase, await it.stands()) == ("doubt", ["attempted"])
        assert await it.events("evidence.recorded") == []
        await never_done(it)
        # Asked, the verifier says that it is there all the same; the phase is moved by a call, and by no claim.
        [found] = await it.events("evidence.recorded")
        assert (found.verdict, found.self_reported, found.attempt) == ("pass", False, None)
        assert [one["what"] for one in (await it.finish())["missing"]] == ["stored"]


@pytest.mark.parametrize("kind", KINDS)
async def test_evidence_can_say_that_an_effect_is_there_whose_server_said_otherwise(tmp_path: Path, kind: str) -> None:
    async with lived(tmp_path, kind, **bare(kind)) as it:
        await it.put("error")
        told = await it.finish()
        assert (told["finished"], told["outcome"]) == (True, "verified_success")
        [found] = await it.events("evidence.recorded")
        assert told["evidence"] == [{"event": f"run_1#{(await it.run()).evidence[kind].seq}", "says": found.says}]


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_by_another_schema_moves_nothing_and_hides_nothing(tmp_path: Path, kind: str) -> None:
    async with lived(tmp_path, kind) as it:
        shown = await it.put("shape")
        assert shown.record is not None
        assert "does not keep the tool's output schema" in shown.record["warning"]
        assert ((await it.run()).phase, await it.stands()) == ("doubt", ["committed"])
        await never_done(it)
    async with lived(tmp_path / "bare", kind, **bare(kind)) as it:
        await it.put("shape")
        assert [one.outcome for one in await it.events("run.stopped")] == ["verified_success"]


# --- the server's own word ------------------------------------------------------------------------------------------

OWN: dict[str, Any] = {
    "phases": {"open": {}, "doubt": {}, "stored": {}},
    "success": {"evidence": ["probe"], "phase": "stored"},
}
"""The phase takes the server's word, and success does not."""


@pytest.mark.parametrize("lie", sorted(set(LIES) - {"error"}))
async def test_the_servers_own_word_is_reported_and_never_proves_anything(tmp_path: Path, lie: str) -> None:
    async with lived(tmp_path, "own", **OWN) as it:
        await it.put(lie)
        [found] = await it.events("evidence.recorded")
        assert found.self_reported
        broken = lie in {"schema", "shape"}
        assert found.verdict == ("inconclusive" if broken else "pass")
        assert await it.stands() == ["attempted" if broken else "reported"]
        await never_done(it)
        assert "probe" in [one["what"] for one in (await it.finish())["missing"]]


@pytest.mark.parametrize("gate", [{"success": {"evidence": ["own"]}}, {"success": {"evidence": ["probe", "own"]}}, {}])
def test_a_gate_that_would_rest_on_the_servers_own_word_is_refused(gate: dict[str, Any]) -> None:
    """By default by success, and by a phase that says so."""
    with pytest.raises(ValueError, match="accepts no evidence of this kind, and `own` is self-reported"):
        world.policy(**(policy("own") | {"success": {"evidence": ["probe"]}} | gate))


# --- whoever cannot look --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_who_could_not_look_has_proven_nothing_and_found_nothing_wrong(tmp_path: Path, kind: str) -> None:
    async with lived(tmp_path, kind) as it:
        it.house.upstreams.tools.pop("look")
        it.house.engine.carrier.looking._looks._places = {}  # type: ignore[attr-defined]
        shown = await it.put(None)
        assert shown.refusal is not None
        assert shown.refusal.outcome == "verification_failed"
        assert ((await it.run()).phase, await it.stands()) == ("open", ["attempted"])
        await never_done(it)
        assert {one.verdict for one in await it.events("evidence.recorded")} == {"inconclusive"}
