"""Run and replace the worker processes of one host."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from types import FrameType

from queen.server import logs
from queen.server.metrics.host import SupervisorMetrics, WorkerSlot
from queen.settings import Settings
from queen.telemetry import Event

_CHECK_SECONDS = 1.0
_STABLE_SECONDS = 30.0
"""A worker that ran for this time is replaced immediately."""
_MOST_PAUSE_SECONDS = 30.0


def end_with_supervisor() -> None:
    """Stop this worker when the supervisor dies, even if it is killed."""
    supervisor = multiprocessing.parent_process()
    assert supervisor is not None

    def watch() -> None:
        wait([supervisor.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


class Backoff:
    """The pause before a worker is restarted, which grows if it ends early."""

    def __init__(self) -> None:
        self.ends_at: float | None = None
        """None while the worker runs."""
        self._seconds = 0.0
        self._started_at = 0.0

    def started(self, now: float) -> None:
        self.ends_at = None
        self._started_at = now

    def begin(self, now: float, least: float = 0.0) -> float:
        """Return the seconds until the restart of a worker that has ended."""
        if now - self._started_at >= _STABLE_SECONDS:
            self._seconds = 0.0
        seconds = max(self._seconds, least)
        self._seconds = min(2 * seconds or _CHECK_SECONDS, _MOST_PAUSE_SECONDS)
        self.ends_at = now + seconds
        return seconds

    def is_over(self, now: float) -> bool:
        return self.ends_at is not None and self.ends_at <= now


class Supervisor:
    """Runs worker processes, and replaces those that end unexpectedly."""

    def __init__(
        self, settings: Settings, count: int, target: Callable[[WorkerSlot], None]
    ) -> None:
        """``target`` runs one worker in its own process."""
        self._settings = settings
        self._count = count
        self._target = target
        self._context = multiprocessing.get_context("spawn")
        self._workers: list[tuple[int, SpawnProcess]] = []
        self._metrics = SupervisorMetrics()
        self._log = logs.get(pid=os.getpid())
        self._starts = 0
        self._backoffs = [Backoff() for _ in range(count)]
        self._is_stopping = False

    def run(self) -> int:
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)
        self._metrics.open()
        try:
            return self._run()
        finally:
            self._metrics.close()

    def _run(self) -> int:
        for index in range(self._count):
            if not self._is_stopping:
                self._workers.append(self._start(index))
        while not self._is_stopping:
            running = [worker.sentinel for _, worker in self._workers if worker.is_alive()]
            wait(running, timeout=_CHECK_SECONDS)
            for index, (number, worker) in enumerate(self._workers):
                if not worker.is_alive() and not self._is_stopping:
                    if worker.exitcode == 3 and not any(
                        each.is_alive() for _, each in self._workers
                    ):
                        # No worker could start, and a retry would fail too.
                        self._stop(signal.SIGTERM, None)
                        break
                    self._replace(index, number, worker)
        self._log.info(Event.STOPPING)
        self._signal()  # Again, for a worker that was being started.
        for _, worker in self._workers:
            worker.join(self._settings.shutdown_seconds + 10)
            if worker.is_alive():
                worker.kill()
        return 3 if any(worker.exitcode == 3 for _, worker in self._workers) else 0

    def _replace(self, index: int, number: int, worker: SpawnProcess) -> None:
        """Replace a worker that ended, after its pause."""
        backoff = self._backoffs[index]
        if backoff.ends_at is None:
            # While others run, the cause may be temporary, such as an unavailable database.
            least = _CHECK_SECONDS if worker.exitcode == 3 else 0.0
            seconds = backoff.begin(time.monotonic(), least)
            self._metrics.remove(number)
            self._log.error(
                Event.WORKER_ENDED, worker=number, code=worker.exitcode, restart_seconds=seconds
            )
        if backoff.is_over(time.monotonic()):
            self._workers[index] = self._start(index)

    def _start(self, index: int) -> tuple[int, SpawnProcess]:
        self._starts += 1
        slot = self._metrics.add(self._starts, index)
        worker = self._context.Process(target=self._target, args=(slot,))
        worker.start()
        self._backoffs[index].started(time.monotonic())
        return self._starts, worker

    def _stop(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._is_stopping = True
        self._signal()

    def _signal(self) -> None:
        for _, worker in self._workers:
            if worker.is_alive() and worker.pid is not None:
                os.kill(worker.pid, signal.SIGTERM)
