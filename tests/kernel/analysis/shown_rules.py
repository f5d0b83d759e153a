"""Mistakes in transitions, conditions and verifiers, each with what is right a word away."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from gateway.model.flaws import Place
from tests.kernel.analysis.written import rule, verifier

Fields: TypeAlias = Mapping[str, Any]
Shown: TypeAlias = tuple[str, Place, Fields, Fields]
"""A code, where it is found, the parts of a policy that show it, and the parts of one that does not."""

RULES: list[Shown] = [
    # --- how a run moves
    ("phase-unreachable", ("phases", "b"), {"phases": {"a": {}, "b": {}}}, {"phases": {"a": {}}}),
    (
        "phase-unreachable",
        ("phases", "c"),
        {
            "phases": {"a": {}, "b": {}, "c": {}},
            "transitions": [rule("x", to="b"), rule("y", "see", **{"from": ["c"], "to": "c"})],
        },
        {
            "phases": {"a": {}, "b": {}, "c": {}},
            "transitions": [rule("x", to="b"), rule("y", "see", **{"from": ["b"], "to": "c"})],
        },
    ),
    (
        "phase-trap",
        ("phases", "b"),
        {"phases": {"a": {}, "b": {}}, "transitions": [rule("x", **{"from": ["a"], "to": "b"})]},
        {"phases": {"a": {}, "b": {"ends": "infeasible"}}, "transitions": [rule("x", **{"from": ["a"], "to": "b"})]},
    ),
    (
        "edge-idle",
        ("transitions", 0, "on", "conflict"),
        {"phases": {"a": {}, "b": {}}, "transitions": [rule("x", to="b", on={"conflict": "b"})]},
        {
            "phases": {"a": {}, "b": {}},
            "transitions": [rule("x", to="b", on={"conflict": "b"})],
            "tools": {"do": {"failures": {"conflict": ["result.code == 409"]}}},
        },
    ),
    (
        "edge-idle",
        ("transitions", 0, "on", "timeout_unknown"),
        {
            "phases": {"a": {}, "b": {}},
            "tools": {"do": {"effect": "read"}},
            "transitions": [rule("x", to="b", on={"timeout_unknown": "b"})],
        },
        {"phases": {"a": {}, "b": {}}, "transitions": [rule("x", to="b", on={"timeout_unknown": "b"})]},
    ),
    (
        "phase-after-end",
        ("transitions", 1, "from", 1),
        {
            "phases": {"a": {}, "b": {"ends": "infeasible"}},
            "transitions": [rule("x", to="b"), rule("y", "y", **{"from": ["a", "b"]})],
        },
        {
            "phases": {"a": {}, "b": {"ends": "infeasible"}},
            "transitions": [rule("x", to="b"), rule("y", "y", **{"from": ["a"]})],
        },
    ),
    ("no-success", ("phases",), {"phases": {"a": {}, "b": {}}, "transitions": [rule("x", to="b")]}, {}),
    # --- what may happen
    (
        "transition-unauthorized",
        ("transitions", 0, "authority"),
        {"transitions": [rule("x", authority=["pay"])], "grants": [{"authority": ["look"]}]},
        {"transitions": [rule("x", authority=["pay"])], "grants": [{"authority": ["pay"]}]},
    ),
    (
        "transition-unauthorized",
        ("transitions", 0, "name"),
        {"tools": {"do": {"permissions": ["pay"]}}},
        {"tools": {"do": {"permissions": ["pay"]}}, "transitions": [rule("x", "do", "see")]},
    ),
    (
        "transition-unauthorized",
        ("transitions", 0, "authority"),
        {
            "transitions": [rule("x", authority=["a", "b"])],
            "grants": [{"principal": "x:*", "authority": ["a"]}, {"principal": "y:*", "authority": ["b"]}],
        },
        {
            "transitions": [rule("x", authority=["a", "b"])],
            "grants": [{"principal": "x:*", "authority": ["a"]}, {"principal": "*:y", "authority": ["b"]}],
        },
    ),
    (
        "transition-forbidden",
        ("transitions", 0, "name"),
        {"transitions": [rule("x", "a_*", "b")], "forbid": [rule("n", "a*"), rule("m", "b*")]},
        {"transitions": [rule("x", "a_*", "b")], "forbid": [rule("n", "a_b*"), rule("m", "b*")]},
    ),
    (
        "transition-forbidden",
        ("transitions", 0, "name"),
        {"transitions": [rule("x")], "forbid": [rule("n", "do", when=["1 < 2"])], "mode": "enforce"},
        {"transitions": [rule("x")], "forbid": [rule("n", "do", when=["args.a == 1"])]},
    ),
    (
        "transition-forbidden",
        ("transitions", 0, "name"),
        {"tools": {"do": {"effect": "write"}}, "forbid": [rule("n", "*", effect=["write", "read"])]},
        {"tools": {"do": {"effect": "write"}}, "forbid": [rule("n", "*", effect=["destructive"])]},
    ),
    (
        "transition-shadowed",
        ("transitions", 1, "name"),
        {"transitions": [rule("x", "a*"), rule("y", "ab", when=["args.a == 1"])]},
        {"transitions": [rule("x", "ab"), rule("y", "a*")]},
    ),
    (
        "transition-shadowed",
        ("transitions", 2, "name"),
        {
            "phases": {"p": {}, "q": {"ends": "infeasible"}},
            "transitions": [
                rule("x", "a*", **{"from": ["p"], "effect": ["write"], "to": "q"}),
                rule("y", "a*", effect=["destructive"]),
                rule("z", "ab"),
            ],
        },
        {
            "phases": {"p": {}, "q": {"ends": "infeasible"}},
            "annotations": "trust",  # so it may be a read, which neither of them takes
            "transitions": [
                rule("x", "a*", **{"from": ["p"], "effect": ["write"], "to": "q"}),
                rule("y", "a*", effect=["destructive"]),
                rule("z", "ab"),
            ],
        },
    ),
    (
        "transition-shadowed",
        ("transitions", 1, "name"),
        {"transitions": [rule("x", "a", when=["args.a == 1"]), rule("y", "a", when=["args.b == 1", "args.a == 1"])]},
        {"transitions": [rule("x", "a", when=["args.a == 1"]), rule("y", "a", when=["args.b == 1"])]},
    ),
    (
        "transition-shadowed",
        ("transitions", 1, "name"),
        {"transitions": [rule("x", "a"), rule("y", "a", authority=["p"])], "grants": [{"authority": ["p"]}]},
        {"transitions": [rule("x", "a", authority=["p"]), rule("y", "a")], "grants": [{"authority": ["p"]}]},
    ),
    (
        "transition-shadowed",
        ("transitions", 1, "name"),
        {"transitions": [rule("x", "a", max_attempts=2, approval={}), rule("y", "a")]},
        {"transitions": [rule("x", "a", max_attempts=2, when=["args.a == 1"]), rule("y", "a")]},
    ),
    (
        "transition-without-tools",
        ("transitions", 0, "effect"),
        {"transitions": [rule("x", "*", effect=["read"])]},
        {"transitions": [rule("x", "*", effect=["read"])], "annotations": "trust"},
    ),
    (
        "transition-without-tools",
        ("transitions", 0, "effect"),
        {"transitions": [rule("x", "drop_table", effect=["write"])]},
        {"transitions": [rule("x", "drop_*", effect=["write"])]},
    ),
    (
        "forbid-shadowed",
        ("forbid", 1, "name"),
        {"forbid": [rule("n", "x*"), rule("m", "xy", when=["args.a == 1"])]},
        {"forbid": [rule("n", "xy"), rule("m", "x*", when=["args.a == 1"])]},
    ),
    (
        "forbid-shadowed",
        ("forbid", 1, "name"),
        {"forbid": [rule("n", "x*"), rule("m", "xy")]},
        {"forbid": [rule("n", "x*", when=["args.a == 1"]), rule("m", "xy")]},
    ),
    (
        "grant-unneeded",
        ("grants", 0, "authority", 1),
        {"grants": [{"authority": ["a", "b"]}], "transitions": [rule("x", authority=["a"])]},
        {"grants": [{"authority": ["a", "b"]}], "transitions": [rule("x", authority=["a", "b"])]},
    ),
    (
        "grant-unneeded",
        ("grants", 0, "authority", 0),
        {"grants": [{"authority": ["a"]}], "transitions": [rule("x", when=["args.x in principal.roles"])]},
        {"grants": [{"authority": ["a"]}], "transitions": [rule("x", when=["args.x in principal.authority"])]},
    ),
    # --- conditions
    (
        "condition-never",
        ("transitions", 0, "when", 1),
        {"transitions": [rule("x", when=["args.a == 1", "args.b == 1 && 2 < 1"])]},
        {"transitions": [rule("x", when=["args.a == 1", "args.b == 1 || 2 < 1"])]},
    ),
    (
        "condition-never",
        ("forbid", 0, "when", 0),
        {"forbid": [rule("n", "do", when=["false"])]},
        {"forbid": [rule("n", "do", when=["args.a == false"])]},
    ),
    (
        "condition-always",
        ("transitions", 0, "when", 0),
        {"transitions": [rule("x", when=["args.a == 1 || true"])]},
        {"transitions": [rule("x", when=["args.a == 1 || args.a == 2"])]},
    ),
    (
        "condition-unjudgeable",
        ("transitions", 0, "approval", "when", 0),
        {"transitions": [rule("x", approval={"when": ['"a".matches("(")']})]},
        {"transitions": [rule("x", approval={"when": ['args.a.matches("a")']})]},
    ),
    (
        "condition-in-vain",
        ("transitions", 0, "when", 0),
        {"phases": {"open": {}}, "transitions": [rule("x", when=['run.phase == "opne"'])]},
        {"phases": {"open": {}}, "transitions": [rule("x", when=['run.phase == "open"'])]},
    ),
    (
        "condition-in-vain",
        ("forbid", 0, "when", 0),
        {"forbid": [rule("n", "do", when=['tool.effect in ["write", "delete"]'])]},
        {"forbid": [rule("n", "do", when=['tool.effect in ["write", "destructive"]'])]},
    ),
    (
        "probe-writes",
        ("verifiers", "v", "probe", "tool"),
        {
            "verifiers": {"v": verifier("do")},
            "tools": {"do": {"effect": "write"}},
            "transitions": [rule("x", verify="v")],
        },
        {
            "verifiers": {"v": verifier("do")},
            "tools": {"do": {"effect": "read"}},
            "transitions": [rule("x", verify="v")],
        },
    ),
    (
        "probe-writes",
        ("verifiers", "v", "probe", "tool"),
        {"verifiers": {"v": verifier("git__reset")}, "transitions": [rule("x", verify="v")]},
        {"verifiers": {"v": verifier("git__status")}, "transitions": [rule("x", verify="v")]},
    ),
    (
        "probe-writes",
        ("verifiers", "v", "probe", "tool"),
        {
            "verifiers": {"v": {"probe": {"tool": "do", "arguments": {"dryRun": False}}, "pass": ["result.isError"]}},
            "tools": {"do": {"effect": "write"}},
            "transitions": [rule("x", verify="v")],
        },
        {
            "verifiers": {"v": {"probe": {"tool": "do", "arguments": {"dryRun": True}}, "pass": ["result.isError"]}},
            "tools": {"do": {"effect": "write"}},
            "transitions": [rule("x", verify="v")],
        },
    ),
    (
        "verifier-unused",
        ("verifiers", "v"),
        {"verifiers": {"v": verifier()}},
        {"verifiers": {"v": verifier()}, "transitions": [rule("x", preconditions=["v"])]},
    ),
    (
        "verifier-always-passes",
        ("verifiers", "v", "pass"),
        {"verifiers": {"v": verifier("look", "true")}, "transitions": [rule("x", verify="v")]},
        {"verifiers": {"v": verifier("look", "true", "result.ok == true")}, "transitions": [rule("x", verify="v")]},
    ),
]
