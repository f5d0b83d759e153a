"""A tool as a policy sees it, as plain values: what `counterfoil registry` prints, in whichever form."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gateway.cli.differences import differences
from gateway.cli.suspicions import suspicions
from gateway.kernel.registry import Registered, changed_parts, pinned_part
from gateway.kernel.rules import Rules, compile_rules
from gateway.model.canonical import digest
from gateway.model.policy import Policy
from gateway.model.tool import Tool

PinState = Literal["pinned", "changed", "unpinned"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A tool, and all that the policy makes of it."""

    known: Registered
    pin: PinState
    withheld: bool
    """Whether calls of it are answered `tool_withheld`."""
    changed: tuple[str, ...]
    """Parts of its definition that are not as they were pinned."""
    transitions: tuple[str, ...]
    forbids: tuple[str, ...]
    diff: tuple[str, ...]
    """From what is pinned to what is there, for a tool that changed."""
    first: tuple[str, ...]
    """What to look at first in that diff."""

    @property
    def tool(self) -> Tool:
        """The tool itself."""
        return self.known.tool

    @property
    def unnamed(self) -> bool:
        """Whether no transition names it: every call of it is denied."""
        return not self.transitions

    def as_json(self) -> dict[str, Any]:
        """All of it, under plain names."""
        rule, tool = self.known.rule, self.tool
        said = rule.model_dump(mode="json", by_alias=True, exclude={"effect", "input_schema", "output_schema"})
        return {
            "tool": tool.name,
            "server": tool.upstream,
            "own_name": tool.own_name,
            "entry": self.known.pattern,
            **said,
            "effect": str(self.known.effect),
            "idempotency": said["idempotency"] or {"kind": self.known.idempotency},
            "reversible": self.known.reversible,
            "inferred": dict(self.known.guesses),
            "said": sorted(rule.model_fields_set),
            "healthy": tool.healthy,
            "trouble": tool.trouble,
            "pin": {
                "state": self.pin,
                "withheld": self.withheld,
                "changed": list(self.changed),
                "diff": list(self.diff),
            },
            "look_first": list(self.first),
            "transitions": list(self.transitions),
            "forbids": list(self.forbids),
            "definition": dict(tool.definition),
        }


def rules_of(policy: Policy) -> Rules:
    """The policy, ready to be asked about tools."""
    return compile_rules(policy, digest(policy.model_dump(mode="json", by_alias=True), b""))


def entries(tools: Collection[Tool], policy: Policy) -> Iterator[Entry]:
    """One for each tool, in their order."""
    rules = rules_of(policy)
    names = {name for tool in tools for name in (tool.name, tool.own_name)}
    for tool in tools:
        ruled = rules.ruled(tool)
        was = policy.pins.get(tool.name)
        diff: list[str] = []
        first: list[str] = []
        if was is not None and not ruled.pinned:
            others = names - {tool.name, tool.own_name}
            diff = differences(was.definition, pinned_part(tool.definition))
            first = [str(one) for one in suspicions(was.definition, pinned_part(tool.definition), others)]
        yield Entry(
            known=ruled.registered,
            pin="unpinned" if was is None else "pinned" if ruled.pinned else "changed",
            withheld=not ruled.pinned and policy.mode == "enforce",
            changed=changed_parts(tool, policy),
            transitions=tuple(one.name for one in ruled.transitions),
            forbids=tuple(one.name for one in ruled.forbids),
            diff=tuple(diff),
            first=tuple(first),
        )


def as_pinned(policy: Policy, names: Collection[str]) -> list[Tool]:
    """Tools as their pins have them, or with an empty definition: what can be said of them where no server is asked."""
    definitions: Mapping[str, Mapping[str, Any]] = {name: pin.definition for name, pin in policy.pins.items()}
    return [
        Tool(name, "", str(definitions.get(name, {}).get("name", name)), definitions.get(name, {})) for name in names
    ]
