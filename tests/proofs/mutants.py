"""Kernels that are wrong on purpose: each breaks one rule of evidence, and must be seen to by the oracle."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from gateway.kernel import evidence, fresh, reduce, stop, verify
from gateway.model.events import Event, EvidenceRecorded, Outcome, RunStopped
from gateway.model.run import AttemptState, Evidence, Run

_SETTLE, _JUDGED, _WROTE, _RECEIVED = evidence.settle, evidence.judged, fresh.wrote, verify.received


def _keep(run: Run, *_: Any) -> Any:
    return run


def _success_while_open(run: Run, rules: Any, now: Any) -> RunStopped | None:
    return stop._verified_success(run._replace(unsettled=Run("").unsettled), rules, now)


def _success_by_any(run: Run, rules: Any, _: Any) -> RunStopped | None:
    success = rules.policy.success
    held = [run.evidence.get(name) for name in success.evidence]
    proofs = [one for one in held if one is not None and stop.proves(one, success.accept)]
    if not proofs or run.unsettled or success.phase not in {None, run.phase}:
        return None
    return RunStopped(outcome=Outcome.VERIFIED_SUCCESS, reason="x", evidence=(proofs[0].seq,))


def _success_anywhere(run: Run, rules: Any, now: Any) -> RunStopped | None:
    success = rules.policy.success
    there = run if success.phase is None else run._replace(phase=success.phase)
    return stop._verified_success(there, rules, now)


def _stops(first: Any) -> Sequence[Any]:
    return (first, *stop.STOPS[1:])


def _nothing_is_yes(*given: Any) -> Any:
    verdict, says = _JUDGED(*given)
    return ("pass" if verdict == "inconclusive" else verdict), says


def _nothing_is_no(*given: Any) -> Any:
    verdict, says = _JUDGED(*given)
    return ("fail" if verdict == "inconclusive" else verdict), says


def _never_no(*given: Any) -> Any:
    return "pass", _JUDGED(*given)[1]


def _looked_at_the_end(run: Run, asked: Any, *given: Any, **more: Any) -> Sequence[Event]:
    return _SETTLE(run, replace(asked, after=run.version), *given, **more)


def _asked_by_any_text(run: Run, asked: Any, *given: Any, **more: Any) -> Sequence[Event]:
    try:
        return _SETTLE(run, replace(asked, policy=run.policy), *given, **more)
    except KeyError:  # of a condition that stands in no text any more
        return ()


def _whoever_is_asked(run: Run, asked: Any, *given: Any, **more: Any) -> Sequence[Event]:
    """The first pass of several moves the run on."""
    events = _SETTLE(run, asked, *given, **more)
    if asked.attempt is None or not any(isinstance(one, EvidenceRecorded) and one.verdict == "pass" for one in events):
        return events
    return (events[0], *verify.advance(run, run.attempts[asked.attempt.id], run.version + 1))


def _concerns(event: EvidenceRecorded, objects: Any) -> bool:
    """Who does not say what it is about is about nothing."""
    return not event.about or (objects is not None and not set(event.about).isdisjoint(objects))


def _heedless_of_about(event: EvidenceRecorded, objects: Any) -> bool:
    """What says what it is about is only about what is never written."""
    _ = objects
    return not event.about


def _forget_the_end(run: Run, tool: str, objects: Any, *, intent: int = 0, end: int = 0) -> Any:
    _ = end
    return _WROTE(run, tool, objects, intent=intent)


def _by_the_receipt(run: Run, attempt: Any, receipt: Any) -> Sequence[Event]:
    events = _RECEIVED(run, attempt, receipt)
    return (*events, *verify.advance(run, attempt, run.version + 1)) if len(events) == 1 else events


def _any_word(held: Evidence, _: Any) -> bool:
    return held.fresh


def _stale_or_not(held: Evidence, accept: Any) -> bool:
    return stop_proves(replace(held, fresh=True), accept)


stop_proves = stop.proves

MUTANTS: Mapping[str, Sequence[tuple[Any, str, Any]]] = {
    "a write makes nothing stale": [(reduce, "stale", lambda run, *_: run.evidence)],
    "what is overtaken while it is looked at counts": [(reduce, "overtaken", lambda *_: False)],
    "what is overtaken while it is looked at moves the run": [(evidence, "overtaken", lambda *_: False)],
    "what is open while it is looked at changes nothing": [(fresh, "UNSETTLED", frozenset())],
    "the end of a write is forgotten": [(reduce, "wrote", _forget_the_end)],
    "a look is as new as its word": [(evidence, "settle", _looked_at_the_end)],
    "stale evidence proves": [(stop, "proves", _stale_or_not)],
    "any word proves": [(stop, "proves", _any_word)],
    "who saw nothing has seen that it holds": [(evidence, "judged", _nothing_is_yes)],
    "who saw nothing has seen that it does not": [(evidence, "judged", _nothing_is_no)],
    "nothing ever fails": [(evidence, "judged", _never_no)],
    "one of several pieces of evidence is enough": [(stop, "STOPS", _stops(_success_by_any))],
    "success does not wait for what is under way": [(stop, "STOPS", _stops(_success_while_open))],
    "success is had in any phase": [(stop, "STOPS", _stops(_success_anywhere))],
    "success does not wait for what is to be undone": [(stop, "keeps_going", lambda _: False)],
    "the first of several verifiers moves the run": [(evidence, "settle", _whoever_is_asked)],
    "what an earlier one of several found may be stale": [(evidence, "_holds", lambda *_: True)],
    "the receipt moves the run": [(verify, "received", _by_the_receipt)],
    "who does not say what it writes writes nothing": [(fresh, "_concerns", _concerns)],
    "what is about one object is never stale": [(fresh, "_concerns", _heedless_of_about)],
    "who failed has touched nothing else": [(reduce, "doubted", _keep)],
    "a call that happened after all changed nothing": [(reduce, "_FREED", frozenset())],
    "evidence outlives the text that asked for it": [(reduce, "withdrawn", _keep)],
    "an old text's verifier is believed under the new one": [(evidence, "settle", _asked_by_any_text)],
}
"""By what is wrong with them: what is replaced, of which module."""


_TWO = {"verify": ["a"], "pay verify": ["b"], "success": ["a", "b"], "leads": False, "undone": False}
_ABOUT = {**_TWO, "objects": ["args.o"], "about": ["args.o"], "b about": ["args.o"], "covers": ["*"]}
_MOVES = {"leads": True, "pay verify": [], "done": [], "about": [], "b about": [], "undone": False}

NATURE: Mapping[str, Mapping[str, Any]] = {
    "a write makes nothing stale": {"fixed": _ABOUT},
    "what is overtaken while it is looked at moves the run": {"fixed": {**_MOVES, "verify": ["b"], "success": ["b"]}},
    "what is open while it is looked at changes nothing": {"fixed": {**_MOVES, "verify": ["b"], "success": ["b"]}},
    "the end of a write is forgotten": {
        "fixed": {**_MOVES, "verify": ["b"], "success": ["b"], "asks": False, "o": ["A"]},
        "more": ["call", "see", "look"] * 3,
    },
    "success does not wait for what is to be undone": {
        "fixed": {**_TWO, "undone": True, "merges": True, "asks": True, "success": ["b"]},
        "more": ["finish", "person"] * 4,
    },
    "what an earlier one of several found may be stale": {"fixed": {**_MOVES, "verify": ["a", "b"], "covers": ["*"]}},
    "who does not say what it writes writes nothing": {"fixed": _ABOUT},
    "what is about one object is never stale": {"fixed": _ABOUT},
    "who failed has touched nothing else": {
        "fixed": {**_ABOUT, "covers": ["pay"], "success": ["b"], "leads": True, "on": {}, "phase": True, "done": []}
        | {"o": ["A", "B"]},
        "more": ["call", "answer", "look", "see"] * 4,
    },
    "a call that happened after all changed nothing": {
        "fixed": {**_TWO, "pay verify": [], "covers": ["pay"], "lost": 5, "late": (AttemptState.REFUTED,)},
        "more": ["person", "time", "answer"] * 4,
    },
    "an old text's verifier is believed under the new one": {
        "fixed": {**_TWO, "pay verify": [], "success": ["a"]},
        "more": ["migrate", "finish", "see"] * 3,
    },
    "evidence outlives the text that asked for it": {"fixed": {**_TWO, "covers": ["write"]}, "more": ["migrate"] * 3},
}
"""What kind of run shows it soonest, where any would do in the end."""


@contextmanager
def in_force(name: str) -> Iterator[None]:
    """The kernel is wrong in the block."""
    with ExitStack() as stack:
        for where, what, other in MUTANTS[name]:
            stack.enter_context(mock.patch.object(where, what, other))
        yield
