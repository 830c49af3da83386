"""A day of past metrics, so that charts have data."""

import math
from datetime import datetime, timedelta

import asyncpg

_HOURS = 26
_PROCESS = 1


async def write_history(dsn: str) -> None:
    """Write counters and samples of all queues per minute, with a busy noon and a short outage."""
    connection = await asyncpg.connect(dsn)
    try:
        queues = await connection.fetch("select id, created_at from queen.queues order by name")
        # The server counts newer events itself.
        now = min(each["created_at"] for each in queues).replace(second=0, microsecond=0)
        for place, queue in enumerate(queues):
            minutes = [now - timedelta(minutes=each) for each in range(1, _HOURS * 60)]
            kept = [each for each in minutes if not 600 <= (now - each).seconds < 840]
            await connection.copy_records_to_table(
                "counters",
                schema_name="queen",
                records=[_counters(queue["id"], each, place) for each in kept],
            )
            await connection.copy_records_to_table(
                "samples",
                schema_name="queen",
                records=[_sample(queue["id"], each, place) for each in kept],
            )
    finally:
        await connection.close()


def _wave(at: datetime, place: int) -> float:
    minute = at.timestamp() / 60
    return 1 + math.sin(minute / 17 + place) * 0.5 + math.sin(minute / 3.1 + place * 2) * 0.15


def _counters(queue_id: int, at: datetime, place: int) -> tuple[object, ...]:
    pushed = int(900 * _wave(at, place) / (1 + place))
    popped = int(pushed * 0.98)
    nacked = int(pushed * 0.01)
    flow = (pushed, 0, popped, popped - nacked, nacked, 0, 0, 0, 0)
    bins = ([40, 44, 50], [popped // 2, popped // 3, popped // 20])
    return (at, queue_id, 0, _PROCESS, *flow, at, *bins, *bins)


def _sample(queue_id: int, at: datetime, place: int) -> tuple[object, ...]:
    depth = int(400 * _wave(at - timedelta(minutes=5), place) / (1 + place))
    age = 3 + 4 * _wave(at, place)
    return (at, queue_id, 0, at, depth, age, 2, 0, 0, depth * 200, 3, 1, 4, True, 200)
