"""What the mutants do in place of the real code; each says by its name what is wrong with it."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from gateway.kernel import accounts, checks, evidence, people, recover, verify
from gateway.kernel.case import Case, Step, passed
from gateway.model.account import Posting
from gateway.model.canonical import digest
from gateway.model.events import (
    ApprovalDecided,
    AttemptUnknown,
    AttemptUnsent,
    Event,
    Who,
)
from gateway.model.run import Attempt, AttemptState, Run
from gateway.model.tool import Silence, ToolResult
from gateway.ports import Append
from gateway.runtime import book, wire
from gateway.runtime.book import Book
from gateway.runtime.carry import Carrier
from tests.crash import ground

GROUND, APPROVE = ground, ground
AGENT_HIMSELF = Who.of(ground.AGENT)

# What is replaced, as it was.
_APPEND, _DISPATCH, _OBSERVE, _RECEIVED = Book._append, Carrier._dispatch, verify.observe, verify.received
_POSTINGS, _JUDGED, _TRACKED_AS, _KEYED = accounts.postings, evidence.judged, book.tracked_as, wire.keyed
_kept: set[asyncio.Task[None]] = set()


async def with_what_is_queued(self: Book, run_id: str, knowing: str) -> Run:
    _ = knowing
    return await self.state_of(run_id)


def never_known(_: Case) -> Step:
    return passed("key")


def any_arguments(case: Case) -> Step:
    found = checks._earlier(case)
    if found is not None and found[1]:
        same = found[0].intent.arguments
        case = case._replace(proposal=replace(case.proposal, arguments_digest=same))
    return checks.known_key(case)


async def append_intents_later(self: Book, append: Append) -> None:
    await _later(self, append, "intent.recorded")


async def append_receipts_later(self: Book, append: Append) -> None:
    await _later(self, append, "receipt.recorded")


async def _later(self: Book, append: Append, kind: str) -> None:
    if not any(record.event.kind == kind for record in append.records):
        await _APPEND(self, append)
        return
    task = asyncio.get_running_loop().create_task(_APPEND(self, append))
    _kept.add(task)
    task.add_done_callback(_forget)


def _forget(task: "asyncio.Task[None]") -> None:
    _kept.discard(task)
    if not task.cancelled():
        task.exception()  # whatever it was, nobody hears of it


async def dispatch_twice(self: Carrier, proposal: Any, tool: Any, attempt: Attempt, caller: Any) -> Any:
    decided = self.decided[attempt.id]
    answer = await _DISPATCH(self, proposal, tool, attempt, caller)
    if not isinstance(answer, Silence):
        return answer
    self.decided[attempt.id] = decided
    return await _DISPATCH(self, proposal, tool, attempt, caller)


async def garbage_is_a_result(self: Carrier, *args: Any) -> Any:
    answer = await _DISPATCH(self, *args)
    return ToolResult({"content": [{"type": "text", "text": "<html>"}]}) if isinstance(answer, Silence) else answer


def silence_is_unsent(run: Run, attempt: Any, answer: Any, *args: Any, **kwargs: Any) -> Sequence[Event]:
    if isinstance(answer, Silence) and attempt.state is AttemptState.OPEN:
        return (AttemptUnsent(attempt=attempt.id, reason=answer.reason),)
    return _OBSERVE(run, attempt, answer, *args, **kwargs)


def unlimited(run: Run, event: Event) -> Iterator[Posting]:
    return (one._replace(limit=None) for one in _POSTINGS(run, event))


def give_back_unknown(run: Run, event: Event) -> Iterator[Posting]:
    yield from _POSTINGS(run, event)
    if isinstance(event, AttemptUnknown):
        yield from _POSTINGS(run, AttemptUnsent(attempt=event.attempt, reason=""))


def no_budget(*_: Any) -> Step:
    return passed("budget")


def for_the_tool(proposal: Any, *_: Any) -> Any:
    return digest({"run": proposal.run, "tool": proposal.tool}, b"")


def endless_approval(case: Case) -> Step:
    return _approval(case._replace(now=case.run.opened_at or case.now))


_approval = people.approval


def any_answer(
    run: Run, approval_id: str, action: Any, *, approve: bool, by: Who, reason: str, now: datetime
) -> ApprovalDecided:
    _ = run, now
    return ApprovalDecided(
        approval=approval_id, action=action, decision="approved" if approve else "rejected", by=by, reason=reason
    )


def silence_passes(*args: Any) -> Any:
    verdict, says = _JUDGED(*args)
    return ("pass", says) if verdict == "inconclusive" else (verdict, says)


def advance_at_once(run: Run, attempt: Any, receipt: Any) -> Sequence[Event]:
    events = _RECEIVED(run, attempt, receipt)
    return (*events, *verify.advance(run, attempt, run.version + 1)) if len(events) == 1 else events


def forget_undelivered(run: Any, attempt: Any) -> str | None:
    state = _TRACKED_AS(run, attempt)
    return None if state == "undelivered" else state


def free_by_the_wall_clock(self: Any, seen: Any) -> bool:
    return bool(seen.owner == self._owner or seen.lease_until <= self._clock.now())


def keyless_again(proposal: Any, *args: Any) -> tuple[Mapping[str, Any], dict[str, Any], dict[str, str]]:
    return _KEYED(proposal, *args) if proposal.resends is None else (proposal.arguments, {}, {})


async def drop(*_: Any) -> None:
    return None


async def see_nothing(_: Any) -> int:
    return 0


def always_happened(*_: Any) -> recover.Answered:
    return recover.Answered("happened", "it must have")
