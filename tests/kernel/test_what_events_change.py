"""What each event changes of a run, and that it changes nothing else."""

from datetime import timedelta
from typing import Any

import pytest

from gateway.kernel.fresh import overtaken
from gateway.kernel.reduce import CorruptLedger, reduce
from gateway.kernel.rules import Rules
from gateway.kernel.steps import failures
from gateway.model.canonical import digest
from gateway.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    AttemptAbandoned,
    AttemptRefuted,
    AttemptResumed,
    AttemptSuspended,
    AttemptUnknown,
    AttemptUnsent,
    Charge,
    Denied,
    Effect,
    Event,
    EvidenceRecorded,
    Finding,
    Held,
    IntentRecorded,
    Outcome,
    OutcomeDelivered,
    PhaseMoved,
    Replayed,
    RunMigrated,
    RunOpened,
    RunStopped,
    Who,
)
from gateway.model.principal import Principal
from gateway.model.proposal import KeySource
from gateway.model.record import Record, utc
from gateway.model.run import Approval, Attempt, AttemptState, Evidence, Run, RunState, joined
from gateway.model.steps import Steps
from tests import world
from tests.kernel.test_decide import WRITE, intended, judge, receipt

NOW = utc(world.T0)
LATER = world.T0 + 5
ASKED, ACTION = digest("asked", b""), digest("action", b"")
POLICY: dict[str, Any] = {
    "verifiers": {"t": {"probe": {"tool": "check"}, "pass": ["true"]}},
    "tools": {"write": {"effect": "write", "data_class": "internal", "cost": 0.5, "result_tokens": 10},
              "read": {"effect": "read"}},
}  # fmt: skip
VERDICT: dict[str, Any] = {
    "tool": "write", "arguments": WRITE.arguments_digest, "policy": ASKED, "phase": "open", "checks": (),
    "reported_tokens": 7,
}  # fmt: skip


def plain(value: Any) -> Any:
    """Persistent maps as dicts: to a `!=` of theirs, equal ones differ; of steps, the failures that count."""
    if isinstance(value, Steps):
        return dict(failures(value))
    return dict(value.items()) if type(value).__name__ == "HashTrieMap" else value


def changed(run: Run, *events: Event) -> dict[str, Any]:
    """What these events change, each field as it is then; without those that every event changes."""
    after = world.after(run, *events, at=LATER)
    assert after.version == run.version + len(events)
    assert after.head != run.head
    both = {name: (plain(getattr(run, name)), plain(getattr(after, name))) for name in Run._fields}
    differ = {name: now for name, (was, now) in both.items() if was != now}
    assert differ.pop("version") == after.version
    assert differ.pop("head") == after.head
    last = differ.pop("last_at", run.last_at)
    assert last == (run.last_at if run.stopped is not None else utc(LATER))
    return differ


def of_attempt(run: Run, *events: Event) -> dict[str, Any]:
    """What they change of the attempt that was made first."""
    before, after = run.attempts["run_1.2"], world.after(run, *events, at=LATER).attempts["run_1.2"]
    return {
        name: getattr(after, name) for name in Attempt._fields if getattr(after, name) != getattr(before, name)
    }  # fmt: skip


def opened() -> tuple[Run, Rules]:
    rules = world.rules(**POLICY)
    return world.opened(rules), rules


def sent(*events: Event) -> Run:
    """After `WRITE` was intended, and these."""
    run, rules = opened()
    return world.after(intended(run, rules, WRITE), *events)


def test_a_run_is_opened_as_its_first_event_says() -> None:
    event = RunOpened(
        principal=Who(tenant="t", id="p", roles=("r",)), workflow="w", policy=ASKED, phase="one", goal="g",
        origin="token", expires_at=NOW, parent="run_0", delegated=("a", "b"),
    )  # fmt: skip
    assert changed(Run("run_1"), event) == {
        "state": RunState.RUNNING,
        "principal": Principal(id="p", tenant="t", roles=frozenset({"r"})),
        "policy": ASKED,
        "workflow": "w",
        "phase": "one",
        "goal": "g",
        "origin": "token",
        "opened_at": utc(LATER),
        "expires_at": NOW,
        "parent": "run_0",
        "delegated": frozenset({"a", "b"}),
    }
    assert world.after(Run("run_1"), event.model_copy(update={"delegated": None})).delegated is None


