"""
PostgreSQL is killed under load: acknowledged pushes are stored, acked messages are not redelivered.
"""

import asyncio
import contextlib
import json
import random
import statistics
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from queen.engine.engine import Engine
from queen.store.migrations import migrate
from tests.engine.helpers import pop_one, push
from tests.support.clock import Clock
from tests.support.postgres import Postgres
from tests.system.checker.checker import Checker
from tests.system.checker.history import read_files
from tests.system.load import Consume, Consumer, History, Produce, Producer
from tests.system.processes import Worker, start
from tests.system.tiles import behind

QUEUES = {"ordered": True, "unordered": False}
GROUPS = {"ordered": ["a", "b"], "unordered": ["a"]}
LEASE_SECONDS = 1.5
MODULE = "tests.system.load"

_DUMP = {
    "segments": """
        select
          partition_id, base_offset, message_count,
          (extract(epoch from created_at) * 1000000)::bigint,
          translate(encode(body, 'base64'), E'\\n', ''),
          translate(encode(ends, 'base64'), E'\\n', ''),
          translate(encode(extras, 'base64'), E'\\n', '')
        from queen.segments
        order by partition_id, base_offset
    """,
    "positions": """
        select distinct on (c.partition_id, c.group_id) c.partition_id, q.name, g.name, c.claimed
        from queen.consumers c
        join queen.groups g on g.id = c.group_id
        join queen.queues q on q.id = g.queue_id
        order by c.partition_id, c.group_id, c.version desc
    """,
    "deliveries": """
        select d.partition_id, q.name, g.name, d.pending::text
        from queen.deliveries d
        join queen.groups g on g.id = d.group_id
        join queen.queues q on q.id = g.queue_id
    """,
    "groups": "select q.name, g.name from queen.groups g join queen.queues q on q.id = g.queue_id",
}


async def test_kills_of_postgresql_lose_no_message(tmp_path: Path) -> None:
    await run(
        tmp_path,
        kills=3,
        between=200,
        minimum={"ops": 1_000, "messages": 800, "redelivered": 20, "unknown": 1},
    )


async def test_an_offset_that_a_pop_gave_to_a_scheduled_message_outlives_a_kill() -> None:
    """Pops commit asynchronously, but assigning an offset to a message does not."""
    with Postgres({"wal_writer_delay": "10s", "autovacuum": "off"}) as postgres:
        dsn = postgres.create_database("killed")
        await migrate(dsn)
        async with await Engine.open(dsn) as engine, await Clock.install(dsn) as clock:
            await push(engine, "orders", "scheduled", delay_seconds=60)
            await clock.advance(seconds=61)
            # A durable commit, which includes all earlier ones.
            await push(engine, "others", 0)
            delivery = await pop_one(engine, "orders")
            postgres.kill()
            postgres.start()
            async with await Engine.open(dsn) as after:
                (pushed,) = await push(after, "orders", "another")
            assert (delivery.offsets, pushed.offset) == ([0], 1)


@pytest.mark.slow
async def test_twenty_kills_of_postgresql_lose_no_message(tmp_path: Path) -> None:
    await run(
        tmp_path,
        kills=20,
        between=1_500,
        minimum={
            "ops": 15_000,
            "messages": 20_000,
            "redelivered": 500,
            "unknown": 100,
            "unknown_retried_ok": 20,
            "duplicates": 20,
            "replayed": 20,
            "sequence_stale": 5,
            "lease_lost": 20,
            "nack_ok": 50,
        },
    )


async def run(folder: Path, *, kills: int, between: int, minimum: dict[str, int]) -> None:
    """Kill and restart under load, drain, and check the history."""
    seed = random.SystemRandom().randrange(10**9)
    rng = random.Random(seed)
    print(f"seed {seed}", flush=True)
    with Postgres() as postgres:
        dsn = postgres.create_database("queen")
        await migrate(dsn)
        await configure(dsn)
        faults = History(folder / "faults.jsonl")
        async with load(dsn, folder) as (producers, consumers):
            for number in range(kills):
                await under_load(dsn, between)
                # At a random point of the load.
                await asyncio.sleep(rng.uniform(0.0, 0.5))
                faults.fault(f"F{number}", "begin")
                await asyncio.to_thread(postgres.kill)
                await asyncio.to_thread(postgres.start)
                faults.fault(f"F{number}", "end")
                if kills > 5:
                    print(f"kill {number + 1} of {kills}", flush=True)
            await under_load(dsn, between)
            for worker in producers:
                worker.tell("stop")
            said = [await worker.finish(seconds=30) for worker in producers]
            for worker in consumers:
                worker.tell("drain")
            drained = await drain(dsn)
            for worker in consumers:
                worker.tell("stop")
            said += [await worker.finish(seconds=30) for worker in consumers]
        faults.close()
        dump = await dumped(dsn)
    (folder / "dump.json").write_text(json.dumps(dump))
    started = time.monotonic()
    checker = _judge(folder, dump)
    violations = checker.check()
    _report(checker, seed=seed, drained=drained, checked=time.monotonic() - started)
    for violation in violations[:20]:
        print(violation, flush=True)
    assert violations == []
    assert [each for worker in said for each in worker["unexpected"]] == []
    # Below these minimums, the check proves nothing.
    short = {name: checker.counts[name] for name, n in minimum.items() if checker.counts[name] < n}
    assert checker.counts["kills"] == kills
    assert short == {}, f"invalid: below the minimum of {minimum}"


