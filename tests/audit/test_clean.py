"""What the gateway writes is clean, whatever happens in its world; and verifying says what there is."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.events import Event
from gateway.model.principal import Parent
from gateway.model.tool import InputRequired, Silence
from gateway.outbound.ledger import open_ledger
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.ports import NoSuchRun
from gateway.runtime.audit import Report, lines, whole
from gateway.runtime.sealing import Sealer, Sealing
from tests import world
from tests.audit.ledgers import every_kind, found, sealed, verified
from tests.kernel.made import MANY
from tests.ledger.making import Line
from tests.runtime.house import house
from tests.runtime.test_explain import POLICY, calls, others, played


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_ledger_with_every_kind_of_event_is_clean(tmp_path: Path, kind: str) -> None:
    ledger = await open_ledger("memory:" if kind == "memory" else f"sqlite:///{tmp_path}/ledger.db")
    await every_kind(ledger)
    head = await sealed(ledger)
    log = await ledger.log(limit=1000)
    report = await verified(ledger, head=head)
    assert found(report) == []
    runs = {one.run for one in log}
    assert (report.records, report.runs, report.sealed_up_to) == (len(log), len(runs), len(log))
    assert (report.signed_up_to, report.head, report.checkpoints) == (len(log), len(log), 1)
    assert (report.uncited, report.erased, report.not_judged) == (0, 0, 0)
    assert report.judged > 10
    assert [name for name, _ in report.unknown] == ["run_3.2"]
    kinds = {kind.model_fields["kind"].default for kind in Event.__args__[0].__args__}
    seen = {record.event.kind for run in runs for record, _ in await ledger.read(run)}
    # What is undone is in the ledgers of tests/runtime/undoing.py, what else people are asked in those of
    # tests/runtime/test_desk.py, what is erased in those of test_erasing.py, and what is stopped in those of
    # test_switches.py, each of which is verified.
    elsewhere = {"approval.seen", "approval.withdrawn", "approval.expired", "escalation.acknowledged"}
    elsewhere |= {"payloads.erased", "switch.thrown", "switch.lifted"}
    assert seen == {kind for kind in kinds - elsewhere if not kind.startswith("compensation.")}
    await ledger.close()


async def test_what_an_agent_said_that_is_gone_and_was_not_erased_is_missed() -> None:
    ledger = MemoryLedger()
    await every_kind(ledger)
    events = [record.event for record, _ in await ledger.read("run_4")]
    cited = [getattr(event, name) for event in events for name in ("plan", "note", "claim") if hasattr(event, name)]
    for one in cited:
        ledger._payloads.pop(one, None)
    says = [what for _, _, what in found(await verified(ledger, keys=[]))]
    assert sorted(says) == sorted(f"the payload {one} that it cites is gone" for one in cited if isinstance(one, str))
    assert len(says) == 3


async def lived(mode: str, steps: list[tuple[Any, ...]]) -> None:
    ledger = MemoryLedger()
    async with house(ledger, mode=mode, **POLICY) as it:
        await it.open("run_2")
        parent = Parent("run_1", frozenset({"nothing"}))
        await it.engine.open_run(run="run_3", principal=world.USER, origin="token", attribution={}, parent=parent)
        for step in steps:
            try:
                await played(it, step)
            except NoSuchRun:
                continue
        report = await verified(ledger, keys=[])
        assert found(report) == []
        assert report.not_judged == 0


async def test_a_round_that_policy_only_observes_is_clean() -> None:
    asks = InputRequired({"resultType": "input_required", "inputRequests": {}, "requestState": "s"})
    call = ("call", "read", 7, None, "run_1", world.USER, False)
    await lived("enforce", [("answer", "read", asks), call, ("resume", True)])


@MANY
@given(st.sampled_from(["enforce", "observe"]), st.lists(calls | others, min_size=5, max_size=40))
def test_whatever_happens_in_runs_their_ledger_is_clean(mode: str, steps: list[tuple[Any, ...]]) -> None:
    asyncio.run(lived(mode, steps))


async def test_a_ledger_that_is_being_written_is_clean_at_every_moment(tmp_path: Path) -> None:
    ledger = await open_ledger(f"sqlite:///{tmp_path}/ledger.db")
    limits = {"daily": {"per": ["tenant"], "limit": {"calls": 10_000}}}
    reports = list[Report]()
    async with house(ledger, accounts=limits) as it:
        await sealed(ledger)

        async def called() -> None:
            for number in itertools.count():
                if number >= 60 and len({report.records for report in reports}) > 2:
                    break
                it.upstreams.will("write", world.ok(), Silence("gone"))
                await it.call("write", {"n": number})
                await it.call("write", {"m": number}, deliver=False)
            done.set()

        done = anyio.Event()
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(called)
                while not done.is_set():
                    reports.append(await verified(ledger, judge=False))
                    await sealed(ledger)
    assert [found(report) for report in reports] == [[]] * len(reports)
    await ledger.close()


@pytest.mark.parametrize("kept", [1, 7])
async def test_a_ledger_larger_than_what_is_kept_in_memory_gives_the_same_report(
    monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    ledger = MemoryLedger()
    await every_kind(ledger)
    for run in ("run_4", "run_5"):
        async with house(ledger) as it:
            await it.open(run)
            await it.call("write", {"n": 1}, run=run, deliver=False)
    all_kept = await verified(ledger, keys=[])
    monkeypatch.setattr(lines, "KEPT", kept)
    monkeypatch.setattr(whole, "RECORDS", 3)
    monkeypatch.setattr(whole, "PAYLOADS", 2)
    monkeypatch.setattr(whole, "ASKED", 1)
    part = await verified(ledger, keys=[])
    assert part == all_kept
    assert found(part) == []


async def test_a_checkpoint_without_a_signature_after_one_that_has_it_is_nobodys_who_may_seal() -> None:
    """What was rewritten after the last signed checkpoint must not look sealed because somebody said so."""
    ledger = MemoryLedger()
    await every_kind(ledger)
    await sealed(ledger)
    size = len(await ledger.log(limit=1000))
    await ledger.append(Line("run_9").step())
    other = MemoryLedger(ledger.salt)
    for one in await ledger.log(limit=1000):
        other._log.append(("", one.body, one.link, one.run, one.seq, one.place - 1))
    unsigned = await Sealer(other, world.ToldClock(), Sealing()).seal()
    assert unsigned is not None
    assert await ledger.checkpoint(unsigned)
    says = f"it is not signed by any of the keys, and the one over {size} records is"
    assert ("I1", f"checkpoint {size + 1}", says) in found(await verified(ledger))
    assert not [one for one in found(await verified(ledger, keys=[])) if "not signed" in one[2]]
