"""Windows and replays on the cluster have the same results when executors are killed."""

# pyright: basic

import json
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import psycopg
import pytest
from pyspark.sql import SparkSession

from queen.spark.pipelines import replay, windows
from tests.spark import filling, oracle, windowing
from tests.spark.cluster import Cluster
from tests.spark.copying import kill_executor_at, published, staged, wait_until_held
from tests.spark.databases import migrated
from tests.spark.driver import Driver
from tests.spark.faults import Faults
from tests.spark.log import Log
from tests.spark.pipelines.test_replay import assert_replayed, config_of, fill
from tests.spark.pipelines.test_windows_faults import TRANSACTIONS, WHOLE
from tests.spark.place import Place
from tests.spark.windowing import Event, declared, push, results
from tests.support.postgres import Postgres

pytestmark = pytest.mark.nightly

MILLION = 1_000_000
ANSWER_SECONDS = 1_800
BATCHES = 10
PEOPLE = [f"w{number}" for number in range(50)]
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1",
    "spark.speculation.quantile": "0.5",
}


def batches_of(count: int) -> list[list[Event]]:
    """Events that advance by a minute per batch, and two that close the open windows."""
    each = count // (BATCHES * len(PEOPLE))
    found = [
        [
            Event(who, 60 * batch + number % 60, number + batch)
            for who in PEOPLE
            for number in range(each)
        ]
        for batch in range(BATCHES)
    ]
    return [*found, [Event("end", 6_000, 1)], [Event("end", 6_001, 1)]]


