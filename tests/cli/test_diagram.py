"""`counterfoil diagram`: what a picture shows, that nothing in it overlaps, and that no text in it can act."""

import html
import re
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from gateway.cli.mermaid import as_mermaid
from gateway.inbound.told.drawing import as_svg, drawing
from gateway.inbound.told.drawing.layout import GAP_X, GAP_Y, Item, Link, lay
from gateway.inbound.told.drawing.lettering import width, wrapped
from gateway.kernel.diagram import escaped
from gateway.model.policy import Policy
from gateway.outbound.policy_files import load_policy
from gateway.runtime.policies import condition_trouble
from tests.cli.agents import run

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[2]
SHIPPED = [*sorted((ROOT / "policies").glob("*.yaml")), ROOT / "gateway" / "starter.yaml"]
SVG = "{http://www.w3.org/2000/svg}"

POLICY = Policy.model_validate(
    {
        "workflow": "ship",
        "description": 'Make it & <ship> "it".',
        "phases": {
            "make": {"description": "Things\nare made."},
            "out": {},
            "lost": {"ends": "infeasible"},
        },
        "transitions": [
            {"name": "look", "tools": ["read_*", "list_*", "get_*", "find_*"], "effect": ["read"]},
            {"name": "edit", "tools": ["edit"], "from": ["make"]},
            {"name": "tidy", "tools": ["tidy"], "from": ["make", "out"], "to": "make"},
            {
                "name": "ship",
                "tools": ["ship"],
                "from": ["make"],
                "to": "out",
                "when": ["args.x == 1"],
                "authority": ["ship:it"],
                "preconditions": ["tests"],
                "approval": {"quorum": 2, "when": ["args.x == 1"]},
                "verify": "tests",
                "on": {"error": "lost", "timeout_unknown": "lost", "verification_failed": "make"},
            },
            {"name": "give-up", "tools": ["stop"], "to": "lost", "mode": "observe"},
        ],
        "forbid": [{"name": "no-push", "tools": ["*push*"], "final": True}],
        "verifiers": {"tests": {"probe": {"tool": "look"}, "pass": ["result.ok == true"]}},
        "success": {"evidence": ["tests"], "phase": "out"},
    }
)


# --- Mermaid --------------------------------------------------------------------------------------------------------


def test_a_workflow_as_mermaid() -> None:
    assert as_mermaid(drawing(POLICY)).splitlines() == snapshot(
        [
            "stateDiagram-v2",
            '    state "make" as s0',
            '    state "out" as s1',
            '    state "lost" as s2',
            '    state "any phase" as s3',
            "    [*] --> s0",
            "    s0 --> s0: edit (edit)<br/>tidy (tidy)",
            (
                "    s0 --> s1: ship (ship, 1 condition, first asks tests, needs ship#58;it, "
                "2 people must agree, for some calls, proven by tests)"
            ),
            "    s0 --> s2: ship (if error or timeout unknown)",
            "    s1 --> s0: tidy (tidy)",
            "    s1 --> [*]: success, proven by tests",
            "    s2 --> [*]: ends as infeasible",
            "    s3 --> s2: give-up (stop, only observed)",
            "    note right of s0",
            "        Things are made.",
            "        in any phase - look (read#95;#42;, list#95;#42;, get#95;#42; and 1 more (read))",
            "        never - no-push (#42;push#42;, ends the run)",
            "    end note",
        ]
    )


@given(st.text(max_size=60))
def test_no_text_is_syntax_for_mermaid(text: str) -> None:
    found = escaped(text)
    without = re.sub(r"#\d+;|<br/>", "", found)
    assert not re.search(r"[^\w .,/()'-]", without)
    assert not re.search("end note", found, re.IGNORECASE)
    shown = re.sub(r"#(\d+);", r"&#\1;", found.replace("<br/>", " "))
    if not re.search(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]", text) and text.isprintable():
        assert html.unescape(shown).split() == text.split()


def test_what_ends_a_note_ends_none() -> None:
    assert escaped("it is the END NOTE: __x__ of *a*") == "it is the END#32;NOTE#58; #95;_x_#95; of #42;a#42;"


# --- SVG ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", SHIPPED, ids=[file.stem for file in SHIPPED])
def test_a_picture_of_what_ships_says_all_of_it(file: Path) -> None:
    policy = load_policy(file, condition_trouble)
    root = ET.fromstring(as_svg(drawing(policy)))  # noqa: S314 - our own
    said = {text.text for text in root.iter(f"{SVG}text")}
    rules = {one.name for one in policy.transitions} | {one.name for one in policy.forbid}
    assert said >= rules | set(policy.phases)


