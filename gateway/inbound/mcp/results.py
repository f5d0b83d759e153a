"""What was decided -> what goes over the wire, in the words of the client's era.

An upstream's own answer is changed in four places and no others: our record is put into `_meta`; for a modern client
`resultType` and our `serverInfo` are added where they are missing; for a legacy client they are taken off; and
`structuredContent` that is no object, which a legacy client cannot take, becomes text unless there is some.
"""

from collections.abc import Mapping
from typing import Any

from mcp_types import SERVER_INFO_META_KEY

from gateway.inbound.mcp.faults import INTERNAL_ERROR, INVALID_PARAMS, RESOURCE_NOT_FOUND, Fault
from gateway.model.answer import RECORD_KEY, PolicyRef, Refusal, Shown, unforged
from gateway.model.artifact import PREFIX
from gateway.model.canonical import Digest, dump
from gateway.model.events import Outcome
from gateway.model.hidden import hidden
from gateway.model.offer import Kind, Listed
from gateway.model.tool import Answer, NotSent, ProtocolError, Silence

_NO_CACHE = {"ttlMs": 0, "cacheScope": "private"}
LIST_TTL_MS = 10_000
"""Short: a modern client that we cannot tell of a change should soon see it."""


def answered(shown: Shown) -> dict[str, Any]:
    """The result in no era's words yet.

    Raises: Fault with the upstream's error, if that is the answer.
    """
    if shown.error is not None:
        raise Fault.of(shown.error)
    result = dict(shown.result) if shown.refusal is None else refused(shown.refusal)  # type: ignore[arg-type]
    meta = result.get("_meta")
    if isinstance(meta, Mapping | None):
        # Ours alone: what an upstream wrote under our key is not our record [hardening T37].
        kept = {key: value for key, value in (meta or {}).items() if key != RECORD_KEY}
        if shown.record is not None:
            kept[RECORD_KEY] = dict(shown.record)
        if meta is not None or kept:
            result["_meta"] = kept
    return result


def own(result: Mapping[str, Any]) -> dict[str, Any]:
    """A result that the gate has not seen, without what stands under our key."""
    meta = result.get("_meta")
    if not isinstance(meta, Mapping) or RECORD_KEY not in meta:
        return dict(result)
    return {**result, "_meta": {key: value for key, value in meta.items() if key != RECORD_KEY}}


def counted(result: Mapping[str, Any]) -> dict[str, Any]:
    """As `own`, with what it hides counted under our key."""
    found = hidden({key: value for key, value in result.items() if key != "_meta"})
    told = own(result)
    if not found:
        return told
    meta = told.get("_meta")
    label = {"hidden": {"done": "flagged", "characters": found}}
    return {**told, "_meta": {**(meta if isinstance(meta, Mapping) else {}), RECORD_KEY: label}}


def refused(refusal: Refusal) -> dict[str, Any]:
    """A `CallToolResult` that says it twice: clients differ in which of the two the model sees."""
    told = refusal.model_dump(mode="json", exclude_none=True)
    return {"content": [{"type": "text", "text": dump(told)}], "structuredContent": told, "isError": True}


def ledger_unavailable(tool: str, reason: str) -> Refusal:
    """The run could not be opened now; so nothing was judged and nothing was sent."""
    wait = "Nothing was executed. Wait, then repeat this call unchanged."
    return _unopened(tool, Outcome.LEDGER_UNAVAILABLE, f"the ledger cannot be written now: {reason}", wait, 5.0)


def no_such_run(tool: str, reason: str) -> Refusal:
    """The run cannot be opened for whoever asks; so nothing was judged and nothing was sent."""
    ask = "Nothing was executed. Tell the user that this run cannot be used; another one must be opened."
    return _unopened(tool, Outcome.DENIED, reason, ask)


def no_such_attempt(tool: str, reason: str) -> Refusal:
    """Nothing is known of what is asked for; so nothing can be told of it."""
    ask = "Nothing was executed. Call again with the `attempt` of the `in_flight` answer, unchanged."
    return _unopened(tool, Outcome.DENIED, reason, ask)


def no_such_approval(tool: str, reason: str) -> Refusal:
    """Nobody was asked that by whoever wants to know; so nothing can be told of it."""
    ask = "Nothing was executed. Call again with the `id` of the `approval` in the `needs_approval` answer, unchanged."
    return _unopened(tool, Outcome.DENIED, reason, ask)


