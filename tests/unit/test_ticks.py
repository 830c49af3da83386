"""The ticks of a cron expression, also where clocks jump; checked against croniter."""

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
"""A day before clocks in Rome go from 2:00 to 3:00."""
AUTUMN = datetime(2027, 10, 30, 12, tzinfo=UTC)
"""A day before they go from 3:00 back to 2:00."""


def local(cron: str, after: datetime, count: int, zone: str = ROME) -> list[str]:
    """The next ticks as clocks there show them."""
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
def test_another_library_finds_the_same_ticks(cron: str, zone: str) -> None:
    after = datetime(2026, 5, 4, 10, 30, 30, 500, tzinfo=UTC)  # No jump for months.
    theirs = croniter(cron, after.astimezone(ZoneInfo(zone)))

    ours = list(islice(ticks(cron, zone, after), 40))

    expected = [theirs.get_next(datetime) for _ in range(40)]
    until = after + timedelta(days=100)
    assert [each for each in ours if each < until] == [each for each in expected if each < until]
    if "29 2" in cron:
        assert [each.year for each in ours[:2]] == [2028, 2032]


@pytest.mark.parametrize("cron", ["30 2 * * *", "0 */6 * * *", "*/20 * * * *", "0,30 2,3 * * *"])
@pytest.mark.parametrize("after", [SPRING, AUTUMN])
def test_five_fields_are_what_debian_makes_of_them(cron: str, after: datetime) -> None:
    theirs = CronSim(cron, after.astimezone(ZoneInfo(ROME)))

    expected = [each.astimezone(UTC) for each in islice(theirs, 60)]
    assert list(islice(ticks(cron, ROME, after), 60)) == expected


def test_a_time_that_clocks_jump_over_comes_when_they_have_jumped() -> None:
    assert local("30 2 * * *", SPRING, 2) == ["28 03:00:00 +0200", "29 02:30:00 +0200"]
    assert local("15 30 2 * * *", SPRING, 2) == ["28 03:00:00 +0200", "29 02:30:15 +0200"]


def test_a_time_that_clocks_show_twice_comes_once() -> None:
    assert local("30 2 * * *", AUTUMN, 2) == ["31 02:30:00 +0200", "01 02:30:00 +0100"]
    assert local("15 30 2 * * *", AUTUMN, 2) == ["31 02:30:15 +0200", "01 02:30:15 +0100"]
    # Seen from the second time that it is 2:10: not back in time.
    again = datetime(2027, 10, 31, 1, 10, tzinfo=UTC)
    assert local("30 2 * * *", again, 1) == ["01 02:30:00 +0100"]


@pytest.mark.parametrize("after", [SPRING, AUTUMN])
@pytest.mark.parametrize(("cron", "step"), [("* * * * *", 60), ("0 * * * *", 3600)])
def test_what_comes_all_the_time_is_never_late_or_twice(
    cron: str, step: int, after: datetime
) -> None:
    found = list(islice(ticks(cron, ROME, after), 2 * 86_400 // step))
    assert {(later - each).total_seconds() for each, later in pairwise(found)} == {step}


def test_seconds_come_first() -> None:
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
def test_what_is_no_expression_is_refused(cron: str) -> None:
    with pytest.raises(errors.InvalidOption):
        next_tick(cron, "UTC", SPRING)


@pytest.mark.parametrize("zone", ["", "Europe", "Rome", "../etc/passwd", "\0", "Europe/Rome/"])
def test_what_is_no_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(errors.InvalidOption):
        next_tick("* * * * *", zone, SPRING)


@pytest.mark.parametrize(
    ("missed", "pushed"), [("skip", []), ("once", [0]), ("all", [0, 1, 2])], ids=str
)
def test_what_becomes_of_missed_ticks_is_what_was_asked_for(missed: str, pushed: list[int]) -> None:
    first = datetime(2026, 1, 1, 8, tzinfo=UTC)
    now = datetime(2026, 1, 1, 10, 30, tzinfo=UTC)

    found, next_ = due("0 * * * *", "UTC", first, now, missed=missed, most=20)

    assert found == [first + timedelta(hours=each) for each in pushed]
    assert next_ == datetime(2026, 1, 1, 11, tzinfo=UTC)


@pytest.mark.parametrize("missed", ["skip", "once", "all"])
def test_ticks_that_are_a_little_late_are_all_pushed(missed: str) -> None:
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
