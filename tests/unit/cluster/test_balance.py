"""Plans that make the load of databases even."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st

from queen.cluster.balance import MEASURES, UsedSlot, Weight, after, plan, totals
from queen.store.cluster.mover import Move

NAMES = ("main", "two", "three", "four")
WEIGHTS = st.builds(
    Weight,
    st.one_of(st.just(0.0), st.integers(1, 10**6).map(float)),
    st.integers(0, 10**9),
    st.just(1),
)
SLOTS = st.lists(st.tuples(st.sampled_from(NAMES), WEIGHTS, st.booleans()), max_size=60).map(
    lambda found: [UsedSlot(n, name, weight, free) for n, (name, weight, free) in enumerate(found)]
)


def slots(*found: tuple[str, float, int]) -> list[UsedSlot]:
    """Slots by their database, bytes per second and bytes."""
    return [
        UsedSlot(n, name, Weight(float(rate), size, 1))
        for n, (name, rate, size) in enumerate(found)
    ]


def highest(found: Sequence[UsedSlot], at: int) -> float:
    return max(each[at] for each in totals(NAMES, found).values())


def moves(found: Sequence[UsedSlot], names: Sequence[str] = NAMES[:2]) -> list[Move]:
    return [each.move for each in plan(names, found)]


def test_one_slot_with_half_of_the_difference_moves() -> None:
    found = slots(("main", 10, 1), ("main", 40, 1), ("main", 50, 1), ("two", 20, 1))

    assert moves(found) == [Move(1, "main", "two")]


def test_of_moves_with_a_similar_effect_the_smallest_slot_moves() -> None:
    found = slots(("main", 50, 90), ("main", 45, 10), ("main", 55, 70), ("two", 40, 10))

    assert moves(found) == [Move(1, "main", "two")]


def test_stored_bytes_are_made_even_if_the_rates_are() -> None:
    found = slots(("main", 5, 800), ("main", 0, 300), ("two", 5, 100))

    (planned,) = plan(NAMES[:2], found)

    assert (planned.move, planned.reason) == (Move(1, "main", "two"), "bytes")


def test_slots_are_made_even_if_rates_and_bytes_are_unknown() -> None:
    planned = plan(NAMES[:2], slots(*[("main", 0, 0)] * 4))

    assert [each.move.slot for each in planned] == [0, 1]
    assert {each.reason for each in planned} == {"slots"}


@pytest.mark.parametrize(
    "found",
    [
        [],
        slots(("main", 50, 10)),
        slots(("main", 50, 10), ("two", 50, 10)),
        slots(("main", 55, 109), ("two", 50, 100)),
        slots(
            ("main", 30, 10), ("main", 30, 10), ("main", 30, 10), ("two", 30, 10), ("two", 30, 10)
        ),
    ],
)
def test_nothing_moves_if_no_move_helps(found: list[UsedSlot]) -> None:
    assert moves(found) == []


def test_a_slot_that_is_larger_than_all_others_stays_and_the_others_are_made_even() -> None:
    found = slots(("main", 1_000, 10), *[("two", 10, 10)] * 4)

    assert {each.target for each in moves(found, NAMES[:3])} == {"three"}
    assert len(moves(found, NAMES[:3])) == 2


def test_slots_that_can_not_move_stay() -> None:
    found = [each._replace(is_movable=False) for each in slots(*[("main", 10, 10)] * 4)]

    assert moves(found) == []


def test_a_new_database_gets_its_share() -> None:
    found = slots(*[("main", 10, 10)] * 6, *[("two", 10, 10)] * 6)

    loads = totals(NAMES[:3], after(found, plan(NAMES[:3], found)))

    assert loads == {name: Weight(40.0, 40, 4) for name in NAMES[:3]}


def test_a_plan_is_limited() -> None:
    found = slots(*[("main", 1, 1)] * 500)

    assert len(plan(NAMES, found)) == 32


@settings(max_examples=50)
@given(SLOTS)
def test_a_plan_never_raises_the_maximum(found: list[UsedSlot]) -> None:
    planned = plan(NAMES, found)

    for at, measure in enumerate(MEASURES):
        assert highest(after(found, planned), at) <= highest(found, at)
        if any(each.reason == measure for each in planned):
            break  # Later measures may get worse for this one.


@settings(max_examples=50)
@given(SLOTS)
def test_a_plan_moves_free_slots_once_each_to_other_databases(found: list[UsedSlot]) -> None:
    planned = [each.move for each in plan(NAMES, found, most=100)]

    assert len({each.slot for each in planned}) == len(planned)
    for move in planned:
        assert found[move.slot].is_movable
        assert move.source == found[move.slot].database != move.target


@settings(max_examples=50)
@given(SLOTS)
def test_repeated_plans_end(found: list[UsedSlot]) -> None:
    rounds = 0
    while planned := plan(NAMES, found):
        found = after(found, planned)
        rounds += 1
        assert rounds < 200


@settings(max_examples=10)
@given(SLOTS)
def test_if_all_slots_are_free_and_small_the_databases_are_even(found: list[UsedSlot]) -> None:
    small = [
        each._replace(weight=Weight(1.0, 1, 1), is_movable=True) for each in (found * 20)[:400]
    ]
    small = [each._replace(slot=n) for n, each in enumerate(small)]
    while planned := plan(NAMES, small):
        small = after(small, planned)

    mean = len(small) / len(NAMES)
    assert highest(small, 0) <= max(1.1 * mean, mean + 1)
