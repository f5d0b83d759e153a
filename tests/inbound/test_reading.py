"""Recorded answers over the wire: offered where there may be some, read in both eras, and nobody else is asked."""

import base64
from typing import Any

import pytest

from gateway.inbound.mcp.results import for_legacy
from gateway.model.answer import RECORD_KEY
from gateway.model.artifact import TEMPLATE, Artifact, Piece, Unreadable
from gateway.ports import LedgerUnavailable
from tests.inbound.asked import Asked
from tests.inbound.fake_gate import answering
from tests.inbound.test_relay import ERAS, ask

WHOLE = Artifact("run_1.2", ("content", "0", "text"))


def asked_with(**pieces: Piece) -> Asked:
    it = Asked()
    it.gate.artifacts.offered = True
    it.gate.artifacts.pieces = {str(piece.of): piece for piece in pieces.values()}
    return it


@ERAS
async def test_a_range_is_told_alone_and_what_follows_it_beside_it(era: str) -> None:
    it = asked_with(one=Piece(WHOLE, "text/plain", "grü".encode(), False, 0, 9, WHOLE.following(4), {"trust": "x"}))
    answer = (await ask(it, era, "resources/read", {"uri": str(WHOLE)}))["result"]
    first, second = answer["contents"]
    assert first == {"uri": str(WHOLE), "mimeType": "text/plain", "text": "grü"}
    assert second["uri"] == f"{WHOLE}?from=4"
    assert second["text"] == f"[counterfoil: these were bytes 0 to 4 of 9; read on at {WHOLE}?from=4]"
    place = {"attempt": "run_1.2", "from": 0, "to": 4, "of": 9, "next": f"{WHOLE}?from=4"}
    assert answer["_meta"][RECORD_KEY] == {"trust": "x", "artifact": place}
    assert ("ttlMs" in answer) is (era == "modern")
    assert (it.offers.asked, it.gate.proposals, it.gate.opened) == ([], [], [])


@ERAS
async def test_bytes_are_told_as_such(era: str) -> None:
    it = asked_with(one=Piece(WHOLE, "image/png", b"\x89PNG", True, 0, 4, None))
    (content,) = (await ask(it, era, "resources/read", {"uri": str(WHOLE)}))["result"]["contents"]
    assert base64.b64decode(content["blob"]) == b"\x89PNG"


@ERAS
@pytest.mark.parametrize(
    ("uri", "raises", "code", "says"),
    [
        ("gateway://artifact/run_9.9", None, None, "Resource not found"),
        (f"{WHOLE}?from=x", None, -32602, "`from` must be a number, at least 0"),
        (str(WHOLE), Unreadable("it was erased"), -32602, "it cannot be read: it was erased"),
        (str(WHOLE), LedgerUnavailable("locked"), -32603, "the ledger cannot be read now: locked"),
    ],
)
async def test_what_cannot_be_read_is_one_clear_error(
    era: str, uri: str, raises: Exception | None, code: int | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = asked_with()
    if raises is not None:

        async def fails(*_: Any) -> Piece:
            raise raises

        monkeypatch.setattr(it.gate.artifacts, "read", fails)
    error = (await ask(it, era, "resources/read", {"uri": uri}))["error"]
    assert error["message"] == says
    assert error["code"] == (code or (-32602 if era == "modern" else -32002))
    assert error["data"] == {"uri": uri}


@ERAS
@pytest.mark.parametrize("offered", [True, False])
async def test_that_it_can_be_read_is_said_where_policy_bounds_results_and_nowhere_else(
    era: str, *, offered: bool
) -> None:
    it = asked_with()
    it.gate.artifacts.offered = offered
    listed = await ask(it, era, "resources/templates/list")
    opened = await it.modern("server/discover") if era == "modern" else (await it.session()).opened
    assert ("resources" in opened["result"]["capabilities"]) is offered
    assert ("gateway://artifact/" in opened["result"]["instructions"]) is offered
    if offered:
        assert [one["uriTemplate"] for one in listed["result"]["resourceTemplates"]] == [TEMPLATE]
        assert (await ask(it, era, "resources/list"))["result"]["resources"] == []
    else:
        assert listed["error"]["code"] == -32601


LINK = {"type": "resource_link", "uri": str(WHOLE), "name": "x"}
THEIRS = {"type": "resource_link", "uri": "file:///x", "name": "x"}


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
async def test_clients_that_know_no_links_get_none_of_ours(version: str) -> None:
    it = Asked()
    it.gate.answers["read"] = answering(result={"content": [LINK, THEIRS]})
    session = await it.session(version=version)
    told = (await session.ask("tools/call", {"name": "read"}))["result"]["content"]
    assert told == ([LINK, THEIRS] if version >= "2025-06-18" else [THEIRS])
    assert for_legacy({"content": [LINK]}) == {"content": [LINK]}
