"""What a person is asked in their own client before anything is recorded: exactly what it is, and nothing that hides.

Whatever an agent wrote stands there as an indented block, each line of it, so that no client takes it for markup.
"""

import json
from collections.abc import Iterator
from typing import Any

from gateway.inbound.told.reach import is_beyond_one, reach_asked
from gateway.model.asked import Offer
from gateway.model.packet import Packet
from gateway.model.review import Settlement
from gateway.model.unseen import spelled_out

MAX_CHARS = 8_000
"""Of one question: what is longer, nobody reads in a dialogue; it is decided in the console."""

VERBS = {"approved": "Approve", "rejected": "Reject", "returned": "Return for more evidence"}


def decision(packet: Packet, verb: str, reason: str, *, times: int | None = 1, for_s: float | None = None) -> str:
    """The question behind a decision about one exact action."""
    digest = f"Digest: {packet.action}"
    if verb != VERBS["approved"]:
        return "\n\n".join([f"{verb} this call?", *_action(packet), *_said("Your reason", reason), digest])
    wide = is_beyond_one(times, for_s)
    head = "Approve this call, and others as far as is said below?" if wide else "Approve this call once?"
    reach = [_how_far(packet, times, for_s)] if wide else []
    return "\n\n".join([head, *reach, *_action(packet), *_said("Your reason", reason), digest])


def settlement(packet: Packet, what: Settlement, reason: str) -> str:
    """The question behind a word on an attempt whose outcome is unknown."""
    head = f"Record about the attempt {packet.attempt}: {_SETTLED[what]}?"
    return "\n\n".join([head, *_action(packet), *_said("How it is known", reason)])


def stopping(packet: Packet, reason: str) -> str:
    """The question behind the end of a run."""
    head = f"Stop the run {packet.run} for good? A stopped run stays stopped."
    goal = _said("Its goal", packet.goal)
    return "\n\n".join([head, f"Asked for by: {_line(packet.principal)}", *goal, *_said("Your reason", reason)])


_SETTLED = {
    "happened": "it happened",
    "did_not_happen": "it did not happen",
    "retry": "it did not happen, and is to be made again",
    "compensate": "it happened, and is to be undone",
    "stop_run": "it stays unknown, and its run is to be stopped",
}


def _how_far(packet: Packet, times: int | None, for_s: float | None) -> str:
    lines = (f"{label}: {value}" for label, value in reach_asked(packet, times, for_s))
    return f"How far your yes goes:\n\n{_block(chr(10).join(lines))}"


def reach_offered(offer: Offer | None) -> str:
    """What a person may allow beyond one call, in words."""
    if offer is None:
        return "one call"
    times = "any number of calls" if offer.times is None else f"up to {offer.times} calls"
    lasts = "" if offer.for_s is None else f" for up to {offer.for_s:g} s"
    varies = f", in which {', '.join(offer.varies)} may differ" if offer.varies else ""
    holds = f", where {' and '.join(offer.within)}" if offer.within else ""
    return f"{times}{lasts}{varies}{holds}"


def _action(packet: Packet) -> Iterator[str]:
    yield f"Tool: {_line(packet.tool or '')} on {_line(packet.upstream or '')}"
    yield f"Arguments:\n\n{arguments(packet.arguments)}"
    yield f"Asked for by: {_line(packet.principal)}, in the run {_line(packet.run)}"
    if packet.reason:
        yield f"Why you are asked: {_line(packet.reason)}"
    if packet.consequence:
        yield f"Consequence: {_line(packet.consequence)}"


def _said(label: str, text: str) -> Iterator[str]:
    if text:
        yield f"{label}:\n\n{_block(spelled_out(text, keep=chr(10)))}"


def arguments(given: dict[str, Any] | None) -> str:
    """Each value whole, with what nobody would see spelled out."""
    if given is None:
        return _block("(erased, changed or encrypted with a key that is not here: they cannot be shown)")
    return _block(spelled_out(json.dumps(given, ensure_ascii=False, indent=2), keep="\n"))


def _block(text: str) -> str:
    return "\n".join("    " + line for line in text.split("\n"))


def _line(text: str) -> str:
    """On one line, which begins nothing."""
    return spelled_out(text)
