"""Analytics beyond the retention of counters, from rollups."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from tests.support.clock import Clock
from tests.support.server import Reply, Server

NOW = datetime(2030, 1, 1, tzinfo=UTC)
GRAINS = (60, 3_600, 86_400)
EMPTY: dict[str, Any] = {
    "bytes": 0,
    "duplicates": 0,
    "popped": 0,
    "acked": 0,
    "nacked": 0,
    "dead_lettered": 0,
    "expired": 0,
    "evicted": 0,
    "leases_expired": 0,
    "wait_bins": [],
    "wait_counts": [],
    "processing_bins": [],
    "processing_counts": [],
    "samples": 0,
    "depth_sum": 0,
    "xid": 5,
}


@pytest.fixture
async def server(dsn: str, clock: Clock) -> AsyncIterator[Server]:
    async with Server(dsn) as server:
        await server.post("/configure", {"queue": "orders", "namespace": "shop"})
        yield server


class History:
    """Rows of a queue in the form that a rollup writes."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]", queue_id: int) -> None:
        self._connection = connection
        self.queue_id = queue_id

    async def add(self, grain: int, at: datetime, **figures: Any) -> None:  # noqa: ANN401
        key = {"queue_id": self.queue_id, "grain_seconds": grain, "at": at.isoformat()}
        row = {**EMPTY, "pushed": 0, "group_id": 0, "group": None, **key, **figures}
        text = json.dumps([row])
        assert await self._connection.fetchval("select queen.roll_up($1)", text) == 1

    async def count(self, at: datetime, **figures: int) -> None:
        row = {**EMPTY, "pushed": 0, "group_id": 0, "queue_id": self.queue_id, **figures}
        await self._connection.execute("select queen.count(1, $1, $2)", at, json.dumps([row]))


@pytest.fixture
async def history(dsn: str, server: Server) -> AsyncIterator[History]:
    connection = await asyncpg.connect(dsn)
    yield History(connection, await connection.fetchval("select id from queen.queues"))
    await connection.close()


async def series(server: Server, days: float, **parameters: Any) -> Reply:  # noqa: ANN401
    """The push counts of the last days."""
    bounds = {"from": (NOW - timedelta(days=days)).isoformat(), "to": NOW.isoformat()}
    return await server.get("/analytics/series", **{"metric": "pushed", **bounds, **parameters})


def known(reply: Reply, metric: str = "pushed") -> dict[str, Any]:
    assert reply.status == 200, reply.body
    return {
        point["t"].removesuffix("T00:00:00Z"): point[metric]
        for point in reply.body["series"]
        if point[metric] is not None
    }


async def test_ninety_days_combine_daily_rollups_with_counters(
    server: Server, history: History
) -> None:
    for days in (120, 89, 30, 8, 7, 6):
        await history.add(86_400, NOW - timedelta(days=days), pushed=days)
    for days in (7, 6, 1):
        await history.count(NOW - timedelta(days=days) + timedelta(hours=5), pushed=1_000 + days)

    reply = await series(server, 90)

    assert reply.body["bucketSeconds"] == 86_400
    assert len(reply.body["series"]) == 90
    # Counters take precedence, except on the day when they begin.
    assert known(reply) == {
        "2029-10-04": 89,
        "2029-12-02": 30,
        "2029-12-24": 8,
        "2029-12-25": 7,
        "2029-12-26": 1_006,
        "2029-12-31": 1_001,
    }


async def test_a_bucket_with_partial_counters_comes_from_rollups(
    server: Server, history: History, clock: Clock
) -> None:
    day = NOW - timedelta(days=7)
    await history.add(86_400, day, pushed=24)
    await history.count(day + timedelta(hours=20), pushed=4)
    await clock.advance(seconds=12 * 3_600)

    reply = await series(server, 10, bucketSeconds=86_400)
    assert known(reply) == {"2029-12-25": 24}


