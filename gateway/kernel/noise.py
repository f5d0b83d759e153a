"""(step, what policy declares noise) -> a digest that equal steps have in common."""

from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import Any, TypeAlias, assert_never

from gateway.kernel.globs import names
from gateway.kernel.rules import Ruled, Rules
from gateway.model.canonical import Digest, NotStrictJson, digest, digest_bytes, parse
from gateway.model.run import Attempt
from gateway.model.tool import Answer, InputRequired, NotSent, ProtocolError, Silence, TaskStarted, ToolResult

Noise: TypeAlias = frozenset[tuple[str, ...]]
"""Names, each with those that it is within."""


def noise_of(rules: Rules, ruled: Ruled | None, name: str) -> Noise:
    """What tells no step of the tool of that name from another; `ruled` is None where nobody offers it."""
    if ruled is not None:
        return ruled.once("noise", lambda: _noise(rules, ruled.registered.rule.noise))
    own = (rule.noise for pattern, rule in rules.policy.tools.items() if names(pattern, name))
    return _noise(rules, next(own, ()))


def _noise(rules: Rules, own: Iterable[str]) -> Noise:
    limits = rules.policy.stops.repeated_state
    return frozenset(tuple(one.split(".")) for one in (*own, *(limits.noise if limits is not None else ())))


def without(value: Any, noise: Noise) -> Any:
    """The value without these fields, at any depth."""
    return _without(value, noise, noise) if noise else value


def _without(value: Any, noise: Noise, here: Noise) -> Any:
    """As `without`; `here` has in addition what is left of names that we are within."""
    if isinstance(value, Mapping):
        kept: dict[str, Any] = {}
        for key, one in value.items():
            if (key,) not in here:
                kept[key] = _without(one, noise, noise | {path[1:] for path in here if path[0] == key})
        return kept
    if isinstance(value, list):
        return list(map(_without, value, repeat(noise), repeat(here)))  # one frame a level: results may be deep
    return value


def asked_alike(arguments: Mapping[str, Any], noise: Noise, salt: bytes) -> Digest | None:
    """The digest of the arguments without noise; None where there is none in them."""
    left = without(arguments, noise)
    return None if left == arguments else digest(left, salt)


def step_alike(
    attempt: Attempt,
    arguments: Mapping[str, Any],
    answer: Answer,
    result: Digest | None,
    rules: Rules,
    ruled: Ruled,
    salt: bytes,
) -> Digest | None:
    """What the attempt has in common with steps that asked the same and were answered the same, noise aside; `result`
    cites the answer.

    None where nobody counts it: policy does not, the tool is polled and did not fail, it is a call of the gateway's
    own, or the answer is no end.
    """
    payload = _ended(answer)
    if rules.policy.stops.repeated_state is None or attempt.intent.compensates is not None or payload is None:
        return None
    if ruled.registered.rule.poll and isinstance(answer, ToolResult) and payload.get("isError") is not True:
        return None
    noise, intent = noise_of(rules, ruled, attempt.intent.tool), attempt.intent
    if not noise and "_meta" not in payload:
        return digest_bytes(f"{intent.tool}\0{intent.arguments}\0{result}".encode(), salt)
    asked = asked_alike(arguments, noise, salt) or intent.arguments
    said = {name: values_in(name, value) for name, value in payload.items() if name != "_meta"}
    return digest([intent.tool, asked, without(said, noise)], salt)


def _ended(answer: Answer) -> Mapping[str, Any] | None:
    match answer:
        case ToolResult(payload) | ProtocolError(payload):
            return payload
        case InputRequired() | TaskStarted() | NotSent() | Silence():
            return None
        case _:
            assert_never(answer)


def values_in(name: str, value: Any) -> Any:
    """The part of an answer of this name, content with the JSON in its texts as values: noise stands there too."""
    if name != "content" or not isinstance(value, list):
        return value
    return [_read_block(block) for block in value]


def _read_block(block: Any) -> Any:
    text = block.get("text") if isinstance(block, Mapping) and block.get("type") == "text" else None
    if not isinstance(text, str) or not text.lstrip().startswith(("{", "[")):
        return block
    try:
        return {**block, "text": parse(text)}
    except NotStrictJson:
        return block
