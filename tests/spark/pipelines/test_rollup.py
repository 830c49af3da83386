"""The history agrees with the log, counters and samples after any number of runs."""

# pyright: basic

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from pyspark.sql import DataFrame, SparkSession

from queen.engine.engine import Engine
from queen.meters import Histogram
from queen.spark.pipelines import rollup
from queen.spark.pipelines.rollup import DAY, HOUR, MINUTE, Config, Rolled
from tests.engine.helpers import purge, push
from tests.spark.rolling import BEGIN, COUNTS, Database, Key, assert_rolled, fill
from tests.support.clock import Clock


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database.open(dsn) as database:
        yield database


async def roll(spark: SparkSession, dsn: str, **options: Any) -> Rolled:  # noqa: ANN401
    # With few rows, more tasks than cores would mostly add time to start them.
    config = Config(dsn=dsn, **{"tasks": 2, **options})
    return await asyncio.to_thread(rollup.run, spark, config)


async def test_every_grain_agrees_with_the_tables(
    spark: SparkSession, dsn: str, engine: Engine, clock: Clock, database: Database
) -> None:
    await fill(engine, clock, database)

    done = await roll(spark, dsn)

    await assert_rolled(database)
    assert (done.start_at, done.late, done.forgotten) == (BEGIN, 0, 0)
    assert done.end_at == (await clock.now()).replace(second=0, microsecond=0)
    assert done.minutes == len(await database.rollups(MINUTE))


