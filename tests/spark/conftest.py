"""One Spark session for all tests of a process, and one cluster: both take long to start."""

# pyright: basic

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.cluster import Cluster, confs, environment
from tests.spark.faults import Faults
from tests.spark.place import Place, quick

TIMEOUT_SECONDS = 300
SLOW_TIMEOUT_SECONDS = 900  # On a cluster drivers come one after the other.
KEY = "0123456789abcdef" * 4
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test here has longer than others: the start of Spark is in the first of a process."""
    for item in items:
        if item.path.is_relative_to(_HERE) and item.get_closest_marker("timeout") is None:
            is_slow = item.get_closest_marker("slow") is not None
            item.add_marker(
                pytest.mark.timeout(SLOW_TIMEOUT_SECONDS if is_slow else TIMEOUT_SECONDS)
            )


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session in this process, of which there is one: other drivers are `Driver`s."""
    folder = tmp_path_factory.mktemp("spark")
    os.environ.update(environment())
    os.environ["QUEEN_ENCRYPTION_KEY"] = KEY  # Tasks have what is there when they start.
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


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A master and two workers; drivers come as processes of their own."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(params=["local", pytest.param("cluster", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest) -> Place:
    """What fails on this machine fails on a cluster too: the long tier looks at both."""
    if request.param == "cluster":
        return Place.on(request.getfixturevalue("cluster"))
    return Place.local(request.getfixturevalue("spark"))


@pytest.fixture
def faults(tmp_path: Path) -> Faults:
    """A folder of instructions for drivers and tasks."""
    folder = tmp_path / "faults"
    folder.mkdir()
    return Faults(folder)
