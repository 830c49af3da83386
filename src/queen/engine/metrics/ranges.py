"""Which time a question is about, in buckets of which size, and what answers each of them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple

from queen import errors

MAX_BUCKETS: Final = 2_000
_BUCKETS: Final = 120
"""About as many as a question gets that does not say."""
_STEPS: Final = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_DAY: Final = 86_400

Reach = Mapping[int, float]
"""The oldest instant that rollups know, by their grain in seconds; those that know any."""


class Range(NamedTuple):
    """A time in buckets; all of it in whole buckets, by the database's clock."""

    start: int
    end: int
    bucket_seconds: int
    cut: int = 0
    """Counters answer buckets from here on, rollups of ``grain_seconds`` those before."""
    grain_seconds: int | None = None

    @property
    def instants(self) -> tuple[datetime, datetime]:
        return _instant(self.start), _instant(self.end)

    @property
    def buckets(self) -> range:
        return range(self.start, self.end, self.bucket_seconds)

    @property
    def counted(self) -> tuple[datetime, datetime] | None:
        """What counters answer."""
        start = max(self.start, self.cut)
        return (_instant(start), _instant(self.end)) if start < self.end else None

    @property
    def rolled_up(self) -> tuple[datetime, datetime] | None:
        """What rollups answer."""
        end = min(self.end, self.cut)
        return (_instant(self.start), _instant(end)) if self.start < end else None


class Asked(NamedTuple):
    """A question's time, bounded, and the instant from which on counters know."""

    start: float
    end: float
    bucket_seconds: int | None
    counted_from: float

    @property
    def seconds(self) -> float:
        return self.end - self.start

    @property
    def is_counted(self) -> bool:
        """Whether counters know all of it, but for a minute: they are kept by the minute."""
        return self.start >= self.counted_from - 60


def counted(asked: Asked) -> Range:
    """A range that counters answer; they are kept by the minute, so that is the least."""
    return _buckets(asked, _step(asked, _STEPS[0]))


def rolled_up(asked: Asked, reach: Reach, hours: int) -> Range:
    """
    A range that begins before what counters keep.

    A bucket is answered by counters if all of it is in their time, else by rollups of the coarsest
    grain that it is a multiple of. Raises BadRequest where nothing is kept of that time.
    """
    if not reach or min(reach.values()) >= asked.end:
        if asked.end > asked.counted_from and asked.seconds <= hours * 3600 + 60:
            return counted(asked)
        raise errors.BadRequest(
            f"counters are kept for {hours} hours, and no rollups of that time; ask for less"
        )
    # As far as asked for, or as far as any: days begin before their first minute.
    oldest = max(asked.start, min(reach.values()) + _DAY)
    grains = [grain for grain, at in reach.items() if at <= oldest]
    step = _step(asked, min(grains))
    grain = max(grain for grain in grains if step % grain == 0)
    range_ = _buckets(asked, step)
    return range_._replace(cut=-int(-asked.counted_from // step) * step, grain_seconds=grain)


def _step(asked: Asked, least: int) -> int:
    """The size of a bucket: as asked for, or such that there are not too many."""
    step = asked.bucket_seconds or next(
        (s for s in _STEPS if s % least == 0 and asked.seconds / s <= _BUCKETS), _STEPS[-1]
    )
    if step % 60 or not 60 <= step <= _DAY:
        raise errors.BadRequest("bucketSeconds must be a multiple of 60, up to 86400")
    if step % least:
        raise errors.BadRequest(
            f"so far back figures are kept by {least} seconds: bucketSeconds must be a multiple"
        )
    return step


def _buckets(asked: Asked, step: int) -> Range:
    begin = int(asked.start // step) * step
    until = -int(-asked.end // step) * step
    if (until - begin) // step > MAX_BUCKETS:
        raise errors.BadRequest(
            f"more than {MAX_BUCKETS} buckets; ask for less, or for larger ones"
        )
    return Range(begin, until, step)


def _instant(seconds: int) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