async def test_hours_are_the_sum_of_minutes_and_days_of_hours(
    spark: SparkSession, dsn: str, engine: Engine, clock: Clock, database: Database
) -> None:
    await fill(engine, clock, database)
    await roll(spark, dsn)

    for fine, coarse in ((MINUTE, HOUR), (HOUR, DAY)):
        for name in ("pushed", "bytes", *COUNTS, "samples", "depth_sum"):
            sums: Counter[Key] = Counter()
            for (at, queue_id, group_id), row in (await database.rollups(fine)).items():
                period = datetime.fromtimestamp(at.timestamp() // coarse * coarse, UTC)
                sums[period, queue_id, group_id] += row[name]
            rows = await database.rollups(coarse)
            assert {key: row[name] for key, row in rows.items()} == dict(sums)


@pytest.mark.nightly
async def test_a_second_run_changes_no_row(
    spark: SparkSession, dsn: str, engine: Engine, clock: Clock, database: Database
) -> None:
    await fill(engine, clock, database)
    await roll(spark, dsn)
    before = [await database.rollups(grain) for grain in (MINUTE, HOUR, DAY)]

    again = await roll(spark, dsn)
    assert again.start_at > BEGIN
    assert [await database.rollups(grain) for grain in (MINUTE, HOUR, DAY)] == before
    # Everything, not only the rows near the end.
    whole = await roll(spark, dsn, since=BEGIN)
    assert whole.start_at == BEGIN
    assert [await database.rollups(grain) for grain in (MINUTE, HOUR, DAY)] == before


@pytest.mark.nightly
async def test_an_open_hour_and_day_grow_until_they_are_over(
    spark: SparkSession, dsn: str, engine: Engine, clock: Clock, database: Database
) -> None:
    for grain in (MINUTE, HOUR, DAY):
        assert await database.rollups(grain) == {}
    await push(engine, "orders", 1)
    (queue_id,) = (await database.ids())[0].values()
    for minute, hours, day in ((0, [], []), (1, [1], [1]), (61, [2], [2]), (91, [2, 1], [3])):
        now = (await clock.now() - BEGIN).total_seconds()
        await clock.advance(seconds=minute * 60 - int(now))
        await roll(spark, dsn)
        rows = await database.rollups(HOUR)
        assert [row["pushed"] for _, row in sorted(rows.items())] == hours
        assert [row["pushed"] for row in (await database.rollups(DAY)).values()] == day
        if minute in (1, 61):
            await push(engine, "orders", 1)
    assert set(await database.rollups(DAY)) == {(BEGIN, queue_id, 0)}


async def test_percentiles_of_a_day_are_accurate_within_a_fifth(
    spark: SparkSession, dsn: str, engine: Engine, clock: Clock, database: Database
) -> None:
    rng = random.Random(11)
    values: list[float] = []
    await push(engine, "orders", 0)
    (queue_id,) = (await database.ids())[0].values()
    for _ in range(30):
        minute = (await clock.now()).replace(second=0, microsecond=0)
        for process in (1, 2):
            histogram = Histogram()
            for _ in range(50):
                values.append(rng.expovariate(1 / rng.choice((0.01, 1, 60))))
                histogram.observe(values[-1])
            bins = {"wait_bins": list(histogram.bins), "wait_counts": list(histogram.bins.values())}
            await database.count(process, minute, {"queue_id": queue_id, "group_id": 0, **bins})
        await clock.advance(seconds=1_200)
    await roll(spark, dsn)

    (row,) = (await database.rollups(DAY)).values()
    merged = Histogram(dict(zip(row["wait_bins"], row["wait_counts"], strict=True)))
    values.sort()
    assert merged.count == len(values)
    for share in (0.5, 0.95, 0.99):
        exact = values[int(len(values) * share) - 1]
        assert merged.percentile(share) == pytest.approx(exact, rel=0.2)


@pytest.mark.nightly
async def test_late_counters_of_a_process_are_included_by_the_next_run(
    spark: SparkSession, dsn: str, engine: Engine, clock: Clock, database: Database
) -> None:
    await push(engine, "orders", 1, 2)
    (queue_id,) = (await database.ids())[0].values()
    await database.count(1, BEGIN, {"queue_id": queue_id, "group_id": 0, "duplicates": 1})
    await clock.advance(seconds=2 * DAY)
    await roll(spark, dsn)

    # One of the first minute is two days late, and one is a little late.
    late = {"queue_id": queue_id, "group_id": 0, "duplicates": 10}
    recent = (await clock.now()).replace(second=0, microsecond=0) - timedelta(minutes=9)
    await database.count(2, BEGIN, late)
    await database.count(2, recent, late)
    done = await roll(spark, dsn)

    assert done.late == 1
    for grain in (MINUTE, HOUR, DAY):
        rows = await database.rollups(grain)
        assert (rows[BEGIN, queue_id, 0]["duplicates"], rows[BEGIN, queue_id, 0]["pushed"]) == (
            11,
            2,
        )
        assert sum(row["duplicates"] for row in rows.values()) == 21
    assert (await roll(spark, dsn)).late == 0


@pytest.mark.nightly
async def test_an_older_run_does_not_overwrite_a_newer_one(
    spark: SparkSession,
    dsn: str,
    engine: Engine,
    clock: Clock,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await push(engine, "orders", 1)
    (queue_id,) = (await database.ids())[0].values()
    row = {"queue_id": queue_id, "group_id": 0}
    await database.count(1, BEGIN, {**row, "duplicates": 5, "wait_bins": [3], "wait_counts": [5]})
    await clock.advance(seconds=120)
    loop = asyncio.get_running_loop()
    write = rollup._write
    newer: list[Rolled] = []

    def overtaken(config: Config, grain: int, frame: DataFrame) -> int:
        """A newer run finishes after the older one has read and before it writes."""
        held = spark.createDataFrame(frame.collect(), frame.schema)
        monkeypatch.setattr(rollup, "_write", write)
        # The same number of events, so that only the transaction decides.
        counters = {**row, "acked": 5, "wait_bins": [9], "wait_counts": [5]}
        count = database.count(1, BEGIN, counters)
        asyncio.run_coroutine_threadsafe(count, loop).result(30)
        newer.append(rollup.run(spark, config))
        return write(config, grain, held)

    monkeypatch.setattr(rollup, "_write", overtaken)
    older = await roll(spark, dsn)

    assert (newer[0].minutes, older.minutes) == (1, 0)
    for grain in (MINUTE, HOUR, DAY):
        (found,) = (await database.rollups(grain)).values()
        assert (found["duplicates"], found["acked"], found["wait_bins"]) == (0, 5, [9])


@pytest.mark.nightly
async def test_rows_whose_counters_and_log_were_removed_stay(
    spark: SparkSession, dsn: str, engine: Engine, clock: Clock, database: Database
) -> None:
    await fill(engine, clock, database)
    await roll(spark, dsn)
    before = [await database.rollups(grain) for grain in (MINUTE, HOUR, DAY)]
    # As retention and the background tasks do.
    cut = BEGIN + timedelta(hours=13)
    for table in ("counters", "samples"):
        await database.rows(f"delete from queen.{table} where minute < $1", cut)
    await database.rows("delete from queen.segments where created_at < $1", cut)

    await roll(spark, dsn, since=BEGIN)

    assert [await database.rollups(grain) for grain in (MINUTE, HOUR, DAY)] == before


@pytest.mark.nightly
async def test_messages_removed_before_a_run_are_taken_from_the_counters(
    spark: SparkSession, dsn: str, engine: Engine, clock: Clock, database: Database
) -> None:
    await push(engine, "orders", 1, 2, 3)
    await push(engine, "mails", 1, 2)
    await push(engine, "mails", 3, delay_seconds=3_600)
    ids, _ = await database.ids()
    for queue_id, pushed in ((ids["orders"], 3), (ids["mails"], 3)):
        await database.count(1, BEGIN, {"queue_id": queue_id, "group_id": 0, "pushed": pushed})
    await purge(engine, "orders")
    await clock.advance(seconds=60)

    await roll(spark, dsn)

    rows = await database.rollups(MINUTE)
    assert rows[BEGIN, ids["orders"], 0]["pushed"] == 3
    # The log is complete, so only the log counts: the third message is not pushed yet.
    assert rows[BEGIN, ids["mails"], 0]["pushed"] == 2


@pytest.mark.nightly
async def test_rows_are_removed_by_grain(
    spark: SparkSession, dsn: str, engine: Engine, clock: Clock, database: Database
) -> None:
    await push(engine, "orders", 1)
    await clock.advance(seconds=60)
    await roll(spark, dsn, since=BEGIN)
    for days, grains in ((6, (1, 1, 1)), (8, (0, 1, 1)), (91, (0, 0, 1))):
        now = (await clock.now() - BEGIN).total_seconds()
        await clock.advance(seconds=days * DAY - now)
        await roll(spark, dsn)
        assert tuple([len(await database.rollups(g)) for g in (MINUTE, HOUR, DAY)]) == grains
    await roll(spark, dsn, day_days=90)
    assert await database.rollups(DAY) == {}


@pytest.mark.nightly
async def test_a_deleted_queue_leaves_no_history(
    spark: SparkSession, dsn: str, engine: Engine, clock: Clock, database: Database
) -> None:
    await fill(engine, clock, database)
    await roll(spark, dsn)
    ids, _ = await database.ids()
    await database.rows("select queen.delete_queue('orders')")
    while not (await database.rows("select queen.erase(1000) as done"))[0]["done"]:
        pass
    await roll(spark, dsn, since=BEGIN)

    for grain in (MINUTE, HOUR, DAY):
        assert {queue_id for _, queue_id, _ in await database.rollups(grain)} == {ids["mails"]}


async def test_a_transaction_that_commits_an_hour_late_is_not_missed(
    spark: SparkSession, dsn: str, engine: Engine, clock: Clock, database: Database
) -> None:
    await push(engine, "orders", 1)
    connection = await asyncpg.connect(dsn)
    try:
        async with connection.transaction():
            await connection.execute(
                """
                insert into queen.segments (
                  partition_id, base_offset, message_count, created_at, queue_id, xid, body, ends
                )
                select
                  s.partition_id, s.base_offset + 1, 1, s.created_at, s.queue_id,
                  pg_current_xact_id(), s.body, s.ends
                from queen.segments s
                """
            )
            await clock.advance(seconds=HOUR)
            await roll(spark, dsn, since=BEGIN)
            (row,) = (await database.rollups(MINUTE)).values()
            assert row["pushed"] == 1
    finally:
        await connection.close()
    await roll(spark, dsn)

    for grain in (MINUTE, HOUR, DAY):
        (row,) = (await database.rollups(grain)).values()
        assert row["pushed"] == 2


def test_periods_do_not_overlap() -> None:
    day = int(BEGIN.timestamp())
    minutes = [
        day + 59 * 60,
        day + 60 * 60,
        day + 60 * 60,
        day + 200 * 60,
        *range(day + DAY, day + 2 * DAY, 60),
    ]

    def found(grain: int) -> list[tuple[float, float]]:
        return [
            ((a - BEGIN).total_seconds() / grain, (b - BEGIN).total_seconds() / grain)
            for a, b in rollup.ranges(minutes, grain)
        ]

    assert found(HOUR) == [(0, 2), (3, 4), (24, 48)]
    assert found(DAY) == [(0, 2)]
    assert found(MINUTE)[:4] == [(59, 61), (200, 201), (1440, 1800), (1800, 2160)]
