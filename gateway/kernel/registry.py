"""(tool, policy) -> what is known of the tool. Defaults always lean to caution and say that they were inferred."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from gateway.kernel.globs import names
from gateway.model.canonical import digest
from gateway.model.events import Effect
from gateway.model.policy import Pin, Policy, ResultRule, ToolRule
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


PINNED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
"""What of a definition is pinned: all that a model or a check reads. Icons and `_meta` may change."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A tool with its effect and rule, as this policy sees it."""

    tool: Tool
    rule: ToolRule
    effect: Effect
    inferred: str | None
    """Why the effect is what it is, where policy does not say it; None where it does."""
    pattern: str | None
    """Of the registry entry that names it; None where none does."""
    idempotency: Literal["natural", "key", "query", "none"]
    reversible: Literal["yes", "compensate", "no"]
    guesses: Mapping[str, str]
    """All that policy does not say and that is inferred: what, and why."""


def registered(tool: Tool, policy: Policy) -> Registered:
    """What policy and definition together say; the first matching registry entry counts."""
    pattern, rule = _entry(tool.name, policy)
    trust = policy.annotations == "trust"
    effect, why = (rule.effect, None) if rule.effect is not None else _inferred(tool, trust=trust)
    idempotency, repeats = _idempotency(tool, rule, effect, trust=trust)
    reversible, undone = _reversible(rule, effect)
    guessed = {"effect": why, "idempotency": repeats, "reversible": undone}
    guesses = {what: because for what, because in guessed.items() if because is not None}
    return Registered(tool, rule, effect, why, pattern, idempotency, reversible, guesses)


def rule_of(name: str, policy: Policy) -> ToolRule:
    """What the registry says of the tool of that name; the first matching entry counts."""
    return _entry(name, policy)[1]


def told_by(rule: ToolRule, policy: Policy) -> ResultRule:
    """How much reaches the agent of what a tool under that entry answers."""
    return policy.result if rule.result is None else rule.result


def bounds(policy: Policy) -> bool:
    """Whether an agent under this policy may get less of an answer than all of it."""
    said = (policy.result, *(told_by(rule, policy) for rule in policy.tools.values()))
    return any(one.max_bytes is not None or one.repeat == "reference" for one in said)


def _entry(name: str, policy: Policy) -> tuple[str | None, ToolRule]:
    named = ((pattern, rule) for pattern, rule in policy.tools.items() if names(pattern, name))
    return next(named, (None, _SILENT))


_SILENT = ToolRule()


def is_pinned(tool: Tool, policy: Policy) -> bool:
    """Whether the tool is defined as policy pins it; or policy pins nothing, and does not want it to be pinned."""
    pinned = policy.pins.get(tool.name)
    return policy.unpinned == "allow" if pinned is None else pinned.digest == pin(tool.definition)


def pin(definition: Mapping[str, Any]) -> str:
    """The digest by which a policy pins a tool, over what is `PINNED` of it."""
    return digest(pinned_part(definition), b"")


def pinned_part(definition: Mapping[str, Any]) -> dict[str, Any]:
    """What is pinned of a definition."""
    return {part: definition[part] for part in PINNED if part in definition}


def changed_parts(tool: Tool, policy: Policy) -> tuple[str, ...]:
    """Which parts of the tool's definition are other ones than when it was pinned."""
    was = policy.pins.get(tool.name)
    if was is None:
        return ()
    parts = [
        part for part in PINNED if (part in was.definition) != (part in tool.definition) or _other(was, tool, part)
    ]
    return tuple(parts)


def _other(was: Pin, tool: Tool, part: str) -> bool:
    # By the digest: to Python 1, 1.0 and True are equal, and to a schema they are not.
    return digest(was.definition.get(part), b"") != digest(tool.definition.get(part), b"")


def _hints(tool: Tool) -> Mapping[str, Any]:
    annotations = tool.definition.get("annotations")
    return annotations if isinstance(annotations, Mapping) else {}


def _inferred(tool: Tool, *, trust: bool) -> tuple[Effect, str]:
    hints = _hints(tool)
    words = {word.lower() for word in _WORD.findall(tool.own_name)}
    if named := sorted(words & _DESTRUCTIVE_WORDS):
        return Effect.DESTRUCTIVE, f"its name says `{named[0]}`"
    if hints.get("destructiveHint") is True:
        return Effect.DESTRUCTIVE, "the server claims destructiveHint"
    if hints.get("readOnlyHint") is True and trust:
        return Effect.READ, "the server claims readOnlyHint"
    if not tool.own_name.isascii():
        return Effect.DESTRUCTIVE, "its name may look like another one"
    asked = _statement_argument(tool)
    if asked is not None:
        return Effect.DESTRUCTIVE, f"its argument `{asked}` may say anything"
    if hints.get("readOnlyHint") is True:
        return Effect.WRITE, "the server claims readOnlyHint, and `annotations: tighten` does not believe it"
    return Effect.WRITE, "nothing says that it only reads"


_STATEMENTS = frozenset({"sql", "statement", "command", "cmd", "script", "code", "shell", "query_string"})
"""Arguments in which a whole program can stand: what the tool does is then up to whoever calls it."""


def _statement_argument(tool: Tool) -> str | None:
    """An argument, by the tool's schema, that is a program."""
    schema = tool.definition.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return None
    return next((name for name in properties if isinstance(name, str) and name.lower() in _STATEMENTS), None)


def _idempotency(
    tool: Tool, rule: ToolRule, effect: Effect, *, trust: bool
) -> tuple[Literal["natural", "key", "query", "none"], str | None]:
    if rule.idempotency is not None:
        return rule.idempotency.kind, None
    if effect is Effect.READ:
        return "natural", "it only reads"
    if _hints(tool).get("idempotentHint") is True:
        if trust:
            return "natural", "the server claims idempotentHint"
        return "none", "the server claims idempotentHint, and `annotations: tighten` does not believe it"
    return "none", "nothing says that twice is as once"


def _reversible(rule: ToolRule, effect: Effect) -> tuple[Literal["yes", "compensate", "no"], str | None]:
    if rule.reversible is not None:
        return rule.reversible, None
    if effect is Effect.READ:
        return "yes", "it only reads"
    if rule.compensation is not None:
        return "compensate", "policy names a compensation"
    return "no", "nothing says how to undo it"
