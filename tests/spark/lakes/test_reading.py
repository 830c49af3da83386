"""Files are chosen by their days."""

# pyright: basic
from datetime import date, datetime

import pytest

from queen.lake.reading import TimeRange


@pytest.mark.parametrize(
    ("start", "end", "days"),
    [
        ("2026-11-18T00:30:00+02:00", None, [17, 18, 19]),
        ("2026-11-17T23:30:00-05:00", None, [18, 19]),
        (None, "2026-11-17T20:00:00-05:00", [17, 18]),
        (None, "2026-11-18T00:30:00+02:00", [17]),
        ("2026-11-18T00:00:00+00:00", "2026-11-18T12:00:00+00:00", [18]),
    ],
)
def test_days_are_those_of_utc(start: str | None, end: str | None, days: list[int]) -> None:
    bounds = [None if each is None else datetime.fromisoformat(each) for each in (start, end)]
    during = TimeRange(*bounds)

    assert [day for day in (17, 18, 19) if during.has_day(date(2026, 11, day))] == days
    assert during.has_day(None)
