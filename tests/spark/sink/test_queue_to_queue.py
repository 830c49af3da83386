"""Despite faults, a stream from queue to queue copies each message once."""

# pyright: basic

import asyncio
import shutil
from contextlib import ExitStack
from pathlib import Path

import msgspec
import psycopg
import pytest
import uvloop
from pyspark.sql import SparkSession

from queen.engine.engine import Engine
from queen.engine.upkeep.loop import Upkeep
from queen.settings import Settings
from tests.spark import filling, oracle, processes
from tests.spark.copying import (
    ANSWER_SECONDS,
    assert_copied,
    begin,
    begun,
    driver_of,
    faults_of,
    finish,
    messages,
    prepare,
    published,
    run,
    staged,
    value,
    wait_until_arrived,
    wait_until_held,
)
from tests.spark.databases import migrated
from tests.spark.place import ONE_CORE, Place
from tests.support import clock
from tests.support.postgres import Postgres

MESSAGES = 1600
"""Over eight partitions in twenty transactions, which are four batches."""
KEPT_SECONDS = 60


@pytest.mark.nightly
def test_a_task_that_fails_before_or_after_its_write_is_repeated_with_its_batch(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    place = Place.local(spark)
    copy = prepare(dsn, tmp_path, tasks="2")
    filling.fill(dsn, "a", MESSAGES)
    faults = faults_of(copy)

    # A local session tries a task once, so the stream fails and is restarted.
    faults.fail("writing.0.1")
    assert "writing.0.1 was to fail" in run(place, copy)
    assert published(dsn) == -1
    faults.heal("writing.0.1")
    faults.fail("staged.1.0")
    assert "staged.1.0 was to fail" in run(place, copy)
    assert published(dsn) == 0
    assert staged(dsn) > 0  # It had written.
    faults.heal("staged.1.0")
    assert run(place, copy) == ""

    assert assert_copied(dsn) == MESSAGES
    assert len([each for each in faults.events("staged", 1) if each["task"] == 0]) == 2


@pytest.mark.nightly
def test_after_a_crash_of_postgresql_staged_rows_are_lost_and_the_batch_is_repeated(
    place: Place, tmp_path: Path
) -> None:
    with Postgres(in_memory=True) as server:
        dsn = migrated(server)
        copy = prepare(dsn, tmp_path)
        filling.fill(dsn, "a", MESSAGES)
        faults = faults_of(copy)

        faults.hold("publishing.1")
        with begun(place, copy) as end:
            wait_until_held(faults, "publishing.1")
            assert staged(dsn) > 0
            server.kill()
            server.start()
            assert staged(dsn) == 0
            faults.release("publishing.1")
            assert "lost the staged rows" in end()
        assert (published(dsn), messages(dsn, "b")) == (0, MESSAGES // 4)

        # Again, when the batch is published and Spark has not recorded it.
        faults.hold("published.2")
        with begun(place, copy) as end:
            wait_until_held(faults, "published.2")
            server.kill()
            server.start()
            faults.release("published.2")
            failure = end()
        if failure:
            assert run(place, copy) == ""

        assert assert_copied(dsn) == MESSAGES
        assert len(faults.events("publishing", 1)) == 2


@pytest.mark.nightly
def test_a_stream_without_its_checkpoint_continues_by_its_name(
    place: Place, dsn: str, tmp_path: Path
) -> None:
    copy = prepare(dsn, tmp_path, app_id="copy")
    filling.fill(dsn, "a", MESSAGES)
    faults = faults_of(copy)
    faults.fail("publishing.2")
    assert "publishing.2 was to fail" in run(place, copy)
    assert published(dsn) == 1
    faults.heal("publishing.2")

    shutil.rmtree(copy.checkpoint)
    filling.fill(dsn, "a", MESSAGES, start=MESSAGES)
    # Other limits don't change the planned batches.
    copy.read["maxMessagesPerTrigger"] = "1000"
    assert run(place, copy) == ""

    assert assert_copied(dsn) == 2 * MESSAGES
    entries = [each["entries"] for each in faults.events("published")]
    # Two batches were published and skipped on their repeat. Then there were new ones.
    assert [each > 0 for each in entries[:5]] == [True, True, False, False, True]

    shutil.rmtree(copy.checkpoint)
    assert run(place, copy) == ""
    assert assert_copied(dsn) == 2 * MESSAGES


@pytest.mark.nightly
def test_two_concurrent_drivers_with_one_name_write_one_copy(
    place: Place, dsn: str, tmp_path: Path
) -> None:
    options = {"app_id": "copy", "maxMessagesPerTrigger": "300"}
    theirs = prepare(dsn, tmp_path / "theirs", **options)
    ours = prepare(dsn, tmp_path / "ours", **options)
    theirs, ours = (msgspec.structs.replace(each, is_endless=True) for each in (theirs, ours))
    faults = faults_of(theirs)
    faults.hold("publishing.0")
    with driver_of(place, theirs, **ONE_CORE) as driver, ExitStack() as stack:
        filling.fill(dsn, "a", MESSAGES)
        driver.until("running", ANSWER_SECONDS)
        wait_until_held(faults, "publishing.0", driver.log)
        end = stack.enter_context(begun(place, ours, **ONE_CORE))
        wait_until_arrived(dsn)
        # It has staged the first batch, which another driver has already published.
        assert published(dsn) > 0
        assert faults.events("publishing", 0)[0]["entries"] > 0
        faults.release("publishing.0")
        with filling.Producers(dsn, "a", connections=2, partitions=6, transactions=50) as producers:
            producers.finish()
        wait_until_arrived(dsn)
        last = published(dsn)
        processes.wait(
            lambda: bool(faults.events("published", last)), ANSWER_SECONDS, lambda: driver.log
        )
        driver.go_on()
        assert driver.answer(ANSWER_SECONDS)["failure"] == ""
        assert end() == ""

    assert assert_copied(dsn) > MESSAGES
    assert len(faults.events("published", 0)) == 1  # It continued by itself.
    assert [each["batch"] for each in faults.events("published")] == list(range(last + 1))


def test_messages_removed_before_the_stream_reads_them_are_an_error(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    place = Place.local(spark)
    copy = prepare(dsn, tmp_path)
    filling.make(dsn, "a", retention_enabled=True, retention_seconds=KEPT_SECONDS)
    with psycopg.connect(dsn) as connection:
        connection.execute(clock.INSTALL.encode())
    filling.fill(dsn, "a", MESSAGES)
    whole = oracle.digests(dsn, "a")
    faults = faults_of(copy)

    # Held messages stay, and all of them arrive.
    value(dsn, "select id from queen.queues, queen.hold('a', 'test', '0') where name = 'a'")
    faults.hold("planned.2")
    query = begin(spark, copy)
    wait_until_held(faults, "planned.2")
    retain(dsn)
    assert messages(dsn, "a") == MESSAGES
    value(dsn, "select id from queen.queues, queen.unhold('a', 'test') where name = 'a'")
    retain(dsn)
    assert value(dsn, "select count(*) from queen.removals where xid is not null") > 0
    faults.release("planned.2")

    assert "were deleted before this stream read them" in finish(query)
    assert oracle.assert_beginning(whole, oracle.digests(dsn, "b")) == MESSAGES * 3 // 4
    # It fails each time until the user decides.
    assert "were deleted before" in run(place, copy)
    copy.read["failOnDataLoss"] = "false"
    assert run(place, copy) == ""


def pass_time(dsn: str, seconds: float) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "update public.clock set at = at + make_interval(secs => %s)", (seconds,)
        )


def retain(dsn: str, seconds: float = 2 * KEPT_SECONDS) -> None:
    """Advance the clock, and run retention."""

    async def look() -> None:
        async with await Engine.open(dsn) as engine:
            upkeep = Upkeep(engine.core, Settings(retention_interval_ms=1_000))
            while await upkeep.look():
                pass

    pass_time(dsn, seconds)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(look())


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1, 5, 20, 60])
def test_a_stream_that_races_retention_copies_everything_or_fails(
    spark: SparkSession, dsn: str, tmp_path: Path, seconds: int
) -> None:
    copy = prepare(dsn, tmp_path, maxMessagesPerTrigger="300", tasks="2")
    filling.make(dsn, "a", retention_enabled=True, retention_seconds=KEPT_SECONDS)
    with psycopg.connect(dsn) as connection:
        connection.execute(clock.INSTALL.encode())
    for number in range(10):  # So that messages become old one after the other.
        filling.fill(dsn, "a", 400, transactions=5, start=number * 400)
        pass_time(dsn, 6)
    whole = oracle.digests(dsn, "a")

    query = begin(spark, copy)
    # Messages that were removed before its start are not missed.
    faults = faults_of(copy)
    processes.wait(lambda: bool(faults.events("planned")), ANSWER_SECONDS, lambda: "it hangs")
    while query.isActive:
        retain(dsn, seconds)
    failure = finish(query)

    found = oracle.digests(dsn, "b")
    if failure:
        assert "removed" in failure
        assert oracle.assert_beginning(whole, found) > 0
    else:
        assert oracle.assert_same(whole, found) == 4000


