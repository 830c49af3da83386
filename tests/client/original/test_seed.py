"""Every snippet of the original client's documentation, in valid Python."""

import asyncio
from typing import Any

import pytest

from queen import Message, Queen, QueenError
from tests.support.server import Server


async def test_quick_start(server: Server) -> None:
    handled: list[Any] = []
    async with Queen(server.base_url) as queen:
        await queen.queue("tasks").create()
        await queen.queue("tasks").push(
            [{"data": {"task": "send-email", "to": "alice@example.com"}}]
        )

        async def process(message: Message[Any]) -> None:
            handled.append(message["data"])

        await queen.queue("tasks").limit(1).consume(process)

    assert handled == [{"task": "send-email", "to": "alice@example.com"}]


async def test_a_queue_is_created_with_settings(queen: Queen) -> None:
    made = await (
        queen.queue("orders").config({"leaseTime": 300, "retryLimit": 3, "priority": 5}).create()
    )

    assert (made.queue, made.options.priority, made.options.lease_time) == ("orders", 5, 300)


async def test_messages_of_a_partition_are_in_order(queen: Queen) -> None:
    events = queen.queue("user-events")
    await events.partition("user-123").push(
        [
            {"data": {"event": "login"}},
            {"data": {"event": "view-page"}},
            {"data": {"event": "logout"}},
        ]
    )

    popped = await events.batch(10).pop()

    assert [message["data"]["event"] for message in popped] == ["login", "view-page", "logout"]


async def test_each_group_receives_every_message(queen: Queen) -> None:
    await queen.queue("emails").push([{"data": n} for n in range(3)])
    seen: dict[str, list[int]] = {"processors": [], "analytics": []}
    for group, numbers in seen.items():

        async def handler(message: Message[int], numbers: list[int] = numbers) -> None:
            numbers.append(message.data)

        await queen.queue("emails").group(group).limit(3).consume(handler)

    assert seen == {"processors": [0, 1, 2], "analytics": [0, 1, 2]}


async def test_subscription_modes(queen: Queen) -> None:
    events = queen.queue("events")
    (old,) = await events.push([{"data": "old"}])
    assert await events.group("realtime-monitor").subscription_mode("new").pop() == []
    await events.push([{"data": "new"}])

    (everything,) = await events.group("batch-analytics").pop()
    (fresh,) = await events.group("realtime-monitor").pop()
    (replayed,) = await events.group("replay").subscription_from("2025-10-28T10:00:00.000Z").pop()

    assert everything.id == old.id
    assert fresh.data == "new"
    assert replayed.id == old.id


def test_ways_to_connect() -> None:
    assert Queen("http://localhost:6632").config.urls == ("http://localhost:6632",)
    assert len(Queen(["http://server1:6632", "http://server2:6632"]).config.urls) == 2
    queen = Queen(
        {
            "urls": ["http://server1:6632", "http://server2:6632"],
            "timeout_millis": 30000,
            "retry_attempts": 3,
            "load_balancing_strategy": "affinity",
            "enable_failover": True,
        }
    )
    assert queen.config.load_balancing_strategy == "affinity"


async def test_ways_to_push(queen: Queen) -> None:
    tasks = queen.queue("tasks")
    (first,) = await tasks.push([{"data": {"job": "resize-image", "imageId": 123}}])
    (second,) = await tasks.partition("tenant-456").push([{"data": {"action": "process"}}])
    (third,) = await tasks.push([{"transactionId": "unique-id-123", "data": {"value": 42}}])
    (again,) = await tasks.push([{"transactionId": "unique-id-123", "data": {"value": 42}}])

    assert first.partition_id != second.partition_id
    assert (third.status, again.status, again.id) == ("queued", "duplicate", third.id)


async def test_consuming_one_by_one_in_batches_and_up_to_a_limit(queen: Queen) -> None:
    tasks = queen.queue("tasks")
    for number in range(30):
        await tasks.partition(f"p{number % 3}").push([{"data": number}])
    single: list[int] = []
    batches: list[list[int]] = []

    async def one(message: Message[int]) -> None:
        single.append(message["data"])

    async def many(messages: list[Message[int]]) -> None:
        batches.append([message.data for message in messages])

    await tasks.concurrency(10).limit(10).consume(one)
    await tasks.batch(20).concurrency(5).limit(20).consume(many)

    assert len(single) == 10
    assert sorted([*single, *(n for batch in batches for n in batch)]) == list(range(30))


async def test_pop_with_manual_acknowledgment(queen: Queen) -> None:
    tasks = queen.queue("tasks")
    await tasks.config({"retryDelay": 0}).create()
    await tasks.push([{"data": "good"}, {"data": "bad"}])

    messages = await tasks.batch(10).wait(True).pop()
    for message in messages:
        await queen.ack(message, message["data"] == "good", {"error": "reason"})
    (again,) = await tasks.wait(True).pop()

    assert (again.data, again.attempt) == ("bad", 2)


async def test_a_transaction_acks_and_pushes_together(queen: Queen) -> None:
    await queen.queue("input").push([{"data": 20}])
    messages = await queen.queue("input").pop()

    await (
        queen.transaction()
        .ack(messages[0])
        .queue("output")
        .push([{"data": messages[0]["data"] + 1}])
        .commit()
    )

    assert [m.data for m in await queen.queue("output").pop()] == [21]
    assert await queen.queue("input").pop() == []


async def test_buffered_pushes_are_all_stored_in_order(queen: Queen) -> None:
    for i in range(2_000):
        await (
            queen.queue("events")
            .buffer({"message_count": 500, "time_millis": 1000})
            .push([{"data": {"id": i}}])
        )
    await queen.flush_all_buffers()

    popped = await queen.queue("events").batch(2_000).pop()
    assert [message["data"]["id"] for message in popped] == list(range(2_000))
    assert queen.get_buffer_stats()["totalBufferedMessages"] == 0


async def test_renewing_leases(queen: Queen) -> None:
    tasks = queen.queue("q")
    await tasks.push([{"data": n} for n in range(3)])
    messages = await tasks.batch(3).pop()

    (until_,) = await queen.renew(messages, seconds=1000)
    assert messages[0].lease_expires_at is not None
    assert until_ > messages[0].lease_expires_at
    await queen.renew(messages[0])
    await queen.ack(messages, True)


async def test_close_stops_consumers_and_flushes(server: Server) -> None:
    queen = Queen(server.base_url)
    handled = asyncio.Event()

    async def handler(message: Message[Any]) -> None:
        handled.set()

    work = queen.queue("q").start(handler)
    await queen.queue("q").buffer({"message_count": 100, "time_millis": 50}).push([{"data": 1}])
    async with asyncio.timeout(10):
        await handled.wait()
    await queen.close()
    await work

    with pytest.raises(QueenError, match="closed"):
        await queen.queue("q").pop()
