"""Verifiers asked, and what they found recorded: about a call, about a run as it is, and before a call is made."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from gateway.kernel.case import Probed
from gateway.kernel.evidence import Question, judged, question, settle, stands, told_of
from gateway.kernel.rules import Rules
from gateway.model.canonical import Digest
from gateway.model.events import Event
from gateway.model.policy import Verifier
from gateway.model.record import utc
from gateway.model.run import Attempt, Run
from gateway.model.tool import Answer
from gateway.runtime import trace
from gateway.runtime.book import Book
from gateway.runtime.looking import Looking
from gateway.runtime.wire import arguments_of, stored


class Verifying:
    """One for each process."""

    def __init__(self, book: Book, looking: Looking) -> None:
        self._book = book
        self._clock = book.clock
        self._salt = book.ledger.salt
        self.looking = looking

    async def about_call(
        self, run: Run, rules: Rules, attempt_id: str, arguments: Mapping[str, Any]
    ) -> tuple[Run, Rules]:
        """The verifiers that are to speak about the attempt have spoken, up to the first that does not pass.

        Raises: LedgerUnavailable.
        """
        while (asked := question(run, attempt_id, rules)) is not None:
            run, rules = await self._ask(run, rules, asked, arguments)
        return run, rules

    async def about_run(self, run: Run, rules: Rules, name: str, about: Attempt | None) -> tuple[Run, Rules]:
        """The verifier has spoken about the run as it is, with the arguments of that attempt.

        Raises: LedgerUnavailable.
        """
        arguments = await arguments_of(self._book.ledger, about) if about is not None else {}
        asked = Question(name, rules.policy.verifiers[name], None, run.version, run.policy)
        return await self._ask(run, rules, asked, arguments)

    async def before_call(
        self, name: str, run: Run, arguments: Mapping[str, Any], rules: Rules
    ) -> tuple[Probed, dict[Digest, bytes]]:
        """What a verifier finds before a call with these arguments is made, and what is to be stored of it."""
        rule = rules.policy.verifiers[name]
        answer, started = await self._seen(name, rule, run, arguments, rules, None)
        cited, payloads = stored(answer, self._salt)
        now, found = utc(self._clock.now()), cited.digest if cited else None
        verdict, says = judged(name, rule, run, answer, arguments, rules, now)
        stood = stands(rule, run, answer, found, arguments, rules, now, self._salt)
        return Probed(verdict, told_of(name, rule, verdict, says), started, found, stood, run.version), payloads

    async def _ask(self, run: Run, rules: Rules, asked: Question, arguments: Mapping[str, Any]) -> tuple[Run, Rules]:
        """One verifier has spoken, or another gateway has asked it meanwhile."""
        begun = self._clock.monotonic()
        answer, started = await self._seen(asked.verifier, asked.rule, run, arguments, rules, asked.attempt)
        elapsed = self._clock.monotonic() - begun
        cited, payloads = stored(answer, self._salt)

        def settled(state: Run, judged_by: Rules, now: datetime) -> Sequence[Event]:
            return settle(
                state, asked, answer, cited, arguments, judged_by, started_at=started, duration_s=elapsed, now=now
            )

        events, run, rules = await self._book.transact(run.id, settled, payloads)
        if not events:
            run = await self._book.fresh_state_of(run.id)
            rules = await self._book.policies.of(run.policy)
        return run, rules

    async def _seen(
        self, name: str, rule: Verifier, run: Run, arguments: Mapping[str, Any], rules: Rules, about: Attempt | None
    ) -> tuple[Answer, datetime]:
        started = utc(self._clock.now())
        if rule.probe is None and rule.way is None:  # it reads what is recorded: no span
            return await self.looking.seen(rule, arguments, rules, started, about), started
        with trace.verifying(name, run.id, about.id if about is not None else None) as looking:
            answer = await self.looking.seen(rule, arguments, rules, started, about)
            looking.saw(answer)
        return answer, started