def bad_arguments(tool: str, reason: str, violations: tuple[dict[str, str], ...]) -> Refusal:
    """What an own tool was given does not keep its schema."""
    more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
    advice = "Correct the arguments that are listed and call again."
    refusal = _unopened(tool, Outcome.INVALID_ARGUMENTS, reason + more, advice)
    return refusal.model_copy(update={"violations": violations})


def _unopened(tool: str, outcome: Outcome, reason: str, advice: str, retry_after_s: float | None = None) -> Refusal:
    return Refusal(
        outcome=outcome,
        terminal=False,
        executed=False,
        run="",
        phase="",
        tool=tool,
        policy=PolicyRef(name="", digest=Digest("")),
        reason=reason,
        retry_after_s=retry_after_s,
        next=advice,
    )


def not_found(*, modern: bool) -> tuple[int, str]:
    """Code and message for a resource that nobody has."""
    return (INVALID_PARAMS if modern else RESOURCE_NOT_FOUND), "Resource not found"


def failed(answer: Answer, *, modern: bool = False, method: str = "") -> Fault:
    """The error for a request whose answer is no result. An upstream's own is passed on, in the words of the era."""
    match answer:
        case ProtocolError(theirs):
            error = unforged(theirs)
            if modern and method == "resources/read" and error.get("code") == RESOURCE_NOT_FOUND:
                return Fault.of({**error, "code": INVALID_PARAMS})
            return Fault.of(error)
        case NotSent(reason) | Silence(reason):
            return Fault(INTERNAL_ERROR, reason)
        case _:
            return Fault(INTERNAL_ERROR, "the server's answer is no result of this method")


def for_modern(result: dict[str, Any], server_info: Mapping[str, Any]) -> dict[str, Any]:
    """The result as MCP 2026-07-28 wants it."""
    stamped = dict(result) if "resultType" in result else {"resultType": "complete", **result}
    meta = stamped.get("_meta")
    if meta is None:
        stamped["_meta"] = {SERVER_INFO_META_KEY: dict(server_info)}
    elif isinstance(meta, Mapping) and SERVER_INFO_META_KEY not in meta:
        stamped["_meta"] = {SERVER_INFO_META_KEY: dict(server_info), **meta}
    return stamped


def for_legacy(result: dict[str, Any], *, links: bool = True) -> dict[str, Any]:
    """The result as the revisions up to 2025-11-25 want it; without our own `links` for those that know none."""
    plain = dict(result)
    if not links and isinstance(plain.get("content"), list):
        plain["content"] = [block for block in plain["content"] if not _is_our_link(block)]
    if plain.get("resultType") == "complete":
        del plain["resultType"]
    meta = plain.get("_meta")
    if isinstance(meta, Mapping) and SERVER_INFO_META_KEY in meta:
        plain["_meta"] = {key: value for key, value in meta.items() if key != SERVER_INFO_META_KEY}
    if "structuredContent" in plain and not isinstance(plain["structuredContent"], Mapping):
        value = plain.pop("structuredContent")
        if not plain.get("content"):
            plain["content"] = [{"type": "text", "text": dump(value)}]
    return plain


def _is_our_link(block: Any) -> bool:
    """Whether it leads to what was left out of the result, which its text says as well."""
    told = block if isinstance(block, Mapping) else {}
    return told.get("type") == "resource_link" and str(told.get("uri")).startswith(PREFIX)


def listed(kind: Kind, offered: Listed, *, modern: bool) -> dict[str, Any]:
    """The answer to a list, all on one page; items unchanged.

    Only for a legacy client an output schema that describes no object is left out, as its results will be.
    """
    if modern:
        ttl_ms = LIST_TTL_MS if offered.ttl_ms is None else min(offered.ttl_ms, LIST_TTL_MS)
        return {kind: [*offered.items], "ttlMs": ttl_ms, "cacheScope": "public" if offered.public else "private"}
    if kind == "tools":
        return {kind: [_without_foreign_schema(definition) for definition in offered.items]}
    return {kind: [*offered.items]}


def for_cache(result: dict[str, Any]) -> dict[str, Any]:
    """A modern client's, with the hints that it must have where the upstream gave none: to be asked for anew."""
    missing = {name: value for name, value in _NO_CACHE.items() if name not in result}
    return {**missing, **result}


def _without_foreign_schema(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = definition.get("outputSchema")
    if schema is None or (isinstance(schema, Mapping) and schema.get("type") == "object"):
        return definition
    return {key: value for key, value in definition.items() if key != "outputSchema"}
