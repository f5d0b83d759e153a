import time
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model import lookalikes
from gateway.model.confusables import TABLE, looks
from gateway.model.lookalikes import LOOKED_AT, likeness, skeleton, spelled, unseen
from tests.model.confusables_table import entries, module, table

ALIKE = [
    ("Delete_File", "delete_file"),  # [T4] case
    ("delete_fil\u0435", "delete_file"),  # [T4] Cyrillic
    ("\uff44elete_file", "delete_file"),  # [T4] full width
    ("delete_file\u200b", "delete_file"),  # [T4] a space of no width
    ("READ_FILE", "read_file"),
    ("readFile", "readfile"),
    ("Iist_files", "list_files"),
    ("1ist_files", "list_files"),
    ("|ist_files", "list_files"),
    ("DeIete_file", "delete_file"),
    ("getItem", "getltem"),
    ("getItem", "getitem"),
    ("list_v1", "list_vl"),
    ("post_0rder", "post_order"),
    ("modern", "modem"),
    ("cornrnit", "commit"),
    ("\u0440\u0430\u0443", "pay"),  # all of it Cyrillic
    ("\u0420ay", "Pay"),
    ("\u0420AY", "pay"),  # both by script and by case
    ("L\u0406ST", "list"),
    ("s\u0435nd_m\u0430il", "SEND_MAIL"),
    ("\U0001d41delete", "delete"),  # mathematical bold
    ("sen\u217e_mail", "send_mail"),  # the Roman numeral 500
    ("\ufb01nd", "find"),  # a ligature
    ("read\u2010file", "read-file"),  # a hyphen that is another
    ("read\u00a0file", "read file"),
    ("read  file ", "read file"),
    ("cafe\u0301", "caf\u00e9"),
    ("\u03bfpen", "open"),  # Greek
    ("\u0585pen", "open"),  # Armenian
    ("\u13a0elete", "Delete"),  # Cherokee
    ("\u202eelif_daer", "elif_daer"),
    ("write\u00ad_file", "write_file"),
    ("write_\ufe0ffile", "write_file"),
    ("stra\u00dfe", "strasse"),
    ("\u0131tem", "item"),
    ("\u0555rder_0", "0rder_O"),
]

DIFFERENT = [
    ("read_file", "read_files"),
    ("read_file", "write_file"),
    ("read_file", "read-file"),
    ("translateIt", "translateLt"),  # Italian, Lithuanian
    ("vat_it", "vat_lt"),
    ("VAT_IT", "VAT_LT"),
    ("fail", "fall"),
    ("FAIL", "FALL"),
    ("v1", "v2"),
    ("log_in", "login"),
    ("send_mail", "send_email"),
    ("x" * 64 + "a", "x" * 64 + "b"),  # [T4] equal in their first 64 characters
    ("\u00e9t\u00e9", "ete"),
    ("\u8aad\u3080", "\u66f8\u304f"),
    ("\u0447\u0438\u0442\u0430\u0442\u044c", "\u043f\u0438\u0441\u0430\u0442\u044c"),
]


def alike(one: str, other: str) -> bool:
    return any(part == others for part, others in zip(likeness(one), likeness(other), strict=True))


@pytest.mark.parametrize(("one", "other"), ALIKE, ids=ascii)
def test_names_that_the_eye_takes_for_one_another_are_alike(one: str, other: str) -> None:
    assert one != other
    assert alike(one, other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=ascii)
def test_names_that_a_careful_eye_tells_apart_are_not(one: str, other: str) -> None:
    assert not alike(one, other)


@pytest.mark.parametrize(
    "name",
    [
        *("delete_file\u200b", "\u202eelif", "a\u2066b", "a\u00adb", "a\ufe0fb", "a\u3164b", "a\u115fb", "a\u034fb"),
        *("a\u2800b", "a\ufeffb", "a\ue000b", "a\ud800b", "a\u2028b", "a\u0085b", "a\U000e0061b"),
        *("a\nb", "a\x1b[1mb", "\x00", "a\x7f", "a\tb"),
    ],
    ids=ascii,
)
def test_what_cannot_be_seen_in_a_name_is_found(name: str) -> None:
    assert unseen(name)
    assert skeleton(name) == skeleton("".join(char for char in name if not unseen(char)))
    assert spelled(name).isascii()
    assert spelled(name).isprintable()


