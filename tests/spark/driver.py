"""A driver as a separate Python process, which can be held and killed at a named step."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from tests.spark import processes
from tests.spark.cluster import environment as cluster_environment

ROOT = Path(__file__).parents[2]
LINE_SECONDS = 180  # Includes the start of a session on a busy machine.


def step(name: str) -> None:
    """In the driver: report a step, and wait until the test continues or kills the driver."""
    print(f"step {name}", flush=True)
    if not sys.stdin.readline():
        raise SystemExit("the test has gone")


def say(**answer: object) -> None:
    """In the driver: write a result as a line of JSON."""
    print(json.dumps(answer), flush=True)


def given_confs() -> dict[str, str]:
    """In the driver: the confs from the test."""
    confs: dict[str, str] = json.loads(os.environ["TEST_SPARK_CONFS"])
    return confs


class Driver:
    """
    A Python program with this repository's `src`, whose lines are read as they are written.

    Usage::

        with Driver("-m", "tests.spark.drivers.count", cluster.url, confs=cluster.confs) as driver:
            driver.until("staged")  # The driver called step("staged") and waits.
            driver.kill()
    """

    def __init__(
        self,
        *arguments: str,
        confs: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
                **cluster_environment(),
                "TEST_SPARK_CONFS": json.dumps(dict(confs or {})),
                **(environment or {}),
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._pump = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._pump.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def log(self) -> str:
        """Its stderr so far, which includes Spark's log."""
        # Not by `seek`, because the process writes at the same position of the file.
        file = self._log.fileno()
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")

    def line(self, seconds: float = LINE_SECONDS) -> str:
        """The next line of its stdout."""
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"the driver said nothing\n{self.log}") from None
        if line is None:
            raise RuntimeError(f"the driver ended with {self._process.wait()}\n{self.log}")
        return line

    def until(self, name: str, seconds: float = LINE_SECONDS) -> None:
        """Read until a step, and continue through the steps before it."""
        while (line := self.line(seconds)) != f"step {name}":
            if line.startswith("step "):
                self.go_on()

    def go_on(self) -> None:
        """Let it leave the step in which it waits."""
        self.send("")

    def send(self, line: str) -> None:
        """Write a line to its stdin."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def answer(self, seconds: float = LINE_SECONDS) -> dict[str, Any]:
        """Its next result. Continues through all steps before it."""
        while not (line := self.line(seconds)).startswith("{"):
            if line.startswith("step "):
                self.go_on()
        said: dict[str, Any] = json.loads(line)
        return said

    def later(self, seconds: float = LINE_SECONDS) -> "Future[dict[str, Any]]":
        """A future of its next result or failure, so that the test can do other work."""
        future: Future[dict[str, Any]] = Future()

        def read() -> None:
            try:
                future.set_result(self.answer(seconds))
            except Exception as error:
                future.set_exception(error)

        threading.Thread(target=read, daemon=True).start()
        return future

    def wait(self, seconds: float = LINE_SECONDS) -> int:
        """Its exit code, once it has ended by itself."""
        return self._process.wait(seconds)

    def kill(self) -> None:
        """SIGKILL the driver, its JVM and their children, as if the machine failed."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGSTOP)  # So that it starts no more processes.
        below = processes.descendants(self.pid)
        self._process.kill()
        self._process.wait(LINE_SECONDS)
        processes.kill(below)

    def close(self) -> None:
        """End it, and release its resources."""
        self.kill()
        self._pump.join(LINE_SECONDS)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self._log.close()

    def _read(self, stdout: IO[str]) -> None:
        for line in stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)