def test_verdicts_that_send_nothing_are_counted_for_what_they_say() -> None:
    run, _ = opened()
    waits: dict[str, Any] = {"outcome": Outcome.HELD, "reason": "x"}
    assert changed(run, Held(**VERDICT, **waits)) == {"reported_tokens": 7}
    assert changed(run, Replayed(**VERDICT, attempt="run_1.2")) == {"reported_tokens": 7}
    assert changed(run, Held(**VERDICT | {"reported_tokens": 0}, **waits)) == {}


def test_a_denial_is_a_failure_by_tool_arguments_and_check() -> None:
    run, _ = opened()
    said: dict[str, Any] = {"outcome": Outcome.DENIED, "reason": "x"}
    checks = (Finding(check="run", passed=True), Finding(check="phase", passed=False))
    failure = joined("denied", "write", WRITE.arguments_digest, "phase")
    denied = Denied(**VERDICT | {"checks": checks}, **said)
    assert changed(run, denied) == {"reported_tokens": 7, "steps": {failure: 1}}
    assert changed(run, denied, denied)["steps"] == {failure: 2}
    bare = joined("denied", "write", WRITE.arguments_digest, "")
    assert changed(run, Denied(**VERDICT, **said))["steps"] == {bare: 1}
    assert changed(run, Denied(**VERDICT, **said, retry_after_s=0.0)) == {"reported_tokens": 7}
    by_budget = Denied(**VERDICT | {"checks": (Finding(check="budget", passed=False),)}, **said, final=True)
    assert changed(run, by_budget) == {"reported_tokens": 7, "final": by_budget, "final_seq": 2}


def test_an_intent_is_an_attempt_and_is_charged_at_once() -> None:
    run, rules = opened()
    told = changed(run, event := _intent(run, rules))
    attempt = told["attempts"]["run_1.2"]
    assert told == {
        "attempts": {"run_1.2": attempt},
        "unsettled": {"run_1.2": attempt},
        "keys": {joined("write", "call_id", "call-1"): "run_1.2"},
        "equals": {joined("write", WRITE.arguments_digest): ("run_1.2", 1)},
        "spent": Charge(calls=1, mutations=1, tokens=10, cost=500_000),
        "reported_tokens": 7,
        "data": frozenset({"internal"}),
        "wrote": {"write": (2, 0)},
        "touched": {"write": (2, 0)},
    }
    assert attempt._replace(intent=None) == Attempt(id="run_1.2", seq=2, at=utc(LATER), intent=None)  # type: ignore[arg-type]
    assert attempt.intent.waived == event.waived
    for source in (KeySource.DERIVED, KeySource.FRESH):
        made = event.model_copy(update={"key": event.key.model_copy(update={"source": source}), "data_class": None})  # type: ignore[union-attr]
        again = changed(run, made)
        assert {"keys", "data"}.isdisjoint(again)
        assert again["attempts"]["run_1.2"].intent.key is None


def _intent(run: Run, rules: Rules, **changes: Any) -> IntentRecorded:
    verdict = judge(run, rules, WRITE)
    assert isinstance(verdict, IntentRecorded)
    return verdict.model_copy(update={"reported_tokens": 7} | changes)


def test_equal_intents_are_counted_and_the_latest_is_known() -> None:
    run, rules = opened()
    intent = _intent(run, rules)
    again = intent.model_copy(update={"attempt": "run_1.3"})
    assert changed(run, intent, again)["equals"] == {joined("write", WRITE.arguments_digest): ("run_1.3", 2)}


