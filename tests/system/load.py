"""
A process of producers or consumers that survives database outages and logs its history.

Usage::

    python -m tests.system.load '{"type": "Produce", …}'
"""

import asyncio
import hashlib
import itertools
import json
import logging
import random
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import msgspec
import uvloop

from queen import errors
from queen.codec.ids import id_of
from queen.engine.engine import Engine
from queen.engine.pop.delivery import Delivery
from queen.wire.messages import Acknowledgment, PopRequest, PushItem
from tests.system.http_engine import HttpDelivery, HttpEngine
from tests.system.worker import say, told

PAUSE_SECONDS = 0.05
"""Wait before a failed call is retried."""


class Producer(msgspec.Struct, frozen=True):
    """How one producer makes its retries safe: by a sequence, by transactionIds, or not at all."""

    name: str
    queue: str
    partitions: int
    identity: Literal["sequence", "transaction", "none"]


class Consumer(msgspec.Struct, frozen=True):
    """The queue and group of one consumer."""

    name: str
    queue: str
    group: str


class Produce(msgspec.Struct, frozen=True, tag=True):
    """Producers that run until the stop command."""

    dsn: str
    history: str
    producers: list[Producer]
    pace_seconds: float


class Consume(msgspec.Struct, frozen=True, tag=True):
    """Consumers that ack everything after the drain command, and end after the stop command."""

    dsn: str
    history: str
    consumers: list[Consumer]
    lease_seconds: float


def instant() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


