"""Traffic to queues of several databases: measured where all works, numbered where one fails."""

import asyncio
import contextlib
import itertools
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import aiohttp

from tests.support.server import Reply, Server

_PER_SECOND: Final = 10
_FAILED: Final = (aiohttp.ClientError, TimeoutError, OSError)


class Measured:
    """Pushes, and pops with their acks, at a fixed rate. A late start counts as latency."""

    def __init__(self, server: Server, queues: Sequence[str]) -> None:
        self._server = server
        self._queues = queues
        self._milliseconds: defaultdict[str, list[float]] = defaultdict(list)
        self._running: dict[object, tuple[str, float]] = {}
        """Operations that have not ended, and when they were due."""
        self.failed: list[Reply] = []

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for queue in self._queues:
                group.create_task(self._repeat("push", lambda queue=queue: self._push(queue)))
                group.create_task(self._repeat("pop", lambda queue=queue: self._pop(queue)))

    def taken(self) -> dict[str, float]:
        """
        The 99th percentile of each operation since the last call, in milliseconds.

        An operation that has not ended counts with its age.
        """
        for name, due in self._running.values():
            self._milliseconds[name].append((time.monotonic() - due) * 1000)
        percentiles: dict[str, float] = {}
        for name, values in self._milliseconds.items():
            ordered = sorted(values)
            percentiles[name] = round(ordered[len(ordered) * 99 // 100], 1)
        self._milliseconds.clear()
        return percentiles

    async def _repeat(self, name: str, call: Callable[[], Awaitable[None]]) -> None:
        due = time.monotonic()
        async with asyncio.TaskGroup() as group:
            while True:
                group.create_task(self._measure(name, call, due))
                due += 1 / _PER_SECOND
                await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _measure(self, name: str, call: Callable[[], Awaitable[None]], due: float) -> None:
        self._running[key := object()] = name, due
        await call()
        del self._running[key]
        self._milliseconds[name].append((time.monotonic() - due) * 1000)

    async def _push(self, queue: str) -> None:
        self._check(await self._server.post("/push", {"items": [{"queue": queue, "payload": 1}]}))

    async def _pop(self, queue: str) -> None:
        popped = self._check(await self._server.get(f"/pop/queue/{queue}"))
        if popped.status == 200:
            (message,) = popped.body["messages"]
            ack = {"id": message["id"], "leaseId": message["leaseId"]}
            self._check(await self._server.post("/ack", ack))

    def _check(self, reply: Reply) -> Reply:
        if reply.status not in (200, 201, 204):
            self.failed.append(reply)
        return reply


class Numbered:
    """Numbered messages that are pushed to one queue while its database fails."""

    def __init__(self, server: Server, queue: str, partitions: int = 4) -> None:
        self._server = server
        self._queue = queue
        self._is_pushing = True
        self.pushed = [0] * partitions
        self.buffered = 0
        self.stored_at = 0.0
        """When a push was stored directly the last time."""

    async def run(self) -> None:
        await asyncio.gather(*(self._push(at) for at in range(len(self.pushed))))

    def stop(self) -> None:
        self._is_pushing = False

    async def _push(self, at: int) -> None:
        while self._is_pushing:
            n = self.pushed[at]
            item = {"queue": self._queue, "partition": f"p{at}", "payload": n}
            reply = await self._accepted([item | {"transactionId": f"{at}-{n}"}])
            self.pushed[at] += 1
            if reply.status == 202:
                self.buffered += 1
            else:
                self.stored_at = time.monotonic()
            await asyncio.sleep(0.1)

    async def _accepted(self, items: list[dict[str, Any]]) -> Reply:
        while True:
            reply = await self._server.post("/push", {"items": items})
            if reply.status in (201, 202):
                return reply
            assert reply.status == 503, reply
            await asyncio.sleep(0.05)

    async def judge(self) -> dict[str, int]:
        """Consume all messages, and compare them with those that were pushed."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        options = {"consumerGroup": "judge", "subscriptionMode": "all", "autoAck": "true"}
        path = f"/pop/queue/{self._queue}"
        while (popped := await self._server.get(path, batch=1000, **options)).status == 200:
            for each in popped.body["messages"]:
                found[each["partition"]].append(each["data"])
        verdict = {"lost": 0, "duplicated": 0, "reordered": 0}
        for at, count in enumerate(self.pushed):
            numbers = found[f"p{at}"]
            verdict["lost"] += len({*range(count)} - {*numbers})
            verdict["duplicated"] += len(numbers) - len({*numbers})
            verdict["reordered"] += sum(a > b for a, b in itertools.pairwise(numbers))
        return verdict


@asynccontextmanager
async def asking(server: Server, *paths: str) -> AsyncGenerator[None]:
    """Requests that reach all databases, or the one that fails. Their results don't matter."""

    async def ask(path: str) -> None:
        while True:
            with contextlib.suppress(*_FAILED):
                await server.get(path)
            await asyncio.sleep(0.5)

    tasks = [asyncio.create_task(ask(path)) for path in paths]
    try:
        yield
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
