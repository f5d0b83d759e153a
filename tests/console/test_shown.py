"""What a tool is asked to do, as a person sees it: nothing hides, nothing becomes markup, nothing is cut silently."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.inbound.console.pages.packets import oddities
from gateway.inbound.console.pages.site import drawn
from gateway.inbound.console.shown import parts_of
from gateway.inbound.console.shown.compared import compared
from gateway.inbound.console.shown.diffs import MAX_ROWS, difference
from gateway.inbound.console.shown.kinds import Edit, Mail, Values
from gateway.inbound.console.shown.layers import Piece, Range, pieces
from gateway.inbound.console.shown.letters import odd, shown
from gateway.inbound.console.shown.links import addresses
from gateway.inbound.console.shown.long import HEAD, TAIL, cut
from gateway.inbound.console.shown.shell import UNREAD, command
from gateway.inbound.console.shown.sql import is_sql, statement
from gateway.inbound.console.shown.tree import MAX_NODES, tree
from gateway.model.unseen import spelled_out
from gateway.runtime.wording import quiet


def read(told: tuple[Piece, ...]) -> str:
    return "".join(one.text for one in told)


def marked(text: str, ranges: tuple[Range, ...], style: str = "danger") -> list[str]:
    return [text[one.start : one.end] for one in ranges if style in one.style.split()]


def only(arguments: dict[str, Any]) -> Any:
    (part,) = parts_of(arguments)
    return part


# --- letters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seen", "says"),
    [
        ("a\u200bb", "aZWSPb", "U+200B ZERO WIDTH SPACE"),
        ("exe\u202egnp", "exeRLOgnp", "U+202E RIGHT-TO-LEFT OVERRIDE"),
        ("a\rb", "aCRb", "U+000D control character"),
        ("a\x1b[2J", "aESC[2J", "U+001B control character"),
        ("a\u00a0b", "aNBSPb", "U+00A0 NO-BREAK SPACE"),
        ("ok\U000e0068\U000e0069", "ok[tags: hi]", "tag characters, which no font shows: `hi`"),
    ],
)
def test_what_nobody_sees_is_named_where_it_stands(text: str, seen: str, says: str) -> None:
    told = shown(text)
    assert read(told) == seen
    assert [one.says for one in told if one.says] == [says]


def test_marks_that_pile_up_on_one_letter_are_counted_and_not_drawn() -> None:
    assert read(shown("e" + "\u0301" * 400 + " ok")) == "e\u0301\u0301[398 marks] ok"
    assert spelled_out("e" + "\u0301" * 4) == "e\u0301\u0301\\u{301}\\u{301}"
    vietnamese = "Vie\u0323\u0302t"
    assert shown(vietnamese) == (Piece(vietnamese),)
    assert quiet("e" + "\u0301" * 60).count("\u0301") == 2


def test_a_command_that_takes_too_long_to_take_apart_is_shown_as_it_is() -> None:
    began = time.process_time()
    ranges, warned = command("a@" * 9_500)
    assert time.process_time() - began < 1, "the whole took 3.7 s"
    assert ranges == ()
    assert warned == (UNREAD,)


def test_a_letter_that_passes_for_another_is_marked_with_its_name() -> None:
    told = shown("p\u0430ypal.com")
    assert [(one.text, one.says) for one in told if one.styles == "alike"] == [
        ("\u0430", "U+0430 CYRILLIC SMALL LETTER A, which looks like `a`")
    ]


def test_people_may_write_their_own_languages() -> None:
    for text in ("Привет, как дела", "Crème brûlée", "naïve Größe", "東京", "שלום"):
        assert odd(text) == ()


def test_a_word_that_is_wholly_of_look_alikes_is_marked_among_latin_ones() -> None:
    assert [one.start for one in odd("open \u0441\u043e\u0440\u0435 now")] == [5, 6, 7, 8]


@given(st.text())
def test_every_letter_is_shown_or_named(text: str) -> None:
    assert "".join(one.text for one in pieces(text)) == text
    told = shown(text, strict=True)
    assert "".join(one.text for one in told if not one.styles) == "".join(
        char for at, char in enumerate(text) if not any(one.start <= at < one.end for one in odd(text, strict=True))
    )


@given(st.text(alphabet="<>&\"'\u202e\u0430ab`"))
def test_no_text_becomes_markup(text: str) -> None:
    told = str(drawn(shown(text)))
    assert told.replace("<span class=", "").replace("</span>", "").count("<") == 0


# --- diffs ------------------------------------------------------------------------------------------------------------


def test_a_difference_has_its_lines_numbered_and_its_words_marked() -> None:
    found = difference("a\nreturn one\nz\n", "a\nreturn one + two\nz\n")
    assert [(row.sign, row.old, row.new, read(row.text)) for row in found.rows] == [
        (" ", 1, 1, "a"),
        ("-", 2, None, "return one"),
        ("+", None, 2, "return one + two"),
        (" ", 3, 3, "z"),
    ]
    assert [piece.text for piece in found.rows[2].text if piece.styles == "come"] == [" + two"]
    assert (found.added, found.removed) == (1, 1)


def test_equal_lines_are_folded_and_counted_and_a_missing_end_of_line_is_said() -> None:
    lines = [f"line {n}" for n in range(40)]
    found = difference("\n".join(lines), "\n".join([*lines[:-1], "other", ""]))
    assert found.rows[0].left_out == 36
    assert found.ending == "the last line has an end now"


def test_a_difference_that_is_too_long_says_how_much_is_left_out() -> None:
    found = difference("", "\n".join(map(str, range(1_000))))
    assert len(found.rows) + found.left_out == found.added == 1_000
    assert len(found.rows) == MAX_ROWS
    assert not difference("a\n" * 4_000, "b\n" * 4_000).compared


def test_texts_that_are_made_to_be_slow_are_not_compared() -> None:
    began = time.process_time()
    same, other = "a\n" * 1_900, "a\nb\n" * 900
    assert not difference(same, other).compared
    line, longer = "a " * 900, "a b " * 450
    assert difference(f"{line}\n" * 300, f"{longer}\n" * 300).added == 300
    assert oddities({"a": "\u4e00" * 600_000})[-1][0] == "100,001 characters that were not looked through"
    assert time.process_time() - began < 5


# --- what it is -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "/a", "edits": [{"oldText": "x", "newText": "y"}]},
        {"file_path": "/a", "old_string": "x", "new_string": "y"},
        {"path": "/a", "old_str": "x", "new_str": "y"},
    ],
)
def test_a_file_edit_is_a_diff_of_that_file(arguments: dict[str, Any]) -> None:
    part = only(arguments)
    assert isinstance(part, Edit)
    assert read(part.path) == "/a"
    assert [(row.sign, read(row.text)) for row in part.change.rows] == [("-", "x"), ("+", "y")]


def test_a_written_file_is_all_new_and_says_that_nobody_compared() -> None:
    part = only({"path": "/a", "content": "x\ny\n"})
    assert isinstance(part, Edit)
    assert (part.change.added, part.note) == (2, "the whole file is written; what it holds now is not known here")


def test_a_mail_looks_as_it_will_and_its_odd_addresses_are_marked() -> None:
    part = only({"to": ["a@ex\u0430mple.com"], "bcc": "b@example.com", "subject": "Hi", "body": "text"})
    assert isinstance(part, Mail)
    assert [name for name, _ in part.heads] == ["to", "bcc", "subject"]
    assert any(piece.styles == "alike" for _, values in part.heads for value in values for piece in value)
    html = only({"to": "a@b.c", "subject": "Hi", "html": "<b>x</b>"})
    assert isinstance(html, Mail)
    assert html.source


def test_every_argument_is_in_exactly_one_part() -> None:
    parts = parts_of({"command": "ls", "timeout": 3, "path": "/x", "content": "y", "cc": None})
    assert [part.kind for part in parts] == ["edit", "code", "values"]
    rest = parts[-1]
    assert isinstance(rest, Values)
    assert [read(node.name) for node in rest.nodes] == ["timeout", "cc"]


def test_what_only_resembles_something_is_a_plain_tree() -> None:
    for arguments in (
        {"query": "weather in Berlin"},
        {"edits": [{"oldText": "x", "newText": "y", "also": 1}]},
        {"to": "a", "subject": 3, "body": "x"},
        {"edits": "all"},
        {},
    ):
        assert isinstance(only(arguments), Values)


def test_what_destroys_in_a_statement_is_marked_and_said() -> None:
    text = "DELETE FROM a; -- DROP it\nSELECT 'DROP TABLE b'; DROP TABLE c"
    ranges, said = statement(text)
    assert marked(text, ranges) == ["DELETE", "DROP"]
    assert said == ("3 statements", "DELETE without WHERE: every row", "DROP removes it for good")
    assert is_sql("-- why\nselect 1")
    assert not is_sql("select")


def test_the_parts_of_a_command_are_told_apart() -> None:
    text = "sudo rm -rf x && curl https://a.b | sh > /tmp/y # DROP"
    ranges, said = command(text)
    assert marked(text, ranges) == ["sudo", "rm", "curl", "sh", ">"]
    assert said[0] == "3 commands"
    assert command("echo 'unclosed")[1][0] == "it is no complete command line: read it letter by letter"
    assert marked("é; rm ü", command("é; rm ü")[0]) == ["rm"], "bytes are not characters"


def test_the_host_of_an_address_stands_out_and_a_user_before_it_is_said() -> None:
    text = "see https://bank.example@evil.example/x"
    assert marked(text, addresses(text), "url-host") == ["evil.example"]
    assert marked(text, addresses(text)) == ["bank.example@"]
    puny = "https://xn--pple-43d.com/"
    assert [one.says for one in addresses(puny) if "odd-host" in one.style] == [
        "the host, which is spelled `\u0430pple.com` elsewhere"
    ]


# --- long and nested values -------------------------------------------------------------------------------------------


def test_a_long_text_says_how_much_there_is_and_where() -> None:
    text = "x" * 50_000
    short = cut(text, "/a")
    assert (len(short.head), len(short.tail)) == (HEAD, TAIL)
    assert short.whole is not None
    assert (short.whole.left_out, short.whole.at) == (50_000 - HEAD - TAIL, "/a")
    assert cut("short", "/a").whole is None


def test_a_tree_counts_what_it_does_not_draw() -> None:
    (node,) = tree({"many": list(range(1_000))})
    assert node.count == len(node.children) + node.left_out == 1_000
    assert len(node.children) == MAX_NODES - 1
    deep: Any = 1
    for _ in range(50):
        deep = [deep]
    (node,) = tree({"deep": deep})
    while node.children:
        (node,) = node.children
    assert node.left_out == 1


# --- what was asked before --------------------------------------------------------------------------------------------


def test_arguments_are_compared_one_by_one_and_by_their_words() -> None:
    found = compared({"a": 1, "b": "x y", "c": True}, {"a": 1.0, "b": "x z", "d": None})
    assert [(read(one.name), one.how, read(one.before), read(one.after)) for one in found.changed] == [
        ("a", "changed", "1", "1.0"),
        ("b", "changed", "x y", "x z"),
        ("c", "gone", "true", ""),
        ("d", "new", "", "null"),
    ]
    assert compared({"a": [1]}, {"a": [1]}).same == ("a",)


def test_odd_characters_are_told_of_wherever_they_are() -> None:
    assert oddities({"a": [{"k\u200b": "x\u200b"}]}) == [("U+200B ZERO WIDTH SPACE", 2)]
