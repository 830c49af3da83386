"""
Compare the engine with a baseline: the same messages as rows of a plain table, in the same run.

Every result is a ratio, the median of interleaved rounds. The last line is one JSON object.
"""

import argparse
import asyncio
import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg
import uvloop

from benchmarks.load import SETTINGS, closed_loop, machine, payloads
from benchmarks.slow_disk import slow_disk
from queen.engine.engine import Engine
from queen.settings import Settings
from queen.store.migrations import migrate
from queen.wire.messages import PopRequest, PushItem
from tests.support.postgres import Postgres

MESSAGES = payloads(20_000, seed=7)
PARTITIONS = 16
MIXED_PARTITIONS = 100
SPARSE_PARTITIONS = 10_000

T = TypeVar("T")


class Bare:
    """Rows in a table with a primary key and a unique transaction id, without a queue."""

    def __init__(self, pool: "asyncpg.Pool[asyncpg.Record]") -> None:
        self._pool = pool

    @classmethod
    async def open(cls, dsn: str) -> "Bare":
        async def leave_as_is(_: object) -> None: ...

        pool = await asyncpg.create_pool(dsn, min_size=16, max_size=16, reset=leave_as_is)
        await pool.execute(
            "create table if not exists bare (id bigint generated always as identity primary key, "
            "transaction_id text not null unique, payload bytea not null)"
        )
        return cls(pool)

    async def clear(self) -> None:
        await self._pool.execute("truncate bare")

    async def close(self) -> None:
        await self._pool.close()

    async def copy(self, seconds: float, batch: int) -> float:
        built = _built(
            seconds,
            batch,
            callers=4,
            build=lambda caller, turn: list(
                zip(_ids(batch), _batch(caller, turn, batch), strict=True)
            ),
        )

        async def call(caller: int, turn: int) -> int:
            async with self._pool.acquire() as connection:
                await connection.copy_records_to_table(
                    "bare", records=built[caller][turn], columns=["transaction_id", "payload"]
                )
            return batch

        return await closed_loop(4, seconds, call)

    async def insert(self, seconds: float, batch: int, callers: int) -> float:
        one = "insert into bare (transaction_id, payload) values ($1, $2)"
        many = (
            "insert into bare (transaction_id, payload) "
            "select * from unnest($1::text[], $2::bytea[])"
        )
        statement = one if batch == 1 else many

        def build(caller: int, turn: int) -> tuple[object, object]:
            ids, messages = _ids(batch), _batch(caller, turn, batch)
            return (ids[0], messages[0]) if batch == 1 else (ids, messages)

        built = _built(seconds, batch, callers, build)

        async def call(caller: int, turn: int) -> int:
            await self._pool.execute(statement, *built[caller][turn])
            return batch

        return await closed_loop(callers, seconds, call)


def _built(
    seconds: float, batch: int, callers: int, build: Callable[[int, int], T]
) -> list[list[T]]:
    """
    Build the requests of each caller before the clock starts, for the engine and for rows alike.

    Enough for 400,000 messages per second. A run that needs more ends with an IndexError.
    """
    turns = int(seconds * 400_000 / batch / callers) + 2
    return [[build(caller, turn) for turn in range(turns)] for caller in range(callers)]


def _ids(count: int) -> list[str]:
    """Return ids as random as UUIDs, created quickly because they are not measured."""
    digits = os.urandom(16 * count).hex()
    return [digits[at : at + 32] for at in range(0, 32 * count, 32)]


def _items(
    queue: str, partition: str, caller: int, turn: int, batch: int, *, has_ids: bool = False
) -> list[PushItem]:
    ids = _ids(batch) if has_ids else [None] * batch
    return [
        PushItem(queue=queue, partition=partition, payload=message, transaction_id=id_)
        for message, id_ in zip(_batch(caller, turn, batch), ids, strict=True)
    ]


def _batch(caller: int, turn: int, batch: int) -> list[bytes]:
    start = (caller * 7919 + turn * batch) % (len(MESSAGES) - batch)
    return MESSAGES[start : start + batch]


