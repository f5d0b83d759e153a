"""What the agent says of its own work, recorded; and where its run stands, told. Neither is judged by policy."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from gateway.kernel import claims
from gateway.kernel.reduce import CorruptLedger
from gateway.kernel.rules import Rules
from gateway.kernel.sentences import since
from gateway.kernel.status import MAX_TOLD, Around, status, wrong
from gateway.kernel.switches import thrown
from gateway.model.answer import Shown
from gateway.model.canonical import Digest, canonical, digest_bytes, dump, parse
from gateway.model.events import Event, NoteRecorded, Outcome, PlanRecorded
from gateway.model.party import Party
from gateway.model.plan import Note, Plan
from gateway.model.principal import Parent, Principal
from gateway.model.record import utc
from gateway.model.run import Run, RunState
from gateway.model.status import NoteAnswer, PlanAnswer, Since, Told
from gateway.model.switch import SWITCHES
from gateway.model.tool import Tool
from gateway.ports import LedgerUnavailable, NoSuchRun, Upstreams
from gateway.runtime import tell
from gateway.runtime.book import Book
from gateway.runtime.lineage import parent_over
from gateway.runtime.undone import all_undone

MAX_PLANS = 50
"""Revisions in one run."""
MAX_NOTES = 200
"""In one run, those included that have expired."""
MAX_PLAN_BYTES = 32_768
MAX_NOTE_BYTES = 4_096
MAX_EVENTS = 1_000
"""That are read for one answer; the cursor goes no further."""

Ceiling = Callable[[Parent, Principal], Awaitable[tuple[tuple[str, ...], tuple[str, ...]]]]


class Refused(Exception):
    """What is said cannot be recorded, and the message says why."""

    def __init__(self, reason: str, outcome: Outcome = Outcome.INVALID_ARGUMENTS) -> None:
        super().__init__(reason)
        self.outcome = outcome


class _Over(Exception):
    """Nothing is recorded in a run that is over."""


class Claims:
    """Takes plans and notes, and tells how a run stands. One for each process."""

    def __init__(self, book: Book, upstreams: Upstreams, ceiling: Ceiling) -> None:
        self._book = book
        self._salt = book.ledger.salt
        self._upstreams = upstreams
        self._ceiling = ceiling

    # --- what is recorded -------------------------------------------------------------------------------------------

    async def plan(self, run_id: str, principal: Principal, plan: Plan, tool: str) -> Shown:
        """The plan is the run's, with what is known to contradict it; or one clear refusal. `tool` is what was called.

        Raises: NoSuchRun, LedgerUnavailable, PolicyMissing, CorruptLedger.
        """
        told = plan.model_dump(mode="json", exclude_unset=True)
        cited, payloads = self._cited(told)

        def planned(run: Run, rules: Rules, now: datetime) -> Sequence[Event]:
            _may_say(run, principal)
            _fits(payloads, MAX_PLAN_BYTES)
            if claims.revision(run) >= MAX_PLANS:
                raise Refused(f"the run has {MAX_PLANS} plans, and takes no more", Outcome.DENIED)
            for one in plan.assumptions:
                _can_be_seen(one.evidence, one.field, rules)
            assumed = tuple(claims.assumed(one, self._salt) for one in plan.assumptions)
            event = PlanRecorded(plan=cited, revision=claims.revision(run) + 1, assumptions=assumed)
            return (event, *claims.by_what_is_known(run, event, now, self._salt))

        def answer(run: Run) -> Told:
            assert run.plan is not None  # noqa: S101 - INVARIANT: it was recorded just now, and none is taken back
            return PlanAnswer(
                run=run.id,
                event=f"{run.id}#{run.plan.seq}",
                revision=run.plan.event.revision,
                assumptions=len(run.plan.event.assumptions),
                invalidated=wrong(run, run.plan, {cited: told}),
            )

        return await self._record(run_id, planned, payloads, answer, tool)

    async def note(self, run_id: str, principal: Principal, note: Note, tool: str) -> Shown:
        """The note counts until it expires; or one clear refusal. As `plan`.

        Raises: NoSuchRun, LedgerUnavailable, PolicyMissing, CorruptLedger.
        """
        cited, payloads = self._cited(note.model_dump(mode="json", exclude_unset=True))
        until = None if note.until is None else note.until.evidence

        def noted(run: Run, rules: Rules, now: datetime) -> Sequence[Event]:
            _may_say(run, principal)
            _fits(payloads, MAX_NOTE_BYTES)
            if run.noted >= MAX_NOTES:
                raise Refused(f"the run has {MAX_NOTES} notes, and takes no more", Outcome.DENIED)
            _can_be_seen(until or "", "verdict", rules)
            places = tuple(_place(run, source) for source in note.sources)
            expires_at = now + timedelta(seconds=note.expires_s)
            event = NoteRecorded(
                note=cited, sources=places, confidence=note.confidence, expires_at=expires_at, until=until
            )
            return (event,)

        def answer(run: Run) -> Told:
            last = run.notes[-1]
            expires_at = last.event.expires_at.isoformat(timespec="seconds")
            return NoteAnswer(run=run.id, event=f"{run.id}#{last.seq}", expires_at=expires_at)

        return await self._record(run_id, noted, payloads, answer, tool)

    def _cited(self, told: Mapping[str, Any]) -> tuple[Digest, dict[Digest, bytes]]:
        body = canonical(dict(told))
        cited = digest_bytes(body, self._salt)
        return cited, {cited: body}

    async def _record(
        self,
        run_id: str,
        step: Callable[[Run, Rules, datetime], Sequence[Event]],
        payloads: Mapping[Digest, bytes],
        answer: Callable[[Run], Told],
        tool: str,
    ) -> Shown:
        try:
            _, run, _ = await self._book.transact(run_id, step, payloads)
        except Refused as error:
            run, rules = await self._standing(run_id)
            return Shown(run_id, refusal=tell.unsaid(run, rules, tool, str(error), error.outcome))
        except _Over:
            run, rules = await self._standing(run_id)
            return Shown(run_id, refusal=tell.stopped(run, rules, tool))
        return shown(answer(run), run_id)

    async def _standing(self, run_id: str) -> tuple[Run, Rules]:
        run = await self._book.state_of(run_id)
        return run, await self._book.policies.of(run.policy)

    # --- how it stands ----------------------------------------------------------------------------------------------

    async def status(
        self,
        run_id: str | None,
        principal: Principal,
        *,
        workflow: str | None,
        parent: Parent | None,
        offered: Sequence[str],
        party: Party,
        since: str | None,
        tool: str,
    ) -> Shown:
        """Where the run stands, and what happened since that cursor. Nothing is opened and nothing is recorded.

        `workflow` and `parent` are those of a run that would be opened; `offered` names the tools that the client sees.

        Raises: NoSuchRun, LedgerUnavailable, PolicyMissing, CorruptLedger.
        """
        run = Run("") if run_id is None else await self._book.fresh_state_of(run_id)
        if run.state is RunState.UNOPENED:
            run, rules = await self._unopened(principal, workflow, parent)
        else:
            owned(run, principal)
            rules = await self._book.policies.of(run.policy)
        try:
            news, cursor = (None, None) if since is None else await self._news(run, since)
        except Refused as error:
            return Shown(run.id, refusal=tell.unsaid(run, rules, tool, str(error), error.outcome))
        now = utc(self._book.clock.now())
        around = Around(
            principal,
            await self._tools(offered, party),
            await self._said(run, now),
            tuple(one for one in all_undone(run) or () if one.state != "undone"),
            self._book.options.where,
            await parent_over(run, self._book.fresh_state_of, now),
            thrown(await self._book.fresh_state_of(SWITCHES)),
        )
        return shown(status(run, rules, around, now, news, cursor), run.id)

    async def over(self, run_id: str) -> bool:
        """Whether that run has ended; False as well where nobody can say."""
        try:
            return (await self._book.fresh_state_of(run_id)).state is RunState.STOPPED
        except (LedgerUnavailable, CorruptLedger):
            return False

    async def _unopened(self, principal: Principal, workflow: str | None, parent: Parent | None) -> tuple[Run, Rules]:
        try:
            rules = self._book.policies.current(workflow)
        except KeyError:
            raise NoSuchRun(f"no policy for the workflow `{workflow}` is loaded") from None
        ceiling = None if parent is None else frozenset((await self._ceiling(parent, principal))[0])
        return Run("", principal=principal, phase=rules.policy.initial, delegated=ceiling), rules

    async def _tools(self, offered: Sequence[str], party: Party) -> list[Tool]:
        found = [await self._upstreams.tool(name, party) for name in offered]
        return [tool for tool in found if tool is not None]

    async def _said(self, run: Run, now: datetime) -> dict[Digest, Mapping[str, Any]]:
        living = [one for one in run.notes if claims.lives(run, one, now)][-MAX_TOLD:]
        cited = [one.event.note for one in living] + ([] if run.plan is None else [run.plan.event.plan])
        bodies = {digest: await self._book.ledger.payload(digest) for digest in cited}
        return {digest: parse(body) for digest, body in bodies.items() if body is not None}

    async def _news(self, run: Run, cursor: str) -> tuple[Since, str]:
        """What happened after the cursor, and the next one."""
        place = _place(run, cursor)
        records = [record for record, _ in await self._book.ledger.read(run.id, place, limit=MAX_EVENTS)]
        mine = [record for record in records if record.seq <= run.version]
        return since(run, mine), mine[-1].id if mine else cursor


def shown(told: Told, run_id: str) -> Shown:
    """The answer of an own tool that did its work."""
    said = told.model_dump(mode="json", exclude_none=True)
    return Shown(run_id, result={"content": [{"type": "text", "text": dump(said)}], "structuredContent": said})


def owned(run: Run, principal: Principal) -> None:
    """Raises: NoSuchRun, if the run is another principal's."""
    owner = run.principal
    if owner is None or owner.whose != principal.whose:
        raise NoSuchRun(f"run `{run.id}` belongs to another principal")


