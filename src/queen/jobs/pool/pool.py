"""Worker processes: start them, restart them when they die, drain surplus ones."""

import asyncio
import contextlib
import logging
import socket
import sys
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from queen import errors
from queen.client.backoff import Backoff
from queen.jobs.pool.process import NOW, STOP, Report, Task

_LOG: Final = logging.getLogger("queen.jobs")
_HEALTHY_SECONDS: Final = 10.0
"""If a process ran longer than this before it died, the restart delay starts over."""
_START_SECONDS: Final = 60.0
_GRACE_SECONDS: Final = 5.0
"""Time after the shutdown timeout until a process is killed."""
_DECODE: Final = msgspec.json.Decoder(Report).decode


class WorkerProcess:
    """Keeps one worker process running, and restarts it after a crash."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._leaves = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self.starts = 0
        self.report: Report | None = None
        """The last report of the current process, or None until it is ready."""
        self.is_ready = asyncio.Event()
        """Also set if the first process ends before it is ready."""
        self.has_been_ready = False
        """The first process became ready. A later crash is not a failed start."""
        self.work = asyncio.create_task(self._keep_running())

    @property
    def pid(self) -> int | None:
        """Id of the current process."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    @property
    def is_leaving(self) -> bool:
        return self._leaves.is_set()

    def leave(self, *, now: bool = False) -> None:
        """Drain the process and don't restart it. ``now`` cancels its jobs."""
        self._leaves.set()
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(NOW if now else STOP)

    async def gone(self) -> None:
        """Wait until a draining process has ended, up to the shutdown timeout."""
        seconds = self._task.shutdown_seconds + _GRACE_SECONDS
        done, _ = await asyncio.wait([self.work], timeout=seconds)
        if not done and self._process is not None:
            _LOG.error("jobs.process_killed: %d did not end in %.0f s", self._process.pid, seconds)
            self._process.kill()
        await self.work

    async def _keep_running(self) -> None:
        backoff = Backoff(first_seconds=0.5, max_seconds=30.0)
        while not self.is_leaving:
            began = time.monotonic()
            try:
                code = await self._run()
            except OSError as error:  # The process limit is reached, or memory is exhausted.
                _LOG.error("jobs.process_not_started: %s", error)
                code = -1
            if self.is_leaving:
                break
            if time.monotonic() - began > _HEALTHY_SECONDS:
                backoff.reset()
            pause = backoff.next()
            _LOG.warning("jobs.process_died: exit code %d, restart in %.1f s", code, pause)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._leaves.wait()

    async def _run(self) -> int:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",  # Not -m, because the package has already imported the module.
                "from queen.jobs.pool.process import main; main()",
                msgspec.json.encode(self._task).decode(),
                str(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        self.starts += 1
        reader, self._writer = await asyncio.open_connection(sock=ours)
        if self.is_leaving:
            self._writer.write(STOP)
        try:
            while line := await reader.readline():
                self.report = _DECODE(line)
                self.has_been_ready = True
                self.is_ready.set()
        except ConnectionError:
            pass
        finally:
            self.report = None
            self._writer.close()
        code = await self._process.wait()
        self.is_ready.set()
        return code


class Pool:
    """A number of worker processes."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.places: list[WorkerProcess] = []
        self._leaving: dict[asyncio.Task[None], WorkerProcess] = {}
        """Surplus processes, until they have drained."""

    @property
    def size(self) -> int:
        return len(self.places)

    def scale(self, count: int) -> list[WorkerProcess]:
        """Start processes or drain the newest, without waiting. Returns new ones."""
        new = [WorkerProcess(self.task) for _ in range(count - len(self.places))]
        self.places += new
        while len(self.places) > count:
            place = self.places.pop()
            place.leave()
            task = asyncio.create_task(place.gone())
            self._leaving[task] = place
            task.add_done_callback(self._leaving.pop)
        return new

    async def ready(self, new: Sequence[WorkerProcess]) -> None:
        """Wait for the first report of each. Raises if a process ends before."""
        async with asyncio.timeout(_START_SECONDS):
            for place in new:
                await place.is_ready.wait()
        if any(not (place.has_been_ready or place.is_leaving) for place in new):
            raise errors.BadRequest("a worker process ended before it was ready: see its output")

    def hurry(self) -> None:
        """Cancel the jobs of all processes, including draining ones."""
        for place in (*self.places, *self._leaving.values()):
            place.leave(now=True)

    async def close(self, *, now: bool = False) -> None:
        """Drain all processes. ``now`` cancels their jobs."""
        for place in self.places:
            place.leave()
        if now:
            self.hurry()
        await asyncio.gather(*(place.gone() for place in self.places), *self._leaving)
