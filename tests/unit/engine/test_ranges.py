"""Time ranges in buckets, and the source of each bucket."""

import pytest

from queen import errors
from queen.engine.metrics.ranges import MAX_BUCKETS, Asked, counted, rolled_up

HOUR = 3_600
DAY = 86_400
NOW = 20_000 * DAY + 5 * HOUR + 7
KEPT = NOW - 7 * DAY
REACH = {60: NOW - 7.0 * DAY, HOUR: NOW - 90.0 * DAY, DAY: NOW - 1_000.0 * DAY}


def asked(days: float, bucket_seconds: int | None = None, *, until: float = 0) -> Asked:
    return Asked(NOW - days * DAY, NOW - until * DAY, bucket_seconds, KEPT)


@pytest.mark.parametrize(
    ("days", "bucket_seconds"), [(1 / 24, 60), (1, 900), (7, 7_200), (6.9999, 7_200)]
)
def test_a_range_has_about_a_hundred_buckets(days: float, bucket_seconds: int) -> None:
    range_ = counted(asked(days))

    assert range_.bucket_seconds == bucket_seconds
    assert 60 <= len(range_.buckets) <= 121
    assert range_.start <= NOW - days * DAY
    assert range_.end >= NOW
    assert (range_.counted, range_.rolled_up) == (range_.instants, None)


@pytest.mark.parametrize(
    ("days", "given", "bucket_seconds", "grain"),
    [
        (8, None, 2 * HOUR, HOUR),
        (8, HOUR, HOUR, HOUR),
        (90, None, DAY, DAY),
        (90, 6 * HOUR, 6 * HOUR, HOUR),
        (900, None, DAY, DAY),
        (5_000, DAY, None, None),
        (91, HOUR, None, None),
        (8, 60, None, None),
        (8, 90 * 60, None, None),
    ],
)
def test_a_bucket_uses_the_finest_resolution_that_covers_the_range(
    days: float, given: int | None, bucket_seconds: int | None, grain: int | None
) -> None:
    if bucket_seconds is None:
        with pytest.raises(errors.BadRequest):
            rolled_up(asked(days, given), REACH, 168)
        return
    range_ = rolled_up(asked(days, given), REACH, 168)
    assert (range_.bucket_seconds, range_.grain_seconds) == (bucket_seconds, grain)


def test_a_bucket_comes_from_rollups_or_from_counters() -> None:
    range_ = rolled_up(asked(90), REACH, 168)

    assert range_.rolled_up is not None
    assert range_.counted is not None
    assert range_.rolled_up[0] == range_.instants[0]
    assert range_.rolled_up[1] == range_.counted[0]
    assert range_.counted[1] == range_.instants[1]
    assert 0 <= range_.counted[0].timestamp() - KEPT < DAY


def test_an_old_range_comes_only_from_rollups() -> None:
    range_ = rolled_up(asked(60, until=30), REACH, 168)

    assert (range_.counted, range_.rolled_up) == (None, range_.instants)


def test_a_young_installation_has_every_resolution_from_its_start() -> None:
    first = NOW - 20 * DAY
    reach = {60: first, HOUR: first // HOUR * HOUR, DAY: first // DAY * DAY}

    assert rolled_up(asked(40, HOUR), reach, 168).grain_seconds == HOUR
    assert rolled_up(asked(30, 30 * 60), reach, 168).grain_seconds == 60


@pytest.mark.parametrize(
    ("question", "is_refused"),
    [
        (asked(8), True),
        (asked(8, until=7.5), True),
        # A day on which counters begin.
        (asked(7.5, until=6.5), False),
    ],
)
def test_without_rollups_only_counters_are_used(question: Asked, *, is_refused: bool) -> None:
    assert not question.is_counted
    if is_refused:
        with pytest.raises(errors.BadRequest, match="168 hours"):
            rolled_up(question, {}, 168)
    else:
        assert rolled_up(question, {}, 168) == counted(question)


def test_the_number_of_buckets_is_limited() -> None:
    assert len(counted(asked(1, 60)).buckets) <= MAX_BUCKETS
    with pytest.raises(errors.BadRequest):
        counted(asked(2, 60))
