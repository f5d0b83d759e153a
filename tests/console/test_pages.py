"""The console's pages, read and answered as a browser without a script does it."""

import re
from datetime import UTC, datetime
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest

from gateway.inbound.console.pages.inbox import Card, Row, brief
from gateway.inbound.console.shown.layers import Piece
from gateway.kernel.registry import pin
from gateway.model.review import Reviewer, Waiting
from tests.console.office import (
    ANN,
    BOSS,
    HOSTILE,
    MAIL,
    NEW,
    POLICY,
    answered,
    fill,
    office,
    text_of,
)

pytestmark = pytest.mark.anyio

OLAF = Reviewer("local", "olaf", frozenset({"support"}), via="link")


def attributes(page: str) -> list[str]:
    """The names of all attributes of all elements of a page."""
    found: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
            found.extend(name for name, _ in attrs)

    Reader().feed(page)
    return found


# --- the inbox --------------------------------------------------------------------------------------------------------


async def test_the_inbox_has_the_gravest_first_and_what_is_alike_in_one_card() -> None:
    async with office() as at:
        await fill(at)
        page = await (await at.visitor()).read("/")
        titles = [re.sub(r"<[^>]*>", "", one).strip() for one in re.findall(r"<h2>(.*?)</h2>", page)]
        assert titles == ["sql", "shell", "3 alike: pay", "mail", "Did write happen?", "edit"]
        assert 'data-total="8"' in page


async def test_the_inbox_is_filtered_and_says_how_many_fit() -> None:
    async with office() as at:
        await fill(at)
        visitor = await at.visitor()
        assert "3 questions fit" in text_of(await visitor.read("/?tool=pay"))
        assert "1 question fits" in text_of(await visitor.read("/?risk=critical"))
        assert "No question here fits" in await visitor.read("/?text=nothing+of+the+kind")


async def test_what_others_must_answer_stands_behind_what_the_reviewer_can() -> None:
    async with office() as at:
        await fill(at)
        olaf, ann = await at.visitor(OLAF), await at.visitor(ANN)
        page = await olaf.read("/")
        assert "Inbox 7 for you, 1 for others" in text_of(page)
        assert "for dba" in text_of(page)
        titles = [re.sub(r"<[^>]*>", "", one).strip() for one in re.findall(r"<h2>(.*?)</h2>", page)]
        assert titles == ["shell", "3 alike: pay", "mail", "Did write happen?", "edit", "sql"]
        assert "Inbox 8 Text" in text_of(await ann.read("/"))
        await answered(ann, at.asked["sql"], decision="approved")
        page = text_of(await ann.read("/"))
        assert "Inbox 7 for you, 1 for others" in page
        assert "you have answered" in page


async def test_questions_of_others_are_not_ticked_and_their_pages_follow_without_a_gap() -> None:
    asks = {"name": "mail", "tools": ["mail"], "approval": {"reason": "a mail", "role": "dba"}}
    async with office(transitions=[asks, POLICY["transitions"][-1]]) as at:
        for number in range(60):
            await at.ask("mail", {"n": number})
        await at.ask("pay", {"order": "A-1"})
        visitor = await at.visitor(OLAF)
        first = await visitor.read("/")
        assert "Inbox 1 for you, 60 for others" in text_of(first)
        assert " checked" not in first
        (further,) = set(re.findall(r'rel="next" href="/console(/\?[^"]*)"', first))
        second = await visitor.read(unescape(further))
        names = [re.findall(r'value="(ap_[^"]*)"', one) for one in (first, second)]
        assert [len(one) for one in names] == [49, 11]
        assert not set(names[0]) & set(names[1])
        together = await visitor.read(f"/together?q={names[0][0]}&q={names[0][1]}")
        assert "Not yours to answer now" in together
        assert "Approve these" not in together


async def test_questions_together_have_each_its_reason_and_who_asks_and_who_must_agree() -> None:
    asks = {"name": "mail", "tools": ["mail"], "approval": {"reason": "a mail leaves", "quorum": 2}}
    async with office(transitions=[asks]) as at:
        names = [await at.ask("mail", {"n": number}) for number in range(2)]
        visitor = await at.visitor()
        assert (await visitor.read("/")).count("a mail leaves") == 1, "all have the same"
        page = text_of(await visitor.read("/together?" + "&".join(f"q={name}" for name in names)))
        assert page.count("Why you are asked a mail leaves") == 2
        assert page.count("must agree a reviewer: 0 of 2") == 2
        assert page.count("who asks") == 2


