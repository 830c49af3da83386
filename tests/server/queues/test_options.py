"""The effect of each queue option, one test each."""

import asyncio

import pytest

from tests.support.calls import a_queue, configure, data, items, pop, pop_one, push, settle
from tests.support.clock import Clock
from tests.support.server import Server, until


async def test_lease_time_sets_the_lease_of_a_delivery(dsn: str, clock: Clock) -> None:
    async with Server(dsn) as server:
        await configure(server, "q", leaseTime=10, retryDelay=0)
        await push(server, "q", 1)
        await pop_one(server, "q")

        await clock.advance(seconds=9)
        assert await pop(server, "q") == []
        await clock.advance(seconds=2)
        assert (await pop_one(server, "q", wait=True, timeout=10_000))["attempt"] == 2


async def test_retry_limit_sets_the_number_of_retries(dsn: str, clock: Clock) -> None:
    async with Server(dsn) as server:
        await configure(server, "q", retryLimit=0)
        await push(server, "q", 1)

        answer = await settle(server, await pop_one(server, "q"), status="failed")

        assert answer["dlq"] is True


async def test_retry_delay_and_backoff_set_the_time_of_the_next_attempt(
    dsn: str, clock: Clock
) -> None:
    async with Server(dsn) as server:
        await configure(
            server, "q", retryDelay=10_000, retryBackoff=10, maxRetryDelay=50_000, retryLimit=9
        )
        await push(server, "q", 1)
        # With jitter: at most the delay, at least four fifths of it.
        for least, most in ((5, 15), (25, 75), (25, 75)):
            await settle(server, await pop_one(server, "q"), status="failed")
            await clock.advance(seconds=least - 1)
            assert await pop(server, "q") == []
            await clock.advance(seconds=most - least + 2)


async def test_priority_orders_the_queues_of_a_namespace(shared: Server) -> None:
    scope = a_queue()
    for priority in (1, 9):
        queue = f"{scope}{priority}"
        body = {"queue": queue, "task": scope, "options": {"priority": priority}}
        await shared.post("/configure", body)
        await push(shared, queue, priority)

    reply = await shared.post("/pop", {"task": scope})

    assert data(reply.body["messages"]) == [9]


async def test_delayed_processing_delays_each_message(dsn: str, clock: Clock) -> None:
    async with Server(dsn) as server:
        await configure(server, "q", delayedProcessing=30)
        await push(server, "q", 1)

        await clock.advance(seconds=29)
        assert await pop(server, "q") == []
        await clock.advance(seconds=2)
        assert data(await pop(server, "q")) == [1]


async def test_window_buffer_starts_with_the_first_message(dsn: str, clock: Clock) -> None:
    async with Server(dsn) as server:
        await configure(server, "q", windowBuffer=30)
        await push(server, "q", 1)
        await clock.advance(seconds=20)
        await push(server, "q", 2)
        assert await pop(server, "q", batch=5) == []

        await clock.advance(seconds=11)

        assert data(await pop(server, "q", batch=5)) == [1, 2]


async def test_without_dead_letters_exhausted_messages_are_dropped(dsn: str, clock: Clock) -> None:
    async with Server(dsn) as server:
        await configure(server, "q", dlqAfterMaxRetries=False, retryLimit=0)
        await push(server, "q", 1)

        answer = await settle(server, await pop_one(server, "q"), status="failed")

        assert answer["dlq"] is False
        await clock.advance(seconds=1000)
        assert await pop(server, "q") == []


async def test_max_size_rejects_pushes_while_the_slowest_group_is_behind(shared: Server) -> None:
    queue = a_queue()
    await configure(shared, queue, maxSize=2)
    await push(shared, queue, 1, 2)
    assert len(await pop(shared, queue, batch=2)) == 2

    async def is_full() -> bool:
        return (await shared.post("/push", {"items": items(queue, 3)})).status != 201

    # The count may be up to five seconds old.
    await until(is_full, seconds=15)
    reply = await shared.post("/push", {"items": items(queue, 3)})

    assert (reply.status, reply.code, reply.body["applied"]) == (429, "queue_full", False)
    assert "Retry-After" in reply.headers
    assert [each["code"] for each in reply.body["messages"]] == ["queue_full"]


async def test_ttl_skips_expired_messages(dsn: str, clock: Clock) -> None:
    async with Server(dsn) as server:
        await configure(server, "q", ttl=30)
        await push(server, "q", "old")
        await clock.advance(seconds=31)
        await push(server, "q", "new")

        assert data(await pop(server, "q", batch=5)) == ["new"]


