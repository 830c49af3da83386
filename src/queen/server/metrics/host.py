"""Metrics of all processes of one host. The supervisor sums them up over unix sockets."""

import asyncio
import contextlib
import shutil
import struct
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec

from queen.meters import Heard, Snapshot, merged
from queen.server.metrics.requests import RequestMetrics

_TIMEOUT_SECONDS: Final = 2.0
_MOST_BYTES: Final = 64 * 2**20
_SUPERVISOR: Final = "supervisor.sock"
_READ: Final = b"?"
_SAVE: Final = b"!"
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(Snapshot).decode


class WorkerSlot(msgspec.Struct, frozen=True):
    """One worker process of a supervisor."""

    directory: str
    number: int
    """Counts starts: a replacement has a new number."""
    index: int
    """From 0 up: a replacement has the same index."""

    @property
    def path(self) -> str:
        return f"{self.directory}/{self.number}.sock"


async def _exchange(path: str, verb: bytes, body: bytes = b"") -> bytes:
    """Send one request and return its response; raises OSError or TimeoutError."""
    async with asyncio.timeout(_TIMEOUT_SECONDS):
        reader, writer = await asyncio.open_unix_connection(path, limit=_MOST_BYTES)
        try:
            writer.write(verb + struct.pack("!I", len(body)) + body)
            await writer.drain()
            return await reader.read(-1)
        finally:
            writer.close()


async def _listen(
    path: str, answer: Callable[[bytes, bytes], Awaitable[bytes]]
) -> asyncio.AbstractServer:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError, TimeoutError):
            async with asyncio.timeout(2 * _TIMEOUT_SECONDS):
                verb = await reader.readexactly(1)
                (size,) = struct.unpack("!I", await reader.readexactly(4))
                body = await reader.readexactly(min(size, _MOST_BYTES))
                writer.write(await answer(verb, body))
                await writer.drain()
        writer.close()

    return await asyncio.start_unix_server(serve, path, limit=_MOST_BYTES)


class WorkerMetrics:
    """The worker's end: returns its snapshot to the supervisor, and requests the sum."""

    def __init__(self, slot: WorkerSlot, snapshot: Callable[[], Awaitable[Snapshot]]) -> None:
        self._slot = slot
        self._snapshot = snapshot
        self._server: asyncio.AbstractServer | None = None

    async def open(self) -> None:
        self._server = await _listen(self._slot.path, self._answer)

    async def close(self) -> None:
        """Save the last snapshot with the supervisor."""
        await self.save()
        if self._server is not None:
            self._server.close()

    async def save(self) -> None:
        """Send a snapshot to the supervisor, in case this process dies."""
        body = struct.pack("!I", self._slot.number) + _ENCODE(await self._snapshot())
        with contextlib.suppress(OSError, TimeoutError):
            await _exchange(f"{self._slot.directory}/{_SUPERVISOR}", _SAVE, body)

    async def gather(self) -> Snapshot:
        """Return the sum over all workers, or only this one if the supervisor does not respond."""
        try:
            return _DECODE(await _exchange(f"{self._slot.directory}/{_SUPERVISOR}", _READ))
        except (OSError, TimeoutError, msgspec.DecodeError):
            return await self._snapshot()

    async def _answer(self, verb: bytes, body: bytes) -> bytes:
        del verb, body
        return _ENCODE(await self._snapshot())


class SupervisorMetrics:
    """
    The supervisor's end, in a thread with its own event loop.

    It stores the last snapshot of every worker before it returns it. If a worker dies, counters
    that were read before therefore never decrease.
    """

    def __init__(self) -> None:
        # Only this user may read it.
        self.directory = tempfile.mkdtemp(prefix="queen-")
        self._last: dict[int, Snapshot] = {}
        self._ended = Snapshot()
        self._slots: dict[int, WorkerSlot] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.AbstractServer | None = None

    def open(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(_TIMEOUT_SECONDS)

    def add(self, number: int, index: int) -> WorkerSlot:
        """Return the slot of a worker that is about to start."""
        slot = WorkerSlot(self.directory, number, index)
        self._loop.call_soon_threadsafe(self._slots.__setitem__, number, slot)
        return slot

    def remove(self, number: int) -> None:
        """Remove a worker that has ended. Its counters stay."""
        self._loop.call_soon_threadsafe(self._remove, number)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_TIMEOUT_SECONDS)
        shutil.rmtree(self.directory, ignore_errors=True)

    async def _open(self) -> None:
        self._server = await _listen(f"{self.directory}/{_SUPERVISOR}", self._answer)

    def _remove(self, number: int) -> None:
        slot = self._slots.pop(number, None)
        if slot is not None:
            Path(slot.path).unlink(missing_ok=True)
        if (last := self._last.pop(number, None)) is not None:
            self._ended = merged((self._ended, last.lasting()))

    async def _answer(self, verb: bytes, body: bytes) -> bytes:
        if verb == _SAVE:
            (number,) = struct.unpack_from("!I", body)
            if number in self._slots:
                self._last[number] = _DECODE(body[4:])
            return b""
        alive = await asyncio.gather(*(self._read(slot) for slot in list(self._slots.values())))
        return _ENCODE(merged((self._ended, *alive)))

    async def _read(self, slot: WorkerSlot) -> Snapshot:
        try:
            snapshot = _DECODE(await _exchange(slot.path, _READ))
        except (OSError, TimeoutError, msgspec.DecodeError):
            # Starting, busy or ending: its last counters, without gauges.
            return self._last.get(slot.number, Snapshot()).lasting()
        if slot.number in self._slots:
            self._last[slot.number] = snapshot
            return snapshot
        # It ended in between, and its last snapshot is already counted.
        return Snapshot()


class HostMetrics:
    """Metrics of this process, and of all processes of its host."""

    def __init__(self, process: RequestMetrics, slot: WorkerSlot | None) -> None:
        """``slot``: None if this is the only process."""
        self.process = process
        self.worker = WorkerMetrics(slot, process.snapshot) if slot else None

    async def gather(self) -> Snapshot:
        """Return the sum over all processes of this host."""
        snapshot = await self._merged()
        snapshot.count_heard()
        return snapshot

    async def job_workers(self) -> list[Heard]:
        """Return the job workers that sent a report in the last seconds."""
        return (await self._merged()).heard

    async def _merged(self) -> Snapshot:
        return await (self.worker.gather() if self.worker else self.process.snapshot())
