"""What people read, and that nothing in it acts."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from gateway.model.notice import Notice, Stage
from gateway.runtime.matters import Matter
from gateway.runtime.wording import MAX_NAME, console_links, message, quiet

AT = datetime(2027, 1, 15, 8, tzinfo=UTC)
ASKED = Matter(
    about="approval",
    name="ap_1",
    run="run_1",
    seq=2,
    asked_at=AT,
    state="open",
    told={},
    tenant="acme",
    principal="ann@acme.example",
    workflow="money",
    expires_at=AT + timedelta(hours=3),
    tool="bank__pay",
    transition="pay",
    reason="money leaves",
    risk="high",
    consequence="a write call that cannot be undone",
    roles=("finance",),
    agreed=1,
    needed=2,
)


def said(stage: Stage, link: str | None = None, **changes: Any) -> Notice:
    return message(replace(ASKED, **changes), "id", stage, link, AT + timedelta(minutes=150))


def test_a_question_in_all_its_stages() -> None:
    link = console_links("https://gate.example")(None, ASKED)
    assert said("asked", link).body == snapshot("""\
Tool: bank__pay
Transition: pay
Why: money leaves
Consequence: a write call that cannot be undone
Risk: high
Asked by: ann@acme.example (tenant acme)
Run: run_1 (workflow money)
Answers: 2 people must agree, 1 agreed, role finance
Until: 2027-01-15 11:00 UTC
Decide: https://gate.example/console/approvals/ap_1\
""")
    assert [said("asked").title, said("soon").title, said("over").title] == snapshot(
        [
            "Approval wanted: bank__pay (high risk)",
            "Still waiting for an answer, 30 min left: bank__pay (high risk)",
            "No answer needed any more: bank__pay",
        ]
    )
    assert said("over", state="superseded", instead="ap_2").body == snapshot("""\
What became of it: superseded by ap_2
Tool: bank__pay
Transition: pay
Why: money leaves
Consequence: a write call that cannot be undone
Risk: high
Asked by: ann@acme.example (tenant acme)
Run: run_1 (workflow money)
Look: counterfoil packet ap_1\
""")
    assert said("asked", link).data == snapshot(
        {
            "about": "approval",
            "name": "ap_1",
            "state": "open",
            "run": "run_1",
            "workflow": "money",
            "tenant": "acme",
            "principal": "ann@acme.example",
            "tool": "bank__pay",
            "transition": "pay",
            "reason": "money leaves",
            "consequence": "a write call that cannot be undone",
            "risk": "high",
            "asked_at": "2027-01-15T08:00:00+00:00",
            "expires_at": "2027-01-15T11:00:00+00:00",
            "roles": ["finance"],
            "agreed": 1,
            "needed": 2,
            "instead": None,
            "link": "https://gate.example/console/approvals/ap_1",
        }
    )


def test_what_is_no_question() -> None:
    more: dict[str, Any] = {"roles": (), "expires_at": None, "agreed": 0, "needed": 1}
    unknown = said("asked", about="unknown", name="run_1.3", **more)
    assert f"{unknown.title}\n{unknown.body}" == snapshot("""\
Outcome unknown, did it happen? bank__pay (high risk)
Tool: bank__pay
Transition: pay
Why: money leaves
Consequence: a write call that cannot be undone
Risk: high
Asked by: ann@acme.example (tenant acme)
Run: run_1 (workflow money)
Settle: counterfoil packet run_1.3\
""")
    run = said("asked", about="escalation", name="run_1", tool=None, transition=None, **more)
    assert f"{run.title}\n{run.body}" == snapshot("""\
A run was handed to a person: money (high risk)
Why: money leaves
Consequence: a write call that cannot be undone
Risk: high
Asked by: ann@acme.example (tenant acme)
Run: run_1 (workflow money)
Look: counterfoil packet run_1\
""")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("bank__pay", "bank__pay"),
        ("ann@acme.example", r"ann\u{40}acme\u{2e}example"),
        ("@everyone", r"\u{40}everyone"),
        ("<!here> <@U1>", r"\u{3c}!here\u{3e} \u{3c}\u{40}U1\u{3e}"),
        ("[pay](http://x.example)", r"\u{5b}pay\u{5d}(http\u{3a}\u{2f}\u{2f}x\u{2e}example)"),
        ("www.evil.example", r"www\u{2e}evil\u{2e}example"),
        ("a\nb\tc", "a b c"),
        ("x\u202ey\u200b", r"x\u{202e}y\u{200b}"),
        ("`*~|&", r"\u{60}\u{2a}\u{7e}\u{7c}\u{26}"),
        ("a" * 100, "a" * (MAX_NAME - 1) + "…"),
    ],
)
def test_names_are_shown_and_do_nothing(text: str, shown: str) -> None:
    assert quiet(text) == shown


@given(st.text(max_size=200))
def test_no_text_has_markup_or_a_second_line(text: str) -> None:
    shown = quiet(text)
    assert len(shown) <= MAX_NAME
    assert shown.isprintable()
    assert not set("<>[]`*~|&") & set(shown)
    assert "://" not in shown


@pytest.mark.parametrize(
    "text",
    [
        "evil.com/pay",
        "bit.ly/3xYz",
        "ann@evil.com",
        "mailto:ann@evil",
        "tel:+4912345",
        "_urgent_",
        "__ok__",
        "#incident",
    ],
)
def test_a_chat_makes_no_link_and_no_style_of_a_name(text: str) -> None:
    assert not set("@#") & set(quiet(text))
    assert quiet(text) != text


def test_a_plain_name_stays_as_it_is() -> None:
    for text in ("github__create_pull_request", "write_file", "money leaves the house, at 10:30."):
        assert quiet(text) == text
