"""On a cluster, killed anywhere: the log is in the lake exactly once."""

# pyright: basic
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

from queen.spark.pipelines.archive import Config
from tests.spark import processes
from tests.spark.cluster import Cluster
from tests.spark.driver import Driver
from tests.spark.log import Log
from tests.spark.test_archive import STEPS, archived

pytestmark = pytest.mark.timeout(600)

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
    return Config(
        dsn=dsn, queue="orders", location=str(tmp_path / "lake"), tasks=4, max_messages=60_000
    )


def drive(cluster: Cluster, config: Config, confs: Mapping[str, str] | None = None) -> Driver:
    return Driver(
        "-m", "tests.spark.drivers.archive", cluster.url, msgspec.json.encode(config).decode(),
        confs={**cluster.confs, **(confs or {})},
    )  # fmt: skip


def fill(log: Log, messages: int) -> None:
    """In transactions of 10,000, over five partitions."""
    log.fill(partitions=5, segments=messages // 10_000, messages=2_000)


@pytest.mark.parametrize(
    "step",
    [pytest.param(each, marks=() if each == "written" else pytest.mark.slow) for each in STEPS],
)
def test_a_driver_that_is_killed_after_a_step_loses_and_repeats_nothing(
    cluster: Cluster, log: Log, config: Config, step: str
) -> None:
    fill(log, 60_000)
    config = msgspec.structs.replace(config, max_messages=25_000)
    with drive(cluster, config) as driver:
        driver.until(step)
        driver.kill()
    with drive(cluster, config) as driver:
        driver.answer()

    assert archived(config) == log.messages()


@pytest.mark.slow
def test_a_million_messages_are_archived_though_an_executor_is_killed(
    cluster: Cluster, log: Log, config: Config
) -> None:
    fill(log, 1_000_000)
    config = msgspec.structs.replace(config, max_messages=250_000)
    with drive(cluster, config) as driver:
        for _ in range(2):
            driver.until("planned")
            victim = cluster.wait_for_executors(2)[0]
            driver.go_on()
            processes.kill([victim])
        answer = driver.answer(300)

    assert answer["rows"] == 1_000_000
    assert archived(config) == log.messages()


@pytest.mark.slow
def test_attempts_that_run_beside_each_other_count_once(
    cluster: Cluster, log: Log, config: Config
) -> None:
    fill(log, 300_000)
    with drive(cluster, config, SPECULATIVE) as driver:
        assert driver.answer(300)["rows"] == 300_000

    assert archived(config) == log.messages()


@pytest.mark.slow
def test_two_drivers_of_a_cluster_at_once_archive_everything_once(
    cluster: Cluster, log: Log, config: Config
) -> None:
    fill(log, 300_000)
    confs = {"spark.cores.max": "1"}
    with drive(cluster, config, confs) as one, drive(cluster, config, confs) as other:
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