def test_an_intent_that_may_move_the_phase_is_known_as_such_and_a_read_writes_nothing() -> None:
    run, rules = opened()
    for moves in ({"target": "two"}, {"verifier": "t"}):
        assert set(changed(run, _intent(run, rules, **moves))["moving"]) == {"run_1.2"}
    proof = EvidenceRecorded(verifier="t", verdict="pass", says="x", started_at=NOW, after=1)
    proven = world.after(run, proof)
    intent = _intent(run, rules, attempt="run_1.3")
    assert changed(proven, intent)["evidence"]["t"].fresh is False
    read = changed(proven, intent.model_copy(update={"effect": Effect.READ}))
    assert {"wrote", "evidence"}.isdisjoint(read)


@pytest.mark.parametrize("covers", [("read",), ("w",), ()])
def test_evidence_that_covers_other_tools_stays_fresh(covers: tuple[str, ...]) -> None:
    run, rules = opened()
    run = world.after(run, EvidenceRecorded(verifier="t", verdict="pass", says="x", started_at=NOW, covers=covers))
    assert "evidence" not in changed(run, _intent(run, rules, attempt="run_1.3"))


RECEIPT: dict[str, Any] = {"result": ASKED, "size_bytes": 41, "schema_valid": True, "duration_s": 1.5}
SPENT = Charge(calls=1, mutations=1, tokens=11, cost=500_000)


def test_a_receipt_settles_its_attempt_and_measures_its_tokens() -> None:
    run, event = sent(), receipt(**RECEIPT)
    settled = {
        "state": AttemptState.ANSWERED, "result": ASKED, "answer": "result", "schema_valid": True, "receipt": 3,
        "duration_s": 1.5,
    }  # fmt: skip
    assert of_attempt(run, event) == settled
    told = changed(run, event)
    assert {name: told[name] for name in told if name != "attempts"} == {
        "unsettled": {}, "spent": SPENT, "wrote": {"write": (2, 3)},
        "touched": {"write": (2, 3)},
    }  # fmt: skip
    wrong = event.model_copy(update={"is_error": True})
    assert of_attempt(run, wrong) == settled | {"is_error": True}
    failure = joined("error", "write", WRITE.arguments_digest, ASKED)
    assert changed(run, wrong)["steps"] == {failure: 1}
    assert changed(run, wrong.model_copy(update={"result": None}))["steps"] == {
        joined("error", "write", WRITE.arguments_digest, ""): 1
    }


UNKNOWN = AttemptUnknown(attempt="run_1.2", reason="t")
REFUTED = AttemptRefuted(attempt="run_1.2", source="probe", reason="t")
SUSPENDED = AttemptSuspended(attempt="run_1.2", awaits="input", answer=ASKED, expires_at=NOW)
RESUMED = AttemptResumed(**VERDICT, attempt="run_1.2", round=ASKED, said=ACTION)


def test_what_did_not_happen_is_given_back_and_its_key_is_free() -> None:
    for before, event, became in (
        (sent(), AttemptUnsent(attempt="run_1.2", reason="t"), {"state": AttemptState.UNSENT, "says": "t"}),
        (sent(UNKNOWN), REFUTED, {"state": AttemptState.REFUTED}),
    ):
        assert of_attempt(before, event) == became
        told = changed(before, event)
        assert (told["spent"], told["keys"], told["unsettled"]) == (Charge(), {}, {})
        assert told["wrote"] == {"write": (2, before.version + 1)}
        assert told["unmade"] == {joined("write", WRITE.arguments_digest): 1}
        assert set(told) == {"attempts", "spent", "keys", "unsettled", "wrote", "touched", "unmade"}
    late = changed(sent(UNKNOWN, REFUTED), receipt(**RECEIPT))
    assert late["spent"] == SPENT
    assert late["unmade"] == {joined("write", WRITE.arguments_digest): 0}


def test_what_was_abandoned_frees_its_key_and_stays_charged() -> None:
    event = AttemptAbandoned(attempt="run_1.2", reason="t")
    assert of_attempt(sent(), event) == {"state": AttemptState.ABANDONED, "says": "t"}
    assert set(changed(sent(), event)) == {"attempts", "keys", "unsettled", "wrote", "touched"}
    unkeyed = sent()
    run, rules = opened()
    unkeyed = world.after(run, _intent(run, rules, key=None))
    assert set(changed(unkeyed, event)) == {"attempts", "unsettled", "wrote", "touched"}