def test_a_picture_is_safe_and_can_be_read_aloud() -> None:
    text = as_svg(drawing(POLICY))
    root = ET.fromstring(text)  # noqa: S314 - our own
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg", "title", "desc", "style", "defs", "marker", "path", "rect", "circle", "g", "text",
    }  # fmt: skip
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == "title desc"
    assert root.findtext(f"{SVG}title") == "Workflow ship"
    assert root.findtext(f"{SVG}desc") == snapshot(
        'Make it & <ship> "it". Phases: make, out, lost, any phase. out to make by tidy; make to out by ship; '
        "make to lost by ship if it fails; any phase to lost by give-up"
    )
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "prefers-color-scheme: dark" in text
    names = {name for element in root.iter() for name in element.attrib}
    assert not {name for name in names if name.startswith("on") or "href" in name}
    assert "are made." in text  # whatever line ends a description has
    assert "\\u{a}" not in text


def test_failures_are_dashed_and_lead_where_they_should() -> None:
    root = ET.fromstring(as_svg(drawing(POLICY)))  # noqa: S314 - our own
    failing = [path for path in root.iter(f"{SVG}path") if path.get("class") == "arrow failure"]
    assert [path.get("marker-end") for path in failing] == ["url(#head-failure)"]
    assert ".arrow.failure { stroke:var(--bad); stroke-dasharray" in as_svg(drawing(POLICY))


def test_a_word_that_is_too_long_is_cut_and_a_text_that_is_too_long_is_ended() -> None:
    assert all(width(line, 12) <= 100 for line in wrapped("x" * 200, 12, 100))
    assert len(wrapped("many words " * 50, 12, 100, 3)) == 3
    assert wrapped("many words " * 50, 12, 100, 3)[-1].endswith("…")
    assert wrapped("", 12, 100) == []


# --- where things stand ---------------------------------------------------------------------------------------------

NAMES = ("a", "b", "c", "d", "e", "f")
SIZES = st.tuples(st.integers(20, 240), st.integers(20, 200))


@settings(deadline=None)
@given(
    st.dictionaries(st.sampled_from(NAMES), SIZES, min_size=6, max_size=6),
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), SIZES), max_size=12),
)
def test_nothing_overlaps(
    sizes: dict[str, tuple[float, float]], arrows: list[tuple[str, str, tuple[float, float]]]
) -> None:
    links = [Link(source, target, *size) for source, target, size in arrows if source != target]
    layout = lay(sizes, links)
    items = {id(item): item for item in (*layout.boxes.values(), *(one for link in layout.links for one in link.chain))}
    for one, other in combinations(items.values(), 2):
        apart = abs(one.x - other.x) - (one.width + other.width) / 2
        assert one.layer != other.layer or apart >= GAP_X - 0.01
    for item in items.values():
        assert item.x - item.width / 2 >= -0.01
        assert item.x + item.width / 2 <= layout.width + 0.01
        assert layout.bands[item.layer][0] - 0.01 <= item.y <= layout.bands[item.layer][1] + 0.01
        assert item.y + item.height <= layout.bands[item.layer][1] + 0.01
    assert all(
        after[0] - before[1] >= GAP_Y - 0.01 for before, after in zip(layout.bands, layout.bands[1:], strict=False)
    )
    for link, laid in zip(links, layout.links, strict=True):
        upper, lower = laid.chain[0], laid.chain[-1]
        ends: tuple[Item, Item] = (layout.boxes[link.source], layout.boxes[link.target])
        assert (upper, lower) == (ends[::-1] if laid.back else ends)
        assert [item.layer for item in laid.chain] == list(range(upper.layer, lower.layer + 1))


def test_what_leads_forward_points_down() -> None:
    sizes = dict.fromkeys("abc", (10.0, 10.0))
    layout = lay(sizes, [Link("a", "b", 5, 5), Link("b", "c", 5, 5), Link("c", "a", 5, 5), Link("a", "c", 5, 5)])
    assert [laid.back for laid in layout.links] == [False, False, True, False]
    assert layout.boxes["a"].y < layout.boxes["b"].y < layout.boxes["c"].y


# --- the command ----------------------------------------------------------------------------------------------------


async def test_the_command_prints_or_writes_it(tmp_path: Path) -> None:
    policy = str(ROOT / "policies" / "repo-repair.yaml")
    out, err = await run("diagram", policy)
    assert out.startswith("stateDiagram-v2\n")
    assert err == ""
    file = tmp_path / "p.svg"
    out, _ = await run("diagram", policy, "--format", "svg", "--out", str(file))
    assert out == ""
    assert file.read_text() == as_svg(drawing(load_policy(Path(policy), condition_trouble)))
    _, err = await run("diagram", policy, "--out", str(tmp_path / "none" / "p.svg"), expect=1)
    assert err.endswith("cannot be written: no such file or directory\n")
    _, err = await run("diagram", str(tmp_path / "none.yaml"), expect=2)
    assert err.endswith("counterfoil: 1 mistake; nothing was drawn\n")
