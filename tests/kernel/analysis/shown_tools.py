"""Mistakes in the registry, budgets, stops and cases, each with what is right a word away."""

from typing import Any

from gateway.kernel.registry import pin
from tests.kernel.analysis.shown_rules import Shown
from tests.kernel.analysis.written import QUIET, rule, verifier

PIN = {"digest": pin({"name": "see"}), "definition": {"name": "see"}}

PINNED = {name: {"digest": pin({"name": name}), "definition": {"name": name}} for name in ("do", "look")}
PROVEN: dict[str, Any] = {
    "phases": {"open": {}, "done": {}},
    "verifiers": {"v": verifier(takes_s=10)},
    "transitions": [rule("x", verify="v", to="done")],
    "success": {"evidence": ["v"], "phase": "done"},
}
"""A way to success of ten seconds and the tool's own."""

TOOLS: list[Shown] = [
    # --- tools
    (
        "tool-shadowed",
        ("tools", "do"),
        {"tools": {"d*": {"effect": "write"}, "do": {"effect": "read"}}},
        {"tools": {"do": {"effect": "read"}, "d*": {"effect": "write"}}},
    ),
    ("tool-unnamed", ("tools", "see"), {"tools": {"see": {"cost": 1}}}, {"tools": {"d*": {"cost": 1}}}),
    (
        "tool-unnamed",
        ("tools", "see"),
        {"tools": {"see": {"cost": 1}}, "forbid": [rule("n", when=["args.a == 1"])]},
        {"tools": {"see": {"cost": 1}}, "forbid": [rule("n", "s*", when=["args.a == 1"])]},
    ),
    (
        "tool-read-destroys",
        ("tools", "delete_rows", "effect"),
        {"tools": {"delete_rows": {"effect": "read"}}, "transitions": [rule("x", "*")]},
        {"tools": {"list_deleted_rows": {"effect": "read"}}, "transitions": [rule("x", "*")]},
    ),
    (
        "tool-destroys-twice",
        ("tools", "do", "repeat"),
        {"tools": {"do": {"effect": "destructive", "repeat": "new"}}},
        {"tools": {"do": {"effect": "write", "repeat": "new"}}},
    ),
    (
        "tool-repeats-blindly",
        ("tools", "send_mail"),
        {"tools": {"send_mail": {"timeout_s": 5}}, "transitions": [rule("x", "send_mail")]},
        {
            "tools": {"send_mail": {"idempotency": {"kind": "key", "key": {"argument": "id"}}}},
            "transitions": [rule("x", "send_mail")],
        },
    ),
    (
        "tool-unpinned",
        ("transitions", 0, "tools", 1),
        {"unpinned": "withhold", "transitions": [rule("x", "do*", "see")]},
        {"unpinned": "withhold", "transitions": [rule("x", "do*", "see")], "pins": {"see": PIN}},
    ),
    (
        "compensation-unknown",
        ("tools", "do", "compensation", "tool"),
        {"tools": {"do": {"compensation": {"tool": "undo"}}}},
        {"tools": {"do": {"compensation": {"tool": "undo"}}}, "transitions": [rule("x", "do", "undo")]},
    ),
    # --- budgets and stops
    (
        "budget-below-step",
        ("budgets", "calls"),
        {"budgets": {"calls": 4}, "transitions": [rule("x", charge={"calls": 5})]},
        {"budgets": {"calls": 5}, "transitions": [rule("x", charge={"calls": 5})]},
    ),
    (
        "budget-below-step",
        ("budgets", "mutations"),
        {"budgets": {"mutations": 0}, "tools": {"do": {"effect": "write"}}},
        {
            "budgets": {"mutations": 0},
            "tools": {"do": {"effect": "write"}},
            "transitions": [rule("x", "*")],
            "annotations": "trust",
        },
    ),
    (
        "budget-below-step",
        ("budgets", "cost"),
        {"budgets": {"cost": 0.1}, "tools": {"do": {"cost": 0.2}}},
        {"budgets": {"cost": 0.2}, "tools": {"do": {"cost": 0.2}}},
    ),
    (
        "account-below-step",
        ("accounts", "a", "limit", "reviews"),
        {"accounts": {"a": {"limit": {"reviews": 0}}}, "transitions": [rule("x", approval={})]},
        {"accounts": {"a": {"limit": {"reviews": 0}}}, "transitions": [rule("x", approval={"when": ["args.a == 1"]})]},
    ),
    (
        "account-idle",
        ("accounts", "a"),
        {"accounts": {"a": {"tools": ["see*"], "limit": {"calls": 1}}}},
        {"accounts": {"a": {"tools": ["d*"], "limit": {"calls": 1}}}},
    ),
    (
        "account-below-step",
        ("tools", "do", "rate", "calls"),
        {"tools": {"do": {"rate": {"calls": 1}}}, "transitions": [rule("x", charge={"calls": 2})]},
        {"tools": {"do": {"rate": {"calls": 1}}}, "transitions": [rule("x", "do", "see", charge={"calls": 2})]},
    ),
    *(
        (
            "account-below-step",
            ("accounts", "a", "limit", "calls"),
            {"accounts": {"a": {"limit": {"calls": 0}}}, "transitions": [rule("x", "do", effect=["write"])]},
            {"accounts": {"a": {"limit": {"calls": 0}, **narrow}}, "transitions": [rule("x", "do", "see")]},
        )
        for narrow in ({"tools": ["do"]}, {"effect": ["destructive"]})
    ),
    (
        "account-idle",
        ("accounts", "a"),
        {
            "accounts": {"a": {"effect": ["read"], "limit": {"calls": 1}}},
            "transitions": [rule("x", "do", effect=["write"])],
        },
        {"accounts": {"a": {"effect": ["read"], "limit": {"calls": 1}}}, "transitions": [rule("x", "do")]},
    ),
    (
        "budget-soft",
        ("accounts", "a", "limit", "tokens"),
        {"accounts": {"a": {"limit": {"tokens": 9}}}, "transitions": [rule("x", charge={"calls": 1})]},
        {"accounts": {"a": {"limit": {"tokens": 9}}}, "transitions": [rule("x", charge={"tokens": 9})]},
    ),
    (
        "budget-soft",
        ("accounts", "a", "limit", "tokens"),
        {"accounts": {"a": {"limit": {"tokens": 9}, "tools": ["do"]}}},
        {
            "accounts": {"a": {"limit": {"tokens": 9}, "tools": ["see"]}},
            "tools": {"see": {"result_tokens": 9}},
            "transitions": [rule("x"), rule("y", "see")],
        },
    ),
    (
        "approval-of-own",
        ("transitions", 0, "approval", "self_review"),
        {"transitions": [rule("x", approval={"quorum": 3, "self_review": True})]},
        {"transitions": [rule("x", approval={"quorum": 3})]},
    ),
    (
        "tool-destroys-twice",
        ("tools", "drop_all", "repeat"),
        {"tools": {"drop_all": {"repeat": "new"}}, "transitions": [rule("x", "drop_all")]},
        {"tools": {"drop_all": {"repeat": "new", "effect": "write"}}, "transitions": [rule("x", "drop_all")]},
    ),
    (
        "tool-read-destroys",
        ("tools", "drop_all", "effect"),
        {"tools": {"drop_all": {"effect": "read"}}, "transitions": [rule("x", "*")]},
        {"tools": {"take_all": {"effect": "read"}}, "transitions": [rule("x", "*")]},
    ),
    (
        "final-denial-idle",
        ("stops", "final_denials", 0),
        {"stops": {"final_denials": ["authority"]}, "tools": {"do": {"cost": 1}}},
        {
            "stops": {"final_denials": ["authority"]},
            "tools": {"do": {"permissions": ["a"]}},
            "grants": [{"authority": ["a"]}],
        },
    ),
    (
        "observing",
        ("accounts", "a", "mode"),
        {"accounts": {"a": {"limit": {"calls": 1}, "mode": "observe"}}},
        {"accounts": {"a": {"limit": {"calls": 1}}}},
    ),
    (
        "rule-untested",
        ("transitions", 0, "name"),
        {"transitions": [rule("x", "see"), rule("do")], "cases": QUIET["cases"]},
        {"transitions": [rule("x", "see", authority=["a"]), rule("do")], "cases": QUIET["cases"]},
    ),
    ("account-unread", ("accounts", "a"), {"accounts": {"a": {}}}, {"accounts": {"a": {"limit": {"calls": 1}}}}),
    (
        "budget-soft",
        ("budgets", "tokens"),
        {"budgets": {"tokens": 100}},
        {"budgets": {"tokens": 100}, "tools": {"do": {"result_tokens": 100}}},
    ),
    (
        "deadline-below-success",
        ("stops", "deadline_s"),
        PROVEN | {"tools": {"do": {"takes_s": 50}}, "stops": {"deadline_s": 59}},
        PROVEN | {"tools": {"do": {"takes_s": 49}}, "stops": {"deadline_s": 59}},
    ),
    (
        "deadline-below-success",
        ("budgets", "elapsed_s"),
        PROVEN | {"budgets": {"elapsed_s": 9}},
        PROVEN | {"budgets": {"elapsed_s": 10}},
    ),
    (
        "takes-beyond-timeout",
        ("tools", "do", "takes_s"),
        {"tools": {"do": {"takes_s": 61}}},
        {"tools": {"do": {"takes_s": 60}}},
    ),
    (
        "takes-beyond-timeout",
        ("verifiers", "v", "takes_s"),
        PROVEN | {"verifiers": {"v": verifier(takes_s=10, timeout_s=9)}},
        PROVEN | {"verifiers": {"v": verifier(takes_s=10, timeout_s=10)}},
    ),
    (
        "takes-beyond-timeout",
        ("transitions", 0, "takes_s"),
        {"transitions": [rule("x", takes_s=5, timeout_s=4)]},
        {"transitions": [rule("x", takes_s=4, timeout_s=4)]},
    ),
    (
        "infeasible-idle",
        ("stops", "infeasible"),
        {"stops": {"infeasible": "computed"}},
        PROVEN | {"stops": {"infeasible": "computed"}},
    ),
    (
        "tool-unpinned",
        ("verifiers", "v", "probe", "tool"),
        PROVEN | {"unpinned": "withhold", "pins": {"do": PINNED["do"]}},
        PROVEN | {"unpinned": "withhold", "pins": PINNED},
    ),
    (
        "deadline-idle",
        ("stops", "deadline_s"),
        {"budgets": {"elapsed_s": 60}, "stops": {"deadline_s": 61}},
        {"budgets": {"elapsed_s": 60}, "stops": {"deadline_s": 60}},
    ),
    (
        "repeated-state-late",
        ("stops", "repeated_state", "after"),
        {"budgets": {"calls": 4}, "stops": {"repeated_state": {"after": 5}}},
        {"budgets": {"calls": 5}, "stops": {"repeated_state": {"after": 5}}},
    ),
    *(
        ("final-denial-idle", ("stops", "final_denials", 0), {"stops": {"final_denials": [check]}}, heeded)
        for check, heeded in {
            "phase": {"stops": {"final_denials": ["phase"]}, "transitions": [rule("x", **{"from": ["open"]})]},
            "authority": {
                "stops": {"final_denials": ["authority"]},
                "transitions": [rule("x", authority=["a"])],
                "grants": [{"authority": ["a"]}],
            },
            "conditions": {
                "stops": {"final_denials": ["conditions"]},
                "transitions": [rule("x", when=["args.a == 1"])],
            },
            "preconditions": {
                "stops": {"final_denials": ["preconditions"]},
                "transitions": [rule("x", preconditions=["v"])],
                "verifiers": {"v": verifier()},
            },
        }.items()
    ),
    (
        "final-denial-idle",
        ("stops", "final_denials", 0),
        {"stops": {"final_denials": ["tool"]}, "transitions": [rule("x", "*")]},
        {"stops": {"final_denials": ["tool"]}},
    ),
    # --- the rest
    (
        "approval-of-own",
        ("transitions", 0, "approval", "self_review"),
        {"transitions": [rule("x", approval={"quorum": 2, "self_review": True})]},
        {"transitions": [rule("x", approval={"quorum": 1, "self_review": True})]},
    ),
    ("observing", ("mode",), {"mode": "observe"}, {"mode": "enforce"}),
    ("observing", ("transitions", 0, "mode"), {"transitions": [rule("x", mode="observe")]}, {}),
    (
        "value-unused",
        ("values", "v"),
        {"values": {"v": 1}},
        {"values": {"v": 1}, "transitions": [rule("x", when=["args.a < values.v"])]},
    ),
    ("no-cases", ("workflow",), {"cases": []}, {}),
    (
        "rule-untested",
        ("transitions", 1, "name"),
        {"transitions": [rule("do"), rule("y", "see")], "cases": QUIET["cases"]},
        {"transitions": [rule("do")], "cases": QUIET["cases"]},
    ),
    (
        "case-tool-unnamed",
        ("cases", 1, "call", "tool"),
        {"cases": [*QUIET["cases"], {"name": "d", "call": {"tool": "od"}, "expect": {"outcome": "denied"}}]},
        {
            "cases": [
                *QUIET["cases"],
                {"name": "d", "call": {"tool": "od"}, "expect": {"outcome": "denied", "rule": "default-deny"}},
            ]
        },
    ),
]
