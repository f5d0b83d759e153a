"""Tools as a policy sees them now: what is inferred of them, and what is not as it was pinned."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.kernel.registry import changed_parts, pinned_part
from gateway.kernel.rules import Rules
from gateway.model.policy import Policy
from gateway.model.tool import Tool


@dataclass(frozen=True, slots=True)
class Entry:
    """A tool, and what the policy makes of it."""

    tool: str
    upstream: str
    healthy: bool
    trouble: str
    effect: str
    idempotency: str
    reversible: str
    guesses: tuple[tuple[str, str], ...]
    """What nobody says and is inferred, and from what."""
    pin: str
    """`pinned`, `changed` or `unpinned`."""
    withheld: bool
    """Whether calls of it are refused because of that."""
    changed: tuple[str, ...]
    """Parts that are not as they were pinned."""
    was: str = ""
    """For a tool that changed: what is pinned of it, as text, a line for each value."""
    now: str = ""
    transitions: tuple[str, ...] = ()
    """That name it; where none does, every call is denied."""
    forbids: tuple[str, ...] = ()
    description: str = ""


def entries(rules: Rules, tools: Sequence[Tool]) -> list[Entry]:
    """One for each tool, those that changed first."""
    return sorted((_entry(rules, tool) for tool in tools), key=lambda one: (not one.was, not one.withheld, one.tool))


def missing(policy: Policy, tools: Sequence[Tool]) -> list[str]:
    """Tools that are pinned, and that nobody offers."""
    return sorted(set(policy.pins) - {one.name for one in tools})


def _entry(rules: Rules, tool: Tool) -> Entry:
    policy, ruled = rules.policy, rules.ruled(tool)
    known, was = ruled.registered, policy.pins.get(tool.name)
    changed = was is not None and not ruled.pinned
    return Entry(
        tool=tool.name,
        upstream=tool.upstream,
        healthy=tool.healthy,
        trouble=tool.trouble or "",
        effect=str(known.effect),
        idempotency=known.idempotency,
        reversible=known.reversible,
        guesses=tuple(known.guesses.items()),
        pin="unpinned" if was is None else "changed" if changed else "pinned",
        withheld=not ruled.pinned and policy.mode == "enforce",
        changed=changed_parts(tool, policy),
        was=_text(dict(was.definition)) if was is not None and changed else "",
        now=_text(pinned_part(tool.definition)) if changed else "",
        transitions=tuple(one.name for one in ruled.transitions),
        forbids=tuple(one.name for one in ruled.forbids),
        description=str(tool.definition.get("description", "")),
    )


def _text(definition: dict[str, object]) -> str:
    return json.dumps(definition, ensure_ascii=False, indent=2, sort_keys=True)
