"""Answers that no desk would have recorded, put into the log, are found."""

from collections.abc import Callable
from typing import Any

import pytest

from gateway.model.asked import Granted
from gateway.model.events import ApprovalDecided, ApprovalExpired, ApprovalWithdrawn, Event, Who
from gateway.model.run import Approval
from gateway.outbound.ledger.memory import MemoryLedger
from tests.audit.ledgers import found, verified
from tests.runtime.office import asking, office

BOSS = Who(tenant="local", id="local:ann", roles=("boss",))
EVE = Who(tenant="acme", id="eve", roles=("boss",))
Forged = Callable[[Approval], Event]


def yes(**more: Any) -> Forged:
    said: dict[str, Any] = {"decision": "approved", "by": BOSS, "via": "oidc"} | more
    return lambda asked: ApprovalDecided(approval=asked.id, action=asked.action, **said)


@pytest.mark.parametrize(
    ("terms", "forged"),
    [
        ({"reuse": {"times": 2}}, yes(granted=Granted(times=None))),
        ({"reuse": {"times": 2, "for_s": 60}}, yes(granted=Granted(times=2, for_s=61))),
        ({}, yes(granted=Granted(times=9999))),
        ({}, yes(via="caller")),
        ({}, yes(by=EVE)),
        ({"reasons": "always"}, yes()),
        ({}, yes(decision="returned")),
        ({"load": {"decisions": 1, "window": "day"}}, yes()),
        ({}, lambda asked: ApprovalWithdrawn(approval=asked.id, by=EVE)),
        ({}, lambda asked: ApprovalExpired(approval=asked.id)),
    ],
)
async def test_an_answer_beyond_its_terms_is_found(terms: dict[str, Any], forged: Forged) -> None:
    ledger = MemoryLedger()
    async with office(ledger, transitions=asking(**terms)) as it:
        await it.calls()
        asked = await it.asked()
        await it.it.book.say("run_1", lambda *_: (forged(asked),))
    numbers = {number for number, _, _ in found(await verified(ledger, keys=[]))}
    assert numbers & {"I14", "I15"}
