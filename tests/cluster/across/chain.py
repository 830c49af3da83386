"""Workers that move messages from a queue to one in another database while anything fails."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import aiohttp

from tests.support.server import Reply, Server, until

_FAILED: Final = (aiohttp.ClientError, TimeoutError, OSError)
_PARTITIONS: Final = 6
_OVER: Final = ("lease_lost", "already_settled", "message_not_found")
"""An earlier attempt was applied, or another worker has the messages now."""


class Chain:
    """Acknowledges each message in the transaction that pushes it to the target."""

    def __init__(
        self, servers: Sequence[Server], source: str, target: str, *, batch: int = 10
    ) -> None:
        self._servers = servers
        self._source = source
        self._target = target
        self._batch = batch
        self._tasks: list[asyncio.Task[None]] = []
        self._sent_enough = asyncio.Event()
        self._enough = 0
        self.sent = 0
        """How many messages were in transactions, including repeated ones."""
        self.unconfirmed = 0
        """How many transactions got no response."""

    async def fill(self, count: int) -> None:
        """Push the numbered messages, divided among the partitions in turn."""
        options = {"leaseTime": 2, "retryLimit": 1000}
        body = {"queue": self._source, "options": options}
        assert (await self._servers[0].post("/configure", body)).status in (200, 201)
        for first in range(0, count, 1000):
            items = [
                {"queue": self._source, "partition": f"p{n % _PARTITIONS}", "payload": n}
                for n in range(first, min(first + 1000, count))
            ]
            reply = await self._servers[0].post("/push", {"items": items})
            assert reply.status == 201, reply.body

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._work(server)) for server in self._servers for _ in range(3)
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        for each in results:
            if isinstance(each, Exception):
                raise each

    async def until_sent(self, count: int) -> None:
        """Wait until a transaction is on its way that brings the messages to this number."""
        self._enough = count
        self._sent_enough.clear()
        if self.sent < count:
            await self._sent_enough.wait()

    async def _work(self, server: Server) -> None:
        wanted = {"batch": self._batch, "wait": "true", "timeout": 200}
        while True:
            try:
                reply = await server.get(f"/pop/queue/{self._source}", **wanted)
            except _FAILED:
                reply = None
            if reply is not None and reply.status == 200:
                await self._move(server, reply.body["messages"])
            else:
                await asyncio.sleep(0.02)  # The server is down, or has no messages.

    async def _move(self, server: Server, messages: Sequence[Any]) -> None:
        """Send one transaction until its result is known."""
        operations: list[Any] = [
            {"type": "ack", "id": each["id"], "leaseId": each["leaseId"]} for each in messages
        ]
        items = [
            {"queue": self._target, "partition": each["partition"], "payload": each["data"]}
            for each in messages
        ]
        operations.append({"type": "push", "items": items})
        body = {"operations": operations, "acrossShards": "outbox"}
        while True:
            self._count(len(items))
            try:
                reply = await server.post("/transaction", body)
            except _FAILED:
                reply = None
                self.unconfirmed += 1
            if reply is not None and (reply.status == 200 or reply.code in _OVER):
                return
            assert reply is None or reply.status >= 500, reply.body
            await asyncio.sleep(0.02)  # Until it is back.

    def _count(self, messages: int) -> None:
        self.sent += messages
        if self.sent >= self._enough:
            self._sent_enough.set()


def expected(count: int) -> dict[str, list[int]]:
    """The messages of each partition, in order."""
    return {f"p{n}": [*range(n, count, _PARTITIONS)] for n in range(_PARTITIONS)}


async def collected(server: Server, queue: str, count: int, seconds: float) -> dict[str, list[int]]:
    """The messages of each partition, at least this many, and any that follow them."""
    found: dict[str, list[int]] = {}
    wanted = {"batch": 1000, "partitions": 10, "consumerGroup": "judge", "subscriptionMode": "all"}

    async def pop() -> Reply | None:
        try:
            return await server.get(f"/pop/queue/{queue}", **wanted)
        except _FAILED:
            return None

    async def is_collected() -> bool:
        reply = await pop()
        if reply is None or reply.status != 200:
            return sum(map(len, found.values())) >= count
        for message in reply.body["messages"]:
            found.setdefault(message["partition"], []).append(message["data"])
        acks = [
            {"id": each["id"], "leaseId": each["leaseId"], "consumerGroup": "judge"}
            for each in reply.body["messages"]
        ]
        assert (await server.post("/ack/batch", {"acknowledgments": acks})).status == 200
        return False

    await until(is_collected, seconds=seconds)
    return found


def judge(found: dict[str, list[int]], count: int) -> dict[str, int]:
    """How many messages are missing, stored twice, or in another order than their inputs."""
    wanted = expected(count)
    every = [n for numbers in found.values() for n in numbers]
    return {
        "lost": count - len({*every}),
        "duplicated": len(every) - len({*every}),
        "reordered": sum(
            numbers != sorted(numbers) or not {*numbers} <= {*wanted[name]}
            for name, numbers in found.items()
        ),
    }
