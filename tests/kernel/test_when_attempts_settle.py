"""From when on the upstream can no longer act on what was sent of an attempt."""

from datetime import timedelta

from gateway.model.events import AttemptResent
from gateway.model.run import AttemptState
from tests import world
from tests.kernel.test_decide import receipt
from tests.kernel.test_what_events_change import (
    NOW,
    RECEIPT,
    REFUTED,
    RESUMED,
    SUSPENDED,
    UNKNOWN,
    VERDICT,
    _intent,
    changed,
    sent,
)


def test_what_was_fed_later_may_act_later_and_never_less_long() -> None:
    """60 s of timeout, 30 s of grace: the first sending settles after 90 s."""
    for seconds, until in ((59, 90), (61, 91), (3600, 3630)):
        run = world.after(sent(), UNKNOWN, at=world.T0 + seconds)
        assert run.attempts["run_1.2"].settles_at == NOW + timedelta(seconds=until)
    suspended = world.after(sent(), SUSPENDED.model_copy(update={"expires_at": NOW + timedelta(hours=1)}))
    resumed = world.after(suspended, RESUMED, at=world.T0 + 4000)
    assert resumed.attempts["run_1.2"].settles_at == NOW + timedelta(seconds=4090)
    resent = AttemptResent(**VERDICT, attempt="run_1.2", timeout_s=60, settles_at=NOW + timedelta(seconds=190))
    again = world.after(sent(UNKNOWN), resent, at=world.T0 + 100).attempts["run_1.2"]
    assert (again.state, again.sent, again.sent_at) == (AttemptState.OPEN, 2, NOW + timedelta(seconds=100))
    assert again.settles_at == NOW + timedelta(seconds=190)


def test_what_is_sent_again_makes_evidence_stale_as_a_new_write_does() -> None:
    resent = AttemptResent(**VERDICT, attempt="run_1.2", timeout_s=60, settles_at=NOW)
    told = changed(sent(UNKNOWN), resent)
    assert told["wrote"] == {"write": (4, 0)}
    assert told["reported_tokens"] == 7
    assert set(told) == {"attempts", "unsettled", "wrote", "touched", "reported_tokens"}


def test_what_happened_after_all_has_its_key_again_unless_another_call_has_it_by_now() -> None:
    refuted = sent(UNKNOWN, REFUTED)
    assert not refuted.keys
    assert dict(world.after(refuted, receipt(**RECEIPT)).keys) == dict(sent().keys)
    again = world.after(refuted, _intent(refuted, world.rules(), attempt="run_1.5"))
    assert dict(world.after(again, receipt(**RECEIPT)).keys) == dict(again.keys)
