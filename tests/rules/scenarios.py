"""What agents and people do under each rule, step by step, and what comes of each step in the real engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

from gateway.model.principal import Principal
from gateway.model.tool import Answer, Silence, ToolResult

SENT = "sent"
"""The call reached its server."""
RECORD = "record"
"""It did not, and was answered with the record of an earlier one."""

Came: TypeAlias = str | tuple[str, str | None]
"""`SENT`, `RECORD`, or the outcome of a refusal and the rule that it cites."""


def at(text: str) -> float:
    """The moment, in seconds."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@dataclass(frozen=True)
class Call:
    """An agent calls a tool."""

    tool: str
    arguments: Mapping[str, Any]
    comes: Came
    run: str = "run_1"
    answer: Answer | None = None
    """What its server says; that it is done, where nothing is said."""
    when: float | None = None


@dataclass(frozen=True)
class Says:
    """A person answers what is asked of people."""

    who: str
    comes: Literal["taken", "refused"] = "taken"
    run: str = "run_1"
    yes: bool = True


@dataclass(frozen=True)
class Opens:
    """Somebody opens a run."""

    run: str
    principal: Principal = field(default_factory=lambda: Principal("local:user"))
    parent: str | None = None
    passes: tuple[str, ...] = ()
    """What the parent passes on."""


Step: TypeAlias = Call | Says | Opens

_ASKS = "needs_approval"
_LOST, _FAILED = Silence("gone"), ToolResult({"content": [], "isError": True})
_SUPPORT = Principal("web:ann", roles=frozenset({"support"}))
_BILLING = Principal("web:bob", roles=frozenset({"support"}), scopes=frozenset({"billing:write"}))

