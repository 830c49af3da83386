"""On a cluster with faults, the lake has each message of the log once."""

# pyright: basic
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from queen.pipelines import compact
from queen.pipelines.archive import Config
from tests.spark.cluster import Cluster
from tests.spark.copying import kill_executor_at
from tests.spark.databases import migrated
from tests.spark.driver import Driver
from tests.spark.faults import Faults
from tests.spark.log import Log
from tests.spark.pipelines.test_archive import STEPS, archived, figures, retain
from tests.spark.place import ONE_CORE, Place
from tests.support.postgres import Postgres

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

SPECULATIVE = {
    "spark.speculation": "true",
    "spark.speculation.interval": "20ms",
    "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.minTaskRuntime": "1ms",
}


@pytest.fixture
def log(dsn: str) -> Iterator[Log]:
    with Log(dsn, "orders") as log:
        yield log


@pytest.fixture
def config(dsn: str, tmp_path: Path) -> Config:
    return config_of(dsn, tmp_path)


def config_of(dsn: str, folder: Path) -> Config:
    """
    An archive with batches of 30,000: a transaction has 10,000, and the last one may exceed the
    limit.
    """
    location = str(folder / "lake")
    return Config(dsn=dsn, queue="orders", location=location, tasks=4, max_messages=25_000)


def drive(
    cluster: Cluster, config: Config, faults: Faults, confs: Mapping[str, str] | None = None
) -> Driver:
    text = msgspec.json.encode(config).decode()
    return Place.on(cluster).driver("archive", text, str(faults.folder), settings=confs)