class History:
    """Writes a line before each call and a line after it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", buffering=1)
        self._numbers = itertools.count()
        self.unexpected: list[str] = []

    def fault(self, id_: str, phase: Literal["begin", "end"], *, target: str = "pg") -> None:
        self._write(e="fault", t=instant(), id=id_, target=target, phase=phase)

    async def call(
        self,
        proc: str,
        op: str,
        args: dict[str, Any],
        call: Callable[[], Awaitable[Any]],
        result: Callable[[Any], dict[str, Any]],
    ) -> tuple[str, Any]:
        """Make a call, and return its outcome with its result or error code."""
        seq = next(self._numbers)
        self._write(e="inv", proc=proc, seq=seq, op=op, t=instant(), args=args)
        try:
            answer = await call()
        except errors.QueenError as error:
            outcome = "fail" if error.applied is False else "info"
            self._write(
                e="ret",
                proc=proc,
                seq=seq,
                t=instant(),
                outcome=outcome,
                code=error.code,
                error=f"{error} <- {error.__context__!r}",
            )
            return outcome, error.code
        except Exception as error:
            # Not an API error: the outcome is unknown to the client, and it is a bug.
            self.unexpected.append(f"{op}: {type(error).__name__}: {error}")
            self._write(e="ret", proc=proc, seq=seq, t=instant(), outcome="info", code="unexpected")
            return "info", "unexpected"
        at = instant()
        self._write(e="ret", proc=proc, seq=seq, t=at, outcome="ok", result=result(answer))
        return "ok", answer

    def close(self) -> None:
        self._file.close()

    def _write(self, **line: object) -> None:
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")


class Producing:
    """The producers of one process."""

    def __init__(self, engine: Engine | HttpEngine, history: History, task: Produce) -> None:
        self._engine = engine
        self._history = history
        self._task = task
        self._is_stopping = False

    async def run(self) -> None:
        producing = asyncio.gather(*(self._produce(each) for each in self._task.producers))
        await told()
        self._is_stopping = True
        await producing

    async def _produce(self, producer: Producer) -> None:
        rng = random.Random(producer.name)
        sequence, n = 0, 0
        last: list[tuple[int, list[PushItem], list[dict[str, Any]]]] = []
        while not self._is_stopping:
            items, args = self._batch(rng, producer, n)
            n += len(items)
            sequence += 1
            await self._store(producer, sequence, items, args)
            last = [*last, (sequence, items, args)][-3:]
            if producer.identity == "sequence" and rng.random() < 0.05:
                # Repeat the last request, or an old one.
                again = rng.choice((last[-1], last[0]))
                await self._push(producer, *again)
            elif producer.identity == "transaction" and rng.random() < 0.05:
                await self._push(producer, *rng.choice(last))
            await asyncio.sleep(rng.random() * 2 * self._task.pace_seconds)

    def _batch(
        self, rng: random.Random, producer: Producer, n: int
    ) -> tuple[list[PushItem], list[dict[str, Any]]]:
        # Requests that are repeated as a whole may span partitions.
        most = 2 if producer.identity == "sequence" else 1
        names = [f"p{rng.randrange(producer.partitions)}" for _ in range(rng.randint(1, most))]
        items: list[PushItem] = []
        args: list[dict[str, Any]] = []
        for at in range(rng.randint(1, 8)):
            key = f"{producer.name}-{n + at}"
            payload = json.dumps({"key": key, "pad": rng.randbytes(rng.randrange(60)).hex()})
            tx = f"tx-{key}" if producer.identity == "transaction" else None
            items.append(
                PushItem(
                    queue=producer.queue,
                    partition=names[at % len(names)],
                    payload=payload.encode(),
                    transaction_id=tx,
                )
            )
            sha = hashlib.sha256(payload.encode()).hexdigest()
            args.append({"key": key, "partition": items[-1].partition, "sha": sha, "tx": tx})
        return items, args

    async def _store(
        self,
        producer: Producer,
        sequence: int,
        items: list[PushItem],
        args: list[dict[str, Any]],
    ) -> None:
        """Push until it is certainly stored, or until a repeat could store it twice."""
        while True:
            outcome, answer = await self._push(producer, sequence, items, args)
            if outcome == "ok" or (outcome == "info" and producer.identity == "none"):
                return
            if answer == errors.SequenceStale.code:
                raise AssertionError(f"{producer.name}: sequence {sequence} was refused as stale")
            await asyncio.sleep(PAUSE_SECONDS)

    async def _push(
        self,
        producer: Producer,
        sequence: int,
        items: list[PushItem],
        args: list[dict[str, Any]],
    ) -> tuple[str, Any]:
        is_counted = producer.identity == "sequence"
        producer_id = producer.name if is_counted else None
        number = sequence if is_counted else None
        return await self._history.call(
            producer.name,
            "push",
            {"queue": producer.queue, "producer": producer_id, "sequence": number, "items": args},
            lambda: self._engine.push(items, producer_id=producer_id, sequence=number),
            lambda answer: {
                "is_replayed": answer.is_replayed,
                "items": [
                    {
                        "status": each.status,
                        "partition_id": id_of(each.partition_id or ""),
                        "offset": each.offset,
                        "id": each.id,
                    }
                    for each in answer
                ],
            },
        )


class Consuming:
    """The consumers of one process: most ack, some fail, some are late, some never respond."""

    def __init__(self, engine: Engine | HttpEngine, history: History, task: Consume) -> None:
        self._engine = engine
        self._history = history
        self._task = task
        self._is_draining = False
        self._is_stopping = False

    async def run(self) -> None:
        consuming = [asyncio.create_task(self._consume(each)) for each in self._task.consumers]
        await told()
        self._is_draining = True
        await told()
        self._is_stopping = True
        await asyncio.gather(*consuming)

    async def _consume(self, consumer: Consumer) -> None:
        rng = random.Random(consumer.name)
        while not self._is_stopping:
            outcome, deliveries = await self._pop(consumer, rng)
            if outcome != "ok":
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            for delivery in deliveries:
                await self._settle(consumer, rng, delivery)

    async def _pop(self, consumer: Consumer, rng: random.Random) -> tuple[str, Any]:
        request = PopRequest(
            queue=consumer.queue,
            consumer_group=consumer.group,
            batch=rng.choice((1, 10, 50)),
            partitions=rng.randint(1, 2),
            wait=True,
            timeout_seconds=0.5,
            lease_seconds=self._task.lease_seconds,
        )
        return await self._history.call(
            consumer.name,
            "pop",
            {"queue": consumer.queue, "group": consumer.group},
            lambda: self._engine.pop(request),
            lambda answer: {"deliveries": [self._handed(each) for each in answer]},
        )

    def _handed(self, delivery: Delivery | HttpDelivery) -> dict[str, Any]:
        assert delivery.until is not None
        return {
            "partition_id": delivery.partition_id,
            "lease_id": delivery.lease_id,
            "until": _microseconds(delivery.until),
            "lease_seconds": self._task.lease_seconds,
            "attempt": delivery.attempt,
            "messages": [
                {
                    "offset": message.offset,
                    "id": message.id,
                    "key": json.loads(bytes(message.data))["key"],
                    "sha": hashlib.sha256(bytes(message.data)).hexdigest(),
                }
                for message in delivery.messages()
            ],
        }

    async def _settle(
        self, consumer: Consumer, rng: random.Random, delivery: Delivery | HttpDelivery
    ) -> None:
        how = "well" if self._is_draining else _HABITS[rng.randrange(len(_HABITS))]
        offsets = delivery.offsets
        match how:
            case "fails":
                await self._nack(consumer, delivery)
            case "vanishes":
                pass  # Its lease expires.
            case "dawdles":
                await asyncio.sleep(self._task.lease_seconds + 0.3)
                await self._ack(consumer, delivery, None)
            case "in two halves" if len(offsets) > 1:
                half = len(offsets) // 2
                await self._ack(consumer, delivery, offsets[:half])
                await self._ack(consumer, delivery, offsets[half:])
            case _:
                await self._ack(consumer, delivery, None)

    async def _ack(
        self, consumer: Consumer, delivery: Delivery | HttpDelivery, offsets: list[int] | None
    ) -> None:
        """Ack until there is a result. After an unknown outcome, the lease may be gone."""
        lease_id = delivery.lease_id or ""
        for _ in range(100):
            outcome, code = await self._history.call(
                consumer.name,
                "ack",
                {"lease_id": lease_id, "offsets": offsets},
                lambda: self._engine.ack(lease_id, offsets),
                lambda settled: {"settled": settled},
            )
            if outcome == "ok" or code == errors.LeaseLost.code:
                return
            await asyncio.sleep(PAUSE_SECONDS)

    async def _nack(self, consumer: Consumer, delivery: Delivery | HttpDelivery) -> None:
        first = next(delivery.messages())
        nack = Acknowledgment(
            id=first.id, lease_id=delivery.lease_id, status="failed", error="as told"
        )

        async def call() -> None:
            (answer,) = await self._engine.acknowledge([nack])
            if not answer.success:
                raise errors.of_code(answer.code or "") or errors.QueenError

        await self._history.call(
            consumer.name,
            "nack",
            {"lease_id": delivery.lease_id, "offsets": [first.offset]},
            call,
            lambda _: {},
        )


_HABITS = [
    *["well"] * 84,
    *["in two halves"] * 6,
    *["fails"] * 5,
    *["vanishes"] * 3,
    *["dawdles"] * 2,
]


def _microseconds(at: datetime) -> int:
    return round(at.timestamp() * 1e6)


async def main() -> None:
    task = msgspec.json.decode(sys.argv[1], type=Produce | Consume)
    # The pool logs the outages of the database, which are expected here.
    logging.getLogger("asyncpg").setLevel(logging.CRITICAL)
    history = History(Path(task.history))
    # Use HTTP if the DSN names a server.
    is_http = task.dsn.startswith("http:")
    async with HttpEngine(task.dsn) if is_http else await Engine.open(task.dsn) as engine:
        say(ready=True)
        if isinstance(task, Produce):
            await Producing(engine, history, task).run()
        else:
            await Consuming(engine, history, task).run()
    history.close()
    say(unexpected=history.unexpected[:20])


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
