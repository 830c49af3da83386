"""The time range of a query, its bucket size, and the source of each bucket."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from queen import errors

MAX_BUCKETS: Final = 2_000
_BUCKETS: Final = 120
"""The approximate number of buckets if the request names no size."""
_STEPS: Final = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_DAY: Final = 86_400

Reach = Mapping[int, float]
"""The oldest time with rollups, by their grain in seconds."""


class Range(NamedTuple):
    """A time range of whole buckets, by the database's clock."""

    start: int
    end: int
    bucket_seconds: int
    cut: int = 0
    """Buckets from here on come from counters, earlier ones from rollups of ``grain_seconds``."""
    grain_seconds: int | None = None

    @property
    def instants(self) -> tuple[datetime, datetime]:
        return _instant(self.start), _instant(self.end)

    @property
    def buckets(self) -> range:
        return range(self.start, self.end, self.bucket_seconds)

    @property
    def counted(self) -> tuple[datetime, datetime] | None:
        """The part that counters cover."""
        start = max(self.start, self.cut)
        return (_instant(start), _instant(self.end)) if start < self.end else None

    @property
    def rolled_up(self) -> tuple[datetime, datetime] | None:
        """The part that rollups cover."""
        end = min(self.end, self.cut)
        return (_instant(self.start), _instant(end)) if self.start < end else None


class Asked(NamedTuple):
    """The requested range within limits, and the time since which counters exist."""

    start: float
    end: float
    bucket_seconds: int | None
    counted_from: float

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def is_counted(self) -> bool:
        """Whether counters cover all of it, give or take the minute that is their resolution."""
        return self.start >= self.counted_from - 60


def counted(asked: Asked) -> Range:
    """A range from counters. Their resolution is one minute, so that is the smallest bucket."""
    return _buckets(asked, _step(asked, _STEPS[0]))


def rolled_up(asked: Asked, reach: Reach, hours: int) -> Range:
    """
    A range that begins before the oldest counters.

    A bucket comes from counters if they cover all of it. Otherwise it comes from rollups of the
    coarsest grain that divides it. Raises BadRequest if the history does not reach back that far.
    """
    if not reach or min(reach.values()) >= asked.end:
        if asked.end > asked.counted_from and asked.seconds <= hours * 3600 + 60:
            return counted(asked)
        raise errors.BadRequest(
            f"counters are kept for {hours} hours, and that time has no rollups; ask for less"
        )
    # The requested start, or the oldest rollup: a day's rollup begins before its first minute.
    oldest = max(asked.start, min(reach.values()) + _DAY)
    grains = [grain for grain, at in reach.items() if at <= oldest]
    step = _step(asked, min(grains))
    grain = max(grain for grain in grains if step % grain == 0)
    range_ = _buckets(asked, step)
    return range_._replace(cut=-int(-asked.counted_from // step) * step, grain_seconds=grain)


def _step(asked: Asked, least: int) -> int:
    """The bucket size: as requested, or one that limits the number of buckets."""
    step = asked.bucket_seconds or next(
        (s for s in _STEPS if s % least == 0 and asked.seconds / s <= _BUCKETS), _STEPS[-1]
    )
    if step % 60 or not 60 <= step <= _DAY:
        raise errors.BadRequest("bucketSeconds must be a multiple of 60, up to 86400")
    if step % least:
        raise errors.BadRequest(
            f"bucketSeconds must be a multiple of {least} for metrics of that age"
        )
    return step


def _buckets(asked: Asked, step: int) -> Range:
    begin = int(asked.start // step) * step
    until = -int(-asked.end // step) * step
    if (until - begin) // step > MAX_BUCKETS:
        raise errors.BadRequest(
            f"more than {MAX_BUCKETS} buckets; ask for a shorter range or larger buckets"
        )
    return Range(begin, until, step)


def _instant(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
