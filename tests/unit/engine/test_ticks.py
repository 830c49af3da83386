"""Ticks of cron expressions, also around clock changes, compared with croniter."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter
from cronsim import CronSim

from queen import errors
from queen.engine.sources.cron import due, next_tick, ticks

ROME = "Europe/Rome"
SPRING = datetime(2027, 3, 27, 12, tzinfo=UTC)
"""The day before clocks in Rome change from 2:00 to 3:00."""
AUTUMN = datetime(2027, 10, 30, 12, tzinfo=UTC)
"""The day before they change from 3:00 back to 2:00."""


def local(cron: str, after: datetime, count: int, zone: str = ROME) -> list[str]:
    """The next ticks in local time."""
    found = islice(ticks(cron, zone, after), count)
    return [each.astimezone(ZoneInfo(zone)).strftime("%d %H:%M:%S %z") for each in found]


@pytest.mark.parametrize("zone", ["UTC", ROME, "America/New_York", "Asia/Kolkata"])
@pytest.mark.parametrize(
    "cron",
    [
        "* * * * *",
        "*/7 * * * *",
        "0 8 * * 1-5",
        "30 6,18 1,15 * *",
        "0 0 29 2 *",
        "15 10 * jan,jul mon",
        "0 12 * * 0",
        "0 12 * * 7",
    ],
)
def test_croniter_finds_the_same_ticks(cron: str, zone: str) -> None:
    after = datetime(2026, 5, 4, 10, 30, 30, 500, tzinfo=UTC)  # No clock change for months.
    theirs = croniter(cron, after.astimezone(ZoneInfo(zone)))

    ours = list(islice(ticks(cron, zone, after), 40))

    expected = [theirs.get_next(datetime) for _ in range(40)]
    until = after + timedelta(days=100)
    assert [each for each in ours if each < until] == [each for each in expected if each < until]
    if "29 2" in cron:
        assert [each.year for each in ours[:2]] == [2028, 2032]


@pytest.mark.parametrize("cron", ["30 2 * * *", "0 */6 * * *", "*/20 * * * *", "0,30 2,3 * * *"])
@pytest.mark.parametrize("after", [SPRING, AUTUMN])
def test_five_fields_have_the_meaning_of_debians_cron(cron: str, after: datetime) -> None:
    theirs = CronSim(cron, after.astimezone(ZoneInfo(ROME)))

    expected = [each.astimezone(UTC) for each in islice(theirs, 60)]
    assert list(islice(ticks(cron, ROME, after), 60)) == expected


def test_a_skipped_time_ticks_right_after_the_clock_change() -> None:
    assert local("30 2 * * *", SPRING, 2) == ["28 03:00:00 +0200", "29 02:30:00 +0200"]
    assert local("15 30 2 * * *", SPRING, 2) == ["28 03:00:00 +0200", "29 02:30:15 +0200"]


def test_a_repeated_time_ticks_once() -> None:
    assert local("30 2 * * *", AUTUMN, 2) == ["31 02:30:00 +0200", "01 02:30:00 +0100"]
    assert local("15 30 2 * * *", AUTUMN, 2) == ["31 02:30:15 +0200", "01 02:30:15 +0100"]
    # From the second 2:10: the next tick is not in the past.
    again = datetime(2027, 10, 31, 1, 10, tzinfo=UTC)
    assert local("30 2 * * *", again, 1) == ["01 02:30:00 +0100"]


@pytest.mark.parametrize("after", [SPRING, AUTUMN])
@pytest.mark.parametrize(("cron", "step"), [("* * * * *", 60), ("0 * * * *", 3600)])
def test_frequent_ticks_are_never_late_or_repeated(cron: str, step: int, after: datetime) -> None:
    found = list(islice(ticks(cron, ROME, after), 2 * 86_400 // step))
    assert {(later - each).total_seconds() for each, later in pairwise(found)} == {step}


def test_a_sixth_field_at_the_start_is_seconds() -> None:
    after = datetime(2026, 1, 1, tzinfo=UTC)
    assert next_tick("*/15 * * * * *", "UTC", after) == after + timedelta(seconds=15)


def test_names_stand_for_expressions() -> None:
    after = datetime(2026, 1, 1, tzinfo=UTC)
    assert next_tick("@daily", ROME, after) == datetime(2026, 1, 1, 23, tzinfo=UTC)


@pytest.mark.parametrize(
    "cron",
    [
        "",
        "a",
        "* * * *",
        "60 * * * *",
        "0 0 31 2 *",
        "* * * * 5L/2",
        "* * * * 1,2L/2",
        "0 " * 200,
        "1-9999999999999 * * * *",
        "*/0 * * * *",
        "\0 * * * *",
        "@never",
        "٣ * * * *",
    ],
)
def test_an_invalid_expression_is_rejected(cron: str) -> None:
    with pytest.raises(errors.InvalidOption):
        next_tick(cron, "UTC", SPRING)


@pytest.mark.parametrize("zone", ["", "Europe", "Rome", "../etc/passwd", "\0", "Europe/Rome/"])
def test_an_invalid_time_zone_is_rejected(zone: str) -> None:
    with pytest.raises(errors.InvalidOption):
        next_tick("* * * * *", zone, SPRING)


@pytest.mark.parametrize(
    ("missed", "pushed"), [("skip", []), ("once", [0]), ("all", [0, 1, 2])], ids=str
)
def test_missed_ticks_follow_their_policy(missed: str, pushed: list[int]) -> None:
    first = datetime(2026, 1, 1, 8, tzinfo=UTC)
    now = datetime(2026, 1, 1, 10, 30, tzinfo=UTC)

    found, next_ = due("0 * * * *", "UTC", first, now, missed=missed, most=20)

    assert found == [first + timedelta(hours=each) for each in pushed]
    assert next_ == datetime(2026, 1, 1, 11, tzinfo=UTC)


@pytest.mark.parametrize("missed", ["skip", "once", "all"])
def test_slightly_late_ticks_are_all_pushed(missed: str) -> None:
    first = datetime(2026, 1, 1, 8, tzinfo=UTC)
    now = first + timedelta(seconds=9.5)

    found, next_ = due("* * * * * *", "UTC", first, now, missed=missed, most=20)

    assert found == [first + timedelta(seconds=each) for each in range(10)]
    assert next_ == first + timedelta(seconds=10)


def test_many_ticks_are_pushed_in_steps() -> None:
    first = datetime(2026, 1, 1, 8, tzinfo=UTC)

    found, next_ = due(
        "* * * * * *", "UTC", first, first + timedelta(days=30), missed="all", most=20
    )

    assert (len(found), next_) == (20, first + timedelta(seconds=20))
