"""Mistakes in a workflow of phases, each with what is right a word away."""

from tests.kernel.analysis.shown_rules import Shown
from tests.kernel.analysis.written import STAGED, rule, verifier

DO, PROVE = STAGED["transitions"]
TESTED = 'evidence.tests.verdict == "pass"'

RUNS: list[Shown] = [
    (
        "phase-trap",
        ("phases", "stuck"),
        {
            "phases": {"work": {}, "stuck": {}, "done": {}},
            "transitions": [{**DO, "to": "stuck"}, {**PROVE, "from": ["work"]}],
        },
        {
            "phases": {"work": {}, "stuck": {"ends": "infeasible"}, "done": {}},
            "transitions": [{**DO, "to": "stuck"}, {**PROVE, "from": ["work"]}],
        },
    ),
    (
        "success-phase-unreachable",
        ("success", "phase"),
        {"transitions": [DO, {**PROVE, "to": "work"}]},
        {"transitions": [DO, PROVE]},
    ),
    (
        "success-phase-ends",
        ("success", "phase"),
        {"phases": {"work": {}, "done": {"ends": "infeasible"}}},
        {
            "phases": {"work": {}, "done": {}, "lost": {"ends": "infeasible"}},
            "transitions": [{**DO, "on": {"error": "lost"}}, PROVE],
        },
    ),
    (
        "success-evidence-unasked",
        ("success", "evidence", 0),
        {"transitions": [DO, {key: value for key, value in PROVE.items() if key != "verify"}]},
        {},
    ),
    (
        "success-evidence-unasked",
        ("success", "evidence", 0),
        {"success": {"evidence": ["tests"]}, "transitions": [DO, {**PROVE, "authority": ["a"]}]},
        {
            "success": {"evidence": ["tests"]},
            "transitions": [DO, {**PROVE, "authority": ["a"]}],
            "grants": [{"authority": ["a"]}],
        },
    ),
    (
        "success-evidence-stale",
        ("success", "evidence", 0),
        {
            "phases": {"work": {}, "proven": {}, "done": {}},
            "transitions": [DO, {**PROVE, "to": "proven"}, rule("end", "do", **{"from": ["proven"], "to": "done"})],
        },
        {
            "phases": {"work": {}, "proven": {}, "done": {}},
            "transitions": [DO, {**PROVE, "to": "proven"}, rule("end", "do", **{"from": ["proven"], "to": "done"})],
            "verifiers": {"tests": verifier(covers=["edit_*"])},
        },
    ),
    (
        "success-evidence-stale",
        ("success", "evidence", 1),
        {
            "success": {"evidence": ["tests", "style"]},
            "transitions": [rule("test", "do", verify="tests"), rule("lint", "fix", verify="style")],
            "verifiers": {"tests": verifier(), "style": verifier()},
        },
        {
            "success": {"evidence": ["tests", "style"]},
            "transitions": [rule("test", "do", verify="tests"), rule("lint", "fix", verify="style")],
            "verifiers": {"tests": verifier(covers=["do"]), "style": verifier()},
        },
    ),
    (
        "evidence-unasked",
        ("transitions", 1, "when", 0),
        {"transitions": [DO, {**PROVE, "when": [TESTED]}]},
        {"transitions": [DO, {**PROVE, "when": ["!has(evidence.tests) || evidence.tests.fresh"]}]},
    ),
    (
        "evidence-unasked",
        ("forbid", 0, "when", 0),
        {"forbid": [rule("n", "do", when=['evidence.tset.verdict == "fail"'])]},
        {"forbid": [rule("n", "do", when=['evidence.tests.verdict == "fail"'])]},
    ),
    (
        "condition-in-vain",
        ("transitions", 0, "when", 0),
        {"transitions": [{**DO, "when": ['evidence.tests.verdict == "passed"']}, PROVE]},
        {"transitions": [{**DO, "when": [TESTED]}, PROVE]},
    ),
    (
        "budget-below-success",
        ("budgets", "calls"),
        {"budgets": {"calls": 2}, "transitions": [DO, {**PROVE, "charge": {"calls": 3}}]},
        {"budgets": {"calls": 3}, "transitions": [DO, {**PROVE, "charge": {"calls": 3}}]},
    ),
    (
        "budget-below-success",
        ("budgets", "calls"),
        {
            "phases": {"work": {}, "next": {}, "done": {}},
            "transitions": [{**DO, "to": "next"}, {**PROVE, "from": ["next"]}],
            "budgets": {"calls": 1},
        },
        {
            "phases": {"work": {}, "next": {}, "done": {}},
            "transitions": [{**DO, "to": "next"}, {**PROVE, "from": ["next", "work"]}],
            "budgets": {"calls": 1},
        },
    ),
    (
        "budget-below-success",
        ("budgets", "tokens"),
        {
            "budgets": {"tokens": 9},
            "tools": {
                **STAGED["tools"],
                "prove": {"effect": "read", "result_tokens": 10},
                "look": {"effect": "read", "result_tokens": 10},
            },
        },
        {
            "budgets": {"tokens": 10},
            "tools": {
                **STAGED["tools"],
                "prove": {"effect": "read", "result_tokens": 10},
                "look": {"effect": "read", "result_tokens": 10},
            },
        },
    ),
]
