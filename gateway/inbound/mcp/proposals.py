"""`tools/call` -> Proposal: nothing is added, nothing is coerced."""

from collections.abc import Mapping
from typing import Any

from gateway.inbound.mcp.envelope import KEY_META, meta_of, params_of
from gateway.inbound.mcp.exchange import Exchange
from gateway.inbound.mcp.faults import INVALID_PARAMS, Fault
from gateway.model.alike import alike_digest
from gateway.model.canonical import canonical, digest_bytes
from gateway.model.proposal import Key, KeySource, Proposal

MAX_KEY_CHARS = 256
USAGE_META = "counterfoil/usage"
"""Where a client may say what its model has used since its last call."""
MAX_REPORTED = 10**12
OWN_PREFIX = "counterfoil/"
"""Keys of ours in `_meta`: from a client they are asked for or ignored, never relayed [hardening T11]."""
CALL_IDS = ("claudecode/toolUseId", "callId")
"""Where clients put their id of the model's call: Claude Code (the same in every round of one call), Codex."""


def propose(exchange: Exchange, attribution: Mapping[str, str], salt: bytes) -> Proposal:
    """What a `tools/call` asks; it names no run yet, so that a malformed call opens none.

    Raises: Fault.
    """
    params, meta = params_of(exchange.message), meta_of(exchange.message)
    tool, arguments = params.get("name"), params.get("arguments")
    if not isinstance(tool, str) or not tool:
        raise Fault(INVALID_PARAMS, "`name` must be a string that is not empty")
    if not isinstance(arguments, dict | None):
        raise Fault(INVALID_PARAMS, "`arguments` must be an object")
    arguments = {} if arguments is None else arguments
    spelled = canonical(arguments)
    return Proposal(
        run="",
        principal=exchange.principal,
        tool=tool,
        arguments=arguments,
        arguments_digest=digest_bytes(spelled, salt),
        alike=alike_digest(arguments, salt, spelled),
        key=_key(meta),
        meta=relayed(meta),
        attribution=attribution,
        spelled=spelled,
        reported_tokens=_reported(meta),
    )


def relayed(meta: Mapping[str, Any]) -> dict[str, Any]:
    """The client's `_meta` as an upstream may see it."""
    return {key: value for key, value in meta.items() if not key.casefold().startswith(OWN_PREFIX)}


def _reported(meta: dict[str, Any]) -> int:
    """Tokens of the model since its last call, if the client says so: `{"tokens": 1200}` under our key."""
    if USAGE_META not in meta:
        return 0
    usage = meta[USAGE_META]
    tokens = usage.get("tokens") if isinstance(usage, dict) else None
    if type(tokens) is not int or not 0 <= tokens <= MAX_REPORTED:
        raise Fault(INVALID_PARAMS, f'`{USAGE_META}` must be an object such as `{{"tokens": 1200}}`')
    return tokens


def _key(meta: dict[str, Any]) -> Key | None:
    if KEY_META in meta:
        own = meta[KEY_META]
        if not isinstance(own, str) or not 0 < len(own) <= MAX_KEY_CHARS or "\0" in own:
            # A key that we cannot honour must not be dropped: its caller counts on it.
            raise Fault(INVALID_PARAMS, f"`{KEY_META}` must be a string of 1 to {MAX_KEY_CHARS} characters")
        return Key(KeySource.CALLER, own)
    for name in CALL_IDS:
        value = meta.get(name)
        if isinstance(value, str) and 0 < len(value) <= MAX_KEY_CHARS:
            return Key(KeySource.CALL_ID, value)
    return None
