"""Time series from the counters and samples of all processes, and from rollups for older times."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from queen import errors
from queen.engine.metrics import ranges
from queen.engine.metrics.ranges import Range
from queen.meters import Histogram
from queen.settings import Settings
from queen.store.connection.database import Record
from queen.store.store import Store
from queen.telemetry import COUNTED

SAMPLED: Final = ("depth", "lag", "oldest_age_seconds")
TIMED: Final = ("wait_millis", "processing_millis")
METRICS: Final = (*COUNTED, *SAMPLED, *TIMED)

MAX_QUEUES: Final = 1_000
"""The most queues that one query sums up."""

_CALLS: Final = {
    "counts": ("counter_series", "rollup_series"),
    "depths": ("depth_series", "rollup_depths"),
    "latencies": ("latency_series", "rollup_latencies"),
    "queue_counts": ("queue_totals", "rollup_totals"),
    "queue_latencies": ("queue_latencies", "rollup_queue_latencies"),
}
"""The calls that read counters and samples, and those that read rollups."""

Point = dict[str, Any]
"""A bucket: its timestamp ``t`` and a value per metric, None where no value was recorded."""


class Analytics:
    """Queries about the history of queues."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._database = store.database
        self._settings = settings

    async def range(
        self, start: datetime | None, end: datetime | None, bucket_seconds: int | None
    ) -> Range:
        """The requested range within limits, and its sources."""
        hours = self._settings.analytics_retention_hours
        (row,) = await self._database.fetch("now")
        now: float = row["now"].timestamp()
        last = end.timestamp() if end else now
        first = start.timestamp() if start else last - _recent_seconds(self._settings)
        if first >= last:
            raise errors.BadRequest("from must be before to")
        asked = ranges.Asked(first, last, bucket_seconds, now - hours * 3600)
        if asked.is_counted:
            return ranges.counted(asked)
        reach = {
            row["grain_seconds"]: row["at"].timestamp()
            for row in await self._database.fetch("rollup_reach")
            if row["at"] is not None
        }
        return ranges.rolled_up(asked, reach, hours)

    async def queues(
        self,
        *,
        namespace: str | None = None,
        task: str | None = None,
        queue: str | None = None,
        after: str = "",
        limit: int = MAX_QUEUES,
        patterns: Sequence[str] | None = None,
    ) -> list[Record]:
        """Queues by name."""
        return await self._database.fetch(
            "queues_found", namespace, task, queue, after, limit, patterns
        )

    async def series(
        self, range_: Range, queue_ids: Sequence[int], group: str | None, metrics: Sequence[str]
    ) -> list[Point]:
        """One point per bucket, in order, without gaps."""
        points: dict[int, Point] = {
            t: {"t": datetime.fromtimestamp(t, UTC), **dict.fromkeys(metrics)}
            for t in range_.buckets
        }
        arguments = (range_.bucket_seconds, queue_ids, group)
        for kind, names in (("counts", COUNTED), ("depths", SAMPLED)):
            if wanted := [name for name in names if name in metrics]:
                async for row in self._rows(range_, kind, *arguments):
                    if (point := points.get(int(row["t"]))) is not None:
                        point.update({name: row[name] for name in wanted})
        if any(name in metrics for name in TIMED):
            rows = [row async for row in self._rows(range_, "latencies", *arguments)]
            for (t, name), histogram in _histograms(rows, "t").items():
                if t in points and name in metrics:
                    points[t][name] = self.percentiles(histogram)
        return list(points.values())

    async def totals(self, range_: Range, queue_ids: Sequence[int]) -> dict[int, Point]:
        """Counts and percentiles of each queue in a range."""
        totals: dict[int, Point] = {
            queue_id: dict.fromkeys((*COUNTED, *TIMED)) for queue_id in queue_ids
        }
        async for row in self._rows(range_, "queue_counts", queue_ids):
            total = totals[row["queue_id"]]
            total.update(
                {name: (total[name] or 0) + row[name] for name in COUNTED if row[name] is not None}
            )
        rows = [row async for row in self._rows(range_, "queue_latencies", queue_ids)]
        for (queue_id, name), histogram in _histograms(rows, "queue_id").items():
            totals[queue_id][name] = self.percentiles(histogram)
        return totals

    async def _rows(self, range_: Range, kind: str, *arguments: object) -> AsyncIterator[Record]:
        """Rows of a kind, from rollups and from counters, each for its part of the range."""
        counters, rollups = _CALLS[kind]
        if (time := range_.rolled_up) is not None:
            for row in await self._database.fetch(rollups, *time, *arguments, range_.grain_seconds):
                yield row
        if (time := range_.counted) is not None:
            for row in await self._database.fetch(counters, *time, *arguments):
                yield row

    async def depths(self, queue_ids: Sequence[int] | None = None) -> list[Record]:
        """The last samples, one row per queue (group None) and one per group."""
        return await self._database.fetch("newest_samples", queue_ids)

    def percentiles(self, histogram: Histogram) -> Mapping[str, float] | None:
        """Percentiles in milliseconds, or None if there are too few messages for them."""
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