def test_a_card_has_one_reason_only_where_all_questions_have_it() -> None:
    def row(reason: str) -> Row:
        common: dict[str, Any] = {"workflow": "", "tenant": "", "principal": "", "tool": "t", "transition": None}
        asked: dict[str, Any] = {"risk": "low", "consequence": "", "asked_at": datetime.now(UTC), "group": "g"}
        return Row(Waiting(about="approval", name=reason, run="r", reason=reason, **common, **asked), ())

    assert Card((row("a"), row("a"))).reason == "a"
    assert Card((row("a"), row("b"))).reason == ""


def test_a_line_of_the_inbox_begins_with_what_the_tool_must_have_and_says_what_is_left_out() -> None:
    padded = {**{f"a{number:02}": "ok" for number in range(60)}, "amount": 999_999, "to": "x" * 300 + "@evil.example"}
    told, whole = brief(padded, ("to", "amount"))
    line = "".join(one.text for one in told)
    assert not whole
    assert line.startswith("to: xxxx")
    assert "@evil.example · amount: 999999 · a00: ok" in line
    assert re.search(r"… and \d+ more arguments$", line)
    assert brief({}) == ((Piece("no arguments"),), True)
    assert brief({"amount": 5})[1]


async def test_pages_of_the_inbox_follow_one_another_without_a_gap() -> None:
    async with office() as at:
        for number in range(60):
            await at.ask("mail", {**MAIL, "subject": f"Number {number}"})
        visitor = await at.visitor()
        first = await visitor.read("/")
        (further,) = set(re.findall(r'rel="next" href="/console(/\?[^"]*)"', first))
        second = await visitor.read(unescape(further))
        names = [re.findall(r'value="(ap_[^"]*)"', one) for one in (first, second)]
        assert [len(one) for one in names] == [50, 10]
        assert not set(names[0]) & set(names[1])


async def test_a_link_for_one_question_opens_that_one_alone() -> None:
    async with office() as at:
        await fill(at)
        name = at.asked["pay"]
        guest = await at.visitor(Reviewer("local", "gast", via="link", approval=name))
        assert "What exactly" in await guest.read(f"/approvals/{name}")
        for path in (f"/approvals/{at.asked['mail']}", "/runs", "/search", "/registry", "/policies", "/health"):
            assert (await guest.get(path)).status_code == 404


# --- the packet -------------------------------------------------------------------------------------------------------


async def test_a_file_edit_is_a_diff() -> None:
    async with office() as at:
        await fill(at)
        page = await (await at.visitor()).read(f"/approvals/{at.asked['edit']}")
        assert '<code class="path">/srv/total.py</code>' in page
        assert '<span class="come">, tax=0</span>' in page
        assert "dryRun" in page


async def test_secrets_are_masked_wherever_arguments_are_shown_until_somebody_asks_to_see_them() -> None:
    secret = "hunter2-" + "canary"
    async with office() as at:
        await at.it.call("read", {"q": f"password={secret}"})
        name = await at.ask("mail", {"to": "ann@example.com", "token": secret, "body": f"{secret} is no secret here"})
        visitor = await at.visitor()
        packet = f"/approvals/{name}"
        for path in ("/", packet, f"/values/{name}?at=%2Ftoken", "/runs/run_1", "/runs/run_1/steps/2"):
            page = await visitor.read(path)
            assert f"password={secret}" not in page, path
            assert f"token: {secret}" not in page, path
        page = await visitor.read(packet)
        assert "named_secret #1, 14 characters" in page
        assert "ann@example.com" in page
        assert "Secrets are masked" in page
        assert "The exact JSON" not in page
        assert page.count(secret) == (await visitor.read(f"{packet}?secrets=shown")).count(secret) - 2
        assert secret in await visitor.read(f"/values/{name}?at=%2Ftoken&secrets=shown")


