"""Series over time out of what processes counted and one of them sampled."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from queen import errors
from queen.meters import Histogram
from queen.settings import Settings
from queen.store.database import Record
from queen.store.store import Store

COUNTED: Final = (
    "pushed",
    "popped",
    "acked",
    "nacked",
    "dead_lettered",
    "expired",
    "evicted",
    "duplicates",
    "leases_expired",
)
SAMPLED: Final = ("depth", "lag", "oldest_age_seconds")
TIMED: Final = ("wait_millis", "processing_millis")
METRICS: Final = (*COUNTED, *SAMPLED, *TIMED)

MAX_BUCKETS: Final = 2_000
MAX_QUEUES: Final = 1_000
"""Queues that one question sums up."""
_BUCKETS: Final = 120
"""About as many as a question gets that does not say."""
_STEPS: Final = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


class Range(NamedTuple):
    """A time in buckets; all of it in whole buckets, by the database's clock."""

    start: int
    end: int
    bucket_seconds: int

    @property
    def instants(self) -> tuple[datetime, datetime]:
        return datetime.fromtimestamp(self.start, UTC), datetime.fromtimestamp(self.end, UTC)

    @property
    def buckets(self) -> range:
        return range(self.start, self.end, self.bucket_seconds)


Point = dict[str, Any]
"""A bucket: its instant ``t`` and a figure for each metric, None where nothing was recorded."""


class Analytics:
    """Questions about the past of queues."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._database = store.database
        self._settings = settings

    async def range(
        self, start: datetime | None, end: datetime | None, bucket_seconds: int | None
    ) -> Range:
        """The range asked for, bounded; counters are kept by the minute, so that is the least."""
        settings = self._settings
        (row,) = await self._database.fetch("now")
        now: datetime = row["now"]
        last = end or now
        first = start.timestamp() if start else last.timestamp() - _recent_seconds(settings)
        seconds = last.timestamp() - first
        if seconds <= 0:
            raise errors.BadRequest("from must be before to")
        if seconds > settings.analytics_retention_hours * 3600 + 60:
            raise errors.BadRequest(
                f"at most {settings.analytics_retention_hours} hours are kept; ask for less"
            )
        step = bucket_seconds or next((s for s in _STEPS if seconds / s <= _BUCKETS), _STEPS[-1])
        if step % 60 or not 60 <= step <= 86_400:
            raise errors.BadRequest("bucketSeconds must be a multiple of 60, up to 86400")
        begin = int(first // step) * step
        until = -int(-last.timestamp() // step) * step
        if (until - begin) // step > MAX_BUCKETS:
            raise errors.BadRequest(
                f"more than {MAX_BUCKETS} buckets; ask for less, or for larger ones"
            )
        return Range(begin, until, step)

    async def queues(
        self,
        *,
        namespace: str | None = None,
        task: str | None = None,
        queue: str | None = None,
        after: str = "",
        limit: int = MAX_QUEUES,
    ) -> list[Record]:
        """Queues by name."""
        return await self._database.fetch("queues_found", namespace, task, queue, after, limit)

    async def series(
        self, range_: Range, queue_ids: Sequence[int], group: str | None, metrics: Sequence[str]
    ) -> list[Point]:
        """A point a bucket, all of them, in order."""
        points: dict[int, Point] = {
            t: {"t": datetime.fromtimestamp(t, UTC), **dict.fromkeys(metrics)}
            for t in range_.buckets
        }
        arguments = (*range_.instants, range_.bucket_seconds, queue_ids, group)
        for call, names in (("counter_series", COUNTED), ("depth_series", SAMPLED)):
            wanted = [name for name in names if name in metrics]
            if wanted:
                for row in await self._database.fetch(call, *arguments):
                    if (point := points.get(int(row["t"]))) is not None:
                        point.update({name: row[name] for name in wanted})
        if any(name in metrics for name in TIMED):
            rows = await self._database.fetch("latency_series", *arguments)
            for (t, name), histogram in _histograms(rows, "t").items():
                if t in points and name in metrics:
                    points[t][name] = self.percentiles(histogram)
        return list(points.values())

    async def totals(self, range_: Range, queue_ids: Sequence[int]) -> dict[int, Point]:
        """What each queue came to in a range: counts and percentiles."""
        arguments = (*range_.instants, queue_ids)
        totals: dict[int, Point] = {
            queue_id: dict.fromkeys((*COUNTED, *TIMED)) for queue_id in queue_ids
        }
        for row in await self._database.fetch("queue_totals", *arguments):
            totals[row["queue_id"]].update({name: row[name] for name in COUNTED})
        rows = await self._database.fetch("queue_latencies", *arguments)
        for (queue_id, name), histogram in _histograms(rows, "queue_id").items():
            totals[queue_id][name] = self.percentiles(histogram)
        return totals

    async def depths(self, queue_ids: Sequence[int] | None = None) -> list[Record]:
        """What was last sampled; a row a queue (group None) and one a group."""
        return await self._database.fetch("newest_samples", queue_ids)

    def percentiles(self, histogram: Histogram) -> Mapping[str, float] | None:
        """In milliseconds; None of fewer messages than an operator wants to judge by."""
        if histogram.count < max(1, self._settings.analytics_min_completed):
            return None
        return {
            name: round((histogram.percentile(share) or 0.0) * 1000, 3)
            for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
        }


def _recent_seconds(settings: Settings) -> float:
    return min(settings.analytics_recent_hours, settings.analytics_retention_hours) * 3600.0


def _histograms(rows: Sequence[Record], key: str) -> dict[tuple[int, str], Histogram]:
    found: dict[tuple[int, str], Histogram] = {}
    for row in rows:
        name = "wait_millis" if row["is_wait"] else "processing_millis"
        histogram = found.setdefault((int(row[key]), name), Histogram())
        histogram.add({row["bin"]: row["count"]})
    return found
