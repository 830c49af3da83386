"""The applications of a tenant: they push numbered messages into its queues, and consume them."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from queen import Message, Queen
from tests.support.server import until

QUEUES: Final = ("orders", "billing")
PARTITIONS: Final = ("ada", "bob")
_SETTLED_SECONDS: Final = 30


class Tenant:
    """Producers and consumers of queues in the namespace ``shop``."""

    def __init__(self, queen: Queen) -> None:
        self._queen = queen
        self._is_stopping = False
        self._tasks: list[asyncio.Task[None]] = []
        self.pushed: dict[str, list[int]] = defaultdict(list)
        """The messages of each partition whose push has returned."""
        self.handled: dict[str, list[int]] = defaultdict(list)
        """The messages of each partition in the order in which handlers got them."""

    @classmethod
    @asynccontextmanager
    async def using(cls, queen: Queen) -> "AsyncGenerator[Tenant]":
        """Create the queues, and use them until the block ends."""
        tenant = cls(queen)
        for queue in QUEUES:
            await queen.queue(queue).namespace("shop").create()
            queen.queue(queue).group("app").batch(10).start(tenant._handler(queue))
            for partition in PARTITIONS:
                tenant._tasks.append(asyncio.create_task(tenant._produce(queue, partition)))
        try:
            yield tenant
        finally:
            for each in tenant._tasks:
                each.cancel()
            await asyncio.gather(*tenant._tasks, return_exceptions=True)

    def _handler(self, queue: str) -> Callable[[list[Message[int]]], Awaitable[None]]:
        async def handle(messages: list[Message[int]]) -> None:
            for each in messages:
                self.handled[f"{queue} {each.partition}"].append(each.data)

        return handle

    async def _produce(self, queue: str, partition: str) -> None:
        name = f"{queue} {partition}"
        while not self._is_stopping:
            n = len(self.pushed[name])
            await self._queen.queue(queue).partition(partition).push([{"data": n}])
            self.pushed[name].append(n)
            await asyncio.sleep(0.01)

    async def progress(self) -> None:
        """Wait until a message of each partition was pushed and handled from now on."""
        goals = {name: len(numbers) + 1 for name, numbers in self.pushed.items()}

        async def is_reached() -> bool:
            for each in self._tasks:
                if each.done():
                    each.result()
            return all(len(self.handled[name]) > goal for name, goal in goals.items())

        await until(is_reached, seconds=_SETTLED_SECONDS)

    async def stop(self) -> None:
        """Stop the producers, and wait until all their messages were handled."""
        self._is_stopping = True
        await asyncio.gather(*self._tasks)

        async def is_handled() -> bool:
            return all(len(self.handled[name]) >= len(self.pushed[name]) for name in self.pushed)

        await until(is_handled, seconds=_SETTLED_SECONDS)

    async def databases(self) -> set[str]:
        """The databases of the queues."""
        shards = await self._queen.admin.shards()
        return {each.database for each in shards.slots if {*QUEUES} & {*each.queues}}
