"""How long a channel is left alone, and what it is told of."""

from dataclasses import replace

import pytest

from gateway.model.asked import Risk
from gateway.model.notice import Audience, Subject
from gateway.outbound.notices.webhook import Webhook
from gateway.ports import NotTaken
from gateway.runtime.channels import Line, pause_s
from tests.notices.test_wording import ASKED

HOOK = Webhook("https://a.example", b"k" * 24, lambda: 0.0)
BUSY = NotTaken("busy")


def test_a_channel_is_left_alone_ever_longer_up_to_an_hour() -> None:
    pauses = [pause_s(failures, BUSY, lambda: 0.5) for failures in range(1, 9)]
    assert pauses == [5, 15, 45, 135, 405, 1215, 3600, 3600]
    assert pause_s(10_000, BUSY, lambda: 0.5) == 3600


@pytest.mark.parametrize(("random", "pause"), [(0.0, 3.75), (1.0, 6.25)])
def test_gateways_that_failed_together_do_not_come_together(random: float, pause: float) -> None:
    assert pause_s(1, BUSY, lambda: random) == pause


@pytest.mark.parametrize(("says", "pause"), [(None, 5), (1, 5), (120, 120), (10**9, 6 * 3600)])
def test_a_channel_is_taken_at_its_word_within_bounds(says: float | None, pause: float) -> None:
    assert pause_s(1, NotTaken("busy", says), lambda: 0.5) == pause


def test_one_that_took_nothing_is_tried_with_one_at_a_time() -> None:
    line = Line("ops", Audience(), HOOK)
    assert line.free(0.0)
    line.busy = 3
    assert line.free(0.0)
    line.left_alone(BUSY, 0.0, lambda: 0.5)
    assert not line.free(10.0)
    line.busy = 0
    assert (line.free(4.9), line.free(5.0)) == (False, True)
    line.took()
    assert line.state() == {"trouble": None, "failures": 0, "given_up": 0}


@pytest.mark.parametrize(
    ("audience", "wants"),
    [
        (Audience(), True),
        (Audience(about=frozenset[Subject]({"unknown"})), False),
        (Audience(risk="critical"), False),
        (Audience(risk="high"), True),
        (Audience(tenants=frozenset({"other"})), False),
        (Audience(tenants=frozenset({"acme", "other"})), True),
        (Audience(roles=frozenset({"legal"})), False),
        (Audience(roles=frozenset({"legal", "finance"})), True),
    ],
)
def test_a_channel_is_told_of_what_it_is_for(audience: Audience, wants: bool) -> None:  # noqa: FBT001 - a table
    assert Line("ops", audience, HOOK).wants(ASKED) is wants


@pytest.mark.parametrize("risk", ["low", "medium", "high", "critical"])
def test_a_question_for_anybody_is_for_every_role(risk: Risk) -> None:
    anybody = replace(ASKED, roles=(), risk=risk)
    assert Line("ops", Audience(roles=frozenset({"legal"})), HOOK).wants(anybody)
