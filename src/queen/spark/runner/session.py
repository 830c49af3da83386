"""Create a Spark session, and run pipelines in it."""

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

from pyspark.sql import SparkSession

from queen import errors
from queen.pipelines.kinds import Job
from queen.pipelines.logs import RunLog
from queen.pipelines.report import Report
from queen.pipelines.runs import report_of
from queen.spark import register
from queen.spark.runner.listener import listening


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


class SparkRunner:
    """Runs pipelines in a session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._streams: list[SparkSession] = []
        self.ui_url = spark.sparkContext.uiWebUrl

    @contextmanager
    def reporting(self, job: Job, config: Any, name: str) -> Iterator[Report]:  # noqa: ANN401 - its Config
        """Report one run, including the streaming queries that it starts."""
        with (
            report_of(job, config, name, ui_url=self.ui_url) as report,
            listening(self._spark, report),
        ):
            yield report

    def engine(self, *, has_query: bool) -> SparkSession:
        """
        Return a session for one of several runs, in the thread of the run.

        Streaming queries have their own, because settings, views and listeners belong to a session.
        """
        spark = self._spark.newSession() if has_query else self._spark
        if has_query:
            register(spark)
            self._streams.append(spark)
        spark.createDataFrame([], "nothing int")  # Makes it active in this thread.
        return spark

    def stop(self) -> None:
        """Stop the streams and jobs of all runs."""
        for spark in self._streams:
            for query in spark.streams.active:
                query.stop()
        self._spark.sparkContext.cancelAllJobs()

    def run(self, job: Job, config: Any, report: Report) -> Any:  # noqa: ANN401 - its own
        """
        Run a pipeline in its own thread, so that this thread can be interrupted.

        A thread that waits for Spark blocks its connection to Java, and so can't stop the run.
        """
        future: Future[Any] = Future()

        def work() -> None:
            try:
                # Makes the session active in this thread too, because Spark looks up formats by it.
                self._spark.createDataFrame([], "nothing int")
                future.set_result(job.run(self._spark, config, report=report))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=work, name=f"queen-{job.kind}", daemon=True).start()
        return future.result()
