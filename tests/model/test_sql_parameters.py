"""Parameters are found where a database would find them, and nowhere else."""

import pytest

from gateway.model.sql_parameters import named, spelled


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("select :a, :b_2, :a", ["a", "b_2", "a"]),
        ("select x::text, :a::int", ["a"]),
        ("select ':a', \":b\", 'it''s :c'", []),
        ("select e'\\':a', :b", ["b"]),
        ("select $$ :a $$, $t$ :b $$ :c $t$, :d", ["d"]),
        ("select 1 -- :a\n, :b /* :c */", ["b"]),
        ("select a[1:2], :_x", ["_x"]),
        ("select ':", []),
    ],
)
def test_where_parameters_stand(statement: str, names: list[str]) -> None:
    assert list(named(statement)) == names


def test_each_is_spelled_as_a_driver_wants_it() -> None:
    places = {"a": "$1", "b": "$2"}
    assert spelled("select :a, ':a', :b, x::int", places.__getitem__) == "select $1, ':a', $2, x::int"
