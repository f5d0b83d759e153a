"""A run, told step by step under a policy, and what an audit may be shown of it."""

from collections.abc import Callable
from typing import Any

from gateway.kernel.audit import Step
from gateway.kernel.case import Gather, Observed
from gateway.kernel.decide import decide
from gateway.kernel.reduce import reduce
from gateway.kernel.rules import Rules
from gateway.model.canonical import Digest, digest
from gateway.model.events import (
    AttemptRefuted,
    AttemptResent,
    AttemptResumed,
    AttemptSuspended,
    AttemptUnknown,
    AttemptUnsent,
    Event,
    EvidenceRecorded,
    IntentRecorded,
    OutcomeDelivered,
    PhaseMoved,
    ReceiptRecorded,
    Replayed,
    RunStopped,
    Verdict,
    Who,
)
from gateway.model.proposal import Key, KeySource
from gateway.model.record import Record, encode, link, utc
from gateway.model.run import Run
from tests import world
from tests.people import answer

BOSS = Who(tenant="local", id="local:boss", roles=("boss",))
ASKING: dict[str, Any] = {"transitions": [{"name": "ask", "tools": ["*"], "approval": {"role": "boss", "quorum": 2}}]}
PROVEN: dict[str, Any] = {
    "phases": {"open": {}, "made": {}},
    "transitions": [{"name": "make", "tools": ["*"], "from": ["open"], "to": "made", "verify": "t"}],
    "verifiers": {"t": {"probe": {"tool": "check"}, "pass": ["true"]}},
    "success": {"evidence": ["t"], "phase": "made"},
}


class Told:
    """A run under a policy, told step by step."""

    def __init__(self, **fields: Any) -> None:
        self.rules: Rules = world.rules(**fields)
        self.run: Run = world.opened(self.rules)
        self.at = world.T0

    def step(self, event: Event, **changes: Any) -> Step:
        """What the event, changed so, does to the run; the run stays where it was."""
        changed = event.model_copy(update=changes)
        record = Record(
            run=self.run.id, seq=self.run.version + 1, at=utc(self.at), previous=self.run.head, event=changed
        )
        after = reduce(self.run, record, link(encode(record)))
        return Step(self.run, record, after, self.rules.policy)

    def then(self, event: Event, **changes: Any) -> Event:
        """The run goes on."""
        self.run = self.step(event, **changes).after
        return event

    def asks(self, name: str = "write", key: Key | None = None, **arguments: Any) -> Verdict:
        """The verdict about a call."""
        proposal = world.proposal(name, arguments, key=key)
        tool = world.tool(name)
        cited = digest(dict(tool.definition), world.SALT)
        observed = Observed(tool, cited, salt=world.SALT, parent="running")
        found = decide(self.run, proposal, self.rules, observed, utc(self.at))
        assert not isinstance(found, Gather)
        return found

    def sent(self, name: str = "write", key: Key | None = None, **arguments: Any) -> str:
        """The attempt of a call that was allowed."""
        verdict = self.asks(name, key, **arguments)
        assert isinstance(verdict, IntentRecorded), verdict
        self.then(verdict)
        return verdict.attempt

    def answered(self, attempt: str) -> None:
        self.then(receipt(attempt))


def receipt(attempt: str, **fields: Any) -> ReceiptRecorded:
    told: dict[str, Any] = {"answer": "result", "is_error": False, "result": Digest("c1:result"), "size_bytes": 4}
    return ReceiptRecorded(attempt=attempt, **{**told, **fields})


def evidence(attempt: str, **fields: Any) -> EvidenceRecorded:
    told: dict[str, Any] = {"verifier": "t", "verdict": "pass", "says": "it is", "after": 3}
    return EvidenceRecorded(attempt=attempt, started_at=utc(world.T0), **{**told, **fields})


def an_intent(**fields: Any) -> Callable[[], tuple[Told, Event]]:
    def made() -> tuple[Told, Event]:
        told = Told(**fields)
        return told, told.asks("write", Key(KeySource.CALLER, "new"), n=1)

    return made


def after_a_key_was_used() -> tuple[Told, Event]:
    told = Told()
    told.answered(told.sent(key=Key(KeySource.CALLER, "k"), n=1))
    return told, told.asks("write", Key(KeySource.CALLER, "new"), n=2)


def a_replay() -> tuple[Told, Event]:
    told = Told()
    told.answered(told.sent(n=1))
    verdict = told.asks(n=1)
    assert isinstance(verdict, Replayed)
    return told, verdict


def a_replay_beside_open_calls() -> tuple[Told, Event]:
    told, verdict = a_replay()
    told.sent("read", q=1)
    told.then(receipt(told.sent("pay", n=2)))
    return told, verdict


def unknown(told: Told, *, asked: bool = False) -> str:
    attempt = told.sent(n=1)
    if asked:
        told.then(
            AttemptSuspended(attempt=attempt, awaits="input", answer=Digest("c1:asked"), expires_at=utc(told.at + 600))
        )
        resumed = _resumed(told, attempt)
        told.then(resumed)
        return attempt
    told.then(AttemptUnknown(attempt=attempt, reason="gone"))
    return attempt


def _resumed(told: Told, attempt: str) -> Event:
    intent = told.run.attempts[attempt].intent
    return AttemptResumed(
        tool=intent.tool,
        arguments=intent.arguments,
        policy=intent.policy,
        phase=intent.phase,
        checks=(),
        attempt=attempt,
        round=Digest("c1:asked"),
        said=Digest("c1:said"),
    )


def a_refutation() -> tuple[Told, Event]:
    told = Told()
    attempt = unknown(told)
    told.at = told.run.attempts[attempt].intent.settles_at.timestamp()
    return told, AttemptRefuted(attempt=attempt, source="person", reason="looked", by=BOSS)


