"""`show --html`: a whole run on one page that runs nothing, fetches nothing, and says what the console says."""

import base64
import re
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page

from gateway.cli.pages import page_of
from gateway.inbound.console.pages.lanes import ACROSS, lanes
from gateway.inbound.told.asked import asked_in
from gateway.inbound.told.drawing import drawing, path_of
from gateway.model.canonical import digest
from gateway.model.principal import Principal
from gateway.model.record import Record
from gateway.model.review import Answer, Reviewer
from gateway.outbound.ledger import open_ledger
from gateway.runtime.desk import Desk
from tests import world
from tests.browser import axe, browser
from tests.cli.agents import ledger_of
from tests.cli.test_approvals import invoke
from tests.cli.test_showing import WORKFLOW
from tests.runtime.house import House, house
from tests.runtime.test_claims import FAILS, PASSES

pytestmark = pytest.mark.anyio

HOSTILE = (
    '"><img src=x onerror=alert(1)></style><script>a(2)</script>\u202e\u200b [\u0440\u0430\u0443l.com](javascript:3)'
)
WHO = Principal(HOSTILE)
BOSS = Reviewer("local", "boss", frozenset(), via="token", everywhere=True)
RULES: dict[str, Any] = WORKFLOW | {
    "description": "<b>& it\u202e</b>",
    "budgets": {"cost": 9},
    "transitions": [*WORKFLOW["transitions"], {"name": "spend", "tools": ["pay"], "approval": {}}],
}


async def call(it: House, name: str, **arguments: Any) -> None:
    asked = replace(
        world.proposal(name, arguments, run="run_r", principal=WHO),
        arguments_digest=digest(arguments, it.ledger.salt),
    )
    await it.engine.call(asked, world.PatientCaller())
    await it.settle()


async def lived(it: House) -> None:
    """A run of hostile words: a write that fails, a denial, a person's no, a write that is proven."""
    await it.engine.open_run(run="run_r", principal=WHO, origin="token", attribution={}, goal=HOSTILE)
    it.upstreams.will("check", FAILS, PASSES)
    await call(it, "read", q=HOSTILE)
    await call(it, "write", text=HOSTILE)
    it.clock.tell(5)
    await call(it, "nothing", q=HOSTILE)
    await call(it, "pay", q=HOSTILE)
    (question,) = (await it.book.state_of("run_r")).approvals.values()
    it.clock.tell(60)
    await Desk(it.book).decide(Answer(question.id, question.action, "rejected", HOSTILE, active_s=20), BOSS)
    await call(it, "write", text="second")


async def page() -> str:
    async with house(**RULES) as it:
        await lived(it)
        made = await page_of(it.ledger, "run_r")
    assert made is not None
    return made