async def test_hidden_characters_and_look_alikes_are_told_by_name() -> None:
    async with office() as at:
        await fill(at)
        page = await (await at.visitor()).read(f"/approvals/{at.asked['mail']}")
        for said in ("U+200B ZERO WIDTH SPACE", "U+202E RIGHT-TO-LEFT OVERRIDE", "U+0430 CYRILLIC SMALL LETTER A"):
            assert said in page
        assert "\u202e" not in page
        assert "\u200b" not in page


async def test_what_an_agent_writes_is_never_markup() -> None:
    async with office() as at:
        await fill(at)
        page = await (await at.visitor()).read(f"/approvals/{at.asked['pay']}")
        assert "<script>document" not in page
        assert "<img" not in page
        assert 'javascript:alert(1)"' not in page
        assert HOSTILE in text_of(re.sub(r"</?span[^>]*>", "", page))


async def test_evidence_stands_apart_from_what_the_agent_says_of_itself() -> None:
    async with office() as at:
        await fill(at)
        page = await (await at.visitor()).read(f"/approvals/{at.asked['pay']}")
        (claims,) = re.findall(r'<section class="claims".*?</section>', page, re.DOTALL)
        facts = page.replace(claims, "")
        assert "✗ fail" in facts
        assert "stale" in facts
        assert "Refund" not in facts
        assert "not verified" in claims
        assert "Refund &lt;b&gt;everyone&lt;/b&gt;" in claims
        assert "the reviewer will agree" in claims


async def test_no_page_has_a_style_or_a_script_of_its_own() -> None:
    async with office() as at:
        await fill(at)
        visitor = await at.visitor()
        for path in ("/", f"/approvals/{at.asked['sql']}", "/runs/run_1", "/policies", "/registry", "/health"):
            page = await visitor.read(path)
            assert "<style" not in page
            assert re.findall(r"<script(?! src=)", page) == []
            assert [one for one in attributes(page) if one == "style" or one.startswith("on")] == []


async def test_a_long_value_is_shown_in_part_and_whole_behind_a_link() -> None:
    async with office() as at:
        await fill(at)
        (attempt,) = (await at.it.book.state_of("run_1")).unsettled
        visitor = await at.visitor()
        page = await visitor.read(f"/attempts/{attempt}")
        assert "4,500 of 12,000 characters are not shown here" in page
        (link,) = set(re.findall(r'href="/console(/values/[^"]*text)"', page))
        assert "x" * 12_000 in await visitor.read(unescape(link))


async def test_what_changed_since_it_was_asked_before_is_shown() -> None:
    async with office() as at:
        await at.ask("mail", MAIL)
        visitor = await at.visitor()
        await answered(visitor, at.asked["mail"], decision="returned", reason="which order is it about?")
        again = await at.ask("mail", {**MAIL, "body": MAIL["body"] + "Order A-1\n"})
        page = await visitor.read(f"/approvals/{again}")
        assert "What changed since it was asked before" in page
        assert "which order is it about?" in page
        assert "As before: subject , to" in text_of(page) or "As before: to , subject" in text_of(page)


async def test_that_somebody_looked_is_recorded_once() -> None:
    async with office() as at:
        await at.ask("mail", MAIL)
        for by in (BOSS, ANN, BOSS):
            await (await at.visitor(by)).read(f"/approvals/{at.asked['mail']}")
        approval = (await at.it.book.state_of("run_1")).approvals[at.asked["mail"]]
        assert approval.seen == (("local", "local:boss"), ("local", "ann"))


async def test_a_question_about_something_else_is_compared_in_a_fold() -> None:
    async with office() as at:
        await at.ask("mail", MAIL)
        other = await at.ask("mail", {**MAIL, "subject": "Another"})
        page = await (await at.visitor()).read(f"/approvals/{other}")
        assert f"<summary>Compared with another question about this tool ({at.asked['mail']})</summary>" in page
        assert "What changed since" not in page


async def test_the_way_to_the_answer_is_offered_to_whoever_can_answer() -> None:
    async with office() as at:
        await fill(at)
        ann, olaf = await at.visitor(ANN), await at.visitor(OLAF)
        path = f"/approvals/{at.asked['sql']}"
        assert 'class="to-decide"' in await ann.read(path)
        assert 'class="to-decide"' not in await olaf.read(path)
        assert 'class="to-decide"' not in await answered(ann, at.asked["sql"], decision="approved")


