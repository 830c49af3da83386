"""Numbered messages that clients of several servers push and consume while anything fails."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import aiohttp

from tests.support.server import Server

_PARTITIONS: Final = 4
_LOST_SECONDS: Final = 30.0
"""Messages that are not delivered for this time are lost. A lease takes three seconds."""
_FAILED: Final = (aiohttp.ClientError, TimeoutError, OSError)


class Load:
    """Producers and consumers of one queue, and what they know of its messages."""

    def __init__(
        self, servers: Sequence[Server], queue: str, *, batch: int = 10, ahead: int = 200
    ) -> None:
        """
        ``batch``: messages of a push. Pops take five times as many.

        ``ahead``: how many batches of a partition may wait to be consumed.
        """
        self._servers = servers
        self._batch = batch
        self._ahead = ahead * batch
        self._queue = queue
        self._producers: list[asyncio.Task[None]] = []
        self._consumers: list[asyncio.Task[None]] = []
        self._is_pushing = True
        """A push that was sent before may still be stored while this is false."""
        self._is_stored = False
        """All pushes have ended."""
        self.pushed = [0] * _PARTITIONS
        """How many messages of each partition are stored for certain."""
        self._acked: defaultdict[int, dict[int, float]] = defaultdict(dict)
        """Messages whose acknowledgment was confirmed, and when."""
        self._tried: defaultdict[int, set[int]] = defaultdict(set)
        """Messages whose acknowledgment was sent, so it may have been applied."""
        self._delivered_to = [0] * _PARTITIONS
        """All messages of a partition before this one were delivered."""
        self._delivered_at = time.monotonic()
        """When the last messages were delivered."""
        self.duplicated: list[tuple[int, int]] = []
        """Messages that a pop returned although their acknowledgment was confirmed before it."""
        self.reordered: list[tuple[int, int]] = []
        """Messages that came before an earlier one was acknowledged."""

    def start(self) -> None:
        for at in range(_PARTITIONS):
            self._producers.append(asyncio.create_task(self._push(at)))
        for at in range(len(self._servers)):
            self._consumers.append(asyncio.create_task(self._consume(self._servers[at])))

    async def until(self, messages: int) -> None:
        """Wait until this many messages are stored."""
        while sum(self.pushed) < messages:  # noqa: ASYNC110 - a condition, bounded by the test
            await asyncio.sleep(0.05)

    async def stop(self) -> None:
        """Stop the producers, and the consumers when all messages are consumed."""
        self._is_pushing = False
        await asyncio.gather(*self._producers)
        self._is_stored = True
        await asyncio.gather(*self._consumers)

    async def _call(self, at: int, path: str, body: Any) -> Any:  # noqa: ANN401 - any JSON
        """A reply with status 200 or 201, after as many attempts as it takes."""
        while True:
            server = self._servers[at % len(self._servers)]
            try:
                reply = await server.post(path, body)
            except _FAILED:
                pass
            else:
                if reply.status in (200, 201):
                    return reply.body
                assert reply.status >= 500, (reply.status, reply.body)
            at += 1
            await asyncio.sleep(0.02)

    async def _push(self, partition: int) -> None:
        while self._is_pushing:
            first = self.pushed[partition]
            if first > len(self._tried[partition]) + self._ahead:
                await asyncio.sleep(0.01)
                continue
            items = [
                {
                    "queue": self._queue,
                    "partition": f"p{partition}",
                    "payload": [partition, n],
                    "transactionId": f"{partition}-{n}",
                }
                for n in range(first, first + self._batch)
            ]
            results = await self._call(partition, "/push", {"items": items})
            if {each["status"] for each in results["messages"]} <= {"queued", "duplicate"}:
                self.pushed[partition] += self._batch

    async def _consume(self, server: Server) -> None:
        while not (self._is_stored and self.is_complete()):
            began_at = time.monotonic()
            try:
                reply = await server.get(
                    f"/pop/queue/{self._queue}",
                    batch=5 * self._batch,
                    consumerGroup="g",
                    subscriptionMode="all",
                    wait="true",
                    timeout=500,
                )
            except _FAILED:
                await asyncio.sleep(0.02)
                continue
            if reply.status == 200:
                self._check(reply.body["messages"], began_at)
                await self._acknowledge(server, reply.body["messages"])

    def _check(self, messages: Sequence[Any], began_at: float) -> None:
        """Check what a pop that began at this time returned."""
        self._delivered_at = time.monotonic()
        delivered: set[tuple[int, int]] = set()
        for partition, n in (each["data"] for each in messages):
            if self._acked[partition].get(n, began_at) < began_at:
                self.duplicated.append((partition, n))
            if n and n - 1 not in self._tried[partition] and (partition, n - 1) not in delivered:
                self.reordered.append((partition, n))
            delivered.add((partition, n))

    async def _acknowledge(self, server: Server, messages: Sequence[Any]) -> None:
        for partition, n in (each["data"] for each in messages):
            self._tried[partition].add(n)
        body = {
            "acknowledgments": [{"id": each["id"], "leaseId": each["leaseId"]} for each in messages]
        }
        try:
            reply = await server.post("/ack/batch", body)
        except _FAILED:
            return
        if reply.status >= 500:
            return
        for each, result in zip(messages, reply.body["results"], strict=True):
            if result["success"]:
                partition, n = each["data"]
                self._acked[partition].setdefault(n, time.monotonic())

    def is_complete(self) -> bool:
        """
        Whether all messages were delivered, or none for so long that the others are lost.

        A push that was not confirmed may be delivered too, so a count of messages proves nothing.
        """
        for at in range(_PARTITIONS):
            tried = self._tried[at]
            while self._delivered_to[at] in tried:
                self._delivered_to[at] += 1
        is_delivered = all(self._delivered_to[at] >= self.pushed[at] for at in range(_PARTITIONS))
        return is_delivered or time.monotonic() - self._delivered_at > _LOST_SECONDS

    def judge(self) -> dict[str, int]:
        """How many messages were lost, delivered after their acknowledgment, or too early."""
        lost = sum(len({*range(self.pushed[at])} - self._tried[at]) for at in range(_PARTITIONS))
        return {
            "lost": lost,
            "duplicated": len(self.duplicated),
            "reordered": len(self.reordered),
        }
