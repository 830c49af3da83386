"""Shorthands for the operations of most engine tests."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from queen import errors
from queen.codec.ids import reference
from queen.engine.engine import Engine
from queen.engine.pop.delivery import Delivery
from queen.settings import Settings
from queen.wire.messages import Acknowledged, Acknowledgment, Message, PopRequest, Pushed, PushItem

PATIENT = Settings(safety_poll_ms=600_000)
"""No safety poll: only a notification can wake a waiter."""


def item(queue: str, value: Any, *, partition: str = "Default", **fields: Any) -> PushItem:  # noqa: ANN401
    """A push item with `value` as its JSON payload."""
    return PushItem(queue=queue, partition=partition, payload=msgspec.json.encode(value), **fields)


async def push(
    engine: Engine,
    queue: str,
    *values: Any,  # noqa: ANN401
    partition: str = "Default",
    **fields: Any,  # noqa: ANN401
) -> list[Pushed]:
    """Push the values in one request. `fields` apply to each item."""
    return list(
        await engine.push([item(queue, value, partition=partition, **fields) for value in values])
    )


async def pop(
    engine: Engine,
    queue: str | None = None,
    *,
    group: str | None = None,
    **fields: Any,  # noqa: ANN401
) -> list[Delivery]:
    return await engine.pop(PopRequest(queue=queue, consumer_group=group, **fields))


async def pop_one(
    engine: Engine,
    queue: str | None = None,
    *,
    group: str | None = None,
    **fields: Any,  # noqa: ANN401
) -> Delivery:
    """The only delivery that a pop returns."""
    (delivery,) = await pop(engine, queue, group=group, **fields)
    return delivery


async def pop_later(
    engine: Engine,
    queue: str | None = None,
    *,
    seconds: float = 5,
    **fields: Any,  # noqa: ANN401
) -> list[Delivery]:
    """The deliveries of a waiting pop. Fails after `seconds`."""
    async with asyncio.timeout(seconds):
        return await pop(engine, queue, wait=True, **fields)


def lease(delivery: Delivery) -> str:
    """The lease ID of a delivery."""
    assert delivery.lease_id is not None
    return delivery.lease_id


def values(deliveries: Delivery | Iterable[Delivery]) -> list[Any]:
    """The decoded payloads of one delivery or several."""
    several = [deliveries] if isinstance(deliveries, Delivery) else deliveries
    return [msgspec.json.decode(payload) for each in several for payload in each.payloads()]


def message(delivery: Delivery, offset: int) -> Message:
    (found,) = [each for each in delivery.messages() if each.offset == offset]
    return found


def says(delivery: Delivery, offset: int, status: str, **fields: Any) -> Acknowledgment:  # noqa: ANN401
    """An acknowledgment of one message in a delivery."""
    return Acknowledgment(
        id=message(delivery, offset).id,
        lease_id=delivery.lease_id,
        partition_id=reference(delivery.partition_id),
        consumer_group=delivery.group,
        status=status,
        **fields,
    )


async def settle(
    engine: Engine,
    delivery: Delivery,
    offset: int | None = None,
    status: str = "completed",
    **fields: Any,  # noqa: ANN401
) -> Acknowledged:
    """Acknowledge one message, by default the first of its delivery, with a status."""
    where = delivery.offsets[0] if offset is None else offset
    (answer,) = await engine.acknowledge([says(delivery, where, status, **fields)])
    return answer


async def ack(engine: Engine, delivery: Delivery) -> int:
    return await engine.ack(lease(delivery))


async def ack_all(engine: Engine, deliveries: Iterable[Delivery]) -> None:
    for delivery in deliveries:
        await ack(engine, delivery)


async def drain(engine: Engine, queue: str, **fields: Any) -> list[Any]:  # noqa: ANN401
    """Pop and ack until the queue is empty, and return the payloads in delivery order."""
    taken: list[Any] = []
    wanted: dict[str, Any] = {"batch": 100, "partitions": 100} | fields
    while deliveries := await pop(engine, queue, **wanted):
        taken += values(deliveries)
        await ack_all(engine, [each for each in deliveries if each.lease_id])
    return taken


async def until(
    condition: Callable[[], Awaitable[bool]], *, seconds: float = 5, every: float = 0.02
) -> None:
    """Wait for a condition, up to a time limit."""
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - the condition is in the database
            await asyncio.sleep(every)


async def asleep(engine: Engine, count: int) -> None:
    """Wait until `count` pops are waiting."""

    async def are_asleep() -> bool:
        return engine.waiting == count

    await until(are_asleep)


async def seconds_until(engine: Engine, answer: Acknowledged) -> float:
    """Seconds until the message's next attempt, by the database's clock."""
    assert answer.retry_at is not None
    (row,) = await engine.store.database.fetch("now")
    return (answer.retry_at - row["now"]).total_seconds()


async def listening(*engines: Engine) -> None:
    """Wait until the engines listen for notifications."""

    async def are_listening() -> bool:
        return all(
            each.signals.notifications is not None and each.signals.notifications.is_listening
            for each in engines
        )

    await until(are_listening)


async def woken_within(popping: Sequence[asyncio.Task[list[Delivery]]], seconds: float) -> None:
    """Check that all pops return within `seconds`, before the slow poll could wake them."""
    async with asyncio.timeout(seconds):
        assert all(await asyncio.gather(*popping))


async def purge(
    engine: Engine,
    queue: str,
    *,
    partition: str | None = None,
    is_completed: bool = False,
    before: datetime | None = None,
) -> int:
    """Remove all messages, or those that every group has settled, and return their number."""
    total = 0
    after: int | None = None
    while step := await engine.store.queues.purge(
        queue,
        partition=partition,
        is_completed=is_completed,
        before=before,
        after=after,
        limit=1_000,
    ):
        after, messages = step
        total += messages
    return total


async def delete_queue(engine: Engine, queue: str) -> None:
    await engine.queues.delete(queue)
    await _erase(engine)


async def delete_group(engine: Engine, queue: str, consumer_group: str | None) -> None:
    await engine.queues.delete_group(queue, consumer_group)
    await _erase(engine)


async def _erase(engine: Engine) -> None:
    while not await engine.queues.erase_step():
        pass


async def dead_letters(
    engine: Engine,
    queue: str,
    *,
    consumer_group: str | None = None,
    after: int = 0,
    limit: int = 100,
) -> list[dict[str, Any]]:
    """The dead letters of a queue, oldest first."""
    found = await engine.catalogue.queue(queue)
    rows = await engine.store.dead_letters.of_queue(
        found.id, after=after, group=consumer_group, limit=limit
    )
    return await engine.sealer.open_rows(rows)


async def extend(engine: Engine, lease_id: str, *, seconds: float | None = None) -> datetime:
    """Extend one lease, or raise `LeaseLost`."""
    (result,) = await engine.extend_many([lease_id], seconds=seconds)
    if result.expires_at is None:
        raise errors.LeaseLost(result.error)
    return result.expires_at
