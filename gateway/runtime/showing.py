"""What is shown of an attempt: from the answer in hand or from the record of it, as much as policy lets through."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from gateway.kernel.registry import rule_of, told_by
from gateway.kernel.rules import Rules
from gateway.kernel.schema import Unenforceable, enforceable
from gateway.model.answer import Refusal, Shown
from gateway.model.artifact import Artifact
from gateway.model.canonical import Digest, parse
from gateway.model.events import Outcome
from gateway.model.hidden import hidden
from gateway.model.run import Attempt, AttemptState, Run
from gateway.model.tool import Answer, InputRequired, TaskStarted
from gateway.runtime import tell
from gateway.runtime.book import Book
from gateway.runtime.bounds import Fits, bounded, bounded_error, referred
from gateway.runtime.clipping import size
from gateway.runtime.passing import passed_on
from gateway.runtime.wire import ANY_DEPTH, payload_of


class Showing:
    """Shows attempts. All of them raise LedgerUnavailable."""

    def __init__(self, book: Book) -> None:
        self._ledger = book.ledger
        self._options = book.options

    async def show(
        self,
        run: Run,
        rules: Rules,
        attempt: Attempt,
        *,
        replayed: bool,
        answer: Answer | None = None,
        elsewhere: bool = False,
    ) -> Shown:
        """The attempt's outcome, as its client gets it, the same however often it is told.

        With `elsewhere` it is told in another run, which has not got what this one has.
        """
        if attempt.state is AttemptState.SUSPENDED and isinstance(answer, InputRequired | TaskStarted):
            said = tell.record(run, rules, attempt, replayed=False)
            awaits: Literal["input", "task"] = "input" if isinstance(answer, InputRequired) else "task"
            return passed_on(run, rules, attempt, answer.result, said, awaits)
        shown = await self.whole(run, rules, attempt, replayed=replayed, answer=answer)
        if shown.refusal is not None:
            return shown
        here = attempt._replace(repeats=None) if elsewhere else attempt
        return await self._as_policy_says(run, rules, here, shown)

    async def whole(
        self, run: Run, rules: Rules, attempt: Attempt, *, replayed: bool, answer: Answer | None = None
    ) -> Shown:
        """The attempt's outcome, and all of its answer if that may be told."""
        refused = tell.attempt_refusal(run, rules, attempt, self._options.where)
        if refused is not None:
            refused = await self._with_failure(refused, run, rules, attempt)
            return Shown(run.id, attempt=attempt.id, refusal=refused, record=tell.contradiction(run, attempt))
        said = tell.record(run, rules, attempt, replayed=replayed)
        payload = payload_of(answer) if answer is not None else None
        if payload is None and attempt.result is not None:
            payload = await self._stored(attempt.result)
        if payload is None:
            gone = tell.erased(run, rules, attempt)
            return Shown(run.id, attempt=attempt.id, refusal=gone)
        return passed_on(run, rules, attempt, payload, said)

    async def _stored(self, cited: Digest) -> Any:
        """The payload; None if it was erased."""
        body = await self._ledger.payload(cited)
        return parse(body, max_depth=ANY_DEPTH) if body is not None else None

    async def _with_failure(self, refused: Refusal, run: Run, rules: Rules, attempt: Attempt) -> Refusal:
        """With what was found, where a verifier found something against it."""
        proof = tell.proof_of(run, attempt) if refused.outcome is Outcome.VERIFICATION_FAILED else None
        if proof is None or proof.verdict != "fail":
            return refused
        rule = rules.policy.verifiers.get(proof.verifier)
        whole = proof.kept is None and rule is not None and rule.tell == "artifact"
        if whole and rule is not None and rule.probe is not None:
            seen_of = rule_of(rule.probe.tool, rules.policy).data_class
            whole = seen_of is None or seen_of in run.data  # else the run would have seen it unnoticed
        told = proof.artifact if whole else None
        seen = await self._stored(told) if told is not None else None
        if proof.self_reported and rule_of(attempt.intent.tool, rules.policy).hidden == "refuse" and hidden(seen):
            seen = None  # it is the answer that is kept back
        return refused.model_copy(update={"failure": tell.failure_of(proof, seen, whole=whole)})

    # --- how much of it -----------------------------------------------------------------------------------------------

    async def _as_policy_says(self, run: Run, rules: Rules, attempt: Attempt, shown: Shown) -> Shown:
        rule = told_by(rule_of(attempt.intent.tool, rules.policy), rules.policy)
        earlier = run.attempts.get(attempt.repeats or "")
        if rule.max_bytes is None and rule.repeat == "whole" and earlier is None:
            return shown
        cited, whole = attempt.result or Digest(""), Artifact(attempt.id)
        if shown.result is None:
            most, error = rule.max_bytes, shown.error or {}
            cut = None if most is None else bounded_error(error, most, whole, cited)
            return shown if cut is None else replace(shown, error=cut[0], told_bytes=size(cut[0]))
        told = None
        if earlier is not None or (rule.max_bytes is not None and size(shown.result) > rule.max_bytes):
            fits = await self._schema(attempt)
            if earlier is not None:
                intent = earlier.intent
                told = referred(shown.result, Artifact(earlier.id), earlier.seq, intent.tool, cited, fits)
            if told is None and rule.max_bytes is not None:
                told = bounded(shown.result, rule.max_bytes, whole, cited, fits)
        if told is not None:
            return replace(shown, result=told[0], record={**(shown.record or {}), **told[1]}, told_bytes=size(told[0]))
        # All of it is told. That is worth recording only where the next equal result is told by reference to it.
        named = rule.repeat == "reference" and not attempt.is_error
        return replace(shown, told_bytes=size(shown.result)) if named else shown

    async def _schema(self, attempt: Attempt) -> Fits:
        """What its `structuredContent` must keep, by the tool's definition as it was when it was called."""
        if attempt.is_error:
            return None  # [MCP 2025-11-25, tools: the schema is that of results which are no errors]
        cited = attempt.intent.definition
        definition = await self._stored(cited) if cited is not None else {}
        if definition is None:
            return _never  # nobody knows any more what it promised
        schema = definition.get("outputSchema")
        return None if schema is None else _keeping(schema)


def _never(_: Any) -> bool:
    return False


def _keeping(schema: Any) -> Fits:
    try:
        known = enforceable(schema) if isinstance(schema, Mapping) else None
    except Unenforceable:
        known = None
    return _never if known is None else lambda value: not known.violations(value, limit=1)