@contextlib.asynccontextmanager
async def load(dsn: str, folder: Path) -> AsyncGenerator[tuple[list[Worker], list[Worker]]]:
    """Two processes of producers and two of consumers, each with its own engine."""
    async with contextlib.AsyncExitStack() as stack:
        consumers = [
            await stack.enter_async_context(
                start(
                    Consume(
                        dsn=dsn,
                        history=str(folder / f"consume{process}.jsonl"),
                        lease_seconds=LEASE_SECONDS,
                        consumers=[
                            Consumer(f"c{process}-{queue}-{group}-{number}", queue, group)
                            for queue, groups in GROUPS.items()
                            for group in groups
                            for number in range(2)
                        ],
                    ),
                    module=MODULE,
                )
            )
            for process in range(2)
        ]
        for worker in consumers:
            await worker.expect("ready")
        producers = [
            await stack.enter_async_context(
                start(
                    Produce(
                        dsn=dsn,
                        history=str(folder / f"produce{process}.jsonl"),
                        pace_seconds=0.02,
                        producers=[
                            Producer(f"p{process}-{queue}-{identity}", queue, 6, identity)
                            for queue in QUEUES
                            for identity in ("sequence", "transaction", "none")
                        ],
                    ),
                    module=MODULE,
                )
            )
            for process in range(2)
        ]
        for worker in producers:
            await worker.expect("ready")
        yield producers, consumers


async def configure(dsn: str) -> None:
    """
    Create queues and groups before the first push, so that every group must receive every message.
    """
    async with await Engine.open(dsn, connections=2) as engine:
        for queue, is_ordered in QUEUES.items():
            await engine.queues.configure(
                queue, {"ordered": is_ordered, "retry_limit": 1_000, "retry_delay_ms": 50}
            )
            for group in GROUPS[queue]:
                await engine.store.groups.subscribe(queue, group, mode=None, start_at=None)


async def under_load(dsn: str, messages: int) -> None:
    """Wait until `messages` messages got through since the last kill."""
    connection = await asyncpg.connect(dsn)
    try:
        progress = (
            "select coalesce(sum(message_count), 0)::bigint, "
            "(select coalesce(sum(claimed), 0)::bigint from queen.consumers) from queen.segments"
        )
        first = await connection.fetchrow(progress)
        assert first is not None
        async with asyncio.timeout(30):
            while True:
                now = await connection.fetchrow(progress)
                assert now is not None
                if now[0] >= first[0] + messages and now[1] >= first[1] + messages:
                    return
                await asyncio.sleep(0.02)
    finally:
        await connection.close()


async def drain(dsn: str) -> float:
    """Wait until every group has settled every message, and return the seconds."""
    started = time.monotonic()
    connection = await asyncpg.connect(dsn)
    try:
        async with asyncio.timeout(60):
            while await behind(connection):  # noqa: ASYNC110 - the condition is in the database
                await asyncio.sleep(0.1)
    finally:
        await connection.close()
    return time.monotonic() - started


async def dumped(dsn: str) -> dict[str, Any]:
    connection = await asyncpg.connect(dsn)
    try:
        partitions = await connection.fetch(
            "select p.id, q.name as queue, p.name "
            "from queen.partitions p join queen.queues q on q.id = p.queue_id"
        )
        return {
            "queues": QUEUES,
            "partitions": {row["id"]: (row["queue"], row["name"]) for row in partitions},
            **{
                name: [list(row.values()) for row in await connection.fetch(statement)]
                for name, statement in _DUMP.items()
            },
        }
    finally:
        await connection.close()


def _judge(folder: Path, dump: dict[str, Any]) -> Checker:
    return Checker(read_files(sorted(folder.glob("*.jsonl"))), dump)


def _report(checker: Checker, *, seed: int, drained: float, checked: float) -> None:
    recoveries = checker.recoveries()
    away = [seconds for seconds, _ in recoveries]
    ready = [seconds for _, seconds in recoveries]
    print(
        json.dumps(
            {
                "seed": seed,
                **dict(sorted(checker.counts.items())),
                "database_away_seconds": _median_and_max(away),
                "ready_to_first_push_seconds": _median_and_max(ready),
                "drained_seconds": round(drained, 2),
                "checked_seconds": round(checked, 2),
            }
        ),
        flush=True,
    )


def _median_and_max(seconds: list[float]) -> list[float]:
    return [round(statistics.median(seconds), 3), round(max(seconds), 3)]
