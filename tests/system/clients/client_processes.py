"""Start, stop and read the processes of `client_worker`."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import msgspec

from tests.support.server import SOURCE, until
from tests.system.clients.client_worker import Task

ROOT = Path(__file__).parents[3]


class Client:
    """One process. Its log remains after its end."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.log = Path(task.log)
        self.was_killed = False
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.system.clients.client_worker",
            msgspec.json.encode(self.task).decode(),
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{SOURCE}:{ROOT}"},
        )

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def ready(self) -> None:
        async def is_ready() -> bool:
            return "ready" in self.lines() or not self.is_running

        await until(is_ready, seconds=30)

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    def marked(self, mark: str) -> list[str]:
        return [line[2:] for line in self.lines() if line.startswith(f"{mark} ")]

    async def kill(self) -> None:
        """Kill the process immediately, like a crash."""
        self.was_killed = self.is_running
        await self._end(signal.SIGKILL)

    async def terminate(self, *, seconds: float = 40) -> int:
        """Send SIGTERM, and return the exit code."""
        async with asyncio.timeout(seconds):
            return await self._end(signal.SIGTERM)

    async def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(number)
        return await self._process.wait()
