"""How the functions are asked in the tests: as policies ask them, in a condition and in its contrary."""

from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeAlias

from gateway.kernel.conditions import Condition, Undecided, compile_condition

Judged: TypeAlias = bool | str
"""True, False, or why it is undecided."""

NOW = datetime(2026, 11, 29, 23, 30, tzinfo=UTC)  # a Sunday; in Berlin it is Monday


@cache
def compiled(expression: str) -> Condition:
    return compile_condition(expression, "transition")


def judged(expression: str, *args: Any, now: datetime = NOW) -> Judged:
    """True, False, or why it is undecided; the arguments are `args.a`, `args.b` and so on.

    What is undecided must be so in the contrary too, or a forbid rule would let it by.
    """
    values = {"args": dict(zip("abcdef", args, strict=False)), "now": now}
    found, contrary = (compiled(one).decide(values) for one in (expression, f"!({expression})"))
    if isinstance(found, Undecided):
        assert found == contrary
        return found.reason
    assert contrary is not found
    return found
