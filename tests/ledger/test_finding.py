"""Records are found by kind, newest first; asked of each kind of ledger."""

from gateway.model.canonical import Digest
from gateway.ports import Ledger
from tests.ledger.making import Line, asked, opened, small

BODY = b'{"to":"alice"}'
CITED = Digest("c1:arguments")


async def test_records_are_found_newest_first_over_all_runs(ledger: Ledger) -> None:
    one, two = Line("run_1"), Line("run_2")
    steps = [one.step(opened("1")), two.step(opened("2")), one.step(small(), asked("a")), two.step(asked("b"), small())]
    for step in steps:
        await ledger.append(step)
    written = [record for step in steps for record in step.records]
    for kinds in (
        ["run.opened"],
        ["approval.requested", "run.opened"],
        ["outcome.delivered"],
        ["outcome.delivered", "approval.requested", "outcome.delivered"],
        ["run.stopped", "approval.decided"],
        [],
    ):
        expected = [record for record in reversed(written) if record.event.kind in kinds]
        assert await ledger.find(kinds) == expected
        assert await ledger.find(kinds, limit=1) == expected[:1]
        for at, last in enumerate(expected):
            further = expected[at + 1 :]
            assert await ledger.find(kinds, before=(last.run, last.seq)) == further
            assert await ledger.find(kinds, limit=1, before=(last.run, last.seq)) == further[:1]
    assert await ledger.find(["run.opened"], before=("run_3", 1)) == []
