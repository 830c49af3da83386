"""One Spark session for all tests of a process, and one cluster: both take long to start."""

# pyright: basic

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.cluster import Cluster, confs, environment

TIMEOUT_SECONDS = 300
KEY = "0123456789abcdef" * 4
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test here has longer than others: the start of Spark is in the first of a process."""
    for item in items:
        if item.path.is_relative_to(_HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT_SECONDS))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session in this process, of which there is one: other drivers are `Driver`s."""
    folder = tmp_path_factory.mktemp("spark")
    os.environ.update(environment())
    os.environ["QUEEN_ENCRYPTION_KEY"] = KEY  # Tasks have what is there when they start.
    builder = SparkSession.builder.master("local[2]").appName("tests")
    settings = {
        **confs(),
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
