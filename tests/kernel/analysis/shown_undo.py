"""Compensations and merges that can never do what they are there for, each with what is right a word away."""

from typing import Any

from tests.kernel.analysis.shown_rules import Shown
from tests.kernel.analysis.written import rule, verifier

BACK = {"tool": "undo"}
WRITES = {"do": {"effect": "write"}, "undo": {"effect": "write"}, "look": {"effect": "read"}}
CHECK = {"tests": verifier()}
DO = rule("do", verify="tests", compensation=BACK)
UNDO = rule("undo", "undo")
LOOK = rule("look", "look")


def written(*transitions: dict[str, Any], tools: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A policy with a verifier, these transitions, and the registry's word on their tools."""
    return {"tools": {**WRITES, **(tools or {})}, "verifiers": CHECK, "transitions": [*transitions, LOOK], **more}


def phased(*transitions: dict[str, Any]) -> dict[str, Any]:
    """The same in three phases, to each of which a run may come."""
    leave = rule("leave", "leave", on={"error": "doubt", "invalid": "over"})
    return written(*transitions, leave, phases={"work": {}, "doubt": {}, "over": {"ends": "human_escalation"}})


UNDOING: list[Shown] = [
    (
        "compensation-idle",
        ("transitions", 0, "compensation"),
        written(rule("do", compensation=BACK), UNDO),
        written(DO, UNDO),
    ),
    (
        "compensation-idle",
        ("tools", "do", "compensation"),
        written(rule("do"), UNDO, tools={"do": {"effect": "write", "compensation": BACK}}),
        written(rule("do", verify="tests"), UNDO, tools={"do": {"effect": "write", "compensation": BACK}}),
    ),
    (
        "compensation-idle",
        ("transitions", 0, "compensation"),
        written(rule("do", compensation=BACK), UNDO, rule("merge", "end", verify="tests")),
        written(rule("do", compensation=BACK), UNDO, rule("merge", "end", verify="tests", merges=["do"])),
    ),
    (
        "compensation-reads",
        ("transitions", 0, "compensation", "tool"),
        written(rule("do", verify="tests", compensation={"tool": "look"}), UNDO),
        written(DO, UNDO),
    ),
    (
        "compensation-illegal",
        ("transitions", 0, "compensation", "tool"),
        written(DO),
        written(DO, UNDO),
    ),
    (
        "compensation-illegal",
        ("transitions", 0, "compensation", "tool"),
        phased({**DO, "on": {"verification_failed": "doubt"}}, {**UNDO, "from": ["work"]}),
        phased({**DO, "on": {"verification_failed": "doubt"}}, {**UNDO, "from": ["doubt"]}),
    ),
    (
        "compensation-illegal",
        ("transitions", 0, "compensation", "tool"),
        phased({**DO, "on": {"verification_failed": "over"}}, {**UNDO, "from": ["work"]}),
        phased({**DO, "on": {"verification_failed": "over"}}, {**UNDO, "from": ["over"]}),
    ),
    (
        "compensation-illegal",
        ("tools", "do", "compensation", "tool"),
        phased(
            rule("do", **{"from": ["work"]}), {**UNDO, "from": ["doubt"]},
            rule("merge", "end", verify="tests", merges=["do"], on={"verification_failed": "doubt"}, approval={}),
        )
        | {"tools": WRITES | {"do": {"effect": "write", "compensation": BACK}}},
        phased(
            rule("do", **{"from": ["work"]}), {**UNDO, "from": ["doubt"]},
            rule("merge", "end", verify="tests", merges=["do"], on={"verification_failed": "doubt"}),
        )
        | {"tools": WRITES | {"do": {"effect": "write", "compensation": BACK}}},
    ),
    (
        "phase-after-end",
        ("transitions", 1, "from", 0),
        phased(DO, rule("more", "undo2", **{"from": ["over"]}), UNDO),
        phased(DO, rule("more", "undo", **{"from": ["over"]}), UNDO),
    ),
    (
        "compensation-priceless",
        ("transitions", 1, "charge", "cost_from"),
        written(
            rule("do", verify="tests", compensation={**BACK, "arguments_from": {"sum": "result.sum"}}),
            rule("undo", "undo", charge={"cost_from": "double(args.sum)"}),
        ),
        written(
            rule("do", verify="tests", compensation={**BACK, "arguments_from": {"sum": "args.sum"}}),
            rule("undo", "undo", charge={"cost_from": "double(args.sum)"}),
        ),
    ),
    (
        "merge-unproven",
        ("transitions", 2, "merges"),
        written(rule("do", compensation=BACK), UNDO, rule("merge", "end", merges=["do"])),
        written(rule("do", compensation=BACK), UNDO, rule("merge", "end", merges=["do"], approval={})),
    ),
    (
        "merge-not-undone",
        ("transitions", 2, "merges", 0),
        written(rule("do"), UNDO, rule("merge", "end", verify="tests", merges=["do"])),
        written(rule("do", compensation=BACK), UNDO, rule("merge", "end", verify="tests", merges=["do"])),
    ),
    (
        "budget-below-step",
        ("budgets", "calls"),
        written(DO, UNDO, budgets={"calls": 1}),
        written(DO, UNDO, budgets={"calls": 2}),
    ),
    (
        "budget-below-step",
        ("budgets", "cost"),
        written(DO, rule("undo", "undo", charge={"cost": 2.0}), budgets={"cost": 1.0}),
        written(rule("do", compensation=BACK), rule("undo", "undo", charge={"cost": 1.0}), budgets={"cost": 1.0}),
    ),
]  # fmt: skip
