"""Which definitions of tools agents are shown: never one that is another than policy pins.

A definition is read by the model as if its user had written it. So a tool that changed keeps its place in the list,
with what was pinned of it, and one that has to be pinned and is not has none. Calls of either are refused by the check
`tool`.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gateway.kernel.registry import changed_parts, is_pinned, pin
from gateway.model.offer import Listed
from gateway.model.policy import Policy
from gateway.model.tool import Tool
from gateway.runtime.policies import Policies

_LOG = logging.getLogger("counterfoil.registry")

MAX_KEPT = 2_000
"""Lists that are kept as they are shown; as many as the catalogue keeps."""
MAX_TOLD = 1_000
"""Changes that are remembered as told."""


class Screen:
    """What is shown of the lists of tools. One for each process."""

    def __init__(self, policies: Policies) -> None:
        self._policies = policies
        self._shown: dict[tuple[int, str], tuple[Listed, Listed]] = {}
        self._told: set[str] = set()
        self._standards = self._standard()

    def is_another(self) -> bool:
        """Whether policies that were loaded since this was last asked may show other tools than those before them."""
        before, self._standards = self._standards, self._standard()
        return before != self._standards

    def _standard(self) -> dict[str, tuple[object, ...]]:
        return {
            policy.workflow: (policy.mode, policy.unpinned, {name: was.digest for name, was in policy.pins.items()})
            for policy in self._policies.loaded()
        }

    def listed(self, offered: Listed, workflow: str | None) -> Listed:
        """The list as agents of this workflow see it; of the default one for None, and for one that is not loaded.

        Under `observe` it is as the servers send it: what would be withheld is only told.
        """
        rules = self._policies.current(workflow if workflow in self._policies else None)
        policy = rules.policy
        if not policy.pins and policy.unpinned == "allow":
            return offered
        known = self._shown.get((id(offered), rules.digest))
        if known is not None and known[0] is offered:
            return known[1]
        for line in self.news(offered.items, policy):
            _LOG.warning("policy %s: %s", policy.workflow, line)
        shown = offered if policy.mode == "observe" else _screened(offered, policy)
        if len(self._shown) >= MAX_KEPT:
            self._shown.clear()
        self._shown[id(offered), rules.digest] = (offered, shown)
        return shown

    def news(self, items: Sequence[Mapping[str, Any]], policy: Policy) -> list[str]:
        """What this policy withholds of these tools, a line each; each change is told once."""
        fresh = [(mark, line) for mark, line in _withheld(items, policy) if mark not in self._told]
        if len(self._told) + len(fresh) > MAX_TOLD:
            self._told.clear()
        self._told.update(mark for mark, _ in fresh)
        return [line for _, line in fresh]


def _screened(offered: Listed, policy: Policy) -> Listed:
    items = [shown for item in offered.items if (shown := _shown(item, policy)) is not None]
    same = len(items) == len(offered.items) and all(map(_is, items, offered.items))
    # What depends on who asks is in nobody else's cache.
    return offered if same else replace(offered, items=items, public=False)


def _is(one: object, other: object) -> bool:
    return one is other


def _shown(item: Mapping[str, Any], policy: Policy) -> Mapping[str, Any] | None:
    tool = _tool(item, policy)
    if is_pinned(tool, policy):
        return item
    was = policy.pins.get(tool.name)
    return None if was is None else {**was.definition, "name": tool.name}


def _tool(item: Mapping[str, Any], policy: Policy) -> Tool:
    """The tool that is listed, with the definition that its server sent: there it has its own name, as in its pin."""
    name = str(item["name"])
    was = policy.pins.get(name)
    own = name if was is None else str(was.definition.get("name", name))
    return Tool(name, "", own, {**item, "name": own})


def _withheld(items: Sequence[Mapping[str, Any]], policy: Policy) -> Iterator[tuple[str, str]]:
    """A mark that differs with each change, and what is said of it; no text of the server's but names."""
    for item in items:
        tool = _tool(item, policy)
        if is_pinned(tool, policy):
            continue
        parts = ", ".join(changed_parts(tool, policy))
        if tool.name in policy.pins:
            told = (
                f"`{tool.name}` is not what was pinned ({parts}): it is withheld; `counterfoil pin` shows what changed"
            )
        else:
            told = f"`{tool.name}` is not pinned: it is withheld; `counterfoil pin` shows and pins it"
        yield f"{policy.workflow} {tool.name} {pin(tool.definition)}", told