def _may_say(run: Run, principal: Principal) -> None:
    if run.state is RunState.UNOPENED:
        raise NoSuchRun(f"run `{run.id}` was never opened")
    owned(run, principal)
    if run.state is RunState.STOPPED:
        raise _Over


def _fits(payloads: Mapping[Digest, bytes], most: int) -> None:
    if any(len(body) > most for body in payloads.values()):
        raise Refused(f"it is longer than {most} bytes")


def _can_be_seen(verifier: str, field: str, rules: Rules) -> None:
    if verifier and verifier not in rules.policy.verifiers:
        known = ", ".join(f"`{name}`" for name in sorted(rules.policy.verifiers)) or "none"
        raise Refused(f"the policy has no verifier `{verifier}`; it has {known}")
    if verifier and field.partition(".")[0] not in claims.EVIDENCE_FIELDS:
        known = ", ".join(f"`{name}`" for name in claims.EVIDENCE_FIELDS)
        raise Refused(f"evidence has no field `{field}`; it has {known}")
    if verifier and rules.policy.verifiers[verifier].tell == "verdict" and field not in claims.VERDICT_FIELDS:
        raise Refused(f"policy keeps what `{verifier}` finds from agents; nothing can be assumed of its `{field}`")


def _place(run: Run, event: str) -> int:
    """The place of a record that is cited as `RUN#SEQ`."""
    name, _, place = event.rpartition("#")
    seq = int(place) if place.isascii() and place.isdigit() and len(place) < 16 else 0  # noqa: PLR2004 - no longer one is
    if name != run.id or not 0 < seq <= run.version:
        raise Refused(f"`{event}` is no event of this run; `gateway__status` names them as `RUN#SEQ`")
    return seq
