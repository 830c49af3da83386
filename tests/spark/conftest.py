"""One Spark session and one cluster for all tests of a process, because both are slow to start."""

# pyright: basic

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from queen.pipelines.tasks import LOCAL, Engine
from tests.spark.cluster import Cluster, confs, environment
from tests.spark.faults import Faults
from tests.spark.place import Place, quick

TIMEOUT_SECONDS = 300
SLOW_TIMEOUT_SECONDS = 900  # On a cluster, drivers run one after the other.
KEY = "0123456789abcdef" * 4
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests here have longer timeouts, because the first one includes the start of Spark."""
    for item in items:
        if item.path.is_relative_to(_HERE) and item.get_closest_marker("timeout") is None:
            is_slow = item.get_closest_marker("slow") is not None
            item.add_marker(
                pytest.mark.timeout(SLOW_TIMEOUT_SECONDS if is_slow else TIMEOUT_SECONDS)
            )


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The only session in this process. Other drivers are `Driver` processes."""
    folder = tmp_path_factory.mktemp("spark")
    os.environ.update(environment())
    os.environ["QUEEN_ENCRYPTION_KEY"] = KEY  # Tasks inherit the environment at their start.
    builder = SparkSession.builder.master("local[2]").appName("tests")
    settings = {
        **quick(confs()),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.nightly)])
def task_engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """Threads of this process, or Spark: every night, or always in tests with `both_engines`."""
    if request.param == "spark":
        return request.getfixturevalue("spark")
    monkeypatch.setenv("QUEEN_ENCRYPTION_KEY", KEY)
    return LOCAL


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A master and two workers. Drivers run as separate processes."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(params=["local", pytest.param("cluster", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest) -> Place:
    """Run the test on this machine, and in the long tier on a cluster too."""
    if request.param == "cluster":
        return Place.on(request.getfixturevalue("cluster"))
    return Place.local(request.getfixturevalue("spark"))


@pytest.fixture
def faults(tmp_path: Path) -> Faults:
    """A directory of instructions for drivers and tasks."""
    folder = tmp_path / "faults"
    folder.mkdir()
    return Faults(folder)
