"""Whether patterns share names, against all names that there are."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from gateway.kernel.analysis.patterns import contains, covering, meets
from gateway.kernel.globs import names

PATTERNS = st.text(alphabet="ab*", min_size=1, max_size=5)
NAMES = ["".join(letters) for length in range(8) for letters in product("abc", repeat=length)]
"""Long enough: what two patterns of five characters share or do not has a witness among these."""


@given(PATTERNS, PATTERNS)
def test_one_contains_the_other_if_it_names_all_that_the_other_does(wide: str, narrow: str) -> None:
    assert contains(wide, narrow) == all(names(wide, one) for one in NAMES if names(narrow, one))


@given(PATTERNS, PATTERNS)
def test_two_meet_if_some_name_fits_both(one: str, other: str) -> None:
    assert meets(one, other) == meets(other, one) == any(names(one, name) and names(other, name) for name in NAMES)


@given(st.lists(PATTERNS, max_size=4), PATTERNS)
def test_several_cover_one_together_only_if_one_of_them_does_alone(wide: list[str], narrow: str) -> None:
    together = all(any(names(one, name) for one in wide) for name in NAMES if names(narrow, name))
    assert (covering(wide, narrow) is not None) == together


def test_a_pattern_may_spell_any_character() -> None:
    private = "".join(chr(code) for code in range(0xE000, 0xE010))
    assert not contains(private, "*")
    assert contains("*", private)
    assert contains(f"*{private}*", f"a*{private}")