@pytest.mark.nightly
@pytest.mark.parametrize("is_mutant", [False, True], ids=["ours", "mutant"])
def test_partitions_keep_their_order_when_producers_wait_for_each_other(
    spark: SparkSession, dsn: str, tmp_path: Path, is_mutant: bool
) -> None:
    """The mutant stores transaction IDs unchanged, so a reader misses messages."""
    copy = prepare(dsn, tmp_path, maxMessagesPerTrigger="200", tasks="2")
    if is_mutant:
        forget_order(dsn)
    query = begin(spark, msgspec.structs.replace(copy, is_endless=True))
    with filling.Producers(
        dsn, "a", connections=6, partitions=6, transactions=20 if is_mutant else 100
    ) as producers:
        filling.push_against_each_other(dsn, "a")
        producers.finish()
    wait_until_arrived(dsn)
    query.stop()

    if is_mutant:
        with pytest.raises(AssertionError, match="out of order"):
            assert_copied(dsn)
        return
    assert oracle.raised(dsn, "a") > 1
    assert assert_copied(dsn) > MESSAGES
    assert len(faults_of(copy).events("published")) > 1


def forget_order(dsn: str) -> None:
    """Replace the push of this database with one that ignores the previous segment."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute("select pg_get_functiondef('queen.push'::regproc)").fetchone()
        assert row is not None
        ours = "greatest(v_xid, n.xid)"
        assert ours in row[0]
        connection.execute(row[0].replace(ours, "v_xid").encode())
