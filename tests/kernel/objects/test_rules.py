"""What an agent gets, as a transition and as a forbid rule: what is not certain opens neither."""

import pytest

from tests import world
from tests.kernel.test_decide import CALL, brief, judge

YES, NO = ("allowed",), ("denied", "conditions")


@pytest.mark.parametrize(
    ("condition", "argument", "allowed", "forbidden"),
    [
        ('path.within(args.x, "/work")', "/work/a", True, True),
        ('path.within(args.x, "/work")', "/etc/passwd", False, False),
        ('path.within(args.x, "/work")', "/work/../etc/passwd", False, True),
        ('!path.within(args.x, "/etc")', "/work/../etc/passwd", False, True),
        ('path.glob(args.x, "**/.git/**")', "/work/.GIT/config", False, True),
        ('sql.reads_only(args.x, "postgres")', "select 1", True, True),
        ('sql.reads_only(args.x, "postgres")', "select lo_export(1, 'x')", False, True),
        ('!sql.reads_only(args.x, "postgres")', "select lo_export(1, 'x')", False, True),
        ('"users" in sql.tables(args.x, "mysql")', "select 1 /*!50000 union select * from users*/", False, True),
        ('shell.runs_only(args.x, ["ls"])', "ls $(rm x)", False, True),
        ('shell.commands(args.x).exists(c, c == "rm")', "env rm x", False, True),
        ('shell.commands(args.x).exists(c, c == "rm")', "ls x", False, False),
        ("url.private(args.x)", "http://127.0.0.1\\@example.com", False, True),
        ("!url.private(args.x)", "http://2130706433/", False, False),
        ('money.at_most(args.x, "500")', -5, False, True),
        ('money.at_most(args.x, "500")', "5e2", False, True),
        ('!money.at_most(args.x, "500")', True, False, True),
        ('mail.domain(args.x) == "example.com"', "a@evil.org, b@example.com", False, True),
        ('args.x == "safe"', "safe\x00", False, True),
    ],
)
def test_what_is_not_certain_opens_nothing(condition: str, argument: object, *, allowed: bool, forbidden: bool) -> None:
    asked = world.proposal("write", {"x": argument}, key=CALL)
    rules = world.rules(transitions=[{"name": "any", "tools": ["*"], "when": [condition]}])
    assert brief(judge(world.opened(rules), rules, asked))[: 1 + (not allowed)] == (YES if allowed else NO)
    rules = world.rules(forbid=[{"name": "no", "tools": ["*"], "when": [condition]}])
    assert brief(judge(world.opened(rules), rules, asked))[: 1 + forbidden] == (NO if forbidden else YES)
