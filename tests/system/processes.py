"""Start workers, each a process with its own engine, and exchange messages with them."""

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parents[2]
_END_SECONDS = 20


class Worker:
    """
    One child process. It writes JSON objects, one per line, and reads commands of one word.

    Usage::

        async with start(task) as worker:
            await worker.expect("ready")
            worker.tell("go")
            objects = await worker.finish(seconds=60)
    """

    def __init__(self, process: Process, heard: Callable[[dict[str, Any]], None]) -> None:
        self._process = process
        self._heard = heard
        self._last: dict[str, Any] = {}
        self._changed = asyncio.Condition()
        self._listener = asyncio.create_task(self._listen())

    async def expect(self, word: str, *, seconds: float = 30) -> dict[str, Any]:
        """Wait until the worker has written an object with this key."""
        async with asyncio.timeout(seconds), self._changed:
            await self._changed.wait_for(lambda: word in self._last or self._listener.done())
        if word not in self._last:
            raise AssertionError(f"a worker ended without {word!r}; it said {self._last}")
        return self._last

    def tell(self, word: str) -> None:
        assert self._process.stdin is not None
        # `finish` detects a worker that has ended.
        with contextlib.suppress(ConnectionError):
            self._process.stdin.write(f"{word}\n".encode())

    async def finish(self, *, seconds: float) -> dict[str, Any]:
        """Wait for the worker's successful end, and return all its objects merged."""
        async with asyncio.timeout(seconds):
            await self._listener
            code = await self._process.wait()
        assert code == 0, f"a worker ended with {code}; it said {self._last}"
        return self._last

    async def end(self) -> None:
        """End the process in any state."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._listener

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            said: dict[str, Any] = json.loads(line)
            self._last |= said
            self._heard(said)
            async with self._changed:
                self._changed.notify_all()
        async with self._changed:
            self._changed.notify_all()


@contextlib.asynccontextmanager
async def start(
    task: msgspec.Struct,
    *,
    module: str = "tests.system.worker",
    heard: Callable[[dict[str, Any]], None] = lambda said: None,
) -> AsyncGenerator[Worker]:
    """Start a worker for a task. It ends with the block."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        msgspec.json.encode(task).decode(),
        cwd=ROOT,
        stdin=PIPE,
        stdout=PIPE,
    )
    worker = Worker(process, heard)
    try:
        yield worker
    finally:
        await worker.end()
