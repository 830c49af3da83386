"""Run a pipeline by its kind: parse its options, create a session, and report the run."""

# pyright: basic

import os
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from importlib import resources
from typing import Any

from psycopg.errors import InvalidSchemaName, UndefinedFunction, UndefinedTable
from pyspark.sql import SparkSession

from queen import errors
from queen.arrow.database import connect
from queen.spark import register
from queen.spark.runner.kinds import SOURCES, TARGETS, Job, first_of
from queen.spark.runner.listener import listening
from queen.spark.runner.logs import RunLog
from queen.spark.runner.report import Report


@contextmanager
def session(
    name: str, master: str, confs: Mapping[str, str], *, log: RunLog | None = None
) -> Iterator[SparkSession]:
    """Start a session, and stop it at the end. Its output goes to the log, or to the terminal."""
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        raise errors.BadSettings("Spark needs Java 17 or later: install it and add it to the PATH")
    settings = {"spark.sql.session.timeZone": "UTC", **confs}
    python = settings.get("spark.pyspark.python")
    if master.startswith("local"):
        # Tasks are processes on this machine, and need the packages of this environment.
        python = python or os.environ.get("PYSPARK_PYTHON") or sys.executable
        settings.setdefault("spark.driver.host", "127.0.0.1")
        settings.setdefault("spark.driver.bindAddress", "127.0.0.1")
    if log is not None:
        java = "spark.driver.extraJavaOptions"
        config = resources.files("queen.spark.runner") / "log4j2.properties"
        ours = f'"-Dlog4j2.configurationFile={config}" "-Dqueen.log={log.path}"'
        settings[java] = f"{settings.get(java, '')} {ours}".strip()
        settings.setdefault("spark.ui.showConsoleProgress", "false")
    if python is not None:
        # A driver that was not started by `spark-submit` reads only this variable.
        os.environ["PYSPARK_PYTHON"] = python
    builder = SparkSession.builder.master(master).appName(name)
    for each, value in settings.items():
        builder = builder.config(each, value)
    with nullcontext() if log is None else log.taking_stderr():
        spark = builder.getOrCreate()
    try:
        register(spark)
        yield spark
    finally:
        for query in spark.streams.active:
            query.stop()
        spark.stop()


def check(job: Job, config: Any) -> None:  # noqa: ANN401 - its Config
    """
    Check the database and the queues before Spark starts, because that takes ten seconds or more.

    Raises DatabaseUnavailable, QueueNotFound, NotFound and BadSettings.
    """
    with connect(config.dsn) as connection:
        try:
            job.check(connection, config)
        except (UndefinedFunction, UndefinedTable, InvalidSchemaName) as error:
            raise errors.BadSettings(
                "this database has no current schema of Queen: run `queen migrate`, or correct"
                " DATABASE_URL"
            ) from error


@contextmanager
def reporting(job: Job, config: Any, name: str, spark: SparkSession) -> Iterator[Report]:  # noqa: ANN401 - its Config
    """Report one run, including the streaming queries that it starts."""
    queues, target = first_of(config, SOURCES) or (), first_of(config, TARGETS)
    with (
        Report(
            config.dsn,
            name=name,
            kind=job.kind,
            queues=[queues] if isinstance(queues, str) else [str(each) for each in queues],
            target=None if target is None else str(target),
            ui_url=spark.sparkContext.uiWebUrl,
        ) as report,
        listening(spark, report),
    ):
        yield report


def run(job: Job, spark: SparkSession, config: Any, report: Report) -> Any:  # noqa: ANN401 - its own
    """
    Run a pipeline in its own thread, so that this thread can be interrupted.

    A thread that waits for Spark blocks its connection to Java, and so can't stop the run.
    """
    future: Future[Any] = Future()

    def work() -> None:
        try:
            # Makes the session active in this thread too, because Spark looks up formats by it.
            spark.createDataFrame([], "nothing int")
            future.set_result(job.run(spark, config, report=report))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name=f"queen-{job.kind}", daemon=True).start()
    return future.result()