def test_an_unknown_or_suspended_attempt_stays_unsettled() -> None:
    assert of_attempt(sent(), UNKNOWN) == {"state": AttemptState.UNKNOWN, "says": "t"}
    assert set(changed(sent(), UNKNOWN)) == {"attempts", "unsettled"}
    waits = {"state": AttemptState.SUSPENDED, "suspended_until": NOW, "awaits": "input", "asked": ASKED}
    assert of_attempt(sent(), SUSPENDED) == waits
    again = SUSPENDED.model_copy(update={"answer": ACTION, "awaits": "task", "expires_at": NOW + timedelta(hours=1)})
    assert of_attempt(sent(SUSPENDED), again) == {
        "asked": ACTION, "awaits": "task", "suspended_until": NOW + timedelta(hours=1),
        "acts_until": NOW + timedelta(hours=1, seconds=30),
    }  # fmt: skip
    assert of_attempt(sent(SUSPENDED), RESUMED) == {
        "state": AttemptState.OPEN, "suspended_until": None, "awaits": None, "asked": None, "resumed": True,
        "sent_at": utc(LATER), "acts_until": utc(LATER) + timedelta(seconds=90),
    }  # fmt: skip
    assert changed(sent(SUSPENDED), RESUMED)["reported_tokens"] == 7


UNINTENDED = "record `run_1#3` speaks of attempt `run_1.9`, which was never intended"


def test_what_cannot_follow_says_which_record_and_why() -> None:
    run = sent()
    misplaced = Record(run="run_1", seq=9, at=NOW, previous=run.head, event=receipt())
    with pytest.raises(CorruptLedger, match=r"^record `run_1#9` does not follow `run_1#2`$"):
        reduce(run, misplaced, "")
    over = world.after(run, RunStopped(outcome=Outcome.INFEASIBLE, reason="x"))
    for before, event, why in (
        (over, _moved(), "record `run_1#4`: `phase.moved` cannot happen in a run that is stopped"),
        (run, _moved("gone"), "record `run_1#3` moves from `gone`, the run is in `open`"),
        (run, receipt("run_1.9"), UNINTENDED),
        (run, AttemptUnsent(attempt="run_1.9", reason="t"), UNINTENDED),
        (run, OutcomeDelivered(attempt="run_1.9"), UNINTENDED),
        (run, _intent(*opened()), "attempt `run_1.2` was intended twice"),
        (run, REFUTED, "record `run_1#3`: `attempt.refuted` cannot happen to a open attempt"),
    ):
        with pytest.raises(CorruptLedger) as caught:
            world.after(before, event)
        assert str(caught.value) == why


def _moved(source: str = "open") -> PhaseMoved:
    return PhaseMoved(source=source, target="two", transition="t")


def test_a_delivered_outcome_and_a_moved_phase_change_nothing_else() -> None:
    run = sent(receipt())
    assert of_attempt(run, OutcomeDelivered(attempt="run_1.2")) == {"delivered": True}
    assert set(changed(run, OutcomeDelivered(attempt="run_1.2"))) == {"attempts"}
    assert changed(run, PhaseMoved(source="open", target="two", transition="t")) == {"phase": "two"}
    assert run.policy is not None
    assert changed(run, RunMigrated(source=run.policy, target=ASKED)) == {"policy": ASKED}
    with pytest.raises(CorruptLedger, match="leaves another policy"):
        world.after(run, RunMigrated(source=ASKED, target=ASKED))
    stopped = RunStopped(outcome=Outcome.INFEASIBLE, reason="x")
    assert changed(run, stopped) == {"state": RunState.STOPPED, "stopped": stopped, "stopped_seq": 4}
    assert set(changed(world.after(run, stopped), OutcomeDelivered(attempt="run_1.2"))) == {"attempts"}


# --- evidence and approvals -----------------------------------------------------------------------------------------


