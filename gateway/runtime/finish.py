"""An agent says that its task is done, or cannot be: what can still be asked is asked, and evidence decides."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any, NamedTuple

from gateway.kernel.case import Refuse
from gateway.kernel.closed import unauthorized
from gateway.kernel.finish import askable, missing, rest_of
from gateway.kernel.left import left
from gateway.kernel.owing import keeps_going, undone_by_nobody
from gateway.kernel.rules import Rules
from gateway.kernel.status import over
from gateway.kernel.stop import infeasible, warning
from gateway.kernel.ways import lacking
from gateway.model.answer import Shown
from gateway.model.canonical import canonical, digest_bytes
from gateway.model.events import Event, FinishClaimed, FinishRefused, Outcome
from gateway.model.finish import Finish, FinishAnswer
from gateway.model.party import Party
from gateway.model.principal import Principal
from gateway.model.record import utc
from gateway.model.run import Run, RunState
from gateway.model.status import Missing
from gateway.ports import Upstreams
from gateway.runtime import tell
from gateway.runtime.book import Book
from gateway.runtime.claims import owned, shown
from gateway.runtime.lineage import parent_over
from gateway.runtime.offers import offered
from gateway.runtime.verifying import Verifying
from gateway.runtime.waiting import within

RETRY_S = 5.0


class Decided(NamedTuple):
    """What came of a claim."""

    run: Run
    places: Sequence[int] = ()
    """From the claim to its refusal, in the run."""
    rested: bool = False
    """Nobody was asked, as a verifier had spoken a moment before."""


Spawn = Callable[[Coroutine[Any, Any, Decided]], "asyncio.Task[Decided]"]


class Finishing:
    """One for each process."""

    def __init__(self, book: Book, upstreams: Upstreams, verifying: Verifying, spawn: Spawn) -> None:
        self._book = book
        self._upstreams = upstreams
        self._verifying = verifying
        self._spawn = spawn
        self._working: dict[tuple[str, str], asyncio.Task[Decided]] = {}
        """By run and outcome: what was begun because its agent said that it is done, or cannot be."""

    async def finish(self, run_id: str, principal: Principal, claim: Finish, party: Party, tool: str) -> Shown:
        """Whether the run is over with this, and what it lacks if it is not. Verifiers that are slower than the client
        is patient go on, and the next claim of the run waits for them.

        Raises: NoSuchRun, LedgerUnavailable, PolicyMissing, CorruptLedger.
        """
        run = await self._book.fresh_state_of(run_id)
        owned(run, principal)
        decided = Decided(run)
        if run.state is RunState.RUNNING:
            if (closed := await self._closed(run)) is not None:
                rules = await self._rules(run)
                return Shown(run_id, refusal=tell.closed(run, rules, tool, closed.reason, closed.rule))
            said = run_id, claim.outcome
            work = self._working.get(said)
            if work is None:
                work = self._working[said] = self._spawn(self._decide(run_id, claim, party))
                work.add_done_callback(lambda _: self._working.pop(said, None))
            await within(work, self._book.options.patience_of(str(party.client.get("name"))))
            if not work.done():
                run = await self._book.state_of(run_id)
                return shown(self._answer(Decided(run), await self._rules(run), claim, working=True), run_id)
            decided = work.result()
        run = decided.run
        rules = await self._rules(run)
        if run.stopped is not None and run.stopped.outcome not in {Outcome.VERIFIED_SUCCESS, Outcome.INFEASIBLE}:
            return Shown(run_id, refusal=tell.stopped(run, rules, tool))
        return shown(self._answer(decided, rules, claim, working=False), run_id)

    async def _closed(self, run: Run) -> Refuse | None:
        """Why no claim of the run is heard any more: it could call nothing either."""
        now = utc(self._book.clock.now())
        over = await parent_over(run, self._book.fresh_state_of, now)
        return unauthorized(run, now, parent_over=over)

    async def _rules(self, run: Run) -> Rules:
        return await self._book.policies.of(run.policy)

    async def _decide(self, run_id: str, claim: Finish, party: Party) -> Decided:
        """The run once all that can be asked has been, and what was said and decided is recorded."""
        run = await self._book.state_of(run_id)
        rules, place = await self._rules(run), 0
        usable = await offered(self._upstreams, rules, party) if claim.outcome == "infeasible" else None
        body = canonical(claim.model_dump(mode="json"))
        cited = digest_bytes(body, self._book.ledger.salt)

        def claimed(state: Run, judged_by: Rules, now: datetime) -> Sequence[Event]:
            nonlocal place
            if state.state is not RunState.RUNNING:
                return ()
            place = state.version + 1
            ends = usable is not None and judged_by.policy.stops.infeasible != "never"
            certain = ends and not (state.owed or (state.set_aside and keeps_going(state)))
            lacks = lacking(state, judged_by, usable, now) if certain else ()
            said = FinishClaimed(outcome=claim.outcome, claim=cited, lacks=lacks)
            return (said, infeasible(lacks, place)) if lacks and state.origin != "default" else (said,)

        _, run, rules = await self._book.transact(run_id, claimed, {cited: body})
        if claim.outcome == "verified_success" and run.state is RunState.RUNNING:
            asked = await self._ask(run, rules)
        else:
            asked = frozenset()

        def refused(state: Run, judged_by: Rules, now: datetime) -> Sequence[Event]:
            wanted = tuple(one.what for one in _wanted(state, judged_by, claim))
            if not wanted or state.state is not RunState.RUNNING:
                return ()
            rests = not asked and claim.outcome == "verified_success" and rest_of(state, judged_by, now) is not None
            return (FinishRefused(claim=place, lacking=wanted, rested=rests),)

        events, run, _ = await self._book.transact(run_id, refused, {})
        said = next((event for event in events if isinstance(event, FinishRefused)), None)
        return Decided(run) if said is None else Decided(run, range(place, run.version + 1), said.rested)

    async def _ask(self, run: Run, rules: Rules) -> AbstractSet[str]:
        """The verifiers that were asked: each that success needs, once, by the text that was in force when it was."""
        asked: set[str] = set()
        while run.state is RunState.RUNNING:
            able = askable(run, rules, utc(self._book.clock.now()))
            one = next((one for one in able if one.verifier not in asked), None)
            if one is None:
                break
            asked.add(one.verifier)
            run, rules = await self._verifying.about_run(run, rules, one.verifier, one.attempt)
        return asked

    def _answer(self, decided: Decided, rules: Rules, claim: Finish, *, working: bool) -> FinishAnswer:
        run = decided.run
        ended, wanted, warned = over(run), _wanted(run, rules, claim), warning(run, rules, *decided.places)
        now = utc(self._book.clock.now()) if ended is None else run.last_at
        reason, advice = _UNDER_WAY if working else _said(run, rules, claim, wanted)
        rest_s = rest_of(run, rules, now) if decided.rested and now is not None else None
        return FinishAnswer(
            run=run.id,
            finished=ended is not None or not (working or wanted),
            outcome=ended.outcome if ended is not None else None,
            reason=ended.reason if ended is not None else reason,
            evidence=ended.evidence if ended is not None else (),
            missing=wanted if ended is None else (),
            budget_left=left(run, rules.policy, now),
            retry_after_s=RETRY_S if working else rest_s,
            warnings=None if warned is None else (warned,),
            next=tell.NEXT_STEP[ended.outcome] if ended is not None else advice if rest_s is None else _RESTS,
        )


_NEVER = "the policy of this run ends none as infeasible"
_UNDER_WAY = "verifiers are at work", "Wait, then say it again."


def _wanted(run: Run, rules: Rules, claim: Finish) -> tuple[Missing, ...]:
    """What the claim lacks, while the run goes on."""
    if claim.outcome == "infeasible":
        never = rules.policy.stops.infeasible == "never"
        unshown = "nothing shows that success cannot be reached any more"
        return (Missing(what="infeasible", says=_NEVER if never else unshown),)
    if rules.policy.success is None:
        return (Missing(what="success", says="the policy of this run does not say what success is"),)
    return tuple(missing(run, rules))


def _said(run: Run, rules: Rules, claim: Finish, wanted: Sequence[Missing]) -> tuple[str, str]:
    if claim.outcome == "infeasible" and rules.policy.stops.infeasible == "never":
        return _NEVER, "Go on as far as you can, and tell the user what is missing."
    if claim.outcome == "infeasible":
        return (
            "success can still be reached, as far as policy and what is offered tell",
            "Go on. If a person must help, tell the user what is missing.",
        )
    if rules.policy.success is None:
        return (
            "the policy of this run does not say what success is, so nothing can prove it",
            "Report what was done, and that nothing has proven it.",
        )
    if wanted:
        more = f" and {len(wanted) - 1} more" if len(wanted) > 1 else ""
        advice = _PERSON if any(undone_by_nobody(run)) else _PROVIDE
        return f"success is not proven: `{wanted[0].what}`: {wanted[0].says}{more}", advice
    shared = run.origin == "default"
    rest = "this run is shared, and does not end" if shared else "something may still have to be undone"
    return f"all evidence holds; {rest}", tell.NEXT_STEP[Outcome.VERIFIED_SUCCESS]


_PROVIDE = "Provide what is missing. Do not say it again before something has changed."
_RESTS = "No verifier was asked anew, for one spoke a moment ago. Provide what is missing, then say it again."
_PERSON = "Tell the user what a person must undo. This run cannot succeed any more; the way on is another run."
