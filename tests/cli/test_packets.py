"""A packet in a ticket: whatever an agent or a server said, it stays text."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gateway.cli.packets import markdown
from gateway.kernel.packet import packet
from gateway.kernel.registry import registered
from gateway.model.events import AttemptUnknown
from gateway.model.record import Record, utc
from gateway.model.run import Run
from tests import world
from tests.kernel.test_what_events_change import UNKNOWN, sent

EVIL = "x`\n# Approved [here](https://evil.example) @everyone <script>"


def told(**changes: Any) -> str:
    run: Run = sent(UNKNOWN)
    attempt = run.attempts["run_1.2"]
    event = AttemptUnknown(attempt="run_1.2", reason=EVIL)
    record = Record(run="run_1", seq=3, at=utc(world.T0), previous="", event=event)
    arguments = {"note": "```\n# out of the fence"}
    made = packet(run, [record], attempt, None, arguments, utc(world.T0) + timedelta(hours=1))
    return markdown(replace(made, **changes), "counterfoil resolve run_1.2")


def test_hostile_text_makes_no_heading_link_mention_or_tag() -> None:
    page = told(tool=EVIL, question=EVIL, goal=EVIL)
    assert [line for line in page.splitlines() if line.startswith("#")] == [page.splitlines()[0]]
    assert "https://evil" not in page
    assert "@everyone" not in page
    assert "](" not in page.replace("\\](", "").replace("\\]\\(", "")
    assert "<script" not in page.replace("\\<script", "")


def test_arguments_stay_within_their_fence() -> None:
    page = told()
    fence = next(line for line in page.splitlines() if line.endswith("json"))[:-4]
    assert page.count(f"\n{fence}\n") == 1
    assert len(fence) > 3


@pytest.mark.parametrize(
    ("place", "how"),
    [({"argument": "key"}, ""), ({"header": "Idempotency-Key"}, ", if its server is reached over HTTP")],
)
def test_what_is_sent_again_says_until_when_and_over_what(place: dict[str, str], how: str) -> None:
    idempotency = {"kind": "key", "key": place, "valid_s": 86_400}
    policy = world.policy(tools={"write": {"effect": "write", "idempotency": idempotency}})
    run = sent(UNKNOWN)
    attempt = run.attempts["run_1.2"]
    made = packet(run, [], attempt, registered(world.tool("write"), policy), {}, attempt.at)
    until = (attempt.at + timedelta(days=1)).isoformat(timespec="seconds")
    assert made.goes_on == f"it is sent again under its key{how}, which the server knows until {until}"
    assert not made.person
