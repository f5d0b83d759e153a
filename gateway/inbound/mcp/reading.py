"""`resources/read` of `gateway://artifact/…`: recorded answers in ranges, in both eras. No upstream is asked."""

import base64
from collections.abc import Mapping
from typing import Any

from gateway.inbound.mcp import results
from gateway.inbound.mcp.asking import Asking
from gateway.inbound.mcp.faults import INTERNAL_ERROR, INVALID_PARAMS, Fault
from gateway.inbound.mcp.identity import Runs
from gateway.inbound.mcp.ports import Gate
from gateway.model.answer import RECORD_KEY
from gateway.model.artifact import PREFIX, TEMPLATE, Artifact, BadAddress, Piece, Unreadable, artifact_of
from gateway.ports import LedgerUnavailable, NoSuchRun

TEMPLATES: tuple[Mapping[str, Any], ...] = (
    {
        "uriTemplate": TEMPLATE,
        "name": "counterfoil-artifact",
        "title": "What an earlier call answered",
        "description": "The whole recorded result of an earlier call of yours, in ranges. `at` is a JSON pointer into "
        "it, such as `content/0/text`; `from` and `bytes`, or `line` and `lines`, say which range. Each answer says "
        "what comes next.",
    },
)


class Reading:
    """Answers reads of recorded answers."""

    def __init__(self, gate: Gate, runs: Runs) -> None:
        self._gate = gate
        self._runs = runs

    @property
    def offered(self) -> bool:
        """Whether there may be something to read."""
        return self._gate.artifacts.offered

    def is_ours(self, asking: Asking) -> bool:
        """Whether it is this that the request reads."""
        uri = asking.params.get("uri")
        return isinstance(uri, str) and uri.startswith(PREFIX)

    async def read(self, asking: Asking) -> dict[str, Any]:
        """The range.

        Raises: Fault.
        """
        uri, exchange = str(asking.params["uri"]), asking.exchange
        known = self._runs.known(exchange, asking.client)
        run = exchange.token.run if exchange.token is not None else known
        try:
            asked = artifact_of(uri)
            piece = await self._gate.artifacts.read(asked, exchange.principal, run)
        except BadAddress as error:
            raise Fault(INVALID_PARAMS, str(error), data={"uri": uri}) from None
        except NoSuchRun:
            raise Fault(*results.not_found(modern=asking.modern), data={"uri": uri}) from None
        except Unreadable as error:
            raise Fault(INVALID_PARAMS, f"it cannot be read: {error}", data={"uri": uri}) from None
        except LedgerUnavailable as error:
            raise Fault(INTERNAL_ERROR, f"the ledger cannot be read now: {error}", data={"uri": uri}) from None
        told = _told(uri, asked, piece)
        return results.for_cache(told) if asking.modern else told


def _told(uri: str, asked: Artifact, piece: Piece) -> dict[str, Any]:
    place: dict[str, Any] = {"attempt": asked.attempt, "from": piece.start, "to": piece.end, "of": piece.whole}
    if piece.following is not None:
        place["next"] = str(piece.following)
    content: dict[str, Any] = {"uri": uri, "mimeType": piece.mime}
    if piece.binary:
        content["blob"] = base64.b64encode(piece.body).decode()
    else:
        content["text"] = piece.body.decode()
    contents = [content]
    if piece.following is not None:  # apart, so that what is read is nothing but what was recorded
        contents.append({"uri": str(piece.following), "mimeType": "text/plain", "text": _next(piece)})
    return {"contents": contents, "_meta": {RECORD_KEY: {**piece.label, "artifact": place}}}


def _next(piece: Piece) -> str:
    place = f"bytes {piece.start} to {piece.end} of {piece.whole}"
    return f"[counterfoil: these were {place}; read on at {piece.following}]"