SCENARIOS: Mapping[str, Sequence[Step]] = {
    "business-hours": (
        Call("slack__post_message", {"channel": "customers"}, SENT, when=at("2027-01-18T21:59:59")),
        Call("slack__post_message", {"channel": "customers", "n": 1}, ("denied", "post"), when=at("2027-01-18T22:00")),
        Call("slack__post_message", {"channel": "team"}, SENT),
    ),
    "amount-by-currency": (
        Call("bank__pay", {"amount": 100.0, "currency": "EUR"}, SENT),
        Call("bank__pay", {"amount": 100.01, "currency": "EUR"}, ("denied", "pay")),
        Call("bank__pay", {"amount": 15000, "currency": "JPY"}, SENT),
        Call("bank__pay", {"amount": "1e1", "currency": "EUR"}, ("denied", "pay")),
    ),
    "path-jail": (
        Call("fs__write_file", {"path": "/work/project/a.txt"}, SENT),
        Call("fs__write_file", {"path": "/work/project/b/../../x"}, ("denied", "own-configuration")),
        Call("fs__write_file", {"path": "/etc/passwd"}, ("denied", "write")),
        Call("fs__write_file", {"path": "/work/PROJECT/a.txt"}, ("denied", "write")),
    ),
    "own-branches": (
        Call("git__push", {"branch": "claude/x"}, SENT),
        Call("git__push", {"branch": "main"}, (_ASKS, "push-other")),
        Says("local:user"),
        Call("git__push", {"branch": "main"}, SENT),
        Call("git__push", {"branch": "main"}, (_ASKS, "push-other")),
        Call("git__push", {"branch": "claude/x", "force": True}, ("denied", "push-other")),
        Call("git__push", {"branch": "+claude/x"}, ("denied", "push-own")),
    ),
    "read-only-sql": (
        Call("sqlite__read_query", {"query": "select name from company"}, SENT),
        Call("sqlite__read_query", {"query": "WITH x AS (SELECT 1) DELETE FROM company"}, ("denied", "query")),
        Call("sqlite__read_query", {"query": "pragma writable_schema = 1"}, ("denied", "query")),
    ),
    "first-time-recipient": (
        Call("mail__send", {"to": "ann@example.org", "body": "1"}, (_ASKS, "first")),
        Says("local:user", yes=False),
        Call("mail__send", {"to": "ann@example.org", "body": "1"}, ("denied", "first")),
        Call("mail__send", {"to": "ann@example.org", "body": "2"}, (_ASKS, "first")),
        Says("local:user"),
        Call("mail__send", {"to": "ann@example.org", "body": "2"}, SENT),
        Call("mail__send", {"to": "ann@example.org", "body": "2"}, RECORD),
        Opens("run_2"),
        Call("mail__send", {"to": "ann@example.org", "body": "3"}, SENT, run="run_2"),
        Call("mail__send", {"to": "Ann@example.org", "body": "3"}, (_ASKS, "first"), run="run_2"),
    ),
    "two-people": (
        Call("iam__grant_role", {"user": "ann"}, (_ASKS, "raise")),
        Says("local:user", "refused"),
        Says("local:ann"),
        Says("local:ann", "refused"),
        Call("iam__grant_role", {"user": "ann"}, (_ASKS, "raise")),
        Says("local:bob"),
        Call("iam__grant_role", {"user": "eve"}, (_ASKS, "raise")),
        Call("iam__grant_role", {"user": "ann"}, SENT),
    ),
    "freeze-window": (
        Call("ci__deploy", {"environment": "production"}, SENT, when=at("2027-12-19T23:59:59")),
        Call("ci__deploy", {"environment": "production", "n": 1}, ("denied", "frozen"), when=at("2027-12-20T00:00")),
        Call("ci__deploy", {"environment": "staging"}, SENT),
        Call("ci__deploy", {"environment": "production", "n": 1}, SENT, when=at("2028-01-03T00:00")),
    ),
    "data-class-stays": (
        Call("tracker__save_comment", {"url": "https://github.com/x", "n": 1}, SENT),
        Call("docs__read", {}, SENT),
        Call("tracker__save_comment", {"url": "https://github.com/x", "n": 2}, SENT),
        Call("vault__read", {}, SENT),
        Call("tracker__save_comment", {"url": "https://github.com/x", "n": 3}, ("denied", "stays")),
        Call("tracker__save_comment", {"url": "https://ours.example/x"}, SENT),
        Opens("run_2"),
        Call("tracker__save_comment", {"url": "https://github.com/x", "n": 3}, SENT, run="run_2"),
    ),
    "rate-by-principal": (
        *(Call("weather__get", {"city": str(n)}, SENT, when=at("2027-01-18T10:00:01")) for n in range(3)),
        Call("weather__get", {"city": "3"}, ("rate_limited", "accounts.by-user")),
        Opens("run_2"),
        Call("weather__get", {"city": "3"}, ("rate_limited", "accounts.by-user"), run="run_2"),
        Opens("run_3", Principal("web:ann")),
        Call("weather__get", {"city": "3"}, SENT, run="run_3"),
        Call("weather__get", {"city": "3"}, SENT, when=at("2027-01-18T10:01:00")),
    ),
    "host-allow-list": (
        Call("web__fetch", {"url": "https://example.com/"}, SENT),
        Call("web__fetch", {"url": "https://example.org/"}, ("denied", "fetch")),
        Call("web__fetch", {"url": "https://example.com:443@10.0.0.1/"}, ("denied", "fetch")),
        Call("web__fetch", {"url": "http://example.com/"}, ("denied", "fetch")),
    ),
    "argument-limit": (
        Call("cloud__scale", {"replicas": 10}, SENT),
        Call("cloud__scale", {"replicas": 11}, ("denied", "scale-up")),
        Opens("run_2", Principal("web:ann", roles=frozenset({"operator"}))),
        Call("cloud__scale", {"replicas": 11}, SENT, run="run_2"),
        Call("cloud__scale", {}, ("denied", "scale"), run="run_2"),
    ),
    "person-for-some-tools": (
        Call("fraud__list_cases", {}, SENT),
        Call("fraud__identity_score", {"person": "p1"}, (_ASKS, "sensitive")),
        Says("local:ann"),
        Call("fraud__identity_score", {"person": "p2"}, (_ASKS, "sensitive")),
        Call("fraud__identity_score", {"person": "p1"}, SENT),
    ),
    "delegation": (
        Call("fs__write_file", {"path": "a"}, SENT),
        Opens("run_2", parent="run_1", passes=("files:read",)),
        Call("fs__read_file", {"path": "a"}, SENT, run="run_2"),
        Call("fs__write_file", {"path": "b"}, ("denied", "write"), run="run_2"),
        Opens("run_3", parent="run_2", passes=("files:read", "files:write")),
        Call("fs__write_file", {"path": "b"}, ("denied", "write"), run="run_3"),
    ),
    "part-of-a-server": (
        Call("home__get_state", {"entity": "light"}, SENT),
        Call("home__exec_service", {"service": "open"}, ("denied", "switching")),
        Call("home__open_garage", {}, ("denied", "default-deny")),
    ),
    "spend-of-the-day": (
        Call("data__export", {"n": 1}, SENT, when=at("2027-01-18T10:00:01")),
        Call("weather__get", {}, SENT),
        Call("data__export", {"n": 2}, ("rate_limited", "accounts.of-the-hour")),
        Opens("run_2"),
        Call("data__export", {"n": 3}, ("rate_limited", "accounts.of-the-hour"), run="run_2"),
        Call("data__export", {"n": 3}, SENT, run="run_2", when=at("2027-01-18T11:00:00")),
    ),
    "no-second-charge": (
        Call("pay__charge", {"order": 1}, SENT),
        *(Call("pay__charge", {"order": 1}, RECORD) for _ in range(3)),
        Call("pay__charge", {"order": 2}, SENT, answer=_FAILED),
        Call("pay__charge", {"order": 2}, RECORD),
        Call("pay__charge", {"order": 3}, SENT, answer=_LOST),
        Call("pay__charge", {"order": 3}, ("held", None)),
        Call("pay__refund", {}, ("denied", "default-deny")),
    ),
    "tools-by-role": (
        Call("desk__answer", {}, ("denied", "answer")),
        Opens("run_2", _SUPPORT),
        Call("desk__answer", {}, SENT, run="run_2"),
        Call("desk__credit", {}, ("denied", "credit"), run="run_2"),
        Opens("run_3", _BILLING),
        Call("desk__credit", {}, SENT, run="run_3"),
    ),
}
"""By rule."""
