"""Places where drivers run: in a local session or on the cluster."""

# pyright: basic

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from tests.spark.cluster import SMALL, Cluster, confs
from tests.spark.driver import Driver

ONE_CORE = {"spark.cores.max": "1"}
"""For each of two concurrent drivers, because the cluster has two cores."""
_PATH = "spark.executorEnv.PYTHONPATH"


def quick(confs: Mapping[str, str]) -> dict[str, str]:
    """Confs for small queries, which spend most of their time on compilation and imports."""
    return {
        **confs,
        "spark.driver.extraJavaOptions": SMALL,
        "spark.executor.extraJavaOptions": SMALL,
        # Workers are forks of a process that has imported everything …
        _PATH: os.pathsep.join((str(Path(__file__).parent / "preloaded"), confs[_PATH])),
        # … and therefore must have no threads.
        "spark.executorEnv.JE_ARROW_MALLOC_CONF": "background_thread:false",
        "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",
    }


def arguments(confs: Mapping[str, str]) -> list[str]:
    """Confs as command-line arguments."""
    return [word for name, value in confs.items() for word in ("--conf", f"{name}={value}")]


class Place(NamedTuple):
    """
    A place where drivers run.

    Usage::

        with place.driver("window", config, faults) as driver:
            driver.until("started")
    """

    url: str
    confs: Mapping[str, str]
    session: SparkSession | None
    """The session of this process, for tests without a separate driver. None on a cluster."""

    @classmethod
    def local(cls, session: SparkSession) -> "Place":
        return cls("local[2]", quick(confs()), session)

    @classmethod
    def on(cls, cluster: Cluster) -> "Place":
        return cls(cluster.url, quick(cluster.confs), None)

    def driver(
        self, program: str, *words: str, settings: Mapping[str, str] | None = None
    ) -> Driver:
        """Start a program of `tests.spark.drivers`, which waits in the step `started`."""
        confs = {**self.confs, **(settings or {})}
        return Driver("-m", f"tests.spark.drivers.{program}", self.url, *words, confs=confs)
