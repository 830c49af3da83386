"""The steps of a random program: each runs on the engine and on the model, and is compared."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

import pytest

from queen import errors
from queen.engine.pop.delivery import Delivery
from queen.engine.push.batches import PushResult
from queen.wire.messages import Acknowledgment, PopRequest, PushItem
from tests.engine.helpers import extend
from tests.engine.model.comparison import Comparison, lease_key
from tests.engine.model.model import Model
from tests.engine.model.state import (
    DEDUP_SECONDS,
    GRID_SECONDS,
    LEASE_SECONDS,
    MAX_RETRY_SECONDS,
    RETRY_BACKOFF,
    RETRY_SECONDS,
    Got,
    Group,
    Held,
    Item,
    Refused,
    Stored,
)
from tests.engine.model.world import World

T = TypeVar("T")


class Given(NamedTuple):
    """A lease that was granted at some time, with its message IDs by offset."""

    group: Group
    ids: dict[int, str]
    transaction_ids: dict[int, str]


def _predict(call: Callable[[], T]) -> tuple[T | None, str | None]:
    """The result of the model, or its error code."""
    try:
        return call(), None
    except Refused as refusal:
        return None, refusal.code


async def _attempt(call: Awaitable[T]) -> tuple[T | None, str | None]:
    """The result of the engine, or its error code."""
    try:
        return await call, None
    except errors.QueenError as error:
        return None, error.code


class Steps:
    """One program's queues on the engine and in the model."""

    def __init__(self, world: World, namespace: str | None = None) -> None:
        """``namespace``: of all queues."""
        self._namespace = namespace
        self.model = Model({})
        self.given: dict[str, Given] = {}
        self._world = world
        self._tables = Comparison(world, self.model)
        self._ids: dict[tuple[str, str, int], str] = {}

    async def configure(self) -> None:
        for name, queue in self.model.queues.items():
            row = await self._world.engine.queues.configure(
                name,
                {
                    "ordered": queue.is_ordered,
                    "lease_seconds": LEASE_SECONDS,
                    "retry_limit": queue.retry_limit,
                    "retry_delay_ms": RETRY_SECONDS * 1000,
                    "retry_backoff": RETRY_BACKOFF,
                    "max_retry_delay_ms": MAX_RETRY_SECONDS * 1000,
                    "dedup_seconds": DEDUP_SECONDS,
                },
                namespace=self._namespace,
            )
            self._tables.queue_ids[name] = row["id"]

    async def push(
        self,
        queue: str,
        items: Sequence[Item],
        producer: tuple[str, int] | None,
        held: Held | None = None,
    ) -> None:
        """Push; `held`: acknowledge a delivery at the same moment, if possible in one call."""
        producer_id, sequence = producer or (None, None)
        expected, refused = _predict(
            lambda: self.model.push(queue, items, producer_id=producer_id, sequence=sequence)
        )
        (pushed, code), settled = await asyncio.gather(
            _attempt(
                self._world.engine.push(
                    self._wire(queue, items), producer_id=producer_id, sequence=sequence
                )
            ),
            self._ack_of(held),
        )
        assert code == refused
        if pushed is not None:
            self._check_pushed(queue, items, pushed, expected)
        if held is not None:
            assert settled == self.model.ack(held, None)
        await self._tables.judge()

    async def _ack_of(self, held: Held | None) -> int:
        return 0 if held is None else await self._world.engine.ack(held.delivery.lease_id or "")

    def _wire(self, queue: str, items: Sequence[Item]) -> list[PushItem]:
        return [
            PushItem(
                queue=queue,
                partition=item.partition,
                payload=item.payload,
                transaction_id=item.transaction_id,
            )
            for item in items
        ]

    def _check_pushed(
        self,
        queue: str,
        items: Sequence[Item],
        pushed: PushResult,
        expected: Sequence[Stored] | None,
    ) -> None:
        assert pushed.is_replayed == (expected is None)
        if expected is None:
            return
        assert [(each.status, each.offset) for each in pushed] == list(expected)
        for item, each in zip(items, pushed, strict=True):
            assert each.id is not None
            assert each.offset is not None
            assert each.transaction_id == (item.transaction_id or each.id)
            place = (queue, item.partition, each.offset)
            assert self._ids.setdefault(place, each.id) == each.id, f"two ids for {place}"

    async def pop(self, request: PopRequest) -> int:
        return await self._check_popped(request, await self._world.engine.pop(request))

    async def pop_and_acknowledge(
        self, held: Held, status: str | None, request: PopRequest
    ) -> None:
        """Complete a delivery, or fail its first message, and pop in the same transaction."""
        ids = self.given[held.delivery.lease_id or ""].ids
        offsets = list(held.delivery.out[: None if status is None else 1])
        acknowledged, deliveries = await self._world.engine.pop_and_acknowledge(
            request,
            [
                Acknowledgment(
                    id=ids[offset],
                    status=status or "completed",
                    error=status,
                    lease_id=held.delivery.lease_id,
                )
                for offset in offsets
            ],
        )
        assert all(each.success for each in acknowledged), acknowledged
        if status is None:
            assert self.model.ack(held, offsets) == len(offsets)
        else:
            self.model.nack(held, offsets[0], status, status)
        await self._check_popped(request, deliveries)

    async def _check_popped(self, request: PopRequest, deliveries: Sequence[Delivery]) -> int:
        queue, group = request.queue or "", request.consumer_group
        got = [self._got(queue, group, delivery) for delivery in deliveries]
        seen = await self._tables.observe()
        self.model.pop(
            queue,
            group,
            partition=request.partition,
            batch=request.batch,
            partitions=request.partitions,
            is_auto=request.auto_ack,
            got=got,
            current={lease for lease in self.given if lease_key(lease) in seen.leases},
        )
        await self._tables.judge(seen)
        return len(got)

    def _got(self, queue: str, group: Group, delivery: Delivery) -> Got:
        messages = list(delivery.messages())
        for message in messages:
            place = (queue, delivery.partition, message.offset)
            assert message.id == self._ids[place], f"another id at {place}"
            assert message.attempt == delivery.attempt
        lease_id = delivery.lease_id
        if lease_id is not None:
            assert lease_id not in self.given, f"lease {lease_id} was given twice"
            self.given[lease_id] = Given(
                group,
                {message.offset: message.id for message in messages},
                {message.offset: message.transaction_id for message in messages},
            )
        return Got(
            delivery.partition,
            lease_id,
            delivery.attempt,
            tuple(message.offset for message in messages),
            tuple(bytes(message.data) for message in messages),
        )

    async def ack(self, held: Held, offsets: list[int] | None) -> None:
        assert held.delivery.lease_id is not None
        settled = await self._world.engine.ack(held.delivery.lease_id, offsets)
        assert settled == self.model.ack(held, offsets)
        await self._tables.judge()

    async def nack(self, held: Held, offset: int, status: str, by_key: bool) -> None:
        given = self.given[held.delivery.lease_id or ""]
        queue = self.model.queues[held.queue]
        key = given.transaction_ids[offset]
        # After its window, several messages may have one transactionId.
        is_named = by_key and [given.transaction_ids[o] for o in held.delivery.out].count(key) == 1
        error = None if status == "completed" else f"{status} {offset}"
        letters = len(queue.letters)
        is_dead_already = (held.group, held.partition, offset) in queue.letters
        (answer,) = await self._world.engine.acknowledge(
            [
                Acknowledgment(
                    id=None if is_named else given.ids[offset],
                    transaction_id=key if is_named else None,
                    status=status,
                    error=error,
                    lease_id=held.delivery.lease_id,
                    consumer_group=held.group,
                )
            ]
        )
        assert answer.success, answer
        if status == "completed":
            self.model.ack(held, [offset])
        else:
            self.model.nack(held, offset, status, error)
        assert answer.dlq == (len(queue.letters) > letters) or is_dead_already, answer
        await self._tables.judge()

    async def extend(self, held: Held, seconds: int) -> None:
        assert held.delivery.lease_id is not None
        await extend(self._world.engine, held.delivery.lease_id, seconds=seconds)
        self.model.extend(held, seconds)
        await self._tables.judge()

    async def release(self, held: Held) -> None:
        assert held.delivery.lease_id is not None
        await self._world.engine.release(held.delivery.lease_id)
        self.model.release(held)
        await self._tables.judge()

    async def advance(self, seconds: int) -> None:
        await self._world.advance(seconds)
        self.model.now += seconds

    async def seek(self, queue: str, group: Group, partition: str | None, to: str | int) -> None:
        offset = to if isinstance(to, int) else 0 if to == "start" else None
        _, refused = _predict(lambda: self.model.seek(queue, group, partition, offset))
        _, code = await _attempt(
            self._world.engine.queues.seek(
                queue,
                group,
                partition=partition,
                to_start=to == "start",
                to_end=to == "end",
                offset=to if isinstance(to, int) else None,
            )
        )
        assert code == refused
        self._tables.forget_positions(queue, group)
        await self._tables.judge()

    async def transact(
        self,
        acks: Sequence[tuple[Held, Sequence[int]]],
        queue: str,
        items: Sequence[Item],
        producer: tuple[str, int] | None,
        is_rolled_back: bool,
    ) -> None:
        producer_id, sequence = producer or (None, None)
        acknowledgments = [
            Acknowledgment(
                id=self.given[held.delivery.lease_id or ""].ids[offset],
                lease_id=held.delivery.lease_id,
            )
            for held, offsets in acks
            for offset in offsets
        ]
        leases = [held.delivery.lease_id or "" for held, _ in acks]
        expected, refused = _predict(
            lambda: self.model.transact(
                acks,
                queue,
                items,
                is_rolled_back_on_duplicate=is_rolled_back,
                producer_id=producer_id,
                sequence=sequence,
            )
        )
        pushed, code = await _attempt(
            self._world.engine.transact(
                acknowledgments=acknowledgments,
                items=self._wire(queue, items),
                required_leases=leases,
                is_rolled_back_on_duplicate=is_rolled_back,
                producer_id=producer_id,
                sequence=sequence,
            )
        )
        assert code == refused
        if pushed is not None:
            self._check_pushed(queue, items, pushed, expected)
        await self._tables.judge()

    async def come_too_late(self, lease_id: str, verb: str, queue: str, item: Item) -> None:
        engine = self._world.engine
        offset, message_id = next(iter(self.given[lease_id].ids.items()))
        acknowledgment = Acknowledgment(id=message_id, lease_id=lease_id, status="failed")
        items = self._wire(queue, [item])
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "ack": lambda: engine.ack(lease_id),
            "ack some": lambda: engine.ack(lease_id, [offset]),
            "extend": lambda: extend(engine, lease_id, seconds=GRID_SECONDS),
            "release": lambda: engine.release(lease_id),
            "transact": lambda: engine.transact(acknowledgments=[acknowledgment], items=items),
            "require": lambda: engine.transact(required_leases=[lease_id], items=items),
        }
        if verb == "nack":
            (answer,) = await engine.acknowledge([acknowledgment])
            assert (answer.success, answer.code) == (False, "lease_lost")
        else:
            with pytest.raises(errors.LeaseLost):
                await calls[verb]()
        if verb in ("transact", "require"):
            # It may have created the partition, but never the message.
            self.model.queues[queue].add_partition(item.partition)
        await self._tables.judge()

    async def redrive(self, queue: str, letter: tuple[Group, str, int]) -> None:
        letter_id = self._tables.seen.letters[self._tables.queue_ids[queue], *letter][0]
        assert await self._world.engine.dead_letters.redrive([letter_id]) == [letter_id]
        self.model.redrive(queue, letter)
        self._tables.forget_positions(queue, *letter[:2])
        await self._tables.judge()
        assert await self._world.engine.dead_letters.redrive([letter_id]) == []

    async def pause(self, queue: str, is_paused: bool) -> None:
        await self._world.engine.queues.configure(queue, {"paused": is_paused})
        self.model.queues[queue].is_paused = is_paused

    async def end(self) -> None:
        """Check the invariants on the tables, drain all queues, and check them again."""
        if not self._tables.queue_ids:
            return
        await self._tables.check_invariants()
        for name in self.model.queues:
            await self.pause(name, False)
        for _ in range(20):
            # The leases end, and the longest backoff is over.
            await self.advance(5 * LEASE_SECONDS)
            if not await self._drain():
                break
        else:
            raise AssertionError("something comes again and again")
        await self._tables.check_drained()
        await self._tables.check_invariants()

    async def _drain(self) -> int:
        """Pop and ack until all queues are empty, and return the number of deliveries."""
        count = 0
        for name, queue in self.model.queues.items():
            for group in list(queue.pairs):
                request = PopRequest(queue=name, consumer_group=group, batch=100, partitions=10)
                while await self.pop(request):
                    for held in self.model.held():
                        if (held.queue, held.group) == (name, group):
                            count += 1
                            await self.ack(held, None)
        return count
