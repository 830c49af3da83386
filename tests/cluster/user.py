"""Random calls to one engine."""

import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import UNSET, Raw

from queen import errors
from queen.engine.engine import Engine
from queen.engine.pop.delivery import Delivery
from queen.engine.sources.schedules import Recurring
from queen.store.dead_letters import LetterFilter
from queen.wire.messages import Acknowledgment, PopRequest, PushItem
from tests.cluster.places import ONE

_ALL: Final = LetterFilter()
TRANSACTIONS: Final = 500
"""Its transactionIds are t0 to t499."""


def item(value: int, queue: str = ONE, **fields: object) -> PushItem:
    return PushItem(queue=queue, payload=Raw(b"%d" % value), **fields)  # pyright: ignore[reportArgumentType]


class User:
    """Calls an engine at random."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self._engine = engine
        self._dice = random.Random(seed)
        self._value = 0
        self._leased: list[Delivery] = []

    async def act(self) -> None:
        """Make one call. The engine may reject it, for example because a lease was lost."""
        acts: list[Callable[[], Awaitable[object]]] = [
            *[self.push] * 6,
            *[self.pop] * 4,
            *[self.settle] * 4,
            self.schedule,
            self.purge,
            self.redact,
            self.delete_group,
            self.delete_queue,
            self.erase,
            self.seek,
            self.redrive,
            self.configure,
            self.trace,
        ]
        with contextlib.suppress(errors.Conflict, errors.NotFound):
            await self._dice.choice(acts)()

    async def push(self) -> None:
        count = self._dice.choice([1, 1, 5, 100])
        items: list[PushItem] = []
        for _ in range(count):
            self._value += 1
            items.append(
                item(
                    self._value,
                    partition=f"p{self._dice.randrange(4)}",
                    transaction_id=self._dice.choice(
                        [None, f"t{self._dice.randrange(TRANSACTIONS)}"]
                    ),
                    delay_seconds=self._dice.choice([None, None, None, 3600.0]),
                )
            )
        producer = self._dice.choice([None, "p"])
        sequence = self._value if producer else None
        await self._engine.push(items, producer_id=producer, sequence=sequence)

    async def pop(self) -> None:
        group = self._dice.choice(["a", "b", None])
        request = PopRequest(
            queue=ONE, consumer_group=group, batch=7, partitions=2, subscription_mode="all"
        )
        self._leased += await self._engine.pop(request)

    async def settle(self) -> None:
        if not self._leased:
            return
        delivery = self._leased.pop(self._dice.randrange(len(self._leased)))
        status = self._dice.choice(["completed", "completed", "failed", "retry", "dlq"])
        await self._engine.acknowledge(
            [
                Acknowledgment(
                    id=each.id,
                    transaction_id=each.transaction_id,
                    lease_id=each.lease_id,
                    status=status,
                    result=Raw(b"1") if status == "completed" else UNSET,
                )
                for each in delivery.messages()
            ]
        )

    async def schedule(self) -> None:
        name = f"s{self._dice.randrange(3)}"
        if self._dice.random() < 0.3:
            await self._engine.schedules.delete(name)
        else:
            minute = self._dice.randrange(60)
            await self._engine.schedules.put(
                name, queue=ONE, cron=f"{minute} 4 1 1 *", message=Recurring(payload=Raw(b"1"))
            )

    async def purge(self) -> None:
        after: int | None = None
        is_completed = self._dice.random() < 0.5
        while step := await self._engine.store.queues.purge(
            ONE, partition=None, is_completed=is_completed, before=None, after=after, limit=100
        ):
            after = step[0]

    async def redact(self) -> None:
        if self._leased:
            delivery = self._dice.choice(self._leased)
            await self._engine.redact(
                delivery.partition_id, self._dice.choice(delivery.offsets), by="test"
            )

    async def delete_group(self) -> None:
        await self._engine.queues.delete_group(ONE, self._dice.choice(["a", "b"]))

    async def delete_queue(self) -> None:
        if self._dice.random() < 0.3:
            await self._engine.queues.delete(ONE)

    async def erase(self) -> None:
        for _ in range(self._dice.randrange(4)):
            await self._engine.queues.erase_step()

    async def seek(self) -> None:
        await self._engine.queues.seek(ONE, self._dice.choice(["a", "b"]), to_start=True)

    async def redrive(self) -> None:
        letters = await self._engine.store.dead_letters.matching(
            ONE, _ALL, after=0, last=2**53, limit=3
        )
        await self._engine.dead_letters.redrive([each["id"] for each in letters])

    async def configure(self) -> None:
        await self._engine.queues.configure(
            ONE, {"dedup_seconds": self._dice.choice([60, 7200]), "retry_limit": 1}
        )
        await self._engine.queues.configure_partition(ONE, "p1", priority=self._dice.randrange(3))

    async def trace(self) -> None:
        if self._leased:
            delivery = self._dice.choice(self._leased)
            await self._engine.store.traces.add(
                delivery.partition_id, "t1", group=None, event_type="x", names=["n"], data=b"1"
            )
