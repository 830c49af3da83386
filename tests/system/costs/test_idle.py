"""Waiters cost the database nothing, and each push wakes one of them."""

import asyncio
import contextlib
import gc
import json
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from queen.engine.engine import Engine
from queen.engine.pop.delivery import Delivery
from queen.settings import Settings
from queen.store.migrations import migrate
from queen.wire.messages import PopRequest, PushItem
from tests.support.postgres import Postgres
from tests.system.costs.statements import Statements

WAITERS = 10_000
MEASURED_SECONDS = 20.0
"""Long enough to include the occasional background work of each process."""
SETTINGS = Settings(max_waiters=WAITERS + 1_000)
PATIENT = Settings(max_waiters=WAITERS + 1_000, safety_poll_ms=20_000)
"""The safety poll is so late that only the push can wake a waiter, even on a busy machine."""


@pytest.fixture(scope="module")
def counted() -> Iterator[Postgres]:
    """A PostgreSQL that counts statements. Other tests use the shared one."""
    with Postgres({"shared_preload_libraries": "pg_stat_statements"}) as postgres:
        yield postgres


@pytest.fixture
async def idle_dsn(counted: Postgres) -> str:
    dsn = await asyncio.to_thread(counted.create_database, f"idle_{uuid4().hex}")
    await migrate(dsn)
    return dsn


