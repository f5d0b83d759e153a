"""Recorded answers, read in ranges by those who got them in part. It is no call: nothing is judged, charged or sent.

All that holds for what is told of an answer holds here as well: what policy withholds or strips, and what a verifier
was against. Who made the call reads it; to all others it is not there.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gateway.kernel.registry import bounds, rule_of, told_by
from gateway.kernel.rules import Rules
from gateway.model.answer import Shown
from gateway.model.artifact import Artifact, Piece, Unreadable
from gateway.model.canonical import canonical
from gateway.model.principal import Principal
from gateway.model.run import Attempt, Run
from gateway.ports import NoSuchRun
from gateway.runtime.book import Book
from gateway.runtime.clipping import back, forward, is_base64
from gateway.runtime.showing import Showing

READ_BYTES = 65_536
"""The most that is read at once, or what the tool's `result.max_bytes` says if that is less."""


class Artifacts:
    """Reads them. One for each process."""

    def __init__(self, book: Book, showing: Showing) -> None:
        self._book = book
        self._showing = showing
        self._last: tuple[str, int, Shown] | None = None
        """The attempt that was read last, the version of its run then, and its answer: else all of it would be parsed
        for each range.
        """

    @property
    def offered(self) -> bool:
        """Whether a policy in force bounds what agents get, so that there may be something to read."""
        return any(map(bounds, self._book.policies.loaded()))

    async def read(self, asked: Artifact, principal: Principal, run_id: str | None) -> Piece:
        """The range that is asked for, or as much of it as is told at once.

        `run_id` is the run of whoever asks, as far as one is open.

        Raises: NoSuchRun if there is no such thing, or it is another's; Unreadable, LedgerUnavailable, PolicyMissing,
        CorruptLedger.
        """
        run = await self._book.fresh_state_of(asked.attempt.rpartition(".")[0])
        owner, attempt = run.principal, run.attempts.get(asked.attempt)
        mine = owner is not None and owner.whose == principal.whose
        if not mine or attempt is None:
            raise NoSuchRun("no such artifact is known")
        rules = await self._book.policies.of(run.policy)
        rule = rule_of(attempt.intent.tool, rules.policy)
        if rule.data_class is not None and run.id != run_id:
            # What a run has seen decides what it may do; what it reads here it would have seen unnoticed.
            raise NoSuchRun("no such artifact is known")
        shown = await self._whole(run, rules, attempt)
        if shown.refusal is not None:
            raise Unreadable(shown.refusal.reason)
        most = min(told_by(rule, rules.policy).max_bytes or READ_BYTES, READ_BYTES)
        said = shown.record or {}
        label = {name: said[name] for name in ("trust", "hidden") if name in said}
        piece = _piece(asked, shown.result if shown.result is not None else shown.error, most)
        return replace(piece, label=label)

    async def _whole(self, run: Run, rules: Rules, attempt: Attempt) -> Shown:
        last, cited = self._last, attempt.result
        if last is not None and last[:2] == (attempt.id, run.version) and cited is not None:
            if not await self._book.ledger.erased([cited]):
                return last[2]
            self._last = None
        shown = await self._showing.whole(run, rules, attempt, replayed=True)
        if shown.refusal is None:
            self._last = (attempt.id, run.version, shown)
        return shown


def _piece(asked: Artifact, answer: Any, most: int) -> Piece:
    value, holder = answer, None
    for part in asked.at:
        holder, value = value, _member(value, part)
    body, mime, binary = _spelled(asked.at, value, holder)
    start, end, following = _range(asked, body, most, binary=binary)
    return Piece(asked, mime, body[start:end], binary, start, len(body), following)


def _member(value: Any, part: str) -> Any:
    if isinstance(value, Mapping) and part in value:
        return value[part]
    if isinstance(value, list) and part.isascii() and part.isdigit() and len(part) < 10 and int(part) < len(value):  # noqa: PLR2004 - no list is so long
        return value[int(part)]
    raise NoSuchRun("no such artifact is known")


def _spelled(at: tuple[str, ...], value: Any, holder: Any) -> tuple[bytes, str, bool]:
    """A text as it is, what is base64 as the bytes that it stands for, all else as JSON."""
    told = holder.get("mimeType") if isinstance(holder, Mapping) else None
    mime = told if isinstance(told, str) else None
    if not isinstance(value, str):
        return canonical(value), "application/json", False
    if is_base64(holder, at[-1]):
        try:
            return base64.b64decode(value, validate=True), mime or "application/octet-stream", True
        except binascii.Error:
            return value.encode(), "text/plain", False
    return value.encode(), mime or "text/plain", False


def _range(asked: Artifact, body: bytes, most: int, *, binary: bool) -> tuple[int, int, Artifact | None]:
    most = min(asked.most or most, most)
    start = min(asked.start, len(body)) if asked.line is None else _line(body, asked.line)
    if binary:
        end = min(start + most, len(body))
        return start, end, asked.following(end) if end < len(body) else None
    start = back(body, start)
    if asked.line is not None and asked.lines is not None:
        end = start + _line(body[start : start + most], asked.lines + 1)
        if (end < start + most and body[end - 1 : end] == b"\n") or end == len(body):
            following = replace(asked, line=asked.line + asked.lines)
            return start, end, following if end < len(body) else None
    end = back(body, min(start + most, len(body)))
    if end <= start < len(body):
        end = forward(body, start + 1)  # one character at least, however little is asked for
    if end < len(body) and (line := body.rfind(b"\n", start + (end - start) * 3 // 4, end)) >= 0:
        end = line + 1
    return start, end, asked.following(end) if end < len(body) else None


_STRIDE = 65_536


def _line(body: bytes, line: int) -> int:
    """Where the line begins, counted from 1; the end of the text if it has fewer."""
    place, missing = 0, line - 1
    while missing and place < len(body):
        chunk = body[place : place + _STRIDE]
        if (count := chunk.count(b"\n")) < missing:
            missing, place = missing - count, place + len(chunk)
            continue
        for _ in range(missing):
            place = body.index(b"\n", place) + 1
        return place
    return min(place, len(body))