class Read(HTMLParser):
    """The elements of a page, each with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def requests_of(shown: Page) -> list[str]:
    """Every address that the page asks for from now on."""
    asked: list[str] = []
    shown.on("request", lambda one: asked.append(one.url))
    return asked


async def test_nothing_in_the_page_runs_or_leads_out_of_it() -> None:
    made = await page()
    found = Read(made).found
    assert {tag for tag, _ in found}.isdisjoint({"script", "img", "link", "iframe", "form", "input", "object", "base"})
    attributes = [(name, value or "") for _, attrs in found for name, value in attrs.items()]
    assert not [name for name, _ in attributes if name.startswith("on") or name in {"src", "style", "action"}]
    assert {value[0] for name, value in attributes if name == "href"} == {"#"}
    assert not {"\u202e", "\u200b"} & set(made)
    assert "\u0440\u0430" not in made, "look-alike letters are marked where they stand"
    targets = {value for name, value in attributes if name == "id"}
    assert {value[1:] for name, value in attributes if name == "href"} <= targets


async def test_only_its_own_styles_are_let_in() -> None:
    made = await page()
    csp = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', made)
    assert csp is not None
    styles = re.findall(r"<style>(.*?)</style>", made, re.DOTALL)
    hashes = [base64.b64encode(sha256(one.encode()).digest()).decode() for one in styles]
    assert csp[1].replace("&#39;", "'") == (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}' 'sha256-{hashes[1]}'; base-uri 'none'; form-action 'none'"
    )
    assert len(styles) == 2
    assert "url(" not in "".join(styles)


async def test_failures_are_folded_open_and_every_decision_has_its_checks_and_what_it_rests_on() -> None:
    made = await page()
    steps = re.findall(r'<li class="step ([a-z]*)" id="step-(\d+)"><details( open)?', made)
    assert {style for style, _, is_open in steps if is_open} == {"yellow"}
    assert not [step for style, step, is_open in steps if style == "yellow" and not is_open]
    assert made.count("11 checks, all passed") == 3
    assert made.count('<th scope="row">verifier tests</th>') == 2
    digests = re.findall(r'<td class="cite">(c1:[0-9a-f]{64})', made)
    assert (len(digests), len(set(digests))) == (5, 3), "three receipts with one answer, and two looks"
    for words in ("failed → proven", "The way it took", "looked at for 20.0 s", "<b>rejected</b>", "They took 60.0 s"):
        assert words in made, words


async def test_the_way_that_was_taken_is_marked_and_no_other() -> None:
    async with house(**RULES) as it:
        await lived(it)
        records = [record for record, _ in await it.ledger.read("run_r")]
        drawn = drawing(it.book.policies.current().policy)
    path = path_of(records)
    assert path.phases == ("begun", "failed", "proven")
    assert {(one.target, one.failure): path.times(one, drawn.arrows) for one in drawn.arrows} == {
        ("proven", False): 1,
        ("failed", True): 1,
    }
    assert [path.says(name) for name in ("begun", "proven", "elsewhere")] == ["passed", "the run ended here", ""]
    made = await page()
    assert made.count('class="arrow taken"') + made.count('class="arrow failure taken"') == 2


async def test_the_bars_of_time_stay_on_their_axis_and_say_whom_it_waited_for() -> None:
    async with house(**RULES) as it:
        await lived(it)
        records: list[Record] = [record for record, _ in await it.ledger.read("run_r")]
    told = lanes(records, asked_in(records))
    assert {(row.kind, row.name): row.spell for row in told.rows} == {
        ("phase", "begun"): "0 ms",
        ("phase", "failed"): "65.0 s",
        ("phase", "proven"): "0 ms",
        ("tool", "fake"): "0 ms",
        ("verifier", "tests"): "0 ms",
        ("person", "people"): "60.0 s",
    }
    bars = [bar for row in told.rows for bar in row.bars]
    assert all(bar.x >= 0 and bar.width > 0 and bar.x + bar.width <= ACROSS for bar in bars)
    assert told.ticks[0] == "0"
    assert told.ticks[-1] == "65.0 s"


async def test_it_is_written_to_a_file_or_printed_and_stands_alone(tmp_path: Path) -> None:
    ledger = await open_ledger(ledger_of(tmp_path)[1])
    async with house(ledger, **RULES) as it:
        await lived(it)
    await ledger.close()
    out = tmp_path / "run.html"
    out.write_text("<!doctype html>older")
    said = await invoke(tmp_path, "show", "run_r", "--html", "--out", str(out))
    assert re.fullmatch(rf"counterfoil: `{out}` has \d+ steps, \d+\.\d kB\n", said.stderr)
    assert out.read_text().startswith("<!doctype html>")
    assert (await invoke(tmp_path, "show", "last", "--html")).stdout.count("</html>") == 1
    for words, message in (
        (("--out", str(out)), "`--out` is for `--html`"),
        (("--html", "--checks"), "`--html` has all of the run; it goes with `--out`, `--ledger` and `--config` alone"),
    ):
        refused = await invoke(tmp_path, "show", "last", *words, expect=2)
        assert refused.stderr == f"counterfoil: {message}\n"
    missing = await invoke(tmp_path, "show", "run_no", "--html", expect=1)
    assert missing.stderr == "counterfoil: no run `run_no` is in this ledger; `counterfoil runs` lists them\n"
    other = tmp_path / "other.db"
    other.write_bytes(b"SQLite format 3")
    kept = await invoke(tmp_path, "show", "last", "--html", "--out", str(other), expect=1)
    assert kept.stderr == f"counterfoil: `{other}` is there and is no page; name another file\n"
    fresh = tmp_path / "fresh.html"
    await invoke(tmp_path, "show", "last", "--html", "--out", str(fresh))
    assert fresh.stat().st_mode & 0o077 == 0
    nowhere = await invoke(tmp_path, "show", "last", "--html", "--out", str(tmp_path / "no" / "run.html"), expect=1)
    assert nowhere.stderr.endswith("cannot be written: no such file or directory\n")


@pytest.mark.slow
async def test_it_fits_a_phone_in_both_themes_keeps_nobody_out_and_is_whole_on_paper(tmp_path: Path) -> None:
    made = await page()
    (tmp_path / "run.html").write_text(made)
    address = (tmp_path / "run.html").as_uri()
    async with browser() as opened:
        for width, scheme in ((360, "light"), (390, "dark"), (1280, "dark"), (1280, "light")):
            context = await opened.new_context(
                viewport={"width": width, "height": 900},
                color_scheme="dark" if scheme == "dark" else "light",
                bypass_csp=True,  # for axe alone, which is a script
            )
            shown = await context.new_page()
            asked = requests_of(shown)
            await shown.goto(address)
            assert asked == [address]
            across = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert await shown.evaluate(across) == 0
            await shown.evaluate(axe())
            wrong = await shown.evaluate("axe.run().then(told => told.violations.map(one => one.id))")
            assert wrong == []
            await context.close()
        paper = await (await opened.new_context(viewport={"width": 720, "height": 900})).new_page()
        said: list[str] = []
        paper.on("console", lambda one: said.append(one.text))
        await paper.goto(address)
        folded = (
            "[...document.querySelectorAll('details > :not(summary)')].filter(one => !one.checkVisibility()).length"
        )
        assert await paper.evaluate(folded) > 0
        await paper.emulate_media(media="print", color_scheme="dark")
        assert await paper.evaluate(folded) == 0
        assert await paper.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        assert said == [], "its own policy lets all of it be shown"
