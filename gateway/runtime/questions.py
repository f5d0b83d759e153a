"""What those who wait for a person are told, and may do: ask again, answer where policy lets them, take it back.

Nothing is dispatched from here: an answer changes what is true, and whoever waits proposes its call again.
"""

from collections.abc import Callable, Mapping
from typing import Any

from gateway.kernel import approve as kernel
from gateway.kernel import asker
from gateway.model.answer import Shown
from gateway.model.canonical import Digest, parse
from gateway.model.events import Who
from gateway.model.principal import Principal
from gateway.model.proposal import Key
from gateway.model.question import Question
from gateway.model.record import utc
from gateway.model.review import Answer, Refused, Reviewer
from gateway.model.run import Run, joined
from gateway.ports import Exhausted, NoSuchRun
from gateway.runtime import tell, trace
from gateway.runtime.bells import Bells
from gateway.runtime.book import Book, Step
from gateway.runtime.named import run_of
from gateway.runtime.wire import ANY_DEPTH


class Questions:
    """The questions to people, for those who asked them. One for each process."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._bells = Bells(book)
        self.reading_s = book.options.reading_s

    async def of(self, approval: str, principal: Principal, run_id: str | None) -> Question:
        """The question as the ledger has it now, whichever process wrote last.

        `run_id` is where it was asked; None where that is not known.

        Raises: NoSuchRun if there is none, or it is another principal's; LedgerUnavailable, PolicyMissing,
        CorruptLedger.
        """
        run = await self._run(approval, run_id)
        owner, found = (None, None) if run is None else (run.principal, run.approvals.get(approval))
        if run is None or found is None or owner is None or not _same(owner, principal):
            raise NoSuchRun(f"no approval `{approval[:128]}` is known")
        rules, now = await self._book.policies.of(run.policy), utc(self._book.clock.now())
        return asker.question(run, rules, found, now, self._book.options.where)

    async def _run(self, approval: str, run_id: str | None) -> Run | None:
        asked_in = await run_of(self._book.ledger, approval) if run_id is None else run_id
        return None if asked_in is None else await self._book.fresh_state_of(asked_in)

    async def arguments(self, cited: Digest) -> Mapping[str, Any] | None:
        """The arguments that are stored under that digest; None if they were erased.

        Raises: LedgerUnavailable.
        """
        body = await self._book.ledger.payload(cited)
        return None if body is None else parse(body, max_depth=ANY_DEPTH)

    # --- waiting ----------------------------------------------------------------------------------------------------

    def listen(self, question: Question, ring: Callable[[], None]) -> Callable[[], None]:
        """`ring` is called whenever something was said about the question, here or in another process. The result ends
        that.
        """
        run = question.told.run
        silent = self._bells.hang(question.id, run, ring)
        end = trace.waiting(run, question.id, lambda: self._book.known(run))

        def over() -> None:
            silent()
            end()

        return over

    def heard_by_others(self, question: Question) -> bool:
        """Whether somebody in this process waits for its answer."""
        return self._bells.hung(question.id)

    def hold_s(self, question: Question, client: str, *, tells: bool) -> float:
        """How long the call may be kept waiting with a client of that name.

        `tells`: whether the client is told of progress. One that is not, and is not known to wait long, gets its answer
        at once.
        """
        options = self._book.options
        if not tells and client not in options.patience_by_client:
            return 0.0
        hold_s = options.hold_s if question.hold_s is None else question.hold_s
        return min(hold_s, self.patience_s(client))

    def patience_s(self, client: str) -> float:
        """How long a client of that name is kept waiting at most."""
        return self._book.options.patience_of(client)

    # --- what may be done -------------------------------------------------------------------------------------------

    async def answer(self, question: Question, principal: Principal, *, approve: bool, reason: str) -> bool:
        """Whether the answer of the asking client's own user is recorded: only where policy takes it.

        Raises: LedgerUnavailable, CorruptLedger.
        """
        said = Answer(question.id, question.action, "approved" if approve else "rejected", reason)
        by = Reviewer(principal.tenant, principal.id, principal.roles, via="caller")
        return await self._said(question, lambda run, _, now: [kernel.answer(run, said, by, now)])

    async def withdraw(self, question: Question, principal: Principal, reason: str) -> bool:
        """Whether it is taken back by this, or a yes to it that was not used: not what is over already.

        Raises: LedgerUnavailable, CorruptLedger.
        """
        by, name = Who.of(principal), question.id
        return await self._said(question, lambda run, _, now: [kernel.withdrawn(run, name, by, reason, now)])

    async def _said(self, question: Question, step: Step) -> bool:
        try:
            await self._book.say(question.told.run, step)
        except (Refused, Exhausted):
            return False
        return True

    async def made(self, question: Question, key: Key) -> str | None:
        """The attempt that was made by that key in the run of the question, if one was.

        Raises: LedgerUnavailable, CorruptLedger.
        """
        run = await self._book.state_of(question.told.run)
        return run.keys.get(joined(question.told.tool, key.source, key.value))

    async def ended(self, question: Question) -> Shown:
        """What is told of a call whose question came to nothing: nothing was executed, and why.

        Raises: LedgerUnavailable, PolicyMissing, CorruptLedger.
        """
        run = await self._book.state_of(question.told.run)
        rules = await self._book.policies.of(run.policy)
        refusal = tell.unanswered(run, rules, question)
        return Shown(run.id, refusal=refusal)


def _same(owner: Principal, principal: Principal) -> bool:
    return owner.whose == principal.whose
