"""A day of generated history, so that a new demo has no empty chart."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from queen.cli.dev.demo_streams import STREAMS, Stream
from queen.meters import Histogram
from queen.store.connection.database import Database, Record
from queen.store.connection.options import Connecting

HOURS: Final = 24
_PROCESS: Final = 0
"""The process number of generated counters. Real processes have a random one."""
_MINUTE: Final = timedelta(minutes=1)
_SHORT_STOP: Final = timedelta(minutes=5)
"""A gap that is too short to fill."""
_ROWS_PER_CALL: Final = 100
"""Encoding more at once would delay the requests of the dashboard."""
_SPREAD: Final = ((0.5, 0.3), (1.0, 0.45), (1.6, 0.2), (3.0, 0.05))
"""Times relative to the typical one, and their shares."""
_MESSAGE_BYTES: Final = 60


async def write_history(dsn: str, *, is_pooled: bool = False) -> None:
    """
    Write the counters and samples of the last day for the demo's queues, which have all groups.

    If the database has counters of an earlier demo, only the minutes since then are written.
    """
    database = await Database.open(dsn, Connecting(connections=1, is_pooled=is_pooled))
    try:
        rows = await database.fetch("demo_groups", [each.queue for each in STREAMS])
        # In a thread, because a day takes long enough to delay the requests of the dashboard.
        minutes, samples = await asyncio.to_thread(_history, rows, rows[0]["now"])
        for batch in _batches(minutes):
            await database.fetch("count_minutes", _PROCESS, batch)
        for batch in _batches(samples):
            await database.fetch("keep_samples", batch)
    finally:
        await database.close()


def _history(
    rows: Sequence[Record], now: datetime
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the missing minutes with their counters, and their samples."""
    minutes: list[dict[str, Any]] = []
    samples: list[dict[str, Any]] = []
    minute = _first_minute(rows, now)
    while minute is not None and minute <= now:
        counters = list(_counters(rows, minute, now))
        minutes.append({"minute": minute.isoformat(), "rows": counters})
        samples += _samples(rows, minute)
        minute += _MINUTE
    return minutes, samples


def _batches(rows: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(rows), _ROWS_PER_CALL):
        yield rows[start : start + _ROWS_PER_CALL]


def _first_minute(rows: Sequence[Record], now: datetime) -> datetime | None:
    """Return a day ago, or the minute after an earlier demo ended. None if it ended just now."""
    day_ago = now.astimezone(UTC).replace(second=0, microsecond=0) - timedelta(hours=HOURS)
    counted: list[datetime] = [row["counted_to"] for row in rows if row["counted_to"] is not None]
    if not counted:
        return day_ago
    return None if now - max(counted) < _SHORT_STOP else max(day_ago, max(counted) + _MINUTE)


def _counters(rows: Sequence[Record], minute: datetime, now: datetime) -> Iterator[dict[str, Any]]:
    """Yield the rows of one minute. The current one ends now."""
    seconds = min(60.0, (now - minute).total_seconds())
    for stream in STREAMS:
        pushed = round(stream.rate_at(minute.timestamp() + seconds / 2) * seconds)
        groups = [row for row in rows if row["queue"] == stream.queue]
        for queue_id in {row["queue_id"] for row in groups}:
            yield _row(queue_id, 0, pushed=pushed)
        nacked = round(pushed * stream.failures)
        for row in groups:
            yield _row(
                row["queue_id"],
                row["group_id"],
                popped=pushed + nacked,
                acked=pushed,
                nacked=nacked,
                popped_at=(minute + timedelta(seconds=seconds)).isoformat(),
                wait=_histogram(stream.wait_seconds, pushed + nacked),
                processing=_histogram(stream.work_seconds, pushed + nacked),
            )


def _row(
    queue_id: int,
    group_id: int,
    *,
    wait: Histogram | None = None,
    processing: Histogram | None = None,
    **counts: int | str,
) -> dict[str, Any]:
    """Return the columns of queen.counters."""
    names = "pushed duplicates popped acked nacked dead_lettered expired evicted leases_expired"
    row: dict[str, Any] = dict.fromkeys(names.split(), 0)
    for name, histogram in (("wait", wait), ("processing", processing)):
        bins = {} if histogram is None else histogram.bins
        row[f"{name}_bins"], row[f"{name}_counts"] = list(bins), list(bins.values())
    return {**row, "queue_id": queue_id, "group_id": group_id, **counts}


def _histogram(typical_seconds: float, count: int) -> Histogram:
    histogram = Histogram()
    for factor, share in _SPREAD:
        if number := round(count * share):
            histogram.observe(typical_seconds * factor, number)
    return histogram


def _samples(rows: Sequence[Record], minute: datetime) -> Iterator[dict[str, Any]]:
    """Yield the rows of one minute in queen.samples: one per queue and one per group."""
    for stream in STREAMS:
        for place, row in enumerate(each for each in rows if each["queue"] == stream.queue):
            yield _sample(stream, row["queue_id"], row["group_id"], minute)
            if place == 0:
                yield _sample(stream, row["queue_id"], 0, minute)


def _sample(stream: Stream, queue_id: int, group_id: int, minute: datetime) -> dict[str, Any]:
    depth = round(
        stream.rate_at(minute.timestamp()) * (stream.wait_seconds + 4 * stream.work_seconds)
    )
    leased = min(stream.keys, 2)
    return {
        "minute": minute.isoformat(),
        "queue_id": queue_id,
        "group_id": group_id,
        "sampled_at": minute.isoformat(),
        "depth": depth,
        "oldest_age_seconds": 2 * stream.wait_seconds + stream.work_seconds,
        "deliveries": leased,
        "dead_letters": 0,
        "scheduled": 0,
        "bytes": depth * _MESSAGE_BYTES,
        "ready_partitions": min(stream.keys - leased, depth),
        "leased_partitions": leased,
        "idle_partitions": max(0, stream.keys - leased - depth),
        "is_exact": True,
    }
