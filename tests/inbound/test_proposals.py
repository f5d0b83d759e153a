from typing import Any

import pytest

from gateway.inbound.mcp.exchange import Exchange
from gateway.inbound.mcp.faults import Fault
from gateway.inbound.mcp.proposals import propose, relayed
from gateway.model.canonical import digest
from gateway.model.principal import Principal
from gateway.model.proposal import Key, KeySource, Proposal
from tests.inbound.asked import ToldLine

ALICE = Principal("alice")


def proposed(meta: Any = None, **params: Any) -> Proposal:
    message = {"id": 1, "method": "tools/call", "params": {"name": "t", "_meta": meta, **params}}
    return propose(Exchange(message, ALICE, "http", ToldLine()), {"client_name": "c"}, b"salt")


def test_a_proposal_is_what_was_asked() -> None:
    arguments = {"a": None, "n": 2**70}
    assert proposed({"x": 1}, arguments=arguments) == Proposal(
        run="",
        principal=ALICE,
        tool="t",
        arguments=arguments,
        arguments_digest=digest(arguments, b"salt"),
        key=None,
        meta={"x": 1},
        attribution={"client_name": "c"},
    )


@pytest.mark.parametrize(
    ("meta", "key"),
    [
        (None, None),
        ({"counterfoil/key": "k", "callId": "c"}, Key(KeySource.CALLER, "k")),
        ({"claudecode/toolUseId": "toolu"}, Key(KeySource.CALL_ID, "toolu")),
        ({"callId": "call"}, Key(KeySource.CALL_ID, "call")),
        ({"callId": 7}, None),
        ({"callId": ""}, None),
        ({"callId": "c" * 257}, None),
        ({"claudecode/toolUseId": None, "callId": "call"}, Key(KeySource.CALL_ID, "call")),
    ],
)
def test_the_key_is_the_callers_own_else_the_clients_call_id(meta: Any, key: Key | None) -> None:
    assert proposed(meta).key == key


@pytest.mark.parametrize("key", ["", "k" * 257, 7, None, "a\0b"])
def test_a_key_that_cannot_be_honoured_is_refused_and_not_dropped(key: Any) -> None:
    with pytest.raises(Fault) as refused:
        proposed({"counterfoil/key": key})
    assert refused.value.error["code"] == -32602


@pytest.mark.parametrize(
    "params", [{"name": None}, {"name": ""}, {"name": 1}, {"arguments": []}, {"arguments": "{}"}, {"arguments": 0}]
)
def test_nothing_is_coerced(params: dict[str, Any]) -> None:
    with pytest.raises(Fault) as refused:
        proposed(**params)
    assert refused.value.error["code"] == -32602


def test_our_own_keys_are_taken_out_and_all_others_left() -> None:
    meta = {"counterfoil/key": "k", "Counterfoil/principal": "admin", "progressToken": 1, "dev.gw/x": None, "": 0}
    assert relayed(meta) == {"progressToken": 1, "dev.gw/x": None, "": 0}
