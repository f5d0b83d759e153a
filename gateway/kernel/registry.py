"""(tool, policy) -> what is known of the tool. Defaults always lean to caution and say that they were inferred."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.kernel.globs import names
from gateway.model.canonical import digest
from gateway.model.events import Effect
from gateway.model.policy import Policy, ToolRule
from gateway.model.tool import Tool

_DESTRUCTIVE_WORDS = frozenset(
    {
        "delete", "deletes", "deleted", "remove", "removes", "removed", "rm", "drop",
        "drops", "destroy", "destroys", "wipe", "wipes", "purge", "purges", "erase",
        "erases", "kill", "kills", "taskkill", "truncate", "truncates", "reset", "resets",
        "revoke", "revokes", "uninstall", "unpublish", "terminate", "force", "overwrite", "shutdown",
        "unlink", "rmdir", "rmtree", "del", "flushall", "flushdb", "prune", "discard",
        "dropdb", "exec", "execute", "eval", "shell", "bash", "sql",
    }
)  # fmt: skip
"""A tool with one of these words in its name is destructive, whatever its hints say [hardening: annotations lie].

What runs any command or statement that it is given counts as well. A list of words misses some and takes in others;
a policy that says `effect` is the answer to both.
"""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


@dataclass(frozen=True, slots=True)
class Registered:
    """A tool with its effect and rule, as this policy sees it."""

    tool: Tool
    rule: ToolRule
    effect: Effect
    inferred: str | None
    """Why the effect is what it is, where policy does not say it; None where it does."""


def registered(tool: Tool, policy: Policy) -> Registered:
    """What policy and definition together say; the first matching registry entry counts."""
    rule = next((rule for pattern, rule in policy.tools.items() if names(pattern, tool.name)), ToolRule())
    if rule.effect is not None:
        return Registered(tool, rule, rule.effect, None)
    effect, why = _inferred(tool, trust=policy.annotations == "trust")
    return Registered(tool, rule, effect, why)


def as_pinned(tool: Tool, policy: Policy) -> bool:
    """Whether the tool is defined as policy pins it; true where it pins nothing."""
    return is_pinned(registered(tool, policy))


def is_pinned(known: Registered) -> bool:
    """As `as_pinned`."""
    return known.rule.pin is None or known.rule.pin == pin(known.tool.definition)


def pin(definition: Mapping[str, Any]) -> str:
    """The digest by which a policy pins a tool: name, description, schemas and annotations, and all else it says."""
    return digest(dict(definition), b"")


def _inferred(tool: Tool, *, trust: bool) -> tuple[Effect, str]:
    annotations = tool.definition.get("annotations")
    hints = annotations if isinstance(annotations, Mapping) else {}
    words = {word.lower() for word in _WORD.findall(tool.own_name)}
    if named := sorted(words & _DESTRUCTIVE_WORDS):
        return Effect.DESTRUCTIVE, f"its name says `{named[0]}`"
    if hints.get("destructiveHint") is True:
        return Effect.DESTRUCTIVE, "the server claims destructiveHint"
    if hints.get("readOnlyHint") is True and trust:
        return Effect.READ, "the server claims readOnlyHint"
    if not tool.own_name.isascii():
        return Effect.DESTRUCTIVE, "its name may look like another one"
    return Effect.WRITE, "nothing says that it only reads"