def push_all(dsn: str, batches: Iterable[list[Event]]) -> None:
    """Push one transaction per batch."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for batch in batches:
            by: dict[str, list[bytes]] = {}
            for who, second, amount in batch:
                at = windowing.instant(second).isoformat()
                payload = {"who": who, "at": at, "amount": amount}
                by.setdefault(who, []).append(json.dumps(payload).encode())
            ids = filling.partition_ids(connection, "events", list(by))
            filling.push(connection, [ids[who] for who in by], list(by.values()))


def whole(batches: Iterable[list[Event]]) -> list[windowing.Result]:
    """All windows that are closed after the last event."""
    events = [event for batch in batches for event in batch if event.who != "end"]
    return windowing.tumbling(events, 60)


def driver_of(
    cluster: Cluster, config: windows.Config | replay.Config, faults: Faults, **confs: str
) -> Driver:
    program = "window" if isinstance(config, windows.Config) else "replay"
    text = msgspec.json.encode(config).decode()
    return Place.on(cluster).driver(program, text, str(faults.folder), settings=confs)


def kill_at(cluster: Cluster, faults: Faults, step: str, driver: Driver) -> int:
    """Kill the executor that is held there, and return its PID."""
    pid = kill_executor_at(cluster, faults, step, driver)
    # Its shuffled data is lost with it, so Spark repeats the whole stage from attempt 0.
    faults.release(step)
    return pid


def replay_of(dsn: str, **changes: object) -> replay.Config:
    given = {"dsn": dsn, "name": "r", "from": "orders", "to": "again", "tasks": 2}
    return msgspec.convert({**given, **changes}, replay.Config)


def replayed(dsn: str) -> int:
    """Check that the queue has the messages of the other one, and return their number."""
    return oracle.assert_same(oracle.digests(dsn, "orders"), oracle.digests(dsn, "again"))


def fail_and_kill(
    cluster: Cluster,
    config: windows.Config | replay.Config,
    faults: Faults,
    *,
    failing: Sequence[str],
    killing: str,
) -> None:
    """Run with failing tasks and a killed executor, all of which are retried."""
    for step in failing:
        faults.fail(step)
    faults.hold(killing)
    with driver_of(cluster, config, faults) as driver:
        answer = driver.later(ANSWER_SECONDS)
        kill_at(cluster, faults, killing, driver)
        assert answer.result(ANSWER_SECONDS).get("failure", "") == ""
    for step in failing:
        name, batch, task = step.split(".")
        events = faults.events(name, int(batch))
        assert [each["attempt"] for each in events if each["task"] == int(task)] == [0, 1], step


def test_a_window_survives_failed_tasks_and_a_killed_executor(
    cluster: Cluster, dsn: str, tmp_path: Path, faults: Faults
) -> None:
    windowing.make(dsn)
    for events in TRANSACTIONS:
        push(dsn, *events)
    config = declared(dsn, tmp_path)

    steps = ("writing.2.0", "staged.3.1")
    fail_and_kill(cluster, config, faults, failing=steps, killing="staged.5.0")

    assert results(dsn) == WHOLE


def test_a_replay_survives_failed_tasks_and_a_killed_executor(
    cluster: Cluster, dsn: str, faults: Faults
) -> None:
    with Log(dsn, "orders") as log:
        fill(log)

    steps = ("writing.1.0", "staged.2.1")
    fail_and_kill(cluster, config_of(dsn), faults, failing=steps, killing="staged.3.0")

    assert_replayed(dsn)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kills", [(), ("staged.1.0", "writing.3.1", "staged.5.0")])
def test_windows_over_a_million_events(
    cluster: Cluster,
    dsn: str,
    tmp_path: Path,
    faults: Faults,
    capsys: pytest.CaptureFixture[str],
    kills: tuple[str, ...],
) -> None:
    windowing.make(dsn)
    batches = batches_of(MILLION)
    push_all(dsn, batches)
    config = declared(dsn, tmp_path, max_messages_per_trigger=MILLION // BATCHES)
    for step in kills:
        faults.hold(step)
    began = time.monotonic()
    with driver_of(cluster, config, faults) as driver:
        answer = driver.later(ANSWER_SECONDS)
        killed = {kill_at(cluster, faults, step, driver) for step in kills}
        assert answer.result(ANSWER_SECONDS)["failure"] == ""
    with capsys.disabled():
        print(f"\nwindows, {len(kills)} kills: {time.monotonic() - began:.1f} s")

    assert len(killed) == len(kills)
    assert results(dsn) == whole(batches)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kills", [(), ("staged.1.0", "writing.2.1")])  # About five pieces.
def test_a_replay_of_a_million_messages(
    cluster: Cluster,
    dsn: str,
    faults: Faults,
    capsys: pytest.CaptureFixture[str],
    kills: tuple[str, ...],
) -> None:
    filling.make(dsn, "orders")
    filling.make(dsn, "again")
    filling.fill(dsn, "orders", MILLION, partitions=100, transactions=100)
    for step in kills:
        faults.hold(step)
    began = time.monotonic()
    with driver_of(cluster, replay_of(dsn, max_messages=100_000), faults) as driver:
        answer = driver.later(ANSWER_SECONDS)
        killed = {kill_at(cluster, faults, step, driver) for step in kills}
        assert answer.result(ANSWER_SECONDS)["rows"] == MILLION
    with capsys.disabled():
        print(f"\nreplay, {len(kills)} kills: {time.monotonic() - began:.1f} s")

    assert len(killed) == len(kills)
    assert replayed(dsn) == MILLION


@pytest.mark.slow
def test_one_of_two_attempts_of_a_window_task_counts(
    cluster: Cluster, dsn: str, tmp_path: Path, faults: Faults
) -> None:
    windowing.make(dsn)
    batches = batches_of(5_000)
    push_all(dsn, batches)
    config = declared(dsn, tmp_path, max_messages_per_trigger=1_000)
    faults.hold("staged.2.1")  # Only the first attempt, which is slow and is never released.
    with driver_of(cluster, config, faults, **SPECULATION) as driver:
        assert driver.answer(ANSWER_SECONDS)["failure"] == ""

    wrote = [each for each in faults.events("staged", 2) if each["task"] == 1]
    assert {each["attempt"] for each in wrote} >= {0, 1}
    assert results(dsn) == whole(batches)


@pytest.mark.slow
def test_one_of_two_attempts_of_a_replay_task_counts(
    cluster: Cluster, dsn: str, faults: Faults
) -> None:
    filling.make(dsn, "orders")
    filling.make(dsn, "again")
    filling.fill(dsn, "orders", 1_600)
    faults.hold("staged.0.1")
    with driver_of(cluster, replay_of(dsn), faults, **SPECULATION) as driver:
        assert driver.answer(ANSWER_SECONDS)["rows"] == 1_600

    wrote = [each for each in faults.events("staged", 0) if each["task"] == 1]
    assert {each["attempt"] for each in wrote} >= {0, 1}
    assert staged(dsn) > 0
    assert replayed(dsn) == 1_600


@pytest.mark.slow
def test_a_window_continues_after_a_crash_of_postgresql(
    cluster: Cluster, tmp_path: Path, faults: Faults
) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(Postgres())
        dsn = migrated(server)
        windowing.make(dsn)
        batches = batches_of(5_000)
        push_all(dsn, batches)
        config = declared(dsn, tmp_path, max_messages_per_trigger=500)
        failures: list[str] = []
        for step in ("publishing.4", "published.6"):
            faults.hold(step)
            with driver_of(cluster, config, faults) as driver:
                driver.until("started")
                driver.go_on()
                wait_until_held(faults, step, driver.log)
                server.kill()
                server.start()
                assert staged(dsn) == 0
                faults.release(step)
                failures.append(driver.answer(ANSWER_SECONDS)["failure"])
        with driver_of(cluster, config, faults) as driver:
            failures.append(driver.answer(ANSWER_SECONDS)["failure"])

        # Staged rows were lost, which is reported. Published rows are stored, and the window
        # continues.
        assert "lost what tasks had staged" in failures[0]
        assert failures[1:] == ["", ""]
        assert published(dsn) >= BATCHES
        assert results(dsn) == whole(batches)


@pytest.mark.slow
def test_messages_removed_before_a_window_reads_them_are_an_error(
    spark: SparkSession, dsn: str, tmp_path: Path
) -> None:
    windowing.make(dsn)
    batches = batches_of(5_000)
    push_all(dsn, batches[:5])
    config = declared(dsn, tmp_path, max_messages_per_trigger=500)
    windows.run(spark, config)
    push_all(dsn, batches[5:])
    before = results(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "select c.* from queen.partitions p cross join lateral"
            " queen.cut(p.id, p.queue_id, (select max(s.base_offset) from queen.segments s"
            " where s.partition_id = p.id), 1000, 'age') c"
            " where p.queue_id = (select id from queen.queues where name = 'events')"
        )

    with pytest.raises(Exception, match="were deleted before this stream read them"):
        windows.run(spark, config)

    assert results(dsn) == before
