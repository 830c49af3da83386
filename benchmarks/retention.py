"""
Measure the effect of retention on pushes, pops and acks while it deletes a large history.

The history is old, and one in a hundred partitions has a leased message in it. The load pushes to
and pops from the same partitions, first without retention, then while it deletes the history. The
result is the ratio of p99. Then the remaining messages are compared one by one with the expected
ones. Finally the same amount is stored and deleted again, to show that the tables stop growing.
The last line is one JSON object. The exit code is 0 if all checks pass.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from typing import Any

import asyncpg
import uvloop

from benchmarks.load import SETTINGS, machine
from queen.engine.engine import Engine
from queen.engine.upkeep.loop import Upkeep
from queen.settings import Settings
from queen.store.migrations import migrate
from queen.wire.messages import PopRequest, PushItem
from tests.support.postgres import Postgres

QUEUE, GROUP = "orders", "active"
TARGET = 2.0
PLATEAU = 1.2
PER_TRANSACTION = 1_000
PROTECTED_EVERY = 100
PROTECTED_OFFSET = 5
VACUUMS = 20
DEAD_ROWS = 100_000

Latencies = dict[str, list[float]]

PARTITIONS = """
insert into queen.partitions (id, queue_id, name) overriding system value
select i, 1, 'p' || i from generate_series(1, $1::bigint) i;
"""
CONSUMERS = """
insert into queen.consumers (partition_id, group_id, claimed, idle_at, priority)
select i, 1, $2::bigint, now(), 0 from generate_series(1, $1::bigint) i;
"""
HISTORY = """
insert into queen.segments
  (partition_id, base_offset, message_count, created_at, queue_id, xid, body, ends)
select
  i, $3::bigint, 1, now() - make_interval(secs => $4), 1, pg_current_xact_id(),
  convert_to(rpad(format('{"partition":%s,"offset":%s}', i, $3::bigint), 100), 'UTF8'),
  '\\x0000000064000000'
from generate_series($1::bigint, $2::bigint) i;
"""
READ = """
update queen.consumers set claimed = $3::bigint + 1
where group_id = 1 and partition_id between $1::bigint and $2::bigint
"""
PROTECTED = """
insert into queen.deliveries
  (id, group_id, partition_id, priority, pending, until, held, ordered)
select
  queen.delivery_id(i), 1, i, 0, int8multirange(int8range($2::bigint, $2::bigint + 1)),
  now() + interval '1 day', true, false