def proof(verdict: Any = "pass", **changes: Any) -> EvidenceRecorded:
    return EvidenceRecorded(verifier="t", verdict=verdict, says="x", started_at=NOW, **{"after": 1} | changes)


def test_evidence_is_the_last_word_of_its_verifier() -> None:
    run, _ = opened()
    failed = world.after(run, proof("fail"), proof("fail", signature="s"))
    assert plain(failed.steps) == {joined("verifier", "t", "s"): 1}, "another verdict is evidence"
    assert changed(failed, proof()) == {"evidence": {"t": Evidence(4, proof())}, "steps": {}}
    assert changed(failed, proof("inconclusive")) == {"evidence": {"t": Evidence(4, proof("inconclusive"))}}
    asked = sent(receipt())
    told = of_attempt(asked, proof("fail", attempt="run_1.2", after=3))
    assert told == {"evidence": 4, "verdict": "fail"}


def test_evidence_is_stale_if_what_it_covers_was_intended_or_ended_after_its_probe_began() -> None:
    run = sent(receipt())  # intended at 2, ended at 3
    for after, stale in ((1, True), (2, True), (3, False), (4, False)):
        assert overtaken(run, proof(after=after)) is stale
        assert world.after(run, proof(after=after)).evidence["t"].fresh is not stale
    assert not overtaken(run, proof(after=0, covers=("read",)))
    for unsettled in (sent(), sent(UNKNOWN), sent(SUSPENDED)):
        assert overtaken(unsettled, proof(after=9))
        assert not overtaken(unsettled, proof(after=9, attempt="run_1.2")), "its own attempt is what it is about"
        assert not overtaken(unsettled, proof(after=9, covers=("pay", "read")))
    run, rules = opened()
    verified = world.after(run, _intent(run, rules, verifier="t"), receipt())
    assert verified.unsettled
    assert not overtaken(verified, proof(after=9)), "what is answered cannot act any more"


def requested(run: Run, **changes: Any) -> ApprovalRequested:
    event = ApprovalRequested(
        **VERDICT, approval="ap_1", action=ACTION, rule="ask", role="boss", quorum=2, self_review=False,
        expires_at=NOW, reason="large",
    )  # fmt: skip
    assert run.version
    return event.model_copy(update=changes)


def test_a_question_to_a_person_is_counted_as_a_review() -> None:
    run, _ = opened()
    asked = Approval(
        id="ap_1", action=ACTION, tool="write", rule="ask", role="boss", quorum=2, self_review=False,
        requested_at=utc(LATER), expires_at=NOW, seq=2, arguments=VERDICT["arguments"],
        policy=VERDICT["policy"],
    )  # fmt: skip
    assert changed(run, requested(run)) == {
        "reported_tokens": 7, "approvals": {"ap_1": asked}, "actions": {ACTION: "ap_1"}, "spent": Charge(reviews=1),
    }  # fmt: skip


def decided(**changes: Any) -> ApprovalDecided:
    by = Who(tenant="local", id="local:boss")
    event = ApprovalDecided(approval="ap_1", action=ACTION, decision="approved", by=by, reason="seen")
    return event.model_copy(update=changes)


def test_an_answer_that_nobody_waits_for_or_a_second_use_is_a_corrupt_ledger() -> None:
    run, rules = opened()
    asked = world.after(run, requested(run, quorum=1))
    for event in (decided(approval="ap_2"), decided(action=ASKED)):
        with pytest.raises(CorruptLedger, match="was not awaiting"):
            world.after(asked, event)
    intent = _intent(run, rules, approval="ap_1", attempt="run_1.9")
    for before in (run, asked, world.after(asked, decided(decision="rejected"))):
        with pytest.raises(CorruptLedger, match="cannot be used by"):
            world.after(before, intent)
    approved = world.after(asked, decided())
    with pytest.raises(CorruptLedger, match="was not awaiting"):
        world.after(approved, decided())
    used = world.after(approved, intent)
    assert used.approvals["ap_1"].used_by == "run_1.9"
    with pytest.raises(CorruptLedger, match="cannot be used by"):
        world.after(used, intent.model_copy(update={"attempt": "run_1.10"}))
