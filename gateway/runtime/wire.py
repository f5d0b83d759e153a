"""What goes out with an intent, and what of an answer is stored."""

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.kernel.rules import Rules
from gateway.kernel.verify import Cited
from gateway.model.attempt import Attempt
from gateway.model.canonical import Digest, canonical, digest_bytes, parse
from gateway.model.proposal import Proposal
from gateway.model.run import Run, joined
from gateway.model.tool import Answer, InputRequired, ProtocolError, TaskStarted, Tool, ToolResult
from gateway.ports import Ledger
from gateway.runtime.tell import Executed

ANY_DEPTH = 512
"""Results are stored as they came; they may be deeper than what a client may send."""


def payload_of(answer: Answer | None) -> Mapping[str, Any] | None:
    """What an answer holds to be stored and shown; None where it holds nothing."""
    match answer:
        case ToolResult(result) | InputRequired(result) | TaskStarted(result):
            return dict(result)
        case ProtocolError(error):
            return dict(error)
        case _:
            return None


def keyed(
    proposal: Proposal, rules: Rules, tool: Tool, attempt: str
) -> tuple[Mapping[str, Any], dict[str, Any], dict[str, str]]:
    """Arguments, `_meta` and headers, with our key where the registry says that the upstream honours one."""
    told = rules.ruled(tool).registered.rule.idempotency
    place = told.key if told is not None else None
    arguments: Mapping[str, Any] = proposal.arguments
    if place is None:
        return arguments, {}, {}
    if place.argument is not None:
        return {**arguments, place.argument: attempt}, {}, {}
    return arguments, {place.meta: attempt} if place.meta else {}, {place.header: attempt} if place.header else {}


def stored(answer: Answer, salt: bytes) -> tuple[Cited | None, dict[Digest, bytes]]:
    """How the answer's payload is cited, and what is to be stored for it; nothing where the answer holds nothing."""
    payload = payload_of(answer)
    if payload is None:
        return None, {}
    body = canonical(payload)
    cited = Cited(digest_bytes(body, salt), len(body))
    return cited, {cited.digest: body}


class Definitions:
    """The tools' definitions, spelled and cited once for each time that an upstream sends them."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._cited: dict[str, tuple[Mapping[str, Any], Digest, bytes]] = {}

    def cite(self, tool: Tool | None, payloads: dict[Digest, bytes]) -> Digest | None:
        """The digest of the tool's definition, whose text is then among the payloads; None if it has none."""
        if tool is None or not tool.definition:
            return None
        kept = self._cited.get(tool.name)
        if kept is None or kept[0] is not tool.definition:
            body = canonical(dict(tool.definition))
            kept = (tool.definition, digest_bytes(body, self._salt), body)
            self._cited[tool.name] = kept
        payloads[kept[1]] = kept[2]
        return kept[1]


def made_before(seen: Sequence[Run], proposal: Proposal) -> Executed:
    """Whether this call was made before, by the state that was judged: a refusal now says nothing about earlier.

    A run with a token may be written to by other gateways, and they may have sent this very call, by its key, since the
    state was read that was judged here.
    """
    if not seen or joined(proposal.tool, proposal.equal) in seen[-1].equals:
        return "unknown"
    alone = seen[-1].origin in {"process", "session"}
    return False if alone or proposal.key is None else "unknown"


async def arguments_of(ledger: Ledger, attempt: Attempt) -> dict[str, Any]:
    """Of the attempt, as they are recorded; none where they were erased.

    Raises: LedgerUnavailable.
    """
    body = await ledger.payload(attempt.intent.arguments)
    return parse(body) if body is not None else {}
