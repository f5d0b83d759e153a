"""What runs share: taken in the step that says why or not at all, never beyond its limit, exact to the last unit."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import anyio
import pytest

from gateway.model.canonical import Digest
from gateway.outbound.ledger import MemoryLedger
from gateway.ports import Append, Conflict, Exhausted, Ledger, Occupied, Posting, Stands
from tests.ledger.making import T0, Line, attempt, opened, posting, posts, refused

MAX = 2**63 - 1

PAST = 48 * 3600.0
"""So long after its end an account may be forgotten."""


async def test_what_is_posted_is_the_level(ledger: Ledger) -> None:
    assert await ledger.levels(["a", "b"]) == {}
    await ledger.append(posts("run_1", posting("a", 3), posting("b", 5, unit="cost")))
    await ledger.append(posts("run_2", posting("a", 4), posting("a", 7, unit="tokens")))
    await ledger.append(Line("run_3").step())
    levels = {("a", "calls"): 7, ("a", "tokens"): 7, ("b", "cost"): 5}
    assert await ledger.levels(["b", "a", "never", "a"]) == levels
    assert await ledger.levels(["b"]) == {("b", "cost"): 5}
    assert await ledger.levels([]) == {}


async def test_a_limit_may_be_reached_and_not_passed(ledger: Ledger) -> None:
    await ledger.append(posts("run_1", posting("a", 9, limit=10)))
    assert await refused(ledger, posts("run_2", posting("a", 2, limit=10))) == ("a", "calls", 9, 10)
    await ledger.append(posts("run_3", posting("a", 1, limit=10)))
    assert await refused(ledger, posts("run_4", posting("a", 1, limit=10))) == ("a", "calls", 10, 10)
    assert await ledger.levels(["a"]) == {("a", "calls"): 10}


async def test_a_refusal_says_where_the_account_stands(ledger: Ledger) -> None:
    with pytest.raises(Exhausted) as raised:
        await ledger.append(posts("run_1", posting("calls/2026-11-29", 2, limit=1)))
    assert str(raised.value) == "account `calls/2026-11-29` stands at 0 calls of 1"


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_limit_of_nothing_lets_nothing_pass(ledger: Ledger, limit: int) -> None:
    assert await refused(ledger, posts("run_1", posting("a", 1, limit=limit))) == ("a", "calls", 0, limit)
    assert await ledger.levels(["a"]) == {}


async def test_the_limit_is_that_of_the_posting(ledger: Ledger) -> None:
    await ledger.append(posts("run_1", posting("a", 5, limit=5)))
    assert await refused(ledger, posts("run_2", posting("a", 1, limit=3))) == ("a", "calls", 5, 3)
    await ledger.append(posts("run_3", posting("a", 1, limit=6)))
    await ledger.append(posts("run_4", posting("a", 100)))
    assert await ledger.levels(["a"]) == {("a", "calls"): 106}


async def test_what_is_given_back_can_be_taken_again_and_is_never_refused(ledger: Ledger) -> None:
    await ledger.append(posts("run_1", posting("a", 5)))
    await ledger.append(posts("run_2", posting("a", -1, limit=2)))
    assert await ledger.levels(["a"]) == {("a", "calls"): 4}
    await ledger.append(posts("run_3", posting("a", -3, limit=2)))
    await ledger.append(posts("run_4", posting("a", 1, limit=2)))
    assert await refused(ledger, posts("run_5", posting("a", 1, limit=2))) == ("a", "calls", 2, 2)


async def test_what_is_given_back_without_having_been_taken_shows_below_nothing(ledger: Ledger) -> None:
    await ledger.append(posts("run_1", posting("a", -3, limit=0)))
    assert await ledger.levels(["a"]) == {("a", "calls"): -3}
    await ledger.append(posts("run_2", posting("a", 3, limit=0)))
    assert await ledger.levels(["a"]) == {("a", "calls"): 0}


async def test_nothing_is_posted_by_an_amount_of_nothing(ledger: Ledger) -> None:
    await ledger.append(posts("run_1", posting("a", 0, limit=-1), posting("b", 1)))
    assert await ledger.levels(["a", "b"]) == {("b", "calls"): 1}


async def test_of_several_accounts_the_last_that_refuses_leaves_nothing_of_the_first(ledger: Ledger) -> None:
    await ledger.append(posts("run_1", posting("b", 1)))
    step = replace(
        posts("run_2", posting("a", 1, limit=9), posting("b", -1), posting("c", 3, limit=2)),
        payloads={Digest("c1:a"): b"body"},
        track=[attempt("att_2", "run_2", hold="pay alice")],
    )
    assert await refused(ledger, step) == ("c", "calls", 0, 2)
    assert await ledger.levels(["a", "b", "c"]) == {("b", "calls"): 1}
    assert await ledger.read("run_2") == []
    assert await ledger.tracked() == []
    assert await ledger.payload(Digest("c1:a")) is None
    await ledger.append(replace(step, postings=[posting("c", 2, limit=2)]))
    assert await ledger.tracked() == step.track


async def test_two_units_of_an_account_have_a_level_and_a_limit_each(ledger: Ledger) -> None:
    both = [posting("a", 2, limit=2), posting("a", 2, unit="reviews", limit=3)]
    await ledger.append(posts("run_1", *both))
    assert await refused(ledger, posts("run_2", both[1])) == ("a", "reviews", 2, 3)
    assert await ledger.levels(["a"]) == {("a", "calls"): 2, ("a", "reviews"): 2}


async def test_postings_of_one_step_to_one_account_are_made_in_order(ledger: Ledger) -> None:
    give, take = posting("a", -2), posting("a", 2, limit=2)
    await ledger.append(posts("run_1", take))
    assert await refused(ledger, posts("run_2", take, give)) == ("a", "calls", 2, 2)
    await ledger.append(posts("run_3", give, take, posting("a", 1)))
    assert await refused(ledger, posts("run_4", posting("a", 1, limit=4), posting("a", 1, limit=4))) == (
        "a",
        "calls",
        4,
        4,
    )
    assert await ledger.levels(["a"]) == {("a", "calls"): 3}


async def test_a_conflict_is_said_before_a_hold_and_a_hold_before_a_limit(ledger: Ledger) -> None:
    holder = attempt("att_1", hold="pay alice")
    await ledger.append(replace(Line("run_1").tracking(holder), postings=[posting("a", 1, limit=1)]))
    beyond = [posting("a", 1, limit=1)]
    held = replace(Line("run_2").tracking(attempt("att_2", "run_2", hold="pay alice")), postings=beyond)
    late = Line("run_1").tracking(attempt("att_3", "run_1", hold="pay alice"))
    with pytest.raises(Conflict):
        await ledger.append(replace(late, postings=beyond))
    with pytest.raises(Occupied) as occupied:
        await ledger.append(held)
    assert occupied.value.held == holder
    assert await refused(ledger, replace(held, track=[attempt("att_2", "run_2", hold="pay bob")])) == (
        "a",
        "calls",
        1,
        1,
    )
    assert await ledger.levels(["a"]) == {("a", "calls"): 1}


async def test_a_hold_that_passes_on_within_a_step_that_posts_is_no_obstacle(ledger: Ledger) -> None:
    line = Line("run_1")
    await ledger.append(line.tracking(attempt("att_1", hold="pay alice")))
    again = line.step(track=[attempt("att_2", hold="pay alice")], untrack=["att_1"], postings=[posting("a", 1)])
    await ledger.append(again)
    assert await ledger.tracked() == again.track


async def test_of_two_hundred_at_once_exactly_as_many_land_as_the_limit_lets(ledger: Ledger) -> None:
    steps = [posts(f"run_{number}", posting("a", 1, limit=50)) for number in range(200)]
    with anyio.fail_after(30):
        came = await asyncio.gather(*(ledger.append(step) for step in steps), return_exceptions=True)
    assert Counter(type(one) for one in came) == {type(None): 50, Exhausted: 150}
    assert await ledger.levels(["a"]) == {("a", "calls"): 50}
    assert [bool(await ledger.read(step.run)) for step in steps] == [one is None for one in came]


@pytest.mark.parametrize(
    "wrong",
    [
        posting("a", MAX + 1),
        posting("a", -MAX - 2),
        posting("a", 1, until=float("nan")),
        posting("a\ud800", 1),
        posting("a", 1, unit="\udfff"),
    ],
)
async def test_what_no_ledger_can_hold_is_the_callers_mistake(ledger: Ledger, wrong: Posting) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message is for the developer
        await ledger.append(posts("run_1", posting("b", 1), wrong))
    assert await ledger.read("run_1") == []
    assert await ledger.levels(["a", "b"]) == {}


async def test_an_amount_that_no_ledger_can_hold_is_refused_also_where_the_level_could_be_held(ledger: Ledger) -> None:
    with pytest.raises(ValueError, match=r"^account `a` would be at or change by 9223372036854775808: no ledger can"):
        await ledger.append(posts("run_1", posting("a", -1), posting("a", MAX + 1)))
    assert await ledger.levels(["a"]) == {}


@pytest.mark.parametrize("sign", [1, -1])
async def test_a_level_that_no_ledger_can_hold_refuses_its_step_alone(ledger: Ledger, sign: int) -> None:
    steps = [
        posts("run_1", posting("a", sign * MAX), posting("b", MAX, limit=MAX)),
        posts("run_2", posting("a", sign)),
        posts("run_3", posting("a", -sign)),
        posts("run_4", posting("b", 1, limit=MAX)),
    ]
    came = await asyncio.gather(*(ledger.append(step) for step in steps), return_exceptions=True)
    assert [type(one) for one in came] == [type(None), ValueError, type(None), Exhausted]
    assert await ledger.levels(["a", "b"]) == {("a", "calls"): sign * (MAX - 1), ("b", "calls"): MAX}
    assert await ledger.read("run_2") == []


async def test_a_posting_needs_a_record_that_says_why(ledger: Ledger) -> None:
    line = Line("run_1")
    await ledger.append(line.step(opened()))
    with pytest.raises(ValueError, match=r"^a step of run `run_1` has postings, and no record of why$"):
        await ledger.append(Append("run_1", line.expected, (), postings=[posting("a", 1)]))
    assert await ledger.levels(["a"]) == {}


async def make_at(ledger: Ledger, line: Line, *postings: Posting, at: float) -> None:
    """A step at that time, by its record."""
    line.at = at - line.expected[0]
    await ledger.append(line.step(postings=postings))


async def test_an_account_is_forgotten_when_it_is_well_past_and_others_are_made(ledger: Ledger) -> None:
    line, names = Line("run_1"), ["a", "b", "c", "d", "kept", "new", "newer"]
    ends = [posting(name, 1, until=T0 + n) for n, name in enumerate("abcd")]
    await make_at(ledger, line, *ends, posting("kept", 1), at=T0)

    async def left() -> str:
        return " ".join(sorted(account for account, _ in await ledger.levels(names)))

    # An account that is there already makes nobody forget, nor does one that is made within the hour.
    await make_at(ledger, line, posting("kept", 1), at=T0 + PAST * 9)
    await make_at(ledger, line, posting("new", 1), at=T0 + PAST - 0.001)
    assert await left() == "a b c d kept new"
    # Two for each that is made, the oldest first.
    await make_at(ledger, line, posting("newer", 1, until=T0 + PAST * 9), at=T0 + PAST + 2)
    assert await left() == "c d kept new newer"
    await make_at(ledger, line, posting("a", -1, until=T0), at=T0 + PAST + 2)
    assert await left() == "d kept new newer"
    await make_at(ledger, line, posting("b", 1), at=T0 + PAST + 2.999)
    assert await ledger.levels(names) == {
        ("b", "calls"): 1,
        ("d", "calls"): 1,
        ("kept", "calls"): 2,
        ("new", "calls"): 1,
        ("newer", "calls"): 1,
    }


async def test_an_account_that_is_past_and_posted_to_once_more_is_forgotten_after_that(ledger: Ledger) -> None:
    line = Line("run_1")
    await make_at(ledger, line, posting("a", 1, until=T0), at=T0)
    # In whatever order: the first of them makes an account, and so would have the other forgotten.
    await make_at(ledger, line, posting("b", 1), posting("a", -1, until=T0), at=T0 + PAST)
    assert await ledger.levels(["a", "b"]) == {("b", "calls"): 1}
    await make_at(ledger, line, posting("a", -1, until=T0), posting("a", 5, until=T0 + PAST), at=T0 + PAST)
    assert await ledger.levels(["a", "b"]) == {("a", "calls"): 4, ("b", "calls"): 1}


async def test_an_account_whose_end_was_put_off_is_forgotten_at_the_later_one(ledger: Ledger) -> None:
    line = Line("run_1")
    await make_at(ledger, line, posting("a", 1, until=T0), at=T0)
    await make_at(ledger, line, posting("a", 1, until=T0 + 5), at=T0)
    await make_at(ledger, line, posting("b", 1), at=T0 + PAST + 4.999)
    assert await ledger.levels(["a"]) == {("a", "calls"): 2}
    await make_at(ledger, line, posting("c", 1), at=T0 + PAST + 5)
    assert await ledger.levels(["a"]) == {}


async def test_units_of_an_account_are_forgotten_each_in_its_time(ledger: Ledger) -> None:
    line = Line("run_1")
    await make_at(ledger, line, posting("a", 1, until=T0), posting("a", 1, unit="tokens", until=T0 + 1), at=T0)
    await make_at(ledger, line, posting("b", 1), at=T0 + PAST)
    assert await ledger.levels(["a"]) == {("a", "tokens"): 1}


@pytest.mark.parametrize(
    ("untils", "kept"),
    [
        ((T0, T0 + 5), 2),
        ((T0 + 5, T0), 2),
        ((T0, None), 2),
        ((None, T0), 2),
        ((T0, T0), 0),
        ((T0, T0 - 5), 0),
    ],
)
@pytest.mark.parametrize("at_once", ["at once", ""])
async def test_the_furthest_of_all_ends_that_were_said_counts(
    ledger: Ledger, untils: Sequence[float | None], kept: int, at_once: str
) -> None:
    line = Line("run_1")
    both = [posting("a", 1, until=until) for until in untils]
    for postings in [both] if at_once else [[one] for one in both]:
        await make_at(ledger, line, *postings, at=T0)
    await make_at(ledger, line, posting("b", 1), at=T0 + PAST)
    assert await ledger.levels(["a"]) == ({("a", "calls"): kept} if kept else {})


async def test_more_is_forgotten_than_is_made(ledger: Ledger) -> None:
    line, each = Line("run_1"), PAST / 10
    names = [f"a{number}" for number in range(100)]
    for number, name in enumerate(names):
        await make_at(ledger, line, posting(name, 1, until=T0 + number * each), at=T0 + number * each)
    assert [account for account, _ in sorted(await ledger.levels(names))] == names[-10:]


async def test_a_ledger_in_memory_keeps_nothing_of_what_it_forgot() -> None:
    ledger, line = MemoryLedger(), Line("run_1")
    for number in range(50):
        at = T0 + number * PAST * 2
        await make_at(ledger, line, posting(f"a{number}", 1, until=at), posting("b", 1, until=at), at=at)
    assert sorted(ledger._units) == ["a49", "b"]
    assert len(ledger._ends) <= 3


async def test_what_stands_on_accounts_is_listed_in_order_and_in_parts(ledger: Ledger) -> None:
    line = Line("run_1")
    await ledger.append(line.step(postings=[posting("b", 2, until=T0), posting("a", 1, unit="mutations")]))
    await ledger.append(line.step(postings=[posting("b", 3, until=T0 + 1), posting("a", -1)]))
    stands = [Stands("a", "calls", -1, None), Stands("a", "mutations", 1, None), Stands("b", "calls", 5, T0 + 1)]
    assert await ledger.accounts() == stands
    assert await ledger.accounts(limit=1) == stands[:1]
    assert await ledger.accounts(("a", "calls"), limit=1) == stands[1:2]
    assert await ledger.accounts(("b", "calls")) == []
