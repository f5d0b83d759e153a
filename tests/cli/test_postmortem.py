"""`counterfoil postmortem`: a run looked back at in Markdown, in which nothing that others wrote acts."""

from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from gateway.cli.postmortem import case_of, markdown
from gateway.model.events import AttemptRefuted
from gateway.model.principal import Principal
from gateway.model.review import Answer, Reviewer
from gateway.model.tool import Silence
from gateway.outbound.ledger import open_ledger
from gateway.runtime.desk import Desk
from tests import world
from tests.cli.agents import ledger_of
from tests.cli.test_approvals import invoke
from tests.runtime.house import ME, House, house

pytestmark = pytest.mark.anyio

BOSS = Reviewer("local", "boss", frozenset(), via="token")
HOSTILE = "![x](http://evil.example/a) <script>alert(1)</script> | `a` @all [l](javascript:1)\n# head\n- item \u202e"
RULES: dict[str, Any] = {
    "verifiers": {"tests": {"probe": {"tool": "check"}, "pass": ["result.content[0].text == 'no'"]}},
    "budgets": {"cost": 9},
    "transitions": [
        {"name": "look", "tools": ["read"]},
        {"name": "change", "tools": ["write"], "verify": "tests"},
        {"name": "spend", "tools": ["pay"], "charge": {"cost": 2}, "approval": {}},
    ],
}


async def lived(it: House) -> None:
    """A read, a failed write, one denial, a payment that a person agrees to and that is lost, and is then refuted."""
    await it.call("read", {"q": HOSTILE})
    await it.call("write", {"n": 1})
    await it.call("check", {"n": 1})
    await it.call("pay", {"n": 1})
    (question,) = (await it.book.state_of("run_1")).approvals.values()
    it.clock.tell(90)
    await Desk(it.book).decide(Answer(question.id, question.action, "approved", HOSTILE), BOSS)
    it.upstreams.will("pay", Silence(HOSTILE))
    await it.call("pay", {"n": 1})
    it.clock.tell(600)
    name = next(iter((await it.book.state_of("run_1")).unsettled))
    refuted = AttemptRefuted(attempt=name, source="person", reason=HOSTILE, by=ME)
    await it.book.say("run_1", lambda *_: [refuted])


async def told(it: House) -> str:
    case = await case_of(it.ledger, "last")
    assert case is not None
    return "\n".join(markdown(case))


async def test_it_tells_what_was_tried_what_is_there_and_who_decided_what() -> None:
    async with house(**RULES) as it:
        await lived(it)
        text = await told(it)
    for line in (
        "It has not ended: it is in phase open",
        "Nothing is open: each attempt is settled, and nobody is waited for.",
        "Of 2 effects that were attempted: 1 failed, 1 nothing.",
        "| 4 | write | change | **failed** | its postcondition does not hold \\(step 6\\) |",
        "  - Settled after 10.0 min, by local:boss: did not happen, ",
        "| default-deny | denied | 1 | 8 | check |",
        "| tests | 0 | 1 | 0 |",
        "| cost | 0 | 9 |",
        "Not listed: 1 read that went well.",
    ):
        assert line in text, text
    assert text.count("| boss | approved | 90.0 s |") == 1


async def test_nothing_that_others_wrote_is_markup_a_link_or_a_row_of_its_own() -> None:
    async with house(**RULES) as it:
        await it.engine.open_run(
            run="run_2", principal=Principal(HOSTILE), origin="token", attribution={}, goal=HOSTILE
        )
        it.clock.tell(1)
        await lived(it)
        texts = [await told(it)]
        case = await case_of(it.ledger, "run_1")
        assert case is not None
        texts.append("\n".join(markdown(case)))
    for text in texts:
        assert "\u202e" not in text
        tokens = [
            inner
            for one in MarkdownIt("commonmark").enable("table").parse(text)
            for inner in (one, *(one.children or ()))
        ]
        kinds = {one.type for one in tokens}
        assert kinds.isdisjoint({"link_open", "image", "html_block", "fence", "code_block", "ordered_list_open"})
        assert {one.content for one in tokens if one.type == "html_inline"} <= {"<!-- -->"}
        assert "head" not in {one.content for one in tokens if one.type == "inline"}
        rows = [line for line in text.splitlines() if line.startswith("|")]
        assert all(line.endswith("|") for line in rows)


async def test_it_is_a_command_and_an_empty_run_has_a_postmortem_as_well(tmp_path: Path) -> None:
    ledger = await open_ledger(ledger_of(tmp_path)[1])
    async with house(ledger):
        pass
    await ledger.close()
    out = (await invoke(tmp_path, "postmortem", "last")).stdout
    for line in (
        "No call that could change anything was sent.",
        "No outcome was ever unknown.",
        "No verifier was asked.",
    ):
        assert line in out
    missing = await invoke(tmp_path, "postmortem", "run_no", expect=1)
    assert missing.stderr == "counterfoil: no run `run_no` is in this ledger; `counterfoil runs` lists them\n"


async def test_what_is_open_and_what_was_erased_is_said_with_where_to_look() -> None:
    async with house(**RULES) as it:
        await it.call("read", {"q": "secret"})
        read = next(iter((await it.book.state_of("run_1")).attempts.values()))
        await it.call("pay", {"n": 1})
        await it.ledger.erase([read.intent.arguments], 0.0, await it.ledger.closed())
        text = await told(it)
    assert "Open: 1 question that waits for a person." in text
    assert "| nobody | waits | - |" in text
    assert "- 1 payload: what was in it: it was erased or changed, and its digest alone is left." in text
    assert "`counterfoil show run_1 --checks`" in text
    assert world.USER.id in text
