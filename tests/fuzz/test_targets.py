"""Each target holds for what it begins with, and for what fuzzing once found."""

import pytest

from tests.fuzz.targets import TARGETS

KEPT: dict[str, list[bytes]] = {
    "door": [b"", b"\xff", b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"v":-0.0,"V":1e-400}}', b"[" * 4096],
    "policy": [
        b"several lines\n\nthat are one text",
        b'"a\\nb": 1\nphases: {"a\\x1b[8m": 7}',
        b"",
        b"\xff",
        b"a: &a [*a]",
        b"workflow: [",
        b"? {a: b}\n: c",
        b"%YAML 9.9\n---\n",
        b"\x00",
    ],
    "cel": [b"", b"\xff", b"(" * 500, b"args.x.all(a, args.x.all(b, args.x.all(c, a == b)))", b"'\\ud800' == args.p"],
    "console": [b"", b"\x00\xff", b"\x12run_1", b"\xfe/../..", b"\x03&decision=approve&times=99999999999999999999"],
}
"""The edges of each format; the first of `policy` were found: their mistakes were told in several lines."""


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_holds_for_its_seeds(name: str) -> None:
    with TARGETS[name]() as (target, seeds):
        for body in [*KEPT[name], *seeds[:6]]:
            target(body)
