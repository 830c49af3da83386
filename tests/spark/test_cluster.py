"""The test cluster is a real one: its executors are processes that can be killed."""

# pyright: basic

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark import processes
from tests.spark.cluster import Cluster
from tests.spark.driver import Driver

HOSTS = ("-m", "tests.spark.drivers.hosts")
TOTAL = sum(range(100_000))


def running(folder: Path) -> int:
    """The number of tasks that have begun."""
    return len(list(folder.iterdir()))


@pytest.mark.nightly
def test_a_job_runs_on_two_executors(cluster: Cluster, tmp_path: Path) -> None:
    with Driver(*HOSTS, cluster.url, str(tmp_path), confs=cluster.confs) as driver:
        driver.until("started")
        cluster.wait_for_executors(2)
        driver.go_on()
        processes.wait(lambda: running(tmp_path) >= 2, 120, lambda: driver.log)
        (tmp_path / "go").touch()

        answer = driver.answer()

        assert answer == {"processes": 2, "attempts": 1, "total": TOTAL}
        assert driver.wait() == 0


@pytest.mark.nightly
def test_a_job_survives_a_killed_executor(cluster: Cluster, tmp_path: Path) -> None:
    with Driver(*HOSTS, cluster.url, str(tmp_path), confs=cluster.confs) as driver:
        driver.until("started")
        killed = cluster.wait_for_executors(2)[0]
        driver.go_on()
        processes.wait(lambda: running(tmp_path) >= 2, 120, lambda: driver.log)

        processes.kill([killed])
        processes.wait(lambda: running(tmp_path) >= 3, 120, lambda: driver.log)
        (tmp_path / "go").touch()
        answer = driver.answer()

        assert answer["total"] == TOTAL
        assert answer["attempts"] == 2
        assert killed not in cluster.executors()


@pytest.mark.nightly
def test_a_killed_driver_leaves_no_process(cluster: Cluster, tmp_path: Path) -> None:
    with Driver(*HOSTS, cluster.url, str(tmp_path), confs=cluster.confs) as driver:
        driver.until("started")
        below = processes.descendants(driver.pid)

        driver.kill()

        assert below  # The JVM.
        assert not any(processes.is_alive(pid) for pid in below)
        # The master notices the closed connection, and frees the executors for the next driver.
        processes.wait(lambda: not cluster.executors(), 60, lambda: cluster.logs)


def test_a_session_in_this_process_has_queen_in_its_tasks(spark: SparkSession) -> None:
    def name(_: int) -> tuple[str, str]:
        import queen

        return str(queen.__file__), sys.executable

    ((found, python),) = spark.sparkContext.parallelize([1], 1).map(name).collect()

    assert Path(found).is_relative_to(Path(__file__).parents[2])
    assert python == sys.executable
