"""All that may differ between what was sent and what arrives, written down; and the comparison, for which 1 is not 1.0.

- ids and progress tokens: each connection has its own;
- names of tools and prompts: ours have the server's before them;
- `_meta`: our record is added to the result of a call, and to a page or prompt whose text hides characters; what a peer
  writes under our prefix is not passed on; an empty one, or null, is the same as none;
- an error whose text hides characters, or of a tool that policy calls untrusted: our label is added to its `data`;
- the message of a question to the user: where several servers may ask, the name of the one that does stands before it;
- `params` that are missing are the same as empty ones, `arguments` that are missing or null the same as `{}`;
- the words of the era: the envelope in `_meta` of a request, `resultType`, `serverInfo`, `ttlMs` and `cacheScope` of a
  result, `elicitationId` of an address to visit, the code of a resource that is not there, an `outputSchema` that is no
  object;
- what the record gives back (`gateway__result`, an answer to a repeated call): keys by code point;
- `structuredContent` that is no object, for a legacy client: it becomes text, unless there is some.
"""

from collections.abc import Mapping
from typing import Any

from gateway.model.canonical import dump
from tests.fidelity.cells import Kind

RECORD = "counterfoil/record"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
ENVELOPE = tuple(
    f"io.modelcontextprotocol/{name}" for name in ("protocolVersion", "clientInfo", "clientCapabilities", "logLevel")
)
HINTS = ("ttlMs", "cacheScope")


def exact(value: Any) -> str:
    """A text that two values have in common only if they are the same: kinds, the order of keys, the sign of zero."""
    return repr(value)


def without(value: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key not in names}


def sent_result(sent: Mapping[str, Any], kind: Kind) -> dict[str, Any]:
    """The result as its client should find it, without what only one of the eras says."""
    result = without(sent, "resultType") if sent.get("resultType", "complete") == "complete" else dict(sent)
    if kind.client == "legacy" and not isinstance(result.get("structuredContent", {}), dict):
        value = result.pop("structuredContent")
        if not result.get("content"):
            result["content"] = [{"type": "text", "text": dump(value)}]
    own = (RECORD, SERVER_INFO) if kind.client == "legacy" else (RECORD,)
    return _with_meta(result, without(result.get("_meta") or {}, *own))


def arrived_result(arrived: Mapping[str, Any], sent: Mapping[str, Any], kind: Kind, method: str) -> dict[str, Any]:
    """The result as it arrived, without what the gateway has to add, which must be there."""
    meta = dict(arrived.get("_meta") or {})
    added = []
    if method == "tools/call":
        assert isinstance(meta.pop(RECORD), dict)
    elif method in {"prompts/get", "resources/read"} and RECORD in meta:
        assert meta.pop(RECORD).keys() == {"hidden"}
    if kind.client == "modern":
        assert arrived["resultType"] == sent.get("resultType", "complete")
        if SERVER_INFO not in (sent.get("_meta") or {}):
            assert meta.pop(SERVER_INFO)["name"] == "counterfoil"
        if method == "resources/read":
            assert set(HINTS) <= arrived.keys()
            added = [name for name in HINTS if name not in sent]
    else:
        assert "resultType" not in arrived
    return _with_meta(without(arrived, "resultType", *added), meta)


def _with_meta(result: Mapping[str, Any], meta: Mapping[str, Any]) -> dict[str, Any]:
    plain = without(result, "_meta")
    return {**plain, "_meta": dict(meta)} if meta else plain


def same_result(arrived: Mapping[str, Any], sent: Mapping[str, Any], kind: Kind, method: str = "tools/call") -> None:
    """Nothing differs but what is written down."""
    assert exact(arrived_result(arrived, sent, kind, method)) == exact(sent_result(sent, kind))


def plain_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """The params of a request, without its envelope and progress token."""
    meta = without(params.get("_meta") or {}, *ENVELOPE, "progressToken")
    return _with_meta(params, meta)


def same_params(heard: Mapping[str, Any], sent: Mapping[str, Any]) -> None:
    """Nothing differs but what is written down."""
    assert exact(plain_params(heard)) == exact(plain_params(sent))