async def test_dedup_window_sets_how_long_a_transaction_id_is_remembered(
    dsn: str, clock: Clock
) -> None:
    async with Server(dsn) as server:
        await configure(server, "q", dedupWindowSeconds=60)
        await configure(server, "off", dedupWindowSeconds=0)
        await push(server, "q", 1, transactionId="t")
        await push(server, "off", 1, transactionId="t")

        assert (await push(server, "q", 2, transactionId="t"))[0]["status"] == "duplicate"
        assert (await push(server, "off", 2, transactionId="t"))[0]["status"] == "queued"
        await clock.advance(seconds=200)
        assert (await push(server, "q", 3, transactionId="t"))[0]["status"] == "queued"


async def test_unordered_queues_allow_several_leases_per_partition(shared: Server) -> None:
    queue = a_queue()
    await configure(shared, queue, ordered=False)
    await push(shared, queue, 1, 2, 3)

    assert [data(await pop(shared, queue)) for _ in range(3)] == [[1], [2], [3]]


@pytest.mark.parametrize("per", ["queue", "partition"])
async def test_rate_limit_applies_per_group(dsn: str, clock: Clock, per: str) -> None:
    async with Server(dsn) as server:
        limit = {"max": 2, "durationMillis": 60_000, "per": per}
        await configure(server, "q", rateLimit=limit, ordered=False)
        for name in ("a", "b"):
            await push(server, "q", *range(5), partition=name)

        async def taken(group: str) -> int:
            count = 0
            while messages := await pop(server, "q", consumerGroup=group, autoAck=True):
                count += len(messages)
            return count

        most = 2 if per == "queue" else 4
        assert await taken("g") == most
        assert await taken("h") == most
        await clock.advance(seconds=121)
        assert await taken("g") == most


async def test_concurrency_limit_sets_the_number_of_leased_deliveries(shared: Server) -> None:
    queue = a_queue()
    await configure(shared, queue, concurrencyLimit=2)
    for number in range(4):
        await push(shared, queue, number, partition=f"p{number}")
    held = [await pop_one(shared, queue) for _ in range(2)]

    assert await pop(shared, queue) == []
    await settle(shared, held[0])

    assert len(await pop(shared, queue)) == 1


async def test_a_paused_queue_accepts_pushes_without_delivering_them(shared: Server) -> None:
    queue = a_queue()
    await configure(shared, queue, paused=True)
    await push(shared, queue, 1)
    waiting = asyncio.create_task(pop(shared, queue, wait=True, timeout=20_000))
    assert await pop(shared, queue) == []

    await configure(shared, queue, paused=False)

    async with asyncio.timeout(10):
        assert data(await waiting) == [1]


async def test_max_payload_bytes_applies_to_its_queue(shared: Server) -> None:
    queue = a_queue()
    await configure(shared, queue, maxPayloadBytes=5)

    assert (await push(shared, queue, "abc"))[0]["status"] == "queued"
    reply = await shared.post("/push", {"items": items(queue, "abcd")})

    assert (reply.status, reply.code) == (413, "payload_too_large")


async def test_schema_validates_every_payload(shared: Server) -> None:
    queue = a_queue()
    schema = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    await configure(shared, queue, schema=schema)
    values = [{"n": 1}, {"n": "1"}, {}, {"n": 2}]

    reply = await shared.post("/push", {"items": items(queue, *values)})
    alone = await shared.post("/push", {"items": items(queue, [])})

    statuses = [(each["status"], each.get("code")) for each in reply.body["messages"]]
    refused = ("failed", "schema_violation")
    assert statuses == [("queued", None), refused, refused, ("queued", None)]
    assert (alone.status, alone.code, alone.body["applied"]) == (422, "schema_violation", False)


async def test_managed_by_does_not_affect_delivery(shared: Server) -> None:
    queue = a_queue()
    await configure(shared, queue, managedBy="shop")
    await push(shared, queue, 1)

    assert data(await pop(shared, queue)) == [1]
    detail = (await shared.get(f"/resources/queues/{queue}")).body
    assert detail["options"]["managedBy"] == "shop"


async def test_an_encrypted_queue_rejects_pushes_without_an_encryption_key(shared: Server) -> None:
    queue = a_queue()
    await configure(shared, queue, encryptionEnabled=True)

    reply = await shared.post("/push", {"items": [{"queue": queue, "payload": 1}]})

    assert (reply.status, reply.code) == (503, "encryption_unavailable")
    assert reply.body["applied"] is False
    assert "Retry-After" in reply.headers
