"""A standalone Spark cluster on loopback from the pip package: a master and its workers."""

# pyright: basic

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

import pyspark

from tests.spark import processes
from tests.support.ports import free_port

SOURCE = Path(__file__).parents[2] / "src"
SPARK_HOME = Path(pyspark.__file__).parent
START_SECONDS = 120
STOP_SECONDS = 30

CLASSES = Path(__file__).parents[2] / ".venv" / "spark.jsa"
"""Built by `tools.spark_classes`. Without it, a JVM takes 1.5 times as long to start."""

# Little compilation and one GC thread, because these processes do little on a few cores.
SMALL = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1" + (
    f" -XX:SharedArchiveFile={CLASSES}" if CLASSES.exists() else ""
)


def environment() -> dict[str, str]:
    """
    Variables that a driver needs before its session starts. Spark does not accept them as confs.
    """
    return {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def confs() -> dict[str, str]:
    """Confs of every test session, local or on a cluster."""
    return {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join((str(SOURCE), str(SOURCE.parent))),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }


class Cluster:
    """
    A master and workers as child processes. Each worker has one core and room for one executor.

    Usage::

        with Cluster() as cluster:
            driver = Driver("-m", "tests.spark.drivers.count", cluster.url, confs=cluster.confs)
            processes.kill(cluster.executors()[:1])
    """

    def __init__(self, workers: int = 2) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="queen-spark-"))
        self.port = free_port()
        self._page_port = free_port()
        self._count = workers
        self._master: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        """The value of `--master`."""
        return f"spark://127.0.0.1:{self.port}"

    @property
    def confs(self) -> dict[str, str]:
        """Confs that a session on this cluster needs besides its master."""
        return {
            **confs(),
            "spark.cores.max": str(self._count),
            "spark.executor.cores": "1",
            "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
            "spark.executor.memory": "640m",
        }

    @property
    def logs(self) -> str:
        """The logs of all its processes."""
        return "\n".join(
            f"{file.name}:\n{file.read_text(errors='replace')}"
            for file in sorted(self.directory.glob("*.log"))
        )

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.remove()

    def executors(self) -> list[int]:
        """The PIDs of the running executors on all workers."""
        return [
            pid
            for worker in self._workers
            for pid in processes.children(worker.pid)
            if "CoarseGrainedExecutorBackend" in processes.command(pid)
        ]

    def wait_for_executors(self, count: int, seconds: float = START_SECONDS) -> list[int]:
        """The PIDs of the executors, once there are `count`."""
        processes.wait(
            lambda: len(self.executors()) >= count,
            seconds,
            lambda: f"{len(self.executors())} of {count} executors\n{self.logs}",
        )
        return self.executors()

    def remove(self) -> None:
        """End all processes of the cluster, and delete its directory."""
        ours = [*self._workers, *([self._master] if self._master else [])]
        executors = [pid for each in self._workers for pid in processes.descendants(each.pid)]
        for process in ours:
            process.send_signal(signal.SIGTERM)
        for process in ours:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(STOP_SECONDS)
        processes.kill([pid for pid in executors if processes.is_alive(pid)])
        self._workers, self._master = [], None
        shutil.rmtree(self.directory, ignore_errors=True)

    def _start(self) -> None:
        self._master = self._spawn(
            "master",
            "org.apache.spark.deploy.master.Master",
            *("--host", "127.0.0.1", "--port", str(self.port)),
            *("--webui-port", str(self._page_port)),
        )
        processes.wait(
            lambda: self._registered() is not None, START_SECONDS, lambda: f"no master\n{self.logs}"
        )
        for number in range(self._count):
            self._workers.append(self._spawn_worker(number))
        processes.wait(
            lambda: self._registered() == self._count,
            START_SECONDS,
            lambda: f"{self._registered()} of {self._count} workers\n{self.logs}",
        )

    def _spawn_worker(self, number: int) -> subprocess.Popen[bytes]:
        return self._spawn(
            f"worker-{number}",
            "org.apache.spark.deploy.worker.Worker",
            # Each worker has its own address and so counts as a machine, because speculation needs
            # another one.
            *("--host", f"127.0.0.{number + 1}", "--cores", "1", "--memory", "1g"),
            *("--webui-port", str(free_port())),
            *("--work-dir", str(self.directory / f"work-{number}")),
            self.url,
        )

    def _spawn(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        told = {
            **os.environ,
            **environment(),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_DIRS": str(self.directory / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": SMALL,
        }
        with (self.directory / f"{name}.log").open("ab") as log:
            # The script ends in `exec`, so this PID becomes that of the JVM.
            return subprocess.Popen(
                [SPARK_HOME / "bin" / "spark-class", *arguments],
                cwd=self.directory,
                env=told,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C goes to the tests, not to the cluster.
            )

    def _registered(self) -> int | None:
        """The number of live workers at the master, or None before it responds."""
        if self._master is None or self._master.poll() is not None:
            raise RuntimeError(f"the master ended\n{self.logs}")
        try:
            page = f"http://127.0.0.1:{self._page_port}/json/"
            with urllib.request.urlopen(page, timeout=10) as answer:
                return int(json.load(answer)["aliveworkers"])
        except (urllib.error.URLError, ConnectionError, json.JSONDecodeError):
            return None  # The page is available slightly before its JSON.
