"""No arguments make a condition take long, or much memory: what would is undecided before it is begun."""

import resource
import sys
import time
from typing import Any

import pytest

from gateway.kernel.conditions import Undecided, compile_condition

GATHERS = "it maps or filters, and a list has more than 1000 elements"
JOINS = "it joins texts in a loop, and they are too long for that"
ASKS = "it asks about more text than one condition may"


def memory_bytes() -> int:
    """The most that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@pytest.mark.parametrize(
    ("expression", "args", "expected"),
    [
        ("args.a.map(x, x).size() > 0", {"a": [1] * 9_000}, GATHERS),
        ("args.a.filter(x, x > 0).size() > 0", {"a": [1] * 9_000}, GATHERS),
        ("args.a.map(x, x).size() > 0", {"a": [1] * 1_000}, True),
        ("args.a.all(x, (args.root + x).size() > 0)", {"a": ["a"] * 9_000, "root": "a" * 1_000_000}, JOINS),
        ("args.a.all(x, args.a.all(y, (args.root + x).size() > 0))", {"a": ["a"] * 99, "root": "a" * 50_000}, JOINS),
        ("args.a.all(x, (args.root + x).size() > 0)", {"a": ["a"] * 9, "root": "a" * 1_000_000}, True),
        ("(args.root + args.root).size() > 0", {"a": [1] * 9_000, "root": "a" * 1_000_000}, True),
        ("args.a.all(x, path.within(x, '/w'))", {"a": ["/w/" + "a" * 8_000] * 9_000}, ASKS),
        ("args.a.all(x, shell.simple(x))", {"a": ["a" * 4_000] * 900}, ASKS),
        ("args.a.all(x, sql.reads_only(x, 'sqlite'))", {"a": ["select " + "a" * 16_000] * 9}, ASKS),
        ("args.a.all(x, path.within(x, '/w'))", {"a": ["/w/a"] * 9_000}, True),
    ],
)
def test_what_would_take_long_is_not_begun(expression: str, args: dict[str, Any], expected: object) -> None:
    condition = compile_condition(expression, "transition")
    before, begun = memory_bytes(), time.process_time()
    found = condition.decide({"args": args})
    assert (found.reason if isinstance(found, Undecided) else found) == expected
    assert time.process_time() - begun < 3
    assert memory_bytes() - before < 200_000_000


def test_what_one_condition_asked_is_not_counted_for_the_next() -> None:
    condition = compile_condition("args.a.all(x, path.within(x, '/w'))", "transition")
    args = {"a": ["/w/" + "a" * 5_000] * 500}
    assert [condition.decide({"args": args}) for _ in range(3)] == [True] * 3