def fill(log: Log, messages: int) -> None:
    """Push transactions of 10,000 messages over five partitions."""
    log.fill(partitions=5, segments=messages // 10_000, messages=2_000)


def at_each_step(driver: Driver, act: Callable[[str], object]) -> list[str]:
    """Run an action in each step until the driver is idle, and return the steps."""
    driver.until("started")
    steps: list[str] = []
    while "idle" not in steps:
        driver.go_on()
        steps.append(driver.line().removeprefix("step "))
        act(steps[-1])
    return steps


def attempts(faults: Faults, step: str) -> list[int]:
    """The attempts of a task that reached a step, such as `wrote.1.0`, in order."""
    name, batch, task = step.split(".")
    events = faults.events(name, int(batch))
    return [each["attempt"] for each in events if each["task"] == int(task)]


@pytest.mark.parametrize(
    "step",
    [pytest.param(each, marks=() if each == "written" else pytest.mark.slow) for each in STEPS],
)
def test_a_driver_killed_after_a_step_loses_and_repeats_no_message(
    cluster: Cluster, log: Log, config: Config, faults: Faults, step: str
) -> None:
    fill(log, 60_000)
    with drive(cluster, config, faults) as driver:
        driver.until(step)
        driver.kill()
    with drive(cluster, config, faults) as driver:
        driver.answer()

    assert archived(config) == log.messages()


@pytest.mark.slow
def test_failed_tasks_and_killed_executors_are_recovered(
    cluster: Cluster, log: Log, config: Config, faults: Faults
) -> None:
    fill(log, 120_000)
    failing, killing = ("writing.0.0", "wrote.1.1"), ("wrote.2.0", "writing.3.1")
    for step in failing:
        faults.fail(step)
    for step in killing:
        faults.hold(step)
    with drive(cluster, config, faults) as driver:
        answer = driver.later(300)
        killed = {kill_executor_at(cluster, faults, step, driver) for step in killing}
        assert answer.result(300)["rows"] == 120_000

    assert len(killed) == 2
    assert [attempts(faults, step) for step in (*failing, *killing)] == [[0, 1]] * 4
    assert archived(config) == log.messages()


@pytest.mark.slow
def test_a_million_messages_are_archived_while_executors_are_killed(
    cluster: Cluster, log: Log, config: Config, faults: Faults
) -> None:
    fill(log, 1_000_000)
    config = msgspec.structs.replace(config, max_messages=250_000)
    steps = ("wrote.0.1", "writing.1.0", "wrote.2.2")
    for step in steps:
        faults.hold(step)
    with drive(cluster, config, faults) as driver:
        answer = driver.later(600)
        killed = {kill_executor_at(cluster, faults, step, driver) for step in steps}
        assert answer.result(600)["rows"] == 1_000_000

    assert len(killed) == 3
    assert archived(config) == log.messages()


@pytest.mark.slow
def test_a_million_messages_are_archived_without_faults(
    cluster: Cluster, log: Log, config: Config, faults: Faults
) -> None:
    fill(log, 1_000_000)
    config = msgspec.structs.replace(config, max_messages=250_000)
    with drive(cluster, config, faults) as driver:
        assert driver.answer(600)["rows"] == 1_000_000

    assert archived(config) == log.messages()


@pytest.mark.slow
def test_one_of_two_attempts_that_wrote_counts(
    cluster: Cluster, log: Log, config: Config, faults: Faults
) -> None:
    fill(log, 60_000)
    faults.hold("wrote.0.1")  # Only the first attempt, which is slow and is never released.
    with drive(cluster, config, faults, SPECULATIVE) as driver:
        assert driver.answer(300)["rows"] == 60_000

    assert {*attempts(faults, "wrote.0.1")} >= {0, 1}
    assert archived(config) == log.messages()


@pytest.mark.slow
def test_two_concurrent_drivers_of_a_cluster_archive_each_message_once(
    cluster: Cluster, log: Log, config: Config, faults: Faults
) -> None:
    fill(log, 300_000)
    config = msgspec.structs.replace(config, max_messages=60_000)
    with (
        drive(cluster, config, faults, ONE_CORE) as one,
        drive(cluster, config, faults, ONE_CORE) as other,
    ):
        for driver in (one, other):
            driver.until("planned")
        # Both have read the same plan, and neither has begun.
        for driver in (one, other):
            driver.go_on()
        for driver in (one, other):
            driver.until("written")
        for driver in (one, other):
            driver.go_on()
        rows = [driver.answer(300)["rows"] for driver in (one, other)]

    assert min(rows) >= 60_000
    assert archived(config) == log.messages()


@pytest.mark.slow
def test_crashes_of_postgresql_at_any_step_do_not_stop_the_archive(
    cluster: Cluster, tmp_path: Path, faults: Faults
) -> None:
    with Postgres(in_memory=True) as server:
        dsn = migrated(server)
        with Log(dsn, "orders") as log:
            fill(log, 60_000)

        def crash(step: str) -> None:
            server.kill()
            server.start()

        config = config_of(dsn, tmp_path)
        with drive(cluster, config, faults) as driver:
            steps = at_each_step(driver, crash)

        assert steps == [*STEPS] * 2 + ["idle"]
        with Log(dsn, "orders") as log:
            assert archived(config) == log.messages()
            assert figures(log)["messages"] == 60_000


@pytest.mark.slow
def test_retention_that_races_the_archive_removes_only_archived_messages(
    cluster: Cluster, dsn: str, config: Config, faults: Faults
) -> None:
    with Log(dsn, "orders", retention_enabled=True, retention_seconds=60) as log:
        log.stop_clock()
        log.execute("insert into queen.duties (name, epoch) values ('retention', 1)")
        fill(log, 60_000)
        whole = log.messages()
        left: list[int] = []

        with drive(cluster, config, faults) as driver:
            at_each_step(driver, lambda _: left.append(retain(log)))

        assert archived(config) == whole
        assert left[0] == 60_000
        assert left[-1] < left[0]


@pytest.mark.slow
def test_a_lake_is_compacted_while_an_executor_is_killed(
    cluster: Cluster, log: Log, config: Config, faults: Faults
) -> None:
    fill(log, 90_000)
    with drive(cluster, config, faults) as driver:
        driver.answer(300)
    text = msgspec.json.encode(compact.Config(dsn=config.dsn, name="orders")).decode()
    folder = faults.folder / "compact"
    folder.mkdir()
    faults = Faults(folder)
    faults.hold("wrote.0.0")
    with Place.on(cluster).driver("compact", text, str(folder)) as driver:
        answer = driver.later(300)
        kill_executor_at(cluster, faults, "wrote.0.0", driver)
        done = answer.result(300)

    assert done["rows"] == 90_000
    assert done["made"] < done["replaced"]
    assert attempts(faults, "wrote.0.0") == [0, 1]
    assert archived(config) == log.messages()
