"""A limit is divided by demand."""

import pytest

from queen.cluster.spread.limits.division import Use, divide, turn_at


def busy(share: int) -> Use:
    """A database that needs more than its share."""
    return Use(share, used=share, is_ready=True, has_slots=True)


def kept_up(share: int, used: int) -> Use:
    """A database that has delivered all its messages."""
    return Use(share, used, is_ready=False, has_slots=True)


IDLE = kept_up(0, 0)


def test_databases_that_need_more_get_equal_parts() -> None:
    assert divide(10, [busy(10), busy(0), busy(0)], 0) == [6, 2, 2]
    assert divide(10, [busy(6), busy(2), busy(2)], 0) == [4, 3, 3]


def test_a_database_keeps_as_much_as_it_uses() -> None:
    assert divide(100, [kept_up(50, 8), busy(50), IDLE], 0) == [9, 90, 1]


def test_all_databases_have_a_part_of_an_unused_limit() -> None:
    assert divide(10, [kept_up(10, 0), IDLE, IDLE], 0) == [4, 3, 3]
    assert divide(10, [kept_up(4, 2), kept_up(3, 1), kept_up(3, 0)], 0) == [4, 3, 3]


def test_databases_take_turns_with_a_limit_below_their_number() -> None:
    turns = [divide(1, [busy(1), busy(0), busy(0)], turn) for turn in range(3)]
    assert turns == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert divide(2, [busy(0), IDLE, busy(0)], 5) == [1, 0, 1]


def test_a_database_without_slots_gets_nothing() -> None:
    gone = Use(4, 0, is_ready=False, has_slots=False)
    assert divide(10, [gone, busy(6)], 0) == [0, 10]
    assert divide(10, [gone, kept_up(6, 2)], 0) == [0, 10]


def test_a_lower_limit_is_divided_evenly() -> None:
    assert divide(3, [busy(3), busy(3), busy(3)], 0) == [1, 1, 1]
    assert divide(0, [busy(0), busy(0)], 1) == [0, 0]


@pytest.mark.parametrize("period", [8, 12, 60, 120, 3600])
@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_a_rate_of_one_message_per_period_reaches_all_databases(period: int, count: int) -> None:
    """The database that has its turn claims the message when the period ends."""
    times = range(1_700_000_000, 1_700_000_000 + 60 * period, period)
    found = [divide(1, [busy(0)] * count, turn_at(time)).index(1) for time in times]
    assert {*found} == {*range(count)}