class Waiters:
    """Waiting pops, each in its own task, and their results."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.tasks: set[asyncio.Task[None]] = set()
        self.got: asyncio.Queue[tuple[float, Delivery]] = asyncio.Queue()

    def add(self, queue: str, count: int) -> None:
        request = PopRequest(queue=queue, wait=True, timeout_seconds=600)
        for _ in range(count):
            task = asyncio.create_task(self._wait(request))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    async def settled(self) -> None:
        """Wait until all of them wait and no search runs for them."""
        async with asyncio.timeout(30):
            while self._engine.waiting != len(self.tasks):  # noqa: ASYNC110 - a condition, bounded
                await asyncio.sleep(0.02)

    async def end(self) -> None:
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait(self, request: PopRequest) -> None:
        for delivery in await self._engine.pop(request):
            self.got.put_nowait((time.perf_counter(), delivery))


def resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


async def make_queues(engine: Engine, count: int) -> list[str]:
    """Create queues like those in use, each with a partition and a group."""
    queues = [f"q{number}" for number in range(count)]
    for start in range(0, count, 500):
        await engine.push(
            [PushItem(queue=queue, payload=b"0") for queue in queues[start : start + 500]]
        )
    for queue in queues:
        (delivery,) = await engine.pop(PopRequest(queue=queue))
        await engine.ack(delivery.lease_id or "")
    return queues


async def quiet(statements: Statements) -> None:
    """Wait until the searches of the waiters have ended: a second with few statements."""
    async with asyncio.timeout(40):
        while await statements.per_second(1.0) >= 3:
            pass


@pytest.mark.nightly
@pytest.mark.parametrize("queue_count", [1, 1_000])
async def test_ten_thousand_waiters_on_an_idle_database_cost_nothing(
    idle_dsn: str, queue_count: int
) -> None:
    async with (
        await Engine.open(idle_dsn, settings=SETTINGS) as engine,
        Statements.open(idle_dsn) as statements,
    ):
        queues = await make_queues(engine, queue_count)
        gc.collect()
        before = resident_bytes()
        waiters = Waiters(engine)
        for queue in queues:
            waiters.add(queue, WAITERS // queue_count)
        await waiters.settled()
        await quiet(statements)
        gc.collect()
        kilobytes = (resident_bytes() - before) / WAITERS / 1024

        rate = await statements.per_second(MEASURED_SECONDS)
        said = {
            "waiters": engine.waiting,
            "queues": queue_count,
            "statements_per_second": round(rate, 2),
            "resident_kilobytes_per_waiter": round(kilobytes, 2),
        }
        print(json.dumps(said), flush=True)

        assert engine.waiting == WAITERS
        assert rate < 2, await statements.texts()
        assert kilobytes < 16
        await waiters.end()


@pytest.mark.nightly
async def test_waiters_of_two_processes_cost_nothing(idle_dsn: str) -> None:
    async with (
        await Engine.open(idle_dsn, settings=SETTINGS) as one,
        await Engine.open(idle_dsn, settings=SETTINGS) as other,
        Statements.open(idle_dsn) as statements,
    ):
        (queue,) = await make_queues(one, 1)
        waiters = [Waiters(one), Waiters(other)]
        for each in waiters:
            each.add(queue, WAITERS // 2)
        for each in waiters:
            await each.settled()
        await quiet(statements)

        rate = await statements.per_second(MEASURED_SECONDS)
        assert rate < 2 * len(waiters), await statements.texts()
        for each in waiters:
            await each.end()


@pytest.mark.nightly
async def test_each_push_wakes_one_of_ten_thousand_waiters(idle_dsn: str) -> None:
    async with await Engine.open(idle_dsn, settings=PATIENT) as engine:
        (queue,) = await make_queues(engine, 1)
        waiters = Waiters(engine)
        waiters.add(queue, WAITERS)
        await waiters.settled()

        delays = await _push_one_by_one(engine, engine, waiters, queue, pushes=500)

        assert engine.waiting == WAITERS - 500
        _say_delays("one engine", delays)
        await waiters.end()


@pytest.mark.nightly
async def test_each_push_wakes_one_waiter_of_another_process(idle_dsn: str) -> None:
    async with (
        await Engine.open(idle_dsn) as pushing,
        await Engine.open(idle_dsn, settings=PATIENT) as waiting,
    ):
        (queue,) = await make_queues(pushing, 1)
        waiters = Waiters(waiting)
        waiters.add(queue, 1_000)
        await waiters.settled()

        delays = await _push_one_by_one(pushing, waiting, waiters, queue, pushes=500)

        assert waiting.waiting == 500
        _say_delays("two engines", delays)
        await waiters.end()


async def test_a_queue_that_commits_late_wakes_its_waiters(idle_dsn: str) -> None:
    """IDs are assigned before the commit, so a lower one may become visible after a higher one."""
    async with (
        await Engine.open(idle_dsn, settings=Settings(safety_poll_ms=50)) as waiting,
        await Engine.open(idle_dsn) as pushing,
    ):
        waiters = Waiters(waiting)
        waiters.add("late", 1)
        await waiters.settled()
        connection = await asyncpg.connect(idle_dsn)
        try:
            async with connection.transaction():
                await connection.fetch(
                    "select queen.partition_ids("
                    "array['late'], array['Default'], array[0]::smallint[], true, '{}')"
                )
                await pushing.push([PushItem(queue="early", payload=b"0")])
                # Long enough for the waiting engine to have searched.
                looked = waiting.store.database.statements + 3
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(1):
                        while waiting.store.database.statements < looked:  # noqa: ASYNC110 - a condition, bounded
                            await asyncio.sleep(0.01)
        finally:
            await connection.close()

        await pushing.push([PushItem(queue="late", payload=b"1")])

        async with asyncio.timeout(8):
            _, delivery = await waiters.got.get()
        assert delivery.payloads() == [b"1"]


async def _push_one_by_one(
    pushing: Engine, waiting: Engine, waiters: Waiters, queue: str, *, pushes: int
) -> list[float]:
    """Check that each push wakes exactly one waiter, long before the safety poll."""
    bound = waiting.settings.safety_poll_ms / 2000
    delays: list[float] = []
    for number in range(pushes):
        before = waiting.waiting
        # Sometimes in a new partition, because pushes to an unknown partition must wake waiters
        # too.
        partition = f"p{number}" if number % 5 == 0 else "Default"
        await pushing.push([PushItem(queue=queue, partition=partition, payload=b"%d" % number)])
        pushed = time.perf_counter()
        async with asyncio.timeout(bound):
            woken, delivery = await waiters.got.get()
        assert delivery.payloads() == [b"%d" % number]
        assert waiters.got.empty()
        assert waiting.waiting == before - 1
        delays.append(max(0.0, woken - pushed))
        await waiting.ack(delivery.lease_id or "")
    return delays


def _say_delays(what: str, delays: list[float]) -> None:
    ordered = sorted(delays)
    print(
        json.dumps(
            {
                "wake-ups": what,
                "count": len(delays),
                "p50_ms": round(ordered[len(ordered) // 2] * 1e3, 2),
                "p99_ms": round(ordered[len(ordered) * 99 // 100] * 1e3, 2),
                "max_ms": round(ordered[-1] * 1e3, 2),
            }
        ),
        flush=True,
    )
