"""Spark with Iceberg's runtime, as a company that reads archives has it: without Queen."""

# pyright: basic

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.spark.cluster import confs
from tests.spark.driver import ROOT, Driver

INSTALLED = ROOT / ".venv" / "iceberg-runtime"
_ANSWER_SECONDS = 300
_SPARK = "org.apache.iceberg.spark"


class SparkError(Exception):
    """The text of Spark's error."""


class IcebergSpark:
    """
    A process with a Spark that Iceberg supports, which is older than the one that Queen uses.

    Usage::

        with IcebergSpark() as spark:
            spark.connect("lake", server.base_url, token)
            spark.query("select * from lake.queen.orders")
    """

    def __init__(self) -> None:
        assert (INSTALLED / ".installed").exists(), "install it first: make iceberg-runtime"
        (jar,) = (INSTALLED / "jars").glob("iceberg-spark-runtime-*.jar")
        settings = {
            **confs(),
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "spark.jars": str(jar),
            "spark.sql.extensions": f"{_SPARK}.extensions.IcebergSparkSessionExtensions",
        }
        environment = {
            # The first directory wins over the environment, which has another version.
            "PYTHONPATH": os.pathsep.join((str(INSTALLED / "packages"), str(ROOT / "src"))),
            "SPARK_HOME": str(INSTALLED / "packages" / "pyspark"),
            "TZ": "UTC",
        }
        self._driver = Driver(
            "-m", "tests.spark.drivers.iceberg", confs=settings, environment=environment
        )
        self.version = self._driver.answer(_ANSWER_SECONDS)["version"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._driver.close()

    def connect(self, catalog: str, server: str, token: str, **options: str) -> None:
        """Add Queen's catalog, with the configuration that the page about catalogs shows."""
        given = {"type": "rest", "uri": f"{server}/iceberg", "token": token}
        # By default, a session reads the same state of a table for 30 s.
        given |= {"cache-enabled": "false", **options}
        name = f"spark.sql.catalog.{catalog}"
        named = {f"{name}.{option}": value for option, value in given.items()}
        self._request(do="configure", confs={name: f"{_SPARK}.SparkCatalog", **named})

    def query(self, text: str) -> list[dict[str, Any]]:
        """Run a statement, and return its rows with JSON values."""
        return self._request(do="query", text=text)

    def drain(self, table: str, folder: Path, *, available_now: bool = False) -> None:
        """Stream the rows that are new since the last call into files of this directory."""
        paths = {"checkpoint": str(folder / "checkpoint"), "output": str(folder / "output")}
        self._request(do="drain", table=table, available_now=available_now, **paths)

    def _request(self, **request: str | bool | Mapping[str, str]) -> list[dict[str, Any]]:
        self._driver.send(json.dumps(request))
        answer = self._driver.answer(_ANSWER_SECONDS)
        if "error" in answer:
            raise SparkError(answer["error"])
        return answer["rows"]
