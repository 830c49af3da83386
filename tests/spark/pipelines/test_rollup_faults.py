"""On a cluster with faults, the history agrees with the log, counters and samples."""

# pyright: basic

import asyncio
import time

import msgspec
import pytest

from queen.engine.engine import Engine
from queen.spark.pipelines.rollup import Config
from tests.spark.cluster import Cluster
from tests.spark.copying import kill_executor_at, wait_until_held
from tests.spark.databases import migrated
from tests.spark.driver import Driver
from tests.spark.faults import Faults
from tests.spark.place import ONE_CORE, Place
from tests.spark.rolling import DAY, HOUR, MINUTE, Database, assert_rolled, fill
from tests.support.clock import Clock
from tests.support.postgres import Postgres

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

ANSWER_SECONDS = 280
BETWEEN = ("rollup_counters.0", "storing.60", "stored.60", "storing.3600", "stored.86400")
"""Steps of a run in order, one per grain."""


def driver_of(cluster: Cluster, dsn: str, faults: Faults, **confs: str) -> Driver:
    text = msgspec.json.encode(Config(dsn=dsn, tasks=2, minute_days=1_000)).decode()
    return Place.on(cluster).driver("rollup", text, str(faults.folder), settings=confs)


def run(cluster: Cluster, dsn: str, faults: Faults) -> dict[str, int]:
    """Run without interruption, and return the number of written rows per grain."""
    with driver_of(cluster, dsn, faults) as driver:
        return driver.answer(ANSWER_SECONDS)


def kill_executors(cluster: Cluster, dsn: str, faults: Faults, steps: tuple[str, ...]) -> int:
    """Run while an executor is killed in each of these steps, and return the number of kills."""
    for step in steps:
        faults.hold(step)
    with driver_of(cluster, dsn, faults) as driver:
        answer = driver.later(ANSWER_SECONDS)
        killed = set[int]()
        for step in steps:
            killed.add(kill_executor_at(cluster, faults, step, driver))
            # Its shuffled data is lost with it, so Spark repeats the stage from attempt 0.
            faults.release(step)
        answer.result(ANSWER_SECONDS)
    return len(killed)


async def test_failed_tasks_and_a_killed_executor_are_recovered(
    cluster: Cluster, dsn: str, engine: Engine, clock: Clock, faults: Faults
) -> None:
    async with Database.open(dsn) as database:
        await fill(engine, clock, database)
        faults.fail("storing.3600.0")
        faults.fail("stored.86400.0")

        killed = await asyncio.to_thread(kill_executors, cluster, dsn, faults, ("stored.60.0",))

        assert killed == 1
        await assert_rolled(database)
        for step, grain in (("storing", HOUR), ("stored", DAY)):
            assert [each["attempt"] for each in faults.events(step, grain)][:2] == [0, 1]
        assert len(faults.events("stored", MINUTE)) > 1  # It had written, and wrote again.


@pytest.mark.slow
async def test_the_history_of_weeks_is_right_while_executors_are_killed(
    cluster: Cluster,
    dsn: str,
    engine: Engine,
    clock: Clock,
    faults: Faults,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with Database.open(dsn) as database:
        await fill(engine, clock, database, times=1_000)
        steps = ("rollup_counters.0.0", "storing.60.0", "stored.3600.0", "stored.86400.0")
        began = time.monotonic()

        killed = await asyncio.to_thread(kill_executors, cluster, dsn, faults, steps)

        assert killed == len(steps)
        await assert_rolled(database)
        rows = sum([len(await database.rollups(grain)) for grain in (MINUTE, HOUR, DAY)])
    with capsys.disabled():
        print(f"\nrollup, {killed} kills: {rows} rows, {time.monotonic() - began:.1f} s")


@pytest.mark.slow
async def test_a_driver_may_be_killed_between_any_two_steps(
    cluster: Cluster, dsn: str, engine: Engine, clock: Clock, faults: Faults
) -> None:
    def kill_drivers() -> None:
        for step in BETWEEN:
            faults.hold(step)
            with driver_of(cluster, dsn, faults) as driver:
                ended = driver.later(ANSWER_SECONDS)
                wait_until_held(faults, step)
                driver.kill()
                assert ended.exception(ANSWER_SECONDS) is not None
            faults.release(step)

    async with Database.open(dsn) as database:
        await fill(engine, clock, database)
        await asyncio.to_thread(kill_drivers)
        assert await database.rows("select from queen.rollup_marks") == []

        await asyncio.to_thread(run, cluster, dsn, faults)

        await assert_rolled(database)


@pytest.mark.slow
async def test_two_concurrent_drivers_write_one_history(
    cluster: Cluster, dsn: str, engine: Engine, clock: Clock, faults: Faults
) -> None:
    async with Database.open(dsn) as database:

        def overtake() -> None:
            """For the day that one driver writes, the other has already written more events."""
            without = Faults(faults.folder / "without")
            without.folder.mkdir()
            faults.hold("storing.86400")
            with driver_of(cluster, dsn, faults, **ONE_CORE) as slow:
                answer = slow.later(ANSWER_SECONDS)
                wait_until_held(faults, "storing.86400")
                asyncio.run_coroutine_threadsafe(fill(engine, clock, database), loop).result(60)
                with driver_of(cluster, dsn, without, **ONE_CORE) as quick:
                    quick.answer(ANSWER_SECONDS)
                faults.release("storing.86400")
                answer.result(ANSWER_SECONDS)

        loop = asyncio.get_running_loop()
        await fill(engine, clock, database)
        await asyncio.to_thread(overtake)

        await assert_rolled(database)


@pytest.mark.slow
async def test_a_run_interrupted_by_a_crash_of_postgresql_is_completed_by_the_next(
    cluster: Cluster, faults: Faults
) -> None:
    def crash() -> None:
        faults.hold("stored.60")
        with driver_of(cluster, dsn, faults) as driver:
            answer = driver.later(ANSWER_SECONDS)
            wait_until_held(faults, "stored.60")
            server.kill()
            server.start()
            faults.release("stored.60")
            assert answer.exception(ANSWER_SECONDS) is not None  # Its connection is lost.

    with Postgres(in_memory=True) as server:
        dsn = await asyncio.to_thread(migrated, server)
        async with (
            await Clock.install(dsn) as clock,
            await Engine.open(dsn) as engine,
            Database.open(dsn) as database,
        ):
            await fill(engine, clock, database)
        await asyncio.to_thread(crash)

        await asyncio.to_thread(run, cluster, dsn, faults)

        async with Database.open(dsn) as database:
            await assert_rolled(database)
