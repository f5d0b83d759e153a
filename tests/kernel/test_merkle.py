"""The tree over the log, against the definitions of RFC 9162 spelled out naively."""

from hashlib import sha256
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kernel import merkle
from gateway.kernel.merkle import BadProof, Parts, Tree, check_grown, growth, included, path

LEAVES = [sha256(b"%d" % number).digest() for number in range(70)]

sizes = st.integers(1, len(LEAVES))


def naive_root(leaves: list[bytes]) -> bytes:
    """MTH of RFC 9162, 2.1.1, word for word."""
    if not leaves:
        return sha256(b"").digest()
    if len(leaves) == 1:
        return sha256(b"\x00" + leaves[0]).digest()
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return sha256(b"\x01" + naive_root(leaves[:k]) + naive_root(leaves[k:])).digest()


def naive_path(m: int, leaves: list[bytes]) -> list[bytes]:
    """PATH of RFC 9162, 2.1.3.1."""
    if len(leaves) == 1:
        return []
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    if m < k:
        return [*naive_path(m, leaves[:k]), naive_root(leaves[k:])]
    return [*naive_path(m - k, leaves[k:]), naive_root(leaves[:k])]


def naive_proof(m: int, leaves: list[bytes]) -> list[bytes]:
    """PROOF of RFC 9162, 2.1.4.1."""

    def sub(m: int, leaves: list[bytes], whole: bool) -> list[bytes]:  # noqa: FBT001 - `b`, as the RFC has it
        if m == len(leaves):
            return [] if whole else [naive_root(leaves)]
        k = 1
        while k * 2 < len(leaves):
            k *= 2
        if m <= k:
            return [*sub(m, leaves[:k], whole), naive_root(leaves[k:])]
        return [*sub(m - k, leaves[k:], False), naive_root(leaves[:k])]

    return sub(m, leaves, True)


def tree_of(leaves: list[bytes]) -> Tree:
    tree = Tree()
    for data in leaves:
        tree.add(data)
    return tree


def proof(parts: tuple[merkle.Range, ...], leaves: list[bytes]) -> list[bytes]:
    found = Parts(parts)
    for data in leaves:
        found.add(data)
    assert found.complete
    return [found.roots[part] for part in parts]


@given(st.integers(0, len(LEAVES)))
def test_a_log_that_grew_leaf_by_leaf_has_the_root_of_the_definition(size: int) -> None:
    tree = tree_of(LEAVES[:size])
    assert (tree.size, tree.root) == (size, naive_root(LEAVES[:size]))


@given(st.integers(0, len(LEAVES)), st.integers(0, len(LEAVES)))
def test_a_log_goes_on_from_its_peaks_alone(one: int, other: int) -> None:
    old, size = sorted((one, other))
    before = tree_of(LEAVES[:old])
    after = Tree(before.size, before.peaks)
    for data in LEAVES[old:size]:
        after.add(data)
    assert after.root == naive_root(LEAVES[:size])
    assert before.root == naive_root(LEAVES[:old])


def test_peaks_that_no_log_of_that_size_has_are_refused() -> None:
    for size, peaks in [(3, 1), (4, 2), (0, 1), (-1, 1)]:
        with pytest.raises(ValueError, match="peaks"):
            Tree(size, [b""] * peaks)


@given(sizes, st.data())
def test_a_proof_of_inclusion_is_that_of_the_definition_and_leads_to_the_root(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    made = proof(path(index, size), LEAVES)
    assert made == naive_path(index, LEAVES[:size])
    assert included(LEAVES[index], index, size, made) == naive_root(LEAVES[:size])


@given(sizes, st.data())
def test_no_proof_puts_another_leaf_or_place_under_the_root(size: int, data: st.DataObject) -> None:
    index, other = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size - 1))
    made, root = proof(path(index, size), LEAVES), naive_root(LEAVES[:size])
    assert included(b"another", index, size, made) != root
    if other != index:
        try:
            found = included(LEAVES[index], other, size, made)
        except BadProof:
            return
        assert found != root


@given(sizes, st.data())
def test_a_proof_that_is_cut_or_stretched_proves_nothing(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    made = proof(path(index, size), LEAVES)
    with pytest.raises(BadProof):
        included(LEAVES[index], index, size, [*made, LEAVES[0]])
    if made:
        with pytest.raises(BadProof):
            included(LEAVES[index], index, size, made[:-1])


@given(sizes, sizes)
def test_a_proof_of_growth_is_that_of_the_definition_and_holds(one: int, other: int) -> None:
    old, size = sorted((one, other))
    made = proof(growth(old, size), LEAVES)
    assert made == naive_proof(old, LEAVES[:size])
    check_grown(old, naive_root(LEAVES[:old]), size, naive_root(LEAVES[:size]), made)


@given(sizes, sizes, st.data())
def test_a_history_that_was_rewritten_has_no_proof(one: int, other: int, data: st.DataObject) -> None:
    old, size = sorted((one, other))
    at = data.draw(st.integers(0, old - 1))
    forged = [*LEAVES[:at], b"forged", *LEAVES[at + 1 : size]]
    made = proof(growth(old, size), forged)
    with pytest.raises(BadProof):
        check_grown(old, naive_root(LEAVES[:old]), size, naive_root(forged), made)


@given(sizes, sizes)
def test_a_proof_of_growth_that_is_cut_or_stretched_proves_nothing(one: int, other: int) -> None:
    old, size = sorted((one, other))
    made = proof(growth(old, size), LEAVES)
    ends = naive_root(LEAVES[:old]), size, naive_root(LEAVES[:size])
    wrong = [[*made, LEAVES[0]], *([made[:-1]] if made else [])]
    for one_wrong in wrong:
        with pytest.raises(BadProof):
            check_grown(old, *ends, one_wrong)


def test_nothing_is_proven_of_what_is_not_there() -> None:
    with pytest.raises(ValueError, match="no record 3"):
        path(3, 3)
    with pytest.raises(BadProof):
        included(LEAVES[0], 3, 3, [])
    for old in (0, 4):
        with pytest.raises(ValueError, match="no proof"):
            growth(old, 3)
        with pytest.raises(BadProof):
            check_grown(old, b"", 3, b"", [])


def test_a_part_is_complete_with_its_last_leaf() -> None:
    found = Parts([(1, 3)])
    for data in LEAVES[:2]:
        found.add(data)
    assert (found.complete, found.roots) == (False, {})
    found.add(LEAVES[2])
    assert (found.complete, found.roots) == (True, {(1, 3): naive_root(LEAVES[1:3])})


def test_the_parts_of_a_proof_never_overlap() -> None:
    for size in range(1, 70):
        for parts in [
            *(path(index, size) for index in range(size)),
            *(growth(old, size) for old in range(1, size + 1)),
        ]:
            assert all(before[1] <= after[0] for before, after in pairwise(sorted(parts)))
