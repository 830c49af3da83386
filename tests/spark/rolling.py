"""Counters, samples and a log of many hours, and their expected history, computed separately."""

# pyright: basic

import json
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Self

import asyncpg

from queen.engine.engine import Engine
from queen.spark.pipelines.rollup import DAY, HOUR, MINUTE
from tests.engine.helpers import pop, push
from tests.support.clock import Clock

BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
COUNTS = (
    "duplicates",
    "popped",
    "acked",
    "nacked",
    "dead_lettered",
    "expired",
    "evicted",
    "leases_expired",
)
Row = dict[str, Any]
Key = tuple[datetime, int, int]


class Database:
    """
    A SQL connection to the database of a test.

    Usage::

        async with Database.open(dsn) as database:
            await database.rollups(MINUTE)
    """

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._connection = connection

    @classmethod
    @asynccontextmanager
    async def open(cls, dsn: str) -> AsyncIterator[Self]:
        connection = await asyncpg.connect(dsn)
        try:
            yield cls(connection)
        finally:
            await connection.close()

    async def rows(self, text: str, *arguments: object) -> list[Row]:
        return [dict(row) for row in await self._connection.fetch(text, *arguments)]

    async def count(self, process: int, minute: datetime, *rows: Row) -> None:
        """Store counters as a process does."""
        empty = {"wait_bins": [], "wait_counts": [], "processing_bins": [], "processing_counts": []}
        texts = json.dumps([{**dict.fromkeys(("pushed", *COUNTS), 0), **empty, **r} for r in rows])
        await self.rows("select queen.count($1, $2, $3)", process, minute, texts)

    async def sample(self, minute: datetime, queue_id: int, group_id: int, depth: int) -> None:
        await self.rows(
            """
            insert into queen.samples (
              minute, queue_id, group_id, sampled_at, depth, oldest_age_seconds, deliveries,
              dead_letters, scheduled, is_exact
            )
            values ($1, $2, $3, $1, $4, $5, 0, 0, 0, true)
            """,
            minute,
            queue_id,
            group_id,
            depth,
            depth / 2,
        )

    async def ids(self) -> tuple[dict[str, int], dict[tuple[int, str], int]]:
        """Queues by name, and groups by queue and name."""
        queues = await self.rows("select id, name from queen.queues")
        groups = await self.rows("select id, queue_id, name from queen.groups")
        return (
            {row["name"]: row["id"] for row in queues},
            {(row["queue_id"], row["name"]): row["id"] for row in groups},
        )

    async def rollups(self, grain: int) -> dict[Key, Row]:
        """The rows of a grain, without the number of events that they include."""
        rows = await self.rows("select * from queen.rollups where grain_seconds = $1", grain)
        for row in rows:
            del row["xid"], row["grain_seconds"]
        return {(row.pop("at"), row.pop("queue_id"), row.pop("group_id")): row for row in rows}


async def fill(engine: Engine, clock: Clock, database: Database, *, times: int = 40) -> None:
    """Create two queues, three groups and three processes over 26 hours, or longer with `times`."""
    rng = random.Random(7)
    for queue, groups in (("orders", ("audit", "billing")), ("mails", (None,))):
        await push(engine, queue, 0)
        for group in groups:
            await pop(engine, queue, group=group)
    _, groups = await database.ids()
    for _ in range(times):
        await clock.advance(seconds=rng.choice((7, 60, 61, 3_000, 5_400)))
        minute = (await clock.now()).replace(second=0, microsecond=0)
        for queue in ("orders", "mails"):
            await push(
                engine, queue, *("x" * rng.randrange(50) for _ in range(rng.randrange(1, 9)))
            )
        for (queue_id, _), group_id in groups.items():
            for process in rng.sample((1, 2, 3), 2):
                bins = rng.sample(range(128), rng.randrange(6))
                row = {
                    "queue_id": queue_id,
                    "group_id": group_id,
                    **{name: rng.randrange(100) for name in COUNTS},
                    **{f"{name}_bins": bins for name in ("wait", "processing")},
                    "wait_counts": [rng.randrange(1, 9) for _ in bins],
                    "processing_counts": [rng.randrange(1, 9) for _ in bins],
                }
                # The row of the queue. Its count of pushes differs from the log on purpose.
                own = {"queue_id": queue_id, "group_id": 0, "pushed": 1_000, "duplicates": 1}
                await database.count(process, minute, row, own)
        await sample_once(database, rng, minute, groups)
    await clock.advance(seconds=60)


async def sample_once(
    database: Database, rng: random.Random, minute: datetime, groups: dict[tuple[int, str], int]
) -> None:
    if not await database.rows("select from queen.samples where minute = $1", minute):
        for queue_id in {queue_id for queue_id, _ in groups}:
            await database.sample(minute, queue_id, 0, rng.randrange(1_000))
        for (queue_id, _), group_id in groups.items():
            await database.sample(minute, queue_id, group_id, rng.randrange(1_000))


async def expected(database: Database, grain: int) -> dict[Key, Row]:
    """The expected rows in plain Python, computed for each grain from the tables."""

    def period(at: datetime) -> datetime:
        return datetime.fromtimestamp(at.timestamp() // grain * grain, UTC)

    found: defaultdict[Key, Row] = defaultdict(
        lambda: {
            **dict.fromkeys(("pushed", "bytes", *COUNTS, "samples", "depth_sum"), 0),
            **{"wait": Counter(), "processing": Counter(), "depths": [], "ages": []},
        }
    )
    for row in await database.rows(
        "select created_at, queue_id, message_count, body from queen.segments"
    ):
        one = found[period(row["created_at"]), row["queue_id"], 0]
        one["pushed"] += row["message_count"]
        one["bytes"] += len(row["body"])
    for row in await database.rows("select * from queen.counters"):
        one = found[period(row["minute"]), row["queue_id"], row["group_id"]]
        for name in COUNTS:
            one[name] += row[name]
        for name in ("wait", "processing"):
            one[name].update(dict(zip(row[f"{name}_bins"], row[f"{name}_counts"], strict=True)))
    for row in await database.rows("select * from queen.samples order by minute"):
        one = found[period(row["minute"]), row["queue_id"], row["group_id"]]
        one["samples"] += 1
        one["depth_sum"] += row["depth"]
        one["depths"].append(row["depth"])
        one["ages"].append(row["oldest_age_seconds"])
    _, groups = await database.ids()
    names = {group_id: name for (_, name), group_id in groups.items()}
    for (_, _, group_id), one in found.items():
        depths, ages = one.pop("depths"), one.pop("ages")
        one["group"] = names.get(group_id)
        one["depth_max"] = max(depths, default=None)
        one["depth_last"] = depths[-1] if depths else None
        one["oldest_age_seconds"] = max(ages, default=None)
        for name in ("wait", "processing"):
            bins = one.pop(name)
            one[f"{name}_bins"] = sorted(bins)
            one[f"{name}_counts"] = [bins[bin_] for bin_ in sorted(bins)]
    return dict(found)


async def assert_rolled(database: Database) -> None:
    """Check that every grain agrees with the tables."""
    for grain in (MINUTE, HOUR, DAY):
        assert await database.rollups(grain) == await expected(database, grain)
