"""The console's pages, read and answered as a browser without a script does it."""

import re
from html import unescape
from html.parser import HTMLParser

import pytest

from gateway.kernel.registry import pin
from gateway.model.review import Reviewer
from tests.console.office import ANN, BOSS, HOSTILE, MAIL, NEW, STRANGER, Office, Visitor, fill, office

pytestmark = pytest.mark.anyio


def text_of(page: str) -> str:
    """What is to be read on a page."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", page)))


def attributes(page: str) -> list[str]:
    """The names of all attributes of all elements of a page."""
    found: list[str] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
            found.extend(name for name, _ in attrs)

    Reader().feed(page)
    return found


async def decision_of(at: Office, name: str) -> str | None:
    return (await at.it.book.state_of("run_1")).approvals[name].decision


async def answered(visitor: Visitor, name: str, **fields: str) -> str:
    """The page after an answer."""
    page = await visitor.read(f"/approvals/{name}")
    sent = await visitor.send(f"/approvals/{name}", page, **fields)
    assert sent.status_code == 303, sent.text
    return await visitor.read(sent.headers["location"].removeprefix("/console"))


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


async def test_a_reviewer_sees_what_is_their_tenants_and_nothing_else() -> None:
    async with office() as at:
        await fill(at)
        stranger = await at.visitor(STRANGER)
        assert "Nothing waits for you" in await stranger.read("/")
        for path in (f"/approvals/{at.asked['pay']}", "/runs/run_1", f"/values/{at.asked['pay']}"):
            assert (await stranger.get(path)).status_code == 404
        assert "run_1" not in await stranger.read("/runs")
        assert "0 records found" in text_of(await stranger.read("/search?kind=approval"))
        assert "Nothing stands on any account" in await stranger.read("/accounts")


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


# --- answers ----------------------------------------------------------------------------------------------------------


async def test_an_approval_is_recorded_and_runs_nothing() -> None:
    async with office() as at:
        await at.ask("mail", MAIL)
        page = await answered(await at.visitor(), at.asked["mail"], decision="approved")
        assert "You approved it" in page
        assert await decision_of(at, at.asked["mail"]) == "approved"
        assert [one.tool.name for one in at.it.upstreams.sent] == []


async def test_a_rejection_and_a_return_reach_the_agent_with_their_reason() -> None:
    async with office() as at:
        visitor = await at.visitor()
        for decision in ("rejected", "returned"):
            name = await at.ask("mail", {**MAIL, "subject": decision})
            await answered(visitor, name, decision=decision, reason="it has no order number")
            approval = (await at.it.book.state_of("run_1")).approvals[name]
            assert (approval.decision, approval.reason) == (decision, "it has no order number")


async def test_a_reason_is_asked_for_where_policy_says_so_and_nothing_is_recorded_before() -> None:
    async with office() as at:
        await fill(at)
        visitor, name = await at.visitor(), at.asked["shell"]
        page = await visitor.read(f"/approvals/{name}")
        assert page.count("required") >= 3
        sent = await visitor.send(f"/approvals/{name}", page, decision="approved", reason="")
        assert sent.status_code == 409
        assert "This was not taken" in sent.text
        assert await decision_of(at, name) is None


async def test_a_yes_goes_further_only_as_far_as_policy_offers() -> None:
    async with office() as at:
        await fill(at)
        visitor, name = await at.visitor(), at.asked["pay"]
        page = await visitor.read(f"/approvals/{name}")
        assert "5 at most" in page
        wider = {"decision": "approved", "reuse": "wider", "times": "6", "for_s": "1800"}
        assert (await visitor.send(f"/approvals/{name}", page, **wider)).status_code == 409
        told = await answered(visitor, name, **{**wider, "times": "3"})
        assert "You approved it" in told
        granted = (await at.it.book.state_of("run_1")).approvals[name].granted
        assert granted is not None
        assert granted.times == 3


async def test_two_reviewers_are_needed_and_the_page_says_who_agreed() -> None:
    async with office() as at:
        await fill(at)
        name = at.asked["sql"]
        page = await answered(await at.visitor(), name, decision="approved")
        assert "It still waits for others" in page
        assert "You have agreed" in page
        assert "dba: 1 of 2 (local:boss) waits" in text_of(page)
        assert "You approved it" in await answered(await at.visitor(ANN), name, decision="approved")
        assert await decision_of(at, name) == "approved"


@pytest.mark.parametrize("how", ["decided", "expired", "forged"])
async def test_an_answer_that_cannot_be_taken_says_why_and_what_holds_now(how: str) -> None:
    async with office() as at:
        await at.ask("mail", MAIL)
        visitor, name = await at.visitor(), at.asked["mail"]
        page = await visitor.read(f"/approvals/{name}")
        fields = {"decision": "approved"}
        match how:
            case "decided":
                await answered(await at.visitor(ANN), name, decision="rejected", reason="no")
            case "expired":
                at.it.clock.tell(2 * 86_400)
                visitor = await at.visitor()
                csrf = await visitor.read("/")
                page = re.sub(r'name="csrf" value="[^"]*"', re.findall(r'name="csrf" value="[^"]*"', csrf)[0], page)
            case _:
                fields["action"] = "c1:" + "0" * 64
        sent = await visitor.send(f"/approvals/{name}", page, **fields)
        assert sent.status_code == 409
        assert "Nothing was recorded" in sent.text
        assert await decision_of(at, name) in {None, "rejected", "expired"}


async def test_no_form_is_taken_that_another_page_sent() -> None:
    async with office() as at:
        await at.ask("mail", MAIL)
        visitor, name = await at.visitor(), at.asked["mail"]
        page = await visitor.read(f"/approvals/{name}")
        assert (await visitor.send(f"/approvals/{name}", page, decision="approved", csrf="x")).status_code == 403
        assert await decision_of(at, name) is None


async def test_questions_of_one_kind_are_answered_together_each_for_its_own_action() -> None:
    async with office() as at:
        await fill(at)
        visitor = await at.visitor()
        inbox = await visitor.read("/?tool=pay")
        names = re.findall(r'name="q" value="(ap_[^"]*)"', inbox)
        page = await visitor.read("/together?" + "&".join(f"q={one}" for one in names))
        actions = dict(re.findall(r'name="(action-ap_[^"]*)" value="([^"]*)"', page))
        assert len(set(actions.values())) == 3
        actions[f"action-{names[0]}"] = "c1:" + "0" * 64
        sent = await visitor.send("/together", page, q=names, decision="approved", **actions)
        results = text_of(await visitor.read(sent.headers["location"].removeprefix("/console")))
        assert "2 of 3 answers were taken" in results
        assert [await decision_of(at, one) for one in names] == [None, "approved", "approved"]


async def test_how_long_the_page_was_looked_at_is_recorded_with_and_without_a_script() -> None:
    async with office() as at:
        for active, expected in (("12.5", 12.5), ("", 30.0)):
            name = await at.ask("mail", {**MAIL, "subject": active})
            visitor = await at.visitor()
            page = await visitor.read(f"/approvals/{name}")
            at.it.clock.tell(30)
            await visitor.send(f"/approvals/{name}", page, decision="approved", active_s=active)
            (record,) = await at.it.ledger.find(["approval.decided"], limit=1)
            assert record.event.active_s == expected


async def test_an_unknown_call_is_settled_with_how_that_is_known() -> None:
    async with office() as at:
        await fill(at)
        (attempt,) = (await at.it.book.state_of("run_1")).unsettled
        visitor = await at.visitor()
        page = await visitor.read(f"/attempts/{attempt}")
        refused = await visitor.send(f"/attempts/{attempt}", page, what="happened", reason=" ")
        assert refused.status_code == 409
        sent = await visitor.send(f"/attempts/{attempt}", page, what="happened", reason="row 2 is there")
        assert sent.status_code == 303
        assert (await at.it.book.state_of("run_1")).attempts[attempt].state == "answered"


async def test_a_run_is_stopped_by_a_persons_word() -> None:
    async with office() as at:
        await at.ask("mail", MAIL)
        visitor = await at.visitor()
        page = await visitor.read("/runs/run_1")
        sent = await visitor.send("/runs/run_1/stop", page, reason="the shop is closed")
        assert sent.status_code == 303
        assert "the shop is closed" in await visitor.read("/runs/run_1")


async def test_a_run_that_was_handed_over_is_taken_over_once() -> None:
    handed = {"name": "hand-over", "tools": ["write"], "to": "handed"}
    async with office(transitions=[handed], phases={"open": {}, "handed": {"ends": "human_escalation"}}) as at:
        await at.it.call("write", {"n": 1})
        visitor = await at.visitor()
        assert "A run was handed over" in await visitor.read("/")
        page = await visitor.read("/escalations/run_1")
        sent = await visitor.send("/escalations/run_1", page, reason="I call them")
        told = await visitor.read(sent.headers["location"].removeprefix("/console"))
        assert "You took it over" in told
        assert "Taken over" in told
        assert (await visitor.send("/escalations/run_1", page, reason="again")).status_code == 409
        assert "You took it over" not in await visitor.read("/escalations/run_1?answered=approved")


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
