"""
A process with its own engine, for the run without faults.

Usage::

    python -m tests.system.worker '{"type": "Read", …}'
"""

import asyncio
import json
import random
import sys
from array import array
from collections import defaultdict
from pathlib import Path

import msgspec
import uvloop

from queen.codec.ids import NUMBER_BITS, id_of
from queen.engine.engine import Engine
from queen.engine.pop.delivery import Delivery
from queen.wire.messages import PopRequest, PushItem

PROGRESS = 5_000


class Stream(msgspec.Struct, frozen=True):
    """The messages of one producer: ``count`` messages, each push awaited before the next."""

    producer: int
    queue: str
    partitions: int
    count: int
    max_batch: int


class Produce(msgspec.Struct, frozen=True, tag=True):
    """Several concurrent producers, which write the places of their messages to ``output``."""

    dsn: str
    output: str
    streams: list[Stream]


class Read(msgspec.Struct, frozen=True, tag=True):
    """A group that reads until it has ``total`` messages, and checks their order."""

    dsn: str
    output: str
    group: str
    queues: list[str]
    total: int
    consumers: int


class Payload(msgspec.Struct, frozen=True):
    """Unique by (producer, n)."""

    producer: int
    n: int
    pad: str


_DECODE = msgspec.json.Decoder(Payload).decode
_ENCODE = msgspec.json.Encoder().encode


def say(**said: object) -> None:
    print(json.dumps(said), flush=True)


async def told() -> str:
    """The next command from the parent, or empty if the parent has ended."""
    return (await asyncio.to_thread(sys.stdin.readline)).strip()


def identity(producer: int, n: int) -> int:
    return producer << 32 | n


def place(partition_id: int, offset: int) -> int:
    slot, number = divmod(partition_id, 1 << NUMBER_BITS)
    return slot << NUMBER_BITS | number << 32 | offset


def _write(output: str, values: "array[int]") -> None:
    Path(output).write_bytes(values.tobytes())


class Producers:
    """Pushes the streams of one process."""

    def __init__(self, engine: Engine, task: Produce) -> None:
        self._engine = engine
        self._task = task
        self._placed = array("q")
        self._said = 0

    async def run(self) -> None:
        await asyncio.gather(*(self._produce(stream) for stream in self._task.streams))
        _write(self._task.output, self._placed)
        say(pushed=len(self._placed) // 2)

    async def _produce(self, stream: Stream) -> None:
        rng = random.Random(stream.producer)
        n = 0
        while n < stream.count:
            size = min(rng.randint(1, stream.max_batch), stream.count - n)
            # Sometimes one push goes to several partitions, which may or may not share its commit.
            numbers = rng.sample(
                range(stream.partitions), min(rng.choice((1, 1, 3)), stream.partitions)
            )
            items = [
                PushItem(
                    queue=stream.queue,
                    partition=f"p{numbers[at % len(numbers)]}",
                    payload=_ENCODE(
                        Payload(stream.producer, n + at, "x" * rng.randrange(100)),
                    ),
                )
                for at in range(size)
            ]
            for at, pushed in enumerate(await self._engine.push(items)):
                if (
                    pushed.status != "queued"
                    or pushed.partition_id is None
                    or pushed.offset is None
                ):
                    raise AssertionError(f"push {stream.producer}/{n + at}: {pushed}")
                self._placed.append(identity(stream.producer, n + at))
                self._placed.append(place(id_of(pushed.partition_id) or 0, pushed.offset))
            n += size
            if len(self._placed) // 2 >= self._said + PROGRESS:
                self._said = len(self._placed) // 2
                say(pushed=self._said)


class Reader:
    """
    A reader. Without faults there are no redeliveries, so the order is exact: no gap, no repeat.
    """

    def __init__(self, engine: Engine, task: Read) -> None:
        self._engine = engine
        self._task = task
        self._read = array("q")
        self._next: defaultdict[int, int] = defaultdict(int)
        self._last_n: dict[tuple[int, int], int] = {}
        self._is_done = asyncio.Event()
        self._said = 0

    @property
    def _count(self) -> int:
        return len(self._read) // 2

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            consumers = [
                group.create_task(self._consume(queue))
                for queue in self._task.queues
                for _ in range(self._task.consumers)
            ]
            await self._is_done.wait()
            for consumer in consumers:
                consumer.cancel()
        _write(self._task.output, self._read)
        say(read=self._count)

    async def _consume(self, queue: str) -> None:
        request = PopRequest(
            queue=queue,
            consumer_group=self._task.group,
            batch=1_000,
            partitions=4,
            wait=True,
            timeout_seconds=1,
        )
        while not self._is_done.is_set():
            for delivery in await self._engine.pop(request):
                self._check(delivery)
                settled = await self._engine.ack(delivery.lease_id or "")
                if settled != len(delivery):
                    raise AssertionError(f"{len(delivery)} messages delivered, {settled} settled")
            if self._count >= self._said + PROGRESS:
                self._said = self._count
                say(read=self._said)
            if self._count >= self._task.total:
                self._is_done.set()

    def _check(self, delivery: Delivery) -> None:
        partition_id = delivery.partition_id
        if delivery.attempt != 1:
            raise AssertionError(f"attempt {delivery.attempt} without a fault")
        for offset, payload in zip(delivery.offsets, delivery.payloads(), strict=True):
            if offset != self._next[partition_id]:
                raise AssertionError(
                    f"partition {partition_id}: offset {offset} came, "
                    f"{self._next[partition_id]} was next"
                )
            self._next[partition_id] += 1
            message = _DECODE(payload)
            of_producer = (partition_id, message.producer)
            if message.n <= self._last_n.get(of_producer, -1):
                raise AssertionError(
                    f"partition {partition_id}: message {message.n} of producer "
                    f"{message.producer} came after {self._last_n[of_producer]}"
                )
            self._last_n[of_producer] = message.n
            self._read.append(identity(message.producer, message.n))
            self._read.append(place(partition_id, offset))


async def main() -> None:
    task = msgspec.json.decode(sys.argv[1], type=Produce | Read)
    async with await Engine.open(task.dsn) as engine:
        say(ready=True)
        await told()
        work = Producers(engine, task) if isinstance(task, Produce) else Reader(engine, task)
        await work.run()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
