"""Analytics over time, from the counters of every process and the samples of one."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.clock import Clock
from tests.support.server import Server, until

FAST = {"QUEEN_COUNTERS_FLUSH_SECONDS": "0.1", "QUEEN_SAMPLE_SECONDS": "0.1"}


@pytest.fixture
async def fast(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn, FAST) as server:
        yield server


async def push(server: Server, queue: str, count: int = 1) -> None:
    items = [{"queue": queue, "payload": n} for n in range(count)]
    assert (await server.post("/push", {"items": items})).status == 201


async def consume(server: Server, queue: str, count: int, **parameters: str) -> None:
    popped = await server.get(f"/pop/queue/{queue}", batch=count, **parameters)
    done = [
        {"id": m["id"], "leaseId": m["leaseId"], "status": "completed"}
        for m in popped.body["messages"]
    ]
    assert len(done) == count
    assert (await server.post("/ack/batch", {"acknowledgments": done})).body["success"]


async def total(server: Server, metric: str, **parameters: Any) -> Any:  # noqa: ANN401 - JSON
    """The sum of a series, or None if it is empty."""
    reply = await server.get("/analytics/series", metric=metric, **parameters)
    assert reply.status == 200, reply.body
    known = [p[metric] for p in reply.body["series"] if p[metric] is not None]
    return sum(known) if known else None


async def test_counts_appear_after_a_few_seconds(fast: Server) -> None:
    await push(fast, "orders", 7)
    await consume(fast, "orders", 5)

    async def is_there() -> bool:
        return await total(fast, "acked", queue="orders") == 5

    await until(is_there)
    assert await total(fast, "pushed", queue="orders") == 7
    assert await total(fast, "popped", queue="orders") == 5
    reply = await fast.get("/analytics/queue/orders")
    queue = reply.body["queue"]
    assert queue["totals"]["pushed"] == 7
    assert queue["totals"]["waitMillis"]["p50"] >= 0
    assert queue["totals"]["processingMillis"]["p99"] >= 0
    assert len(reply.body["series"]) <= 145


async def test_depth_lag_and_age_are_sampled(fast: Server) -> None:
    await push(fast, "orders", 6)
    await consume(fast, "orders", 2, consumerGroup="audit")

    async def is_sampled() -> bool:
        reply = await fast.get("/analytics/queue-depths", queue="orders")
        (queue,) = reply.body["queues"]
        return queue["depth"] == 4

    await until(is_sampled)
    reply = await fast.get("/analytics/queue-depths")
    (queue,) = reply.body["queues"]
    (group,) = queue["groups"]
    assert (group["consumerGroup"], group["lag"], group["exact"]) == ("audit", 4, True)
    assert queue["oldestAgeSeconds"] >= 0
    assert queue["deadLetters"] == 0
    assert [p["depth"] for p in reply.body["series"] if p["depth"] is not None] == [4]


async def test_a_time_without_records_is_null_instead_of_zero(server: Server, clock: Clock) -> None:
    await push(server, "orders")
    reply = await server.get(
        "/analytics/series",
        metric="pushed,depth,waitMillis",
        **{"from": "2029-12-31T00:00:00Z", "to": "2029-12-31T01:00:00Z"},
        bucketSeconds=600,
    )

    assert len(reply.body["series"]) == 6
    assert reply.body["bucketSeconds"] == 600
    assert reply.body["series"][0] == {
        "t": "2029-12-31T00:00:00Z",
        "pushed": None,
        "depth": None,
        "waitMillis": None,
    }


async def test_minutes_are_separate_and_larger_buckets_sum_them(dsn: str, clock: Clock) -> None:
    async with Server(dsn, FAST) as server:

        async def has(count: int) -> None:
            async def is_there() -> bool:
                return await total(server, "pushed", queue="orders") == count

            await until(is_there)

        await push(server, "orders", 1)
        await has(1)
        await clock.advance(seconds=60)
        # The process learns the database's time with its next write.
        await push(server, "orders", 2)
        await has(3)
        await push(server, "orders", 4)
        await has(7)
        fine = await server.get("/analytics/series", metric="pushed", bucketSeconds=60)
        coarse = await server.get("/analytics/series", metric="pushed", bucketSeconds=86400)

    minutes = [p["pushed"] for p in fine.body["series"] if p["pushed"] is not None]
    assert sum(minutes) == 7
    assert len(minutes) == 2
    assert sum(p["pushed"] or 0 for p in coarse.body["series"]) == 7


async def test_two_processes_are_summed_in_a_series(dsn: str) -> None:
    async with Server(dsn, FAST) as one, Server(dsn, FAST) as two:
        await push(one, "orders", 3)
        await push(two, "orders", 4)

        async def is_summed() -> bool:
            return await total(one, "pushed") == 7

        await until(is_summed)


async def test_a_stopping_process_flushes_its_counters(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_COUNTERS_FLUSH_SECONDS": "3600"}) as server:
        await push(server, "orders", 3)
        await server.stop()
        await server.start()

        assert await total(server, "pushed", queue="orders") == 3


async def test_a_namespace_sums_its_queues(fast: Server) -> None:
    for queue in ("orders", "invoices"):
        await fast.post("/configure", {"queue": queue, "namespace": "shop"})
        await push(fast, queue, 2)
    await push(fast, "other", 5)

    async def is_counted() -> bool:
        return await total(fast, "pushed") == 9

    await until(is_counted)
    reply = await fast.get("/analytics", namespace="shop")
    assert (reply.body["queues"], reply.body["totals"]["pushed"]) == (2, 4)
    flow = await fast.get("/analytics/throughput", namespace="shop")
    assert sum(p["pushed"] or 0 for p in flow.body["series"]) == 4
    assert flow.body["perSecond"]["pushed"] > 0


async def test_queues_are_listed_in_pages(fast: Server) -> None:
    for n in range(5):
        await push(fast, f"q{n}")
    names: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        reply = await fast.get("/analytics/queues", limit=2, **cursor)
        names += [queue["queue"] for queue in reply.body["queues"]]
        if reply.body["nextCursor"] is None:
            break
        cursor = {"cursor": reply.body["nextCursor"]}

    assert names == [f"q{n}" for n in range(5)]


async def test_a_cursor_of_another_list_is_rejected(fast: Server) -> None:
    for cursor in ("AAAA", "!", "WzFd"):  # NUL bytes, not base64, and a number instead of a name.
        reply = await fast.get("/analytics/queues", cursor=cursor)
        assert (reply.status, reply.code) == (400, "bad_request"), cursor


async def test_a_group_has_its_own_series(fast: Server) -> None:
    await push(fast, "orders", 2)
    await consume(fast, "orders", 2, consumerGroup="audit")
    await consume(fast, "orders", 1, consumerGroup="billing")

    async def is_counted() -> bool:
        return await total(fast, "acked", queue="orders") == 3

    await until(is_counted)
    assert await total(fast, "acked", queue="orders", consumerGroup="audit") == 2
    assert await total(fast, "pushed", queue="orders", consumerGroup="audit") is None


async def test_few_messages_have_no_percentiles(dsn: str) -> None:
    async with Server(dsn, {**FAST, "ANALYTICS_MIN_COMPLETED": "3"}) as server:
        await push(server, "orders", 2)
        await consume(server, "orders", 2)

        async def is_counted() -> bool:
            return await total(server, "acked", queue="orders") == 2

        await until(is_counted)
        reply = await server.get("/analytics/queue/orders")
        assert reply.body["queue"]["totals"]["waitMillis"] is None


@pytest.mark.parametrize(
    "parameters",
    [
        {"metric": "nonsense"},
        {"metric": "pushed", "bucketSeconds": 61},
        {"metric": "pushed", "bucketSeconds": 0},
        {"metric": "pushed", "from": "2020-01-01T00:00:00Z", "to": "2019-01-01T00:00:00Z"},
        {"metric": "pushed", "from": "2020-01-01T00:00:00Z"},
        {"metric": "pushed", "from": "2020-01-01T00:00:00"},
        {"metric": "pushed", "unknown": "1"},
    ],
)
async def test_ranges_and_buckets_are_bounded(server: Server, parameters: dict[str, Any]) -> None:
    reply = await server.get("/analytics/series", **parameters)

    assert (reply.status, reply.code) == (400, "bad_request")


async def test_too_many_buckets_are_rejected(server: Server) -> None:
    reply = await server.get(
        "/analytics/series",
        metric="pushed",
        **{"from": "2020-01-01T00:00:00Z", "to": "2020-01-03T00:00:00Z"},
        bucketSeconds=60,
    )

    assert reply.code == "bad_request"


async def test_an_unknown_queue_is_not_found(server: Server) -> None:
    assert (await server.get("/analytics/queue/nobody")).code == "queue_not_found"