async def test_how_long_a_yes_stands_is_told_only_while_it_stands_and_as_other_times_are() -> None:
    asks = {"name": "mail", "tools": ["mail"], "approval": {"reason": "a mail", "valid_s": 600}}
    paid = {**POLICY["transitions"][-1], "approval": {**POLICY["transitions"][-1]["approval"], "valid_s": 600}}
    async with office(transitions=[asks, paid]) as at:
        await at.ask("mail", {"n": 1})
        visitor, name = await at.visitor(), at.asked["mail"]
        assert "The yes stands until" in await answered(visitor, name, decision="approved")
        await at.it.call("mail", {"n": 1})
        used = await visitor.read(f"/approvals/{name}")
        assert "used by" in used
        assert "The yes stands until" not in used
        await at.ask("pay", {"order": "A-1"})
        page = text_of(await answered(visitor, at.asked["pay"], decision="approved", reuse="wider"))
        assert re.search(r"how long until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", page)


# --- looking ----------------------------------------------------------------------------------------------------------


async def test_runs_are_listed_and_filtered() -> None:
    async with office() as at:
        await fill(at)
        visitor = await at.visitor()
        assert "1 unsettled" in await visitor.read("/runs?state=unsettled&principal=USER")
        assert "No run fits among the 1" in text_of(await visitor.read("/runs?workflow=test&state=infeasible"))
        assert "No run fits" in text_of(await visitor.read("/runs?since=2030-01-01T00:00"))
        assert (await visitor.get("/runs?since=yesterday")).status_code == 400


async def test_a_timeline_has_each_decision_with_its_checks_and_what_failed_unfolded() -> None:
    async with office() as at:
        await fill(at)
        page = await (await at.visitor()).read("/runs/run_1")
        assert "UNKNOWN: no answer within 30 s" in page
        assert re.search(r"<details open data-item=\"\d+\">\s*<summary>.*?free", page)
        assert "preconditions" in page


async def test_the_ledger_is_searched_so_far_and_says_how_far() -> None:
    async with office() as at:
        await fill(at)
        visitor = await at.visitor()
        assert "7 records found among the" in text_of(await visitor.read("/search?kind=approval.requested"))
        assert "1 record found" in text_of(await visitor.read("/search?text=mail+leaves"))
        assert "3 records found" in text_of(await visitor.read("/search?kind=approval&tool=pay&run=run_1"))
        assert "0 records found" in text_of(await visitor.read("/search?until=2020-01-01T00:00"))
        assert (await visitor.get("/search?before=x")).status_code == 400


async def test_tools_policies_accounts_and_health_are_told() -> None:
    async with office() as at:
        await fill(at)
        visitor = await at.visitor()
        assert "unpinned" in await visitor.read("/registry")
        policies = await visitor.read("/policies")
        (digest,) = set(re.findall(r"/console/policies/([^\"]+)\"", policies))
        assert "a mail leaves the house" in await visitor.read(f"/policies/{digest}")
        drawn = await visitor.get(f"/policies/{digest}/diagram.svg")
        assert drawn.headers["content-type"] == "image/svg+xml"
        assert "of 20 calls" in await visitor.read("/accounts")
        health = await visitor.read("/health")
        assert "it refuses connections" in health
        assert "name shop, version 2" in health
        assert (await visitor.get("/policies/c1:0")).status_code == 404
        assert (await visitor.get("/registry?workflow=none")).status_code == 404


async def test_a_tool_that_is_not_as_it_was_pinned_is_shown_with_what_differs() -> None:
    definition = {"name": "mail", "inputSchema": {"type": "object"}, "description": "Sends."}
    async with office(pins={"mail": {"digest": pin(definition), "definition": definition}}) as at:
        page = await (await at.visitor()).read("/registry")
        assert "What is not as it was pinned" in page
        assert "Does" in page
        assert "withheld" in page


async def test_new_text_of_an_edit_is_read_as_it_is() -> None:
    async with office() as at:
        name = await at.ask("edit", {"path": "/a", "content": NEW})
        assert "the whole file is written".capitalize() in (await (await at.visitor()).read(f"/approvals/{name}"))
