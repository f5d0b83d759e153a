"""Nobody can agree to what they cannot be shown."""

from typing import Any

import pytest

from gateway.model.canonical import digest
from gateway.model.review import Answer, Refused
from gateway.outbound.ledger.guarded import GuardedLedger
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.outbound.payload_keys import Keyring
from gateway.outbound.redaction import DetectingRedactor
from tests.runtime.office import ANN, BOB, Office, asking, office

pytestmark = pytest.mark.anyio

HIDDEN: dict[str, Any] = {"to": "mallory", "token": "x" * 20}


async def refusal(it: Office, decision: str, **said: Any) -> str:
    with pytest.raises(Refused) as caught:
        await it.says(decision, **said)
    return f"{caught.value.check}: {caught.value.reason}"


async def test_what_is_stored_without_its_secrets_can_be_rejected_and_not_approved() -> None:
    ledger = GuardedLedger(MemoryLedger(), Keyring(()), DetectingRedactor())
    async with office(ledger, transitions=asking()) as it:
        await it.calls(HIDDEN)
        asked = await it.asked()
        packet = await it.desk.packet(asked.id, ANN)
        assert packet is not None
        assert packet.arguments is None
        assert (await refusal(it, "approved")).startswith("unseen: its arguments cannot be shown")
        [came] = await it.desk.decide_all([Answer(asked.id, asked.action, "approved")], BOB)
        assert isinstance(came, Refused)
        assert came.check == "unseen"
        assert (await it.says("rejected")).decision == "rejected"
        await it.calls({"to": "anna"})
        assert (await it.says()).decision == "approved", "and what can be shown is approved as ever"


async def test_what_is_locked_or_was_changed_is_not_approved_unseen() -> None:
    ledger = MemoryLedger()
    async with office(ledger, transitions=asking()) as it:
        await it.calls({"n": 1})
        ledger._payloads[digest({"n": 1}, ledger.salt)] = b'{"n":2}'
        assert (await refusal(it, "approved")).startswith("unseen: its arguments cannot be shown")