class Ours:
    """The same messages through the engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._round = 0

    async def push(
        self,
        seconds: float,
        batch: int,
        callers: int,
        *,
        has_ids: bool = False,
        partitions: int = PARTITIONS,
    ) -> float:
        queue = self._queue()

        def build(caller: int, turn: int) -> list[PushItem]:
            return _items(queue, f"p{caller % partitions}", caller, turn, batch, has_ids=has_ids)

        if has_ids:
            built = _built(seconds, batch, callers, build)
        else:
            built = [[build(caller, turn) for turn in range(4)] for caller in range(callers)]

        async def call(caller: int, turn: int) -> int:
            await self._engine.push(built[caller][turn if has_ids else turn % 4])
            return batch

        return await closed_loop(callers, seconds, call)

    async def mixed(self, seconds: float) -> tuple[float, float]:
        """Push, pop and ack concurrently, batch 1000: pushed and consumed messages per second."""
        queue = self._queue()
        consumed = 0
        deadline = time.perf_counter() + seconds

        built = [_items(queue, f"p{n}", n, 0, 1000) for n in range(MIXED_PARTITIONS)]

        async def push(caller: int, turn: int) -> int:
            await self._engine.push(built[(caller + turn * 8) % MIXED_PARTITIONS])
            return 1000

        async def consume() -> None:
            nonlocal consumed
            request = PopRequest(queue=queue, batch=1000, wait=True, timeout_seconds=0.5)
            while time.perf_counter() < deadline:
                for delivery in await self._engine.pop(request):
                    count = len(delivery.payloads())
                    await self._engine.ack(delivery.lease_id or "")
                    if time.perf_counter() < deadline:
                        consumed += count

        consumers = asyncio.gather(*(consume() for _ in range(8)))
        pushed = await closed_loop(8, seconds, push)
        await consumers
        return pushed, consumed / seconds

    async def sparse(self, seconds: float) -> float:
        """In each caller, push to changing partitions, pop one message, and ack it."""
        queue = self._queue()
        # As in production, the partitions and the group exist.
        for start in range(0, SPARSE_PARTITIONS, 1000):
            await self._engine.push(
                [
                    PushItem(queue=queue, partition=f"p{number}", payload=b"0")
                    for number in range(start, start + 1000)
                ]
            )
        while deliveries := await self._engine.pop(
            PopRequest(queue=queue, batch=1000, partitions=1000)
        ):
            await asyncio.gather(*(self._engine.ack(d.lease_id or "") for d in deliveries))
        number = 0
        request = PopRequest(queue=queue, batch=1, wait=True, timeout_seconds=5)

        async def call(caller: int, turn: int) -> int:
            nonlocal number
            number += 1
            message = MESSAGES[number % len(MESSAGES)]
            partition = f"p{number * 7919 % SPARSE_PARTITIONS}"
            await self._engine.push([PushItem(queue=queue, partition=partition, payload=message)])
            # One pop per push, but not of the same message, so no pop waits in vain.
            for delivery in await self._engine.pop(request):
                delivery.payloads()
                await self._engine.ack(delivery.lease_id or "")
            return 1

        return await closed_loop(256, seconds, call)

    def _queue(self) -> str:
        self._round += 1
        return f"q{self._round}"


async def sizes(dsn: str, ours: Ours) -> dict[str, float]:
    """Bytes on disk and of WAL per message at batch 1000."""
    connection = await asyncpg.connect(dsn)
    try:
        before = await connection.fetchrow(
            "select pg_total_relation_size('queen.segments') as size, pg_current_wal_lsn() as lsn"
        )
        assert before is not None
        count = 0

        async def call(caller: int, turn: int) -> int:
            nonlocal count
            count += 1000
            await ours._engine.push(  # pyright: ignore[reportPrivateUsage]
                [
                    PushItem(queue="sizes", partition=f"p{caller}", payload=message)
                    for message in _batch(caller, turn, 1000)
                ]
            )
            return 1000

        await closed_loop(4, 1.5, call)
        after = await connection.fetchrow(
            "select pg_total_relation_size('queen.segments') as size, "
            "pg_wal_lsn_diff(pg_current_wal_lsn(), $1) as wal",
            before["lsn"],
        )
        assert after is not None
        return {
            "disk_bytes_per_message": round((after["size"] - before["size"]) / count, 1),
            "wal_bytes_per_message": round(float(after["wal"]) / count, 1),
            "payload_bytes_per_message": round(sum(map(len, MESSAGES)) / len(MESSAGES), 1),
        }
    finally:
        await connection.close()


RATIOS: dict[str, tuple[str, str, float]] = {
    "push_1000_vs_copy": ("push_1000", "copy_1000", 5.0),
    "push_100_vs_copy": ("push_100", "copy_100", 4.0),
    "push_10_vs_insert": ("push_10", "insert_10", 6.0),
    "push_1_vs_insert": ("push_1", "insert_1", 8.0),
    "push_1000_vs_copy_dedup": ("push_1000_dedup", "copy_1000", 1.5),
    "push_100_vs_copy_dedup": ("push_100_dedup", "copy_100", 1.5),
    "push_10_vs_insert_dedup": ("push_10_dedup", "insert_10", 3.0),
    "push_1_vs_insert_dedup": ("push_1_dedup", "insert_1", 3.0),
    "mixed_consumed_vs_pushed": ("mixed_consumed", "mixed_pushed", 0.9),
    "mixed_pushed_vs_push": ("mixed_pushed", "push_1000", 0.6),
    "sparse_vs_insert": ("sparse", "insert_1", 1.0),
}


def _points(bare: Bare, ours: Ours, seconds: float) -> dict[str, Callable[[], Awaitable[float]]]:
    """Return the measurements by name."""
    return {
        "copy_1000": lambda: bare.copy(seconds, 1000),
        "push_1000": lambda: ours.push(seconds, 1000, 8),
        "push_1000_dedup": lambda: ours.push(seconds, 1000, 8, has_ids=True),
        "copy_100": lambda: bare.copy(seconds, 100),
        "push_100": lambda: ours.push(seconds, 100, 32),
        "push_100_dedup": lambda: ours.push(seconds, 100, 32, has_ids=True),
        "insert_10": lambda: bare.insert(seconds, 10, 64),
        "push_10": lambda: ours.push(seconds, 10, 64),
        "push_10_dedup": lambda: ours.push(seconds, 10, 64, has_ids=True),
        "insert_1": lambda: bare.insert(seconds, 1, 256),
        "push_1": lambda: ours.push(seconds, 1, 256),
        "push_1_dedup": lambda: ours.push(seconds, 1, 256, has_ids=True),
        "sparse": lambda: ours.sparse(seconds),
    }


async def measure(arguments: argparse.Namespace) -> dict[str, object]:
    with slow_disk(arguments.fsync_ms), Postgres(SETTINGS) as postgres:
        dsn = postgres.create_database("bench")
        await migrate(dsn)
        admin = await asyncpg.connect(dsn)
        version = await admin.fetchval("show server_version")
        settings = Settings()
        engine = await Engine.open(dsn, settings=settings, connections=16)
        bare, ours = await Bare.open(dsn), Ours(engine)
        points = _points(bare, ours, arguments.seconds)
        rates: dict[str, list[float]] = {}
        total = arguments.rounds * (len(points) + 1)
        done = 0
        for round_ in range(arguments.rounds):
            names = [*points, "mixed"]
            if arguments.only:
                names = [name for name in names if name in arguments.only]
            # The order rotates, so that the writes of a checkpoint don't always affect one point.
            for name in names[round_ % len(names) :] + names[: round_ % len(names)]:
                await bare.clear()
                await admin.execute("checkpoint")
                gc.collect()
                if name == "mixed":
                    pushed, consumed = await ours.mixed(arguments.seconds)
                    rates.setdefault("mixed_pushed", []).append(pushed)
                    rates.setdefault("mixed_consumed", []).append(consumed)
                    shown = f"{pushed:,.0f} pushed, {consumed:,.0f} consumed"
                else:
                    rates.setdefault(name, []).append(await points[name]())
                    shown = f"{rates[name][-1]:,.0f}"
                done += 1
                print(f"[{done}/{total}] round {round_ + 1} {name}: {shown} msg/s", flush=True)
        size = await sizes(dsn, ours)
        await bare.close()
        await engine.close()
        await admin.close()
    result: dict[str, object] = {}
    print(f"\n{'figure':28}{'ratio':>8}{'target':>8}{'lowest':>8}{'highest':>9}")
    for name, (above, below, target) in RATIOS.items():
        if above not in rates or below not in rates:
            continue
        ratios = [a / b for a, b in zip(rates[above], rates[below], strict=True)]
        result[name] = round(statistics.median(ratios), 2)
        print(f"{name:28}{result[name]:>8}{target:>8}{min(ratios):>8.2f}{max(ratios):>9.2f}")
    result |= size
    result["rates"] = {name: round(statistics.median(values)) for name, values in rates.items()}
    result["configuration"] = {
        **machine(),
        "postgresql": version,
        "settings": SETTINGS,
        "rounds": arguments.rounds,
        "seconds": arguments.seconds,
        "added_fsync_ms": arguments.fsync_ms,
        "push_partitions": PARTITIONS,
        "push_lanes": settings.push_lanes,
        "callers": {"1000": 8, "100": 32, "10": 64, "1": 256},
        "copy_connections": 4,
        "insert_connections": 16,
    }
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", nargs="*")
    parser.add_argument(
        "--fsync-ms",
        type=float,
        default=0,
        help="milliseconds to add to each fsync of PostgreSQL: few disks need only 0.05 ms",
    )
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(measure(arguments))
    sys.stdout.flush()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
