"""What must hold of any bytes, at each of the four doors. A target raises where it does not."""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from urllib.parse import quote

import anyio.from_thread
import httpx2

from gateway.inbound.mcp.envelope import Refused, id_of, read, version_of
from gateway.kernel.conditions import BadCondition, Undecided, compile_condition, compile_value
from gateway.model.canonical import NotStrictJson, canonical, parse
from gateway.outbound.policy_files import PolicyProblems, load_policy
from gateway.outbound.upstream import wire
from gateway.runtime.policies import condition_trouble
from tests.console.office import _hidden, fill, office

Target = Callable[[bytes], None]
ROOT = Path(__file__).parents[2]

_META = (
    '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'
)
MESSAGES = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"n":1.5},%b}}' % _META.encode(),
    b'{"jsonrpc":"2.0","id":"x","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',
    b'{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{}}}',
    b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"\\ud83d\\ude00","data":[1e22,-0,"\\u2028"]}}',
)


@contextmanager
def door() -> Iterator[tuple[Target, Sequence[bytes]]]:
    """A message is refused in words, or is one that any strict reader finds the same in; on both of our sides."""
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "a"}

    def target(body: bytes) -> None:
        wire.read(body)
        try:
            message = read(body)
            id_of(message)
            version_of(message, headers)
            version_of(message)
        except Refused as refused:
            json.dumps(refused.response)
            return
        assert parse(canonical(message)) == message
        assert canonical(json.loads(body)) == canonical(message)

    yield target, MESSAGES


@contextmanager
def policy() -> Iterator[tuple[Target, Sequence[bytes]]]:
    """A file is a policy, or is refused with every mistake in one line and in its place."""
    seeds = [path.read_bytes()[:4096] for path in sorted((ROOT / "policies").glob("*.yaml"))[:3]]
    small = (ROOT / "tests" / "conformance" / "open.yaml").read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.yaml"

        def target(body: bytes) -> None:
            path.write_bytes(body)
            try:
                load_policy(path, condition_trouble)
            except PolicyProblems as problems:
                _placed(problems)

        yield target, [small, b"workflow: a\ntransitions:\n  - {name: t, tools: ['*'], when: [args.x == 1]}\n", *seeds]


def _placed(problems: PolicyProblems) -> None:
    assert problems.problems
    assert all("\n" not in str(problem) and problem.line >= 1 for problem in problems.problems)


def _in_one_line(bad: BadCondition) -> None:
    assert "\n" not in str(bad)


CONDITIONS = (
    b'args.amount <= 100 && args.to.endsWith("@a.example")',
    b'path.within(args.p, "/srv/a") || sql.reads_only(args.q, "sqlite")',
    b"args.items.all(one, one.n < 3) ? size(args) > 1u : has(args.x)",
    b'shell.runs_only(args.c, ["ls", "git status"]) && url.host_is(args.u, "a.example")',
    b'money.at_most(args.amount, "100.00") && args["a b"][0] == timestamp("2026-01-01T00:00:00Z")',
)
ARGS = {
    "amount": 1,
    "to": "x@a.example",
    "p": "/srv/a/../b",
    "q": "select 1",
    "items": [{"n": 1}],
    "c": "ls; rm",
    "u": "//x",
}


@contextmanager
def cel() -> Iterator[tuple[Target, Sequence[bytes]]]:
    """A text is a condition, or is refused in one line; a condition of any values is true, false or undecided."""

    def target(body: bytes) -> None:
        text, _, given = body.decode("utf-8", "replace").partition("\n\n")
        try:
            args = parse(given)
        except NotStrictJson:
            args = ARGS
        values: Mapping[str, object] = {"args": args if isinstance(args, dict) else {"p": args, "q": args, "c": args}}
        try:
            said = compile_condition(text, "transition").decide(values)
            assert said.reason if isinstance(said, Undecided) else isinstance(said, bool)
        except BadCondition as bad:
            _in_one_line(bad)
        try:
            compile_value(text, "transition").find(values)
        except BadCondition as bad:
            _in_one_line(bad)

    yield target, [*CONDITIONS, b'path.within(args.p, \'/srv\')\n\n{"p":"/srv/%2e%2e/x"}']


PLACES = (
    *("/", "/search?q={}&after={}", "/runs?state={}&after={}", "/runs/{}?after={}", "/?tool={}&risk={}&after={}"),
    *(
        "/approvals/{}",
        "/attempts/{}",
        "/escalations/{}",
        "/values/{}",
        "/together?name={}&name={}",
        "/results?name={}",
    ),
    *("/registry?q={}", "/policies/{}", "/policies/{}/diagram.svg?x={}", "/accounts?after={}", "/runs/run_1/steps/{}"),
)
ANSWERS = ("/approvals/{}", "/attempts/{}", "/together", "/runs/{}/stop", "/escalations/{}")


@contextmanager
def console() -> Iterator[tuple[Target, Sequence[bytes]]]:
    """Whatever stands in a path, a query or a form, the page is one, or says no: never an error of ours."""
    with anyio.from_thread.start_blocking_portal() as portal, portal.wrap_async_context_manager(office()) as at:
        portal.call(fill, at)
        visitor = portal.call(at.visitor)
        asked = [*at.asked.values()]
        csrf = _hidden(portal.call(visitor.read, f"/approvals/{asked[0]}"), "csrf").encode()

        async def ask(body: bytes) -> None:
            first, raw = body[0] if body else 0, body[1:1500]
            words = [quote(part, safe="" if first < 128 else "/?&=%") for part in (raw, raw[::-1], raw[:8])]
            if first % 2:
                name = asked[first % len(asked)] if b"&" in raw else words[0]
                path, fields = ANSWERS[first // 2 % len(ANSWERS)].format(name), b"csrf=" + csrf + b"&" + raw
                answer = await visitor.http.post(f"/console{path}", content=fields, headers=_HEADERS)
            else:
                path = PLACES[first // 2 % len(PLACES)].format(*words)
                try:
                    answer = await visitor.http.get(f"/console{path}", headers=_HEADERS)
                except httpx2.InvalidURL:
                    return
            assert answer.status_code < 500, (path, answer.status_code)

        def target(body: bytes) -> None:
            portal.call(ask, body)

        decisions = [b"decision=%b&action=x&served=1&times=%b" % pair for pair in _PAIRS]
        yield (
            target,
            [
                b"\x00x",
                b"\x02running",
                b"\x06run_1",
                *(bytes([one]) + form for one in (1, 3, 5, 7, 9) for form in decisions),
            ],
        )


_PAIRS = (
    (b"approve", b"1"),
    (b"reject&reason=no", b"-1"),
    (b"return&reason=?", b"1e400"),
    (b"happened&how=x", b"9" * 40),
)
_HEADERS = {
    "sec-fetch-site": "same-origin",
    "sec-fetch-mode": "navigate",
    "sec-fetch-dest": "document",
    "content-type": "application/x-www-form-urlencoded",
}

TARGETS: Mapping[str, Callable[[], AbstractContextManager[tuple[Target, Sequence[bytes]]]]] = {
    "door": door,
    "policy": policy,
    "cel": cel,
    "console": console,
}