from generate_series($3::bigint, $1::bigint, $3::bigint) i;
"""
DEAD = """
select sum(n_dead_tup)::bigint from pg_stat_user_tables
where format('%s.%s', schemaname, relname) = any ($1)
"""
LEFT = """
select p.id as partition_id, f.first_offset
from queen.partitions p
cross join lateral (
  select min(s.base_offset) as first_offset
  from queen.segments s
  where s.partition_id = p.id and s.body is not null
) f
where p.queue_id = 1 and (f.first_offset < $1 or p.id % $2 = 0)
"""
STORED = """
select queen.payload_at(s.body, s.ends, ($2 - s.base_offset)::integer)
from queen.segments s
where s.partition_id = $1 and s.base_offset <= $2
order by s.base_offset desc
limit 1
"""
SIZES = """
select c::regclass::text as name, pg_table_size(c) as heap, pg_indexes_size(c) as indexes
from unnest($1::regclass[]) c
"""
TABLES = ["queen.segments", "queen.consumers", "queen.partitions", "queen.laggards"]


class Bench:
    """One database, one engine, and its background tasks."""

    def __init__(self, dsn: str, engine: Engine, flags: argparse.Namespace) -> None:
        self.dsn = dsn
        self.engine = engine
        self.flags = flags
        self.depth: int = flags.messages // flags.partitions
        self.rng = random.Random(5)
        self.upkeep = Upkeep(
            engine.core,
            Settings(retention_interval_ms=1_000, upkeep_look_seconds=1, upkeep_run_seconds=5),
        )
        self.pushed: dict[tuple[int, int], bytes] = {}

    async def build(self) -> None:
        """Create partitions, a group that has read everything, and a history from two hours ago."""
        await self.engine.queues.configure(QUEUE, {"ordered": False, "dedup_seconds": 0})
        await self.engine.pop(PopRequest(queue=QUEUE, consumer_group=GROUP))
        connection = await asyncpg.connect(self.dsn)
        await connection.execute(PARTITIONS.replace("$1", str(self.flags.partitions)))
        await connection.execute("select setval('queen.partitions_id_seq', 10000000)")
        await connection.fetch(CONSUMERS, self.flags.partitions, self.depth)
        await connection.close()
        await self.store(first_offset=0, age=7_200)
        connection = await asyncpg.connect(self.dsn)
        await connection.fetch(PROTECTED, self.flags.partitions, PROTECTED_OFFSET, PROTECTED_EVERY)
        await connection.execute("vacuum analyze")
        await connection.close()

    async def store(self, *, first_offset: int, age: float) -> None:
        """Store as many messages as the history has, all read, a thousand per transaction."""
        connection = await asyncpg.connect(self.dsn)
        await connection.execute("set synchronous_commit = off")
        for offset in range(first_offset, first_offset + self.depth):
            for first in range(1, self.flags.partitions + 1, PER_TRANSACTION):
                last = min(first + PER_TRANSACTION - 1, self.flags.partitions)
                await connection.fetch(HISTORY, first, last, offset, float(age))
                if offset == first_offset + self.depth - 1:
                    await connection.fetch(READ, first, last, offset)
        await connection.close()

    async def load(self, seconds: float, is_over: asyncio.Event | None) -> Latencies:
        """Push, pop and ack single messages for this many seconds, and until the event."""
        latencies: Latencies = {"push": [], "pop": [], "ack": []}
        deadline = time.perf_counter() + seconds
        request = PopRequest(queue=QUEUE, consumer_group=GROUP)

        def goes_on() -> bool:
            return time.perf_counter() < deadline or not (is_over is None or is_over.is_set())

        async def call() -> None:
            while goes_on():
                number = self.rng.randrange(self.flags.partitions) + 1
                payload = b'{"n":%d}' % self.rng.getrandbits(60)
                began = time.perf_counter()
                item = PushItem(queue=QUEUE, partition=f"p{number}", payload=payload)
                (stored,) = await self.engine.push([item])
                latencies["push"].append(time.perf_counter() - began)
                assert stored.offset is not None
                self.pushed[number, stored.offset] = payload
                began = time.perf_counter()
                deliveries = await self.engine.pop(request)
                latencies["pop"].append(time.perf_counter() - began)
                for delivery in deliveries:
                    assert delivery.lease_id is not None
                    began = time.perf_counter()
                    await self.engine.ack(delivery.lease_id)
                    latencies["ack"].append(time.perf_counter() - began)

        await asyncio.gather(*(call() for _ in range(self.flags.callers)))
        return latencies

    async def remove(self, is_over: asyncio.Event) -> float:
        """Run the background tasks until no work is due. Returns the seconds."""
        began = time.perf_counter()
        quiet = 0
        while quiet < 2:
            has_more = await self.upkeep.look()
            rows = await self.engine.store.database.fetch("duties")
            (duty,) = [row for row in rows if row["name"] == "retention"]
            assert duty["error"] is None, duty["error"]
            # A run may find only leased messages, and still have more to delete.
            quiet = 0 if has_more or duty["rows"] else quiet + 1
            await asyncio.sleep(1.1)
        is_over.set()
        return time.perf_counter() - began

    async def lost(self) -> tuple[int, int]:
        """Count messages that were deleted by mistake, and partitions that kept too much."""
        connection = await asyncpg.connect(self.dsn)
        rows = await connection.fetch(LEFT, self.depth, PROTECTED_EVERY)
        kept_too_much = 0
        lost = 0
        for row in rows:
            is_protected = row["partition_id"] % PROTECTED_EVERY == 0
            if is_protected:
                lost += row["first_offset"] is None or row["first_offset"] > PROTECTED_OFFSET
            kept_too_much += row["first_offset"] is not None and (
                row["first_offset"] < (PROTECTED_OFFSET if is_protected else self.depth)
            )
        for (partition_id, offset), payload in self.pushed.items():
            body = await connection.fetchval(
                STORED,
                partition_id,
                offset,
            )
            lost += body != payload
        await connection.close()
        return lost, kept_too_much

    async def size(self) -> int:
        connection = await asyncpg.connect(self.dsn)
        # An older snapshot, such as that of an analyze, keeps dead rows.
        for _ in range(VACUUMS):
            await connection.execute("vacuum")
            dead = await connection.fetchval(DEAD, TABLES)
            print(f"{dead} dead rows remain", flush=True)
            if dead < DEAD_ROWS:
                break
            await asyncio.sleep(5)
        rows = await connection.fetch(SIZES, TABLES)
        await connection.close()
        print({row["name"]: (row["heap"], row["indexes"]) for row in rows}, flush=True)
        return sum(row["heap"] + row["indexes"] for row in rows)

    async def cycle(self, number: int) -> int:
        """Store the same amount again and delete it. Returns the size of the tables."""
        await self.engine.queues.configure(QUEUE, {"retention_seconds": 10**9})
        await self.store(first_offset=10**6 * number, age=0)
        await self.engine.queues.configure(QUEUE, {"retention_seconds": 0.001})
        await asyncio.sleep(1.1)
        await self.remove(asyncio.Event())
        return await self.size()


def p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98]


def ratios(alone: Latencies, beside: Latencies) -> dict[str, float]:
    return {verb: round(p99(beside[verb]) / p99(alone[verb]), 2) for verb in ("push", "pop")}


async def measure(dsn: str, flags: argparse.Namespace) -> dict[str, Any]:
    await migrate(dsn)
    async with await Engine.open(dsn) as engine:
        bench = Bench(dsn, engine, flags)
        await bench.build()
        await bench.load(2, None)
        alone = await bench.load(flags.seconds, None)
        options = {"retention_enabled": True, "retention_seconds": 3_600}
        await engine.queues.configure(QUEUE, options)
        is_over = asyncio.Event()
        removing = asyncio.create_task(bench.remove(is_over))
        beside = await bench.load(flags.seconds, is_over)
        seconds = await removing
        print(ratios(alone, beside), flush=True)
        lost, kept_too_much = await bench.lost()
        await engine.queues.configure(QUEUE, {"retention_seconds": 0.001})
        sizes = [await bench.cycle(number) for number in range(1, flags.cycles + 1)]
    return {
        "partitions": flags.partitions,
        "messages": flags.messages,
        "removal_seconds": round(seconds, 1),
        "removed_per_second": round(flags.messages / seconds),
        "calls": {"alone": len(alone["push"]), "beside": len(beside["push"])},
        "p99_ms": {
            verb: [round(p99(each[verb]) * 1000, 2) for each in (alone, beside)]
            for verb in ("push", "pop", "ack")
        },
        "ratio": ratios(alone, beside),
        "lost": lost,
        "kept_too_much": kept_too_much,
        "sizes": sizes,
        # Not the first size, because vacuum ran while the history was deleted.
        "plateau": round(sizes[-1] / sizes[-2], 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=1_000_000)
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--callers", type=int, default=8)
    parser.add_argument("--cycles", type=int, default=2)
    flags = parser.parse_args()
    with Postgres(SETTINGS) as server, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(measure(server.create_database("retention"), flags))
    print(json.dumps({"bench": "retention", **machine(), **figures, "target": TARGET}))
    is_good = (
        figures["lost"] == 0
        and figures["kept_too_much"] == 0
        and figures["plateau"] <= PLATEAU
        and max(figures["ratio"].values()) <= TARGET
    )
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