@pytest.mark.parametrize("space", ["\u00a0", "\u2003", "\u3000"], ids=ascii)
def test_a_space_that_is_another_is_found_and_looks_like_one(space: str) -> None:
    assert unseen(f"a{space}b")
    assert skeleton(f"a{space}b") == "a b"


@pytest.mark.parametrize(
    "name", ["", "a b/c.d-e_f", "\u00e9t\u00e9", "\u8aad\u3080", "\u05d0\u05d1", "e\u0301", "\U0001f600"]
)
def test_what_can_be_seen_is_left_alone(name: str) -> None:
    assert not unseen(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("read_file", "read_file"),
        ("delete_fil\u0435", r"delete_fil\u0435"),
        (r"delete_fil\u0435", r"delete_fil\\u0435"),
        ("a\nb\x7f\u00e9\ud800\U0001f600", r"a\x0ab\x7f\xe9\ud800\U0001f600"),
        ("x" * 1000, "x" * 80),
    ],
)
def test_a_name_is_spelled_so_that_nothing_is_taken_for_anything_else(name: str, said: str) -> None:
    assert spelled(name) == said


ANY = st.text(st.characters() | st.sampled_from([chr(point) for point in looks()] + list("lI1|0OmLM \u200b")))


@given(ANY)
def test_a_skeleton_is_its_own_skeleton(name: str) -> None:
    once = skeleton(name)
    assert skeleton(once) == once
    for part in likeness(name):
        assert skeleton(part) == part


@given(ANY, st.integers(1, 2000))
def test_a_skeleton_is_bounded_and_a_name_has_one_whatever_it_is(name: str, times: int) -> None:
    assert [len(part) <= LOOKED_AT for part in likeness(name * times)] == [True, True]
    assert len(spelled(name * times)) <= 800


@given(st.text(st.characters(max_codepoint=126, min_codepoint=32)))
def test_plain_names_go_the_short_way_to_the_same_end(name: str) -> None:
    assert skeleton(name) == lookalikes._settled(name)
    assert likeness(name)[1] == lookalikes._settled(name.casefold())


@given(st.text(min_size=1, max_size=20))
def test_case_and_width_never_tell_names_apart(name: str) -> None:
    variants = {name, name.upper(), name.lower(), name.swapcase()} if name.isascii() else {name, name.casefold()}
    assert all(alike(one, other) for one, other in combinations(variants, 2))


def test_long_names_cost_no_more_than_others() -> None:
    begun = time.process_time()
    for char in ("\ufdfa", "\u0435", "m", "\u200b", " "):
        skeleton(char * 5_000_000)
    assert time.process_time() - begun < 2.0


def test_a_plain_name_never_reads_the_table() -> None:
    looks.cache_clear()
    likeness("delete_File-1 m|x")
    assert looks.cache_info().currsize == 0
    likeness("delete_fil\u0435")
    assert looks.cache_info().currsize == 1


def test_every_character_of_unicodes_list_looks_like_what_it_says() -> None:
    wrong = [ascii(chr(point)) for point, shape in looks().items() if skeleton(chr(point)) != skeleton(shape)]
    assert wrong == []
    assert len(looks()) > 2_700


LIST = """# confusables.txt
0435 ;\t0065 ;\tMA\t# ( e )
FF45 ;\t0065 ;\tMA\t# has a decomposition
212E ;\t0065 ;\tMA\t#
006D ;\t0072 006E ;\tMA\t# ASCII
A733 ;\t0061 0061 ;\tMA\t#
""".splitlines()


def test_the_table_is_made_from_unicodes_list() -> None:
    assert entries(LIST) == {"e": ["\u0435", "\u212e"], "aa": ["\ua733"]}
    assert table(entries(LIST)) == "61+61:a733 65:435,212e"
    head, tail = 'x\n\nTABLE = """\n', '"""\n"""Words"""\n'
    assert module(f"{head}old\nold\n{tail}", LIST) == f"{head}61+61:a733 65:435,212e\n{tail}"
    assert " 65:435," in TABLE
