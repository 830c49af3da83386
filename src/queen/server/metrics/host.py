"""The processes of one host as one: who answers for all asks all, through private unix sockets."""

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

from queen.meters import Snapshot, merged

_ASK_SECONDS: Final = 2.0
_MOST_BYTES: Final = 64 * 2**20
_SUPERVISOR: Final = "supervisor.sock"
_ASK: Final = b"?"
_KEEP: Final = b"!"
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(Snapshot).decode


class Seat(msgspec.Struct, frozen=True):
    """Which worker of which supervisor a process is, from its first start on."""

    folder: str
    number: int
    """Counts starts, so that one that came after another's death is told from it."""
    place: int
    """From 0 up; whoever comes after a death takes its place."""

    @property
    def path(self) -> str:
        return f"{self.folder}/{self.number}.sock"


async def _exchange(path: str, verb: bytes, body: bytes = b"") -> bytes:
    """One question and its answer; raises OSError or TimeoutError."""
    async with asyncio.timeout(_ASK_SECONDS):
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
            async with asyncio.timeout(2 * _ASK_SECONDS):
                verb = await reader.readexactly(1)
                (size,) = struct.unpack("!I", await reader.readexactly(4))
                body = await reader.readexactly(min(size, _MOST_BYTES))
                writer.write(await answer(verb, body))
                await writer.drain()
        writer.close()

    return await asyncio.start_unix_server(serve, path, limit=_MOST_BYTES)


class Worker:
    """The end of a worker: tells its supervisor what it counts, and asks it for the sum."""

    def __init__(self, seat: Seat, snapshot: Callable[[], Awaitable[Snapshot]]) -> None:
        self._seat = seat
        self._snapshot = snapshot
        self._server: asyncio.AbstractServer | None = None

    async def open(self) -> None:
        self._server = await _listen(self._seat.path, self._answer)

    async def close(self) -> None:
        """Leave what was counted with the supervisor."""
        await self.keep()
        if self._server is not None:
            self._server.close()

    async def keep(self) -> None:
        """Let the supervisor have what is counted so far, in case this process dies."""
        body = struct.pack("!I", self._seat.number) + _ENCODE(await self._snapshot())
        with contextlib.suppress(OSError, TimeoutError):
            await _exchange(f"{self._seat.folder}/{_SUPERVISOR}", _KEEP, body)

    async def gather(self) -> Snapshot:
        """The sum over all workers; of this one alone when the supervisor does not answer."""
        try:
            return _DECODE(await _exchange(f"{self._seat.folder}/{_SUPERVISOR}", _ASK))
        except (OSError, TimeoutError, msgspec.DecodeError):
            return await self._snapshot()

    async def _answer(self, verb: bytes, body: bytes) -> bytes:
        del verb, body
        return _ENCODE(await self._snapshot())


class Workers:
    """
    The end of the supervisor, in a thread with a loop of its own.

    Whatever a worker was last heard to have counted is kept, and every answer is kept before it is
    given: so no counter that anybody has seen falls when a worker dies.
    """

    def __init__(self) -> None:
        # Nobody but this user may look into it.
        self.folder = tempfile.mkdtemp(prefix="queen-")
        self._heard: dict[int, Snapshot] = {}
        self._dead = Snapshot()
        self._seats: dict[int, Seat] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.AbstractServer | None = None

    def open(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(_ASK_SECONDS)

    def seat(self, number: int, place: int) -> Seat:
        """A place for a worker that is about to start."""
        seat = Seat(self.folder, number, place)
        self._loop.call_soon_threadsafe(self._seats.__setitem__, number, seat)
        return seat

    def bury(self, number: int) -> None:
        """A worker has ended: what it counted stays."""
        self._loop.call_soon_threadsafe(self._bury, number)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_ASK_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)

    async def _open(self) -> None:
        self._server = await _listen(f"{self.folder}/{_SUPERVISOR}", self._answer)

    def _bury(self, number: int) -> None:
        seat = self._seats.pop(number, None)
        if seat is not None:
            Path(seat.path).unlink(missing_ok=True)
        if (last := self._heard.pop(number, None)) is not None:
            self._dead = merged((self._dead, last.lasting()))

    async def _answer(self, verb: bytes, body: bytes) -> bytes:
        if verb == _KEEP:
            (number,) = struct.unpack_from("!I", body)
            if number in self._seats:
                self._heard[number] = _DECODE(body[4:])
            return b""
        alive = await asyncio.gather(*(self._ask(seat) for seat in list(self._seats.values())))
        return _ENCODE(merged((self._dead, *alive)))

    async def _ask(self, seat: Seat) -> Snapshot:
        try:
            snapshot = _DECODE(await _exchange(seat.path, _ASK))
        except (OSError, TimeoutError, msgspec.DecodeError):
            # Starting, busy or dying: what it last said, without what may be so no more.
            return self._heard.get(seat.number, Snapshot()).lasting()
        if seat.number in self._seats:
            self._heard[seat.number] = snapshot
            return snapshot
        # It ended meanwhile, and what it was heard to have is among the dead.
        return Snapshot()