def an_early_refutation() -> tuple[Told, Event]:
    told, event = a_refutation()
    told.at -= 1
    return told, event


def unsent_in_a_later_round() -> tuple[Told, Event]:
    told = Told()
    return told, AttemptUnsent(attempt=unknown(told, asked=True), reason="refused")


def sent_again(told: Told, attempt: str) -> Event:
    intent = told.run.attempts[attempt].intent
    told.at = intent.settles_at.timestamp()
    verdict = {name: getattr(told.asks(n=2), name) for name in AttemptResent.model_fields if name in _VERDICT}
    return AttemptResent(**verdict, checks=(), attempt=attempt, timeout_s=60, settles_at=utc(told.at + 90))


_VERDICT = ("tool", "upstream", "transition", "arguments", "definition", "policy", "phase", "observed")


def a_resending(**idempotency: Any) -> Callable[[], tuple[Told, Event]]:
    def made() -> tuple[Told, Event]:
        told = Told(tools={"write": {"effect": "write", "idempotency": idempotency}})
        return told, sent_again(told, unknown(told))

    return made


def unsent_the_second_time() -> tuple[Told, Event]:
    told, event = a_resending(kind="key", key={"argument": "key"}, valid_s=3600)()
    told.then(event)
    return told, AttemptUnsent(attempt=told.run.id + ".2", reason="refused")


def a_receipt(**fields: Any) -> Callable[[], tuple[Told, Event]]:
    def made() -> tuple[Told, Event]:
        told = Told()
        return told, receipt(told.sent(n=1), **fields)

    return made


def a_reference(*, told_bytes: int | None = 2_000, **fields: Any) -> Callable[[], tuple[Told, Event]]:
    """The receipt of a result that is told as that of `run_1.2`, which was delivered."""

    def made() -> tuple[Told, Event]:
        told = Told()
        told.then(receipt(told.sent("read", n=1)))
        told.then(OutcomeDelivered(attempt="run_1.2", told_bytes=told_bytes))
        return told, receipt(told.sent("read", n=2), **{"repeats": "run_1.2", **fields})

    return made


def a_request() -> tuple[Told, Event]:
    told = Told(**{**ASKING, "budgets": {"reviews": 1}})
    return told, told.asks(n=1)


def one_request_too_many() -> tuple[Told, Event]:
    told, event = a_request()
    told.then(event)
    return told, event.model_copy(update={"approval": "ap_2", "action": Digest("c1:other")})


def approved(n: int = 1) -> Told:
    """A call that two people said yes to."""
    told = Told(**ASKING)
    told.then(told.asks(n=n))
    for who in ("ann", "bob"):
        told.then(decided(told, BOSS.model_copy(update={"id": who})))
    return told


def decided(told: Told, who: Who) -> Event:
    (approval,) = told.run.approvals.values()
    return answer(told.run, approval.id, approval.action, approve=True, by=who, reason="", now=utc(told.at))


def an_approved_intent() -> tuple[Told, Event]:
    told = approved()
    return told, told.asks(n=1)


def an_approved_intent_too_late() -> tuple[Told, Event]:
    told, event = an_approved_intent()
    told.at = next(iter(told.run.approvals.values())).expires_at.timestamp()
    return told, event


def a_decision() -> tuple[Told, Event]:
    told = Told(**ASKING)
    told.then(told.asks(n=1))
    return told, decided(told, BOSS)


def a_decision_too_late() -> tuple[Told, Event]:
    told, event = a_decision()
    told.at = next(iter(told.run.approvals.values())).expires_at.timestamp()
    return told, event


def a_second_decision() -> tuple[Told, Event]:
    told = Told(**ASKING)
    told.then(told.asks(n=1))
    told.then(decided(told, BOSS.model_copy(update={"id": "ann"})))
    return told, decided(told, BOSS)


def proven(verdict: str = "pass", **fields: Any) -> Told:
    told = Told(**PROVEN)
    attempt = told.sent(n=1)
    told.answered(attempt)
    told.then(evidence(attempt, verdict=verdict, **fields))
    return told


def a_move(verdict: str = "pass") -> Callable[[], tuple[Told, Event]]:
    def made() -> tuple[Told, Event]:
        told = proven(verdict)
        return told, PhaseMoved(source="open", target="made", transition="make", attempt="run_1.2", because=(4,))

    return made


def a_success(**fields: Any) -> Callable[[], tuple[Told, Event]]:
    def made() -> tuple[Told, Event]:
        told = proven(**fields)
        told.then(PhaseMoved(source="open", target="made", transition="make", attempt="run_1.2", because=(4,)))
        return told, RunStopped(outcome="verified_success", reason="it is", rule="success", evidence=(4,))  # type: ignore[arg-type]

    return made


def a_success_of_something_else() -> tuple[Told, Event]:
    told = proven("inconclusive")
    told.then(evidence("run_1.2", verifier="u").model_copy(update={"attempt": None}))
    return told, RunStopped(outcome="verified_success", reason="it is", rule="success", evidence=(5,))  # type: ignore[arg-type]


def a_success_with_a_call_open() -> tuple[Told, Event]:
    told = proven()
    told.sent("pay", n=2)
    return told, RunStopped(outcome="verified_success", reason="it is", rule="success", evidence=(4,))  # type: ignore[arg-type]


def an_evidence() -> tuple[Told, Event]:
    told = Told(**PROVEN)
    attempt = told.sent(n=1)
    told.answered(attempt)
    return told, evidence(attempt)


def open_() -> Told:
    told = Told()
    told.sent(n=1)
    return told


def over() -> Told:
    told, event = a_success()()
    told.then(event)
    return told
