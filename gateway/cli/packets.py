"""A packet as a person reads it: in the terminal, as Markdown for a ticket, as JSON."""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from gateway.cli.plain import GONE, visible
from gateway.kernel.packet import Packet


def as_json(packet: Packet) -> dict[str, Any]:
    """Plain JSON values."""
    told = asdict(packet) | {"charge": packet.charge.model_dump()}
    for name in ("sent_at", "settles_at"):
        told[name] = told[name].isoformat(timespec="seconds")
    told["tried"] = [one | {"at": one["at"].isoformat(timespec="seconds")} for one in told["tried"]]
    return told


def facts(packet: Packet) -> Iterator[tuple[str, str]]:
    """Label and value, in the order in which one wants to know; nothing in a value can act on a terminal."""
    yield "tool", f"{visible(packet.tool)} on {visible(packet.upstream)}"
    yield "run", f"{packet.run}, {packet.workflow}, phase {packet.phase}"
    yield "asked by", visible(packet.principal)
    if packet.goal:
        yield "goal", visible(packet.goal)
    yield "state", packet.state
    yield "sent", packet.sent_at.isoformat(timespec="seconds")
    yield "consequence", packet.consequence
    charged = [f"{amount} {unit}" for unit, amount in packet.charge.model_dump().items() if amount]
    yield "holds", ", ".join(charged) or "nothing"
    for one in packet.tried:
        yield "tried", f"{one.at.isoformat(timespec='seconds')} {visible(one.says)} ({one.record})"
    if packet.waiting:
        yield "waiting", f"{packet.waiting} equal calls were held"
    yield "goes on", packet.goes_on


def arguments(packet: Packet) -> str:
    """The arguments, indented, or that they are gone."""
    if packet.arguments is None:
        return GONE
    return visible(json.dumps(packet.arguments, ensure_ascii=False, indent=2), keep="\n")


def markdown(packet: Packet, settle: str) -> str:
    """For a ticket; `settle` is the command up to the answer."""
    lines = [f"# Did {_escaped(visible(packet.tool))} happen?", "", _escaped(visible(packet.question)), ""]
    lines += [f"- **{label}**: {_escaped(value)}" for label, value in facts(packet)]
    longest = max(map(len, re.findall("`+", arguments(packet))), default=0)
    fence = "`" * max(3, longest + 1)
    lines += ["", f"{fence}json", arguments(packet), fence, ""]
    lines += [f"- `{settle} {one.says} --reason …`: {one.follows}" for one in packet.options]
    return "\n".join([*lines, ""])


def _escaped(text: str) -> str:
    """Untrusted text that no Markdown reader takes for markup, a link, or somebody who is to be told."""
    marked = "".join(f"\\{letter}" if letter in "\\`*_{}[]<>()#!|~&" else letter for letter in text)
    return re.sub(r"(?i)(@|www\.|://)", lambda found: f"{found[0][0]}<!-- -->{found[0][1:]}", marked)
