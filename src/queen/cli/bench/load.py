"""The load of `queen bench`: push messages on a schedule and record the outcome of each."""

import asyncio
import contextlib
import time
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import msgspec

from queen import errors

if TYPE_CHECKING:
    from queen import Message, Queen

_DRAIN_SECONDS: Final = 15.0
"""How long to wait for messages that were pushed and not received yet."""
_POP_MILLIS: Final = 500


class Plan(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The parameters of a run."""

    rate: float
    """Messages per second; 0 pushes as fast as possible."""
    seconds: float
    count: int
    size_bytes: int
    batch: int
    pop_batch: int
    partitions: int
    producers: int
    consumers: int


class Latencies(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds."""

    p50: float
    p95: float
    p99: float
    p999: float = msgspec.field(name="p99.9")
    max: float


class Outcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The results of a run."""

    seconds: float
    pushed: int
    """Confirmed by the server."""
    received: int
    """Different messages."""
    lost: int
    """Confirmed, but never received."""
    duplicates: int
    """Received more than once."""
    failed: int
    """Rejected, or the response was lost."""
    pushed_per_second: float
    received_per_second: float
    is_corrected: bool
    """Latencies start at the scheduled time of the push, not at its actual start."""
    push_millis: Latencies | None
    end_to_end_millis: Latencies | None
    errors: dict[str, int]


class Load:
    """One run, in its own queue."""

    def __init__(self, queen: "Queen", plan: Plan) -> None:
        self._queen = queen
        self._plan = plan
        self.queue = f"queen-bench-{uuid4().hex[:12]}"
        self._next = 0
        self._batches = -(-plan.count // plan.batch)
        self._began_at = array("d", bytes(8 * self._batches))
        self._state = bytearray(plan.count)  # Per message: 1 if confirmed.
        self._seen = bytearray(plan.count)  # Per message: how often it was received.
        self._push_seconds = array("d")
        self._whole_seconds = array("d")
        self._errors: dict[str, int] = {}
        self._padding = "x" * max(0, plan.size_bytes - 12)
        self._is_pushed = False
        self._last_at = 0.0
        self.pushed = 0
        self.received = 0
        self.failed = 0
        self.duplicates = 0

    async def run(self) -> Outcome:
        """Push and pop until every message was received, or the drain times out."""
        plan = self._plan
        await self._queen.queue(self.queue).create()
        # The first calls open connections, which is not part of the measurement.
        await self._queen.queue(self.queue).pop()
        start = time.perf_counter()
        consumers = [asyncio.create_task(self._consume()) for _ in range(plan.consumers)]
        producers = [asyncio.create_task(self._produce(start)) for _ in range(plan.producers)]
        try:
            await asyncio.gather(*producers)
            produced = time.perf_counter()
            self._is_pushed = True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_DRAIN_SECONDS):
                    await asyncio.gather(*consumers)
        finally:
            for task in (*producers, *consumers):
                task.cancel()
            await asyncio.gather(*producers, *consumers, return_exceptions=True)
        return self._outcome(produced - start, max(self._last_at, produced) - start)

    async def _produce(self, start: float) -> None:
        plan = self._plan
        deadline = start + plan.seconds
        while self._next < self._batches:
            number = self._next
            now = time.perf_counter()
            due = start + number * plan.batch / plan.rate if plan.rate else now
            if due > deadline:
                return
            self._next += 1
            if due > now:
                await asyncio.sleep(due - now)
            # From the scheduled start, because waiting for a slow server is latency too.
            self._began_at[number] = due
            await self._push(number)
            self._push_seconds.append(time.perf_counter() - due)

    async def _push(self, number: int) -> None:
        plan = self._plan
        first = number * plan.batch
        names = range(first, min(first + plan.batch, plan.count))
        target = self._queen.queue(self.queue).partition(f"p{number % plan.partitions}")
        try:
            await target.push([{"data": {"n": n, "x": self._padding}} for n in names])
        except errors.QueenError as error:
            self.failed += len(names)
            self._errors[error.code] = self._errors.get(error.code, 0) + 1
            return
        self.pushed += len(names)
        for n in names:
            self._state[n] = 1

    async def _consume(self) -> None:
        plan = self._plan
        source = self._queen.queue(self.queue).batch(plan.pop_batch).partitions(plan.partitions)
        source = source.wait(True).timeout_millis(_POP_MILLIS)
        while not (self._is_pushed and self.received >= self.pushed):
            try:
                messages = await source.pop()
                if messages:
                    self._count(messages)
                    await self._queen.ack(messages)
            except errors.QueenError as error:
                self._errors[error.code] = self._errors.get(error.code, 0) + 1
                await asyncio.sleep(0.1)

    def _count(self, messages: "Sequence[Message[Any]]") -> None:
        now = self._last_at = time.perf_counter()
        for message in messages:
            n: int = message.data["n"]
            if self._seen[n]:
                self.duplicates += 1
            else:
                self.received += 1
                self._whole_seconds.append(now - self._began_at[n // self._plan.batch])
            self._seen[n] = 1

    def _outcome(self, push_seconds: float, whole_seconds: float) -> Outcome:
        lost = sum(
            confirmed and not seen for confirmed, seen in zip(self._state, self._seen, strict=True)
        )
        return Outcome(
            seconds=round(whole_seconds, 3),
            pushed=self.pushed,
            received=self.received,
            lost=lost,
            duplicates=self.duplicates,
            failed=self.failed,
            pushed_per_second=round(self.pushed / push_seconds, 1),
            received_per_second=round(self.received / whole_seconds, 1),
            is_corrected=self._plan.rate > 0,
            push_millis=latencies(self._push_seconds),
            end_to_end_millis=latencies(self._whole_seconds),
            errors=self._errors,
        )


def latencies(seconds: Sequence[float]) -> Latencies | None:
    """Return quantiles by rank, so each is a measured latency. None without any latency."""
    if not seconds:
        return None
    ranked = sorted(seconds)

    def at(quantile: float) -> float:
        return round(ranked[min(len(ranked) - 1, int(quantile * len(ranked)))] * 1000, 3)

    return Latencies(
        p50=at(0.5), p95=at(0.95), p99=at(0.99), p999=at(0.999), max=round(ranked[-1] * 1000, 3)
    )
