"""How a verifier looks: by a tool of an upstream, at a place, or at the call's own result. Others judge it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gateway.kernel.conditions import Undecided
from gateway.kernel.evidence import probe_arguments
from gateway.kernel.registry import is_pinned
from gateway.kernel.rules import Rules
from gateway.model.canonical import parse
from gateway.model.policy import Verifier, Way
from gateway.model.run import Attempt
from gateway.model.tool import Answer, NotSent, ToolResult
from gateway.ports import Dispatch, Ledger, Look, Looks, Upstreams
from gateway.runtime.wire import ANY_DEPTH


class Nowhere:
    """The looks of a gateway that knows no places."""

    def trouble(self, way: Way) -> str | None:
        """It never can."""
        return f"this gateway has no place `{way.place}`"

    async def look(self, asked: Look) -> Answer:
        """Nothing, and why."""
        return NotSent(f"this gateway has no place `{asked.way.place}`")


NOWHERE = Nowhere()


class Looking:
    """What verifiers see. One for each process."""

    def __init__(self, ledger: Ledger, upstreams: Upstreams, looks: Looks) -> None:
        self._ledger = ledger
        self._upstreams = upstreams
        self._looks = looks

    async def can(self, rule: Verifier) -> bool:
        """Whether this gateway can ask the verifier now."""
        if rule.probe is not None:
            tool = await self._upstreams.tool(rule.probe.tool)
            return tool is not None and tool.healthy
        return rule.way is None or self._looks.trouble(rule.way) is None

    async def seen(
        self, rule: Verifier, arguments: Mapping[str, Any], rules: Rules, now: datetime, about: Attempt | None
    ) -> Answer:
        """What the verifier sees of a call with these arguments, which has been made as the attempt or not at all.

        Raises: LedgerUnavailable.
        """
        told = probe_arguments(rule, arguments, rules, now)
        if rule.probe is not None:
            return await self.ask(rule.probe.tool, told, rule.timeout_s, rules)
        if rule.way is None:
            return await self._own(about)
        if isinstance(told, Undecided):
            return NotSent(f"what to look for cannot be told: {told.reason}")
        return await self._looks.look(Look(rule.way, told, rule.timeout_s))

    async def ask(self, name: str, arguments: dict[str, Any] | Undecided, timeout_s: float, rules: Rules) -> Answer:
        """What the read tool of that name answers; `NotSent` where it cannot be asked."""
        tool = await self._upstreams.tool(name)
        if tool is None or not is_pinned(tool, rules.policy):
            return NotSent(f"no upstream offers `{name}` as policy pins it")
        if isinstance(arguments, Undecided):
            return NotSent(f"what to ask `{name}` cannot be told: {arguments.reason}")
        return await self._upstreams.call(Dispatch(tool, arguments, timeout_s))

    async def _own(self, attempt: Attempt | None) -> Answer:
        """The attempt's own result, as it is recorded."""
        if attempt is None or attempt.result is None or attempt.source != "upstream":
            return NotSent("the call's own result was never seen")
        if attempt.schema_valid is False:
            return NotSent("the call's own result breaks the schema of its tool")
        body = await self._ledger.payload(attempt.result)
        if body is None:
            return NotSent("the call's own result was erased")
        return ToolResult(parse(body, max_depth=ANY_DEPTH))
