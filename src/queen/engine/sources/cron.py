"""The times of a cron expression in a time zone, and the handling of missed ones."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim

from queen import errors

LATE: Final = timedelta(seconds=60)
"""A tick that is later than this is missed."""
_MOST_LETTERS: Final = 255
_NAMES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
_INSTANT: Final = timedelta(microseconds=1)
_MINUTE: Final = timedelta(minutes=1)


@lru_cache(maxsize=1_000)
def zone_of(name: str) -> tzinfo:
    """A time zone by its name. Raises InvalidOption."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise errors.InvalidOption(
            f"timeZone {name!r} is unknown; use a name like Europe/Rome"
        ) from error


def next_tick(cron: str, time_zone: str, after: datetime) -> datetime | None:
    """The first tick after a time, or None if there is none in 50 years. Raises InvalidOption."""
    return next(ticks(cron, time_zone, after), None)


def first_tick(cron: str, time_zone: str, after: datetime) -> datetime:
    """The first tick of a new schedule. Raises InvalidOption, also if it would never run."""
    tick = next_tick(cron, time_zone, after)
    if tick is None:
        raise errors.InvalidOption(f"cron {cron}: it matches no day of the next 50 years")
    return tick


def ticks(cron: str, time_zone: str, after: datetime) -> Iterator[datetime]:
    """
    The ticks after a time, in UTC.

    If the expression names hours and minutes, a tick is a time of day. If the clocks skip it, it
    runs right after the change. If the clocks repeat it, it runs the first time. Otherwise the
    interval between ticks is constant, independent of clock changes.
    """
    zone = zone_of(time_zone)
    text = _NAMES.get(cron, cron)
    local = after.astimezone(zone)
    fields = text.split()
    is_of_day = len(fields) >= 5 and not any(each.startswith("*") for each in fields[-5:-3])
    try:
        if len(cron) > _MOST_LETTERS:
            raise ValueError(f"more than {_MOST_LETTERS} characters")
        found = CronSim(text, local.replace(tzinfo=None, fold=0) if is_of_day else local)
    except Exception as error:  # The parser sees untrusted text, so this includes its own bugs.
        raise errors.InvalidOption(
            f"cron {cron[:100]!r}: {error or 'not an expression'}; write five fields like "
            "0 8 * * 1-5, or six with seconds first"
        ) from error
    for each in found:
        tick = _real(each, zone) if is_of_day else each.astimezone(UTC)
        if tick > after:  # Not the first of two repeated hours, seen from the second.
            after = tick
            yield tick


def _real(local: datetime, zone: tzinfo) -> datetime:
    """A time of day in UTC. If the clocks skip it, the time right after the change."""
    while True:
        instant = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
        if instant.astimezone(zone).replace(tzinfo=None) == local:
            return instant
        local = local.replace(second=0) + _MINUTE


def due(
    cron: str, time_zone: str, tick: datetime, now: datetime, *, missed: str, most: int
) -> tuple[list[datetime], datetime | None]:
    """
    The due ticks to push, from ``tick`` on, and the next tick.

    Missed ticks are dropped (``skip``), pushed once for the first of them (``once``), or all pushed
    (``all``).
    """
    found: list[datetime] = []
    first: datetime | None = tick
    if missed != "all" and tick < now - LATE:
        if missed == "once":
            found.append(tick)
        first = next_tick(cron, time_zone, now - LATE - _INSTANT)
    if first is None:
        return found, None
    following = ticks(cron, time_zone, first)
    while first is not None and first <= now and len(found) < most:
        found.append(first)
        first = next(following, None)
    return found, first