async def test_all_routes_return_ninety_days(server: Server, history: History) -> None:
    at = NOW - timedelta(days=60)
    bins = {
        "wait_bins": [60],
        "wait_counts": [10],
        "processing_bins": [56],
        "processing_counts": [10],
    }
    await history.add(86_400, at, pushed=10, samples=2, depth_sum=8, depth_max=6, depth_last=2)
    group = {"group_id": 7, "group": "audit", "popped": 10, "acked": 9, "nacked": 1, **bins}
    await history.add(
        86_400, at, **group, samples=2, depth_sum=6, depth_last=1, oldest_age_seconds=40.0
    )
    recent = NOW - timedelta(days=1)
    await history.count(recent, pushed=5)
    bounds = {"from": (NOW - timedelta(days=90)).isoformat(), "to": NOW.isoformat()}

    reply = await server.get("/analytics/queue/orders", **bounds)
    totals = reply.body["queue"]["totals"]
    assert (totals["pushed"], totals["acked"], totals["waitMillis"]["p50"]) == (15, 9, 4_000)
    (point,) = [point for point in reply.body["series"] if point["depth"] is not None]
    assert (point["t"], point["depth"], point["lag"]) == ("2029-11-02T00:00:00Z", 4, 3)
    assert (point["oldestAgeSeconds"], point["processingMillis"]["p99"]) == (40, 2_000)
    for path in ("/analytics?namespace=shop", "/analytics/queues", "/analytics/throughput"):
        reply = await server.get(path, **bounds)
        assert sum(p["pushed"] or 0 for p in reply.body["series"]) == 15, path
    reply = await server.get("/analytics/queue-depths", **bounds)
    assert [p["lag"] for p in reply.body["series"] if p["lag"] is not None] == [3]
    reply = await series(server, 90, metric="acked", consumerGroup="audit")
    assert known(reply, "acked") == {"2029-11-02": 9}
    reply = await series(server, 90, metric="acked", consumerGroup="other")
    assert known(reply, "acked") == {}


async def test_unsampled_times_are_null_instead_of_zero(server: Server, history: History) -> None:
    await history.add(86_400, NOW - timedelta(days=60), pushed=10)
    await history.add(86_400, NOW - timedelta(days=59), pushed=10, samples=1)

    assert known(await series(server, 90, metric="popped"), "popped") == {"2029-11-03": 0}


async def test_buckets_match_the_stored_resolution(server: Server, history: History) -> None:
    for grain, days in zip(GRAINS, (7, 90, 400), strict=True):
        await history.add(grain, NOW - timedelta(days=days), pushed=1)

    for days, bucket, status in (
        (20, 3_600, 200),
        (20, 7_200, 200),
        (20, 1_800, 400),
        (300, 86_400, 200),
        (60, 43_200, 200),
        (300, 43_200, 400),
        (300, None, 200),
        (2_500, 86_400, 400),
    ):
        reply = await series(server, days, **({"bucketSeconds": bucket} if bucket else {}))
        assert reply.status == status, (days, bucket, reply.body)
    assert (await series(server, 20)).body["bucketSeconds"] == 21_600
    assert "multiple" in (await series(server, 20, bucketSeconds=1_800)).body["detail"]


async def test_a_time_before_the_oldest_record_is_rejected(
    server: Server, history: History
) -> None:
    long_ago = {"from": "2020-01-01T00:00:00Z", "to": "2020-01-01T01:00:00Z"}
    for parameters in (long_ago, {"from": "2029-11-01T00:00:00Z", "to": NOW.isoformat()}):
        reply = await server.get("/analytics/series", metric="pushed", **parameters)
        assert (reply.status, reply.code) == (400, "bad_request")
        assert "168 hours" in reply.body["detail"]

    for grain in GRAINS:
        await history.add(grain, NOW - timedelta(days=20), pushed=1)
    reply = await server.get("/analytics/series", metric="pushed", **long_ago)
    assert (reply.status, reply.code) == (400, "bad_request")
    # The installation is younger than the range: earlier values are null.
    assert known(await series(server, 61)) == {"2029-12-12": 1}
