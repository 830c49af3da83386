"""Stores buffered pushes when the database is back: in order, and each request once."""

import asyncio
import contextlib
import logging
import os
import random
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from queen import errors
from queen.engine.buffer import records
from queen.engine.buffer.directory import Found
from queen.engine.buffer.elsewhere import Elsewhere, Homes, producer_of
from queen.engine.buffer.file_buffer import FileBuffer
from queen.engine.buffer.reader import Replayed, end_of, merged, next_batch
from queen.engine.buffer.record_writer import RecordWriter
from queen.engine.buffer.retry_window import RetryWindow
from queen.engine.core import Core
from queen.engine.push.pusher import Pusher
from queen.engine.runtime.periodic import PeriodicTask

_LOG: Final = logging.getLogger("queen.engine")
_LAST_BYTES: Final = 2**18
_LAST_SECONDS: Final = 5.0
_MOST_RETRY_SECONDS: Final = 2.0


class Replayer(PeriodicTask):
    """
    Replays the files of all processes. One process per server runs it.

    A batch is one transaction that also records the progress in each file. So a batch that runs
    twice, after a lost response or a crash, is stored once.
    """

    def __init__(
        self, core: Core, buffer: FileBuffer, pusher: Pusher, retry_window: RetryWindow
    ) -> None:
        self.writer = RecordWriter(core, buffer, pusher, retry_window)
        self._elsewhere: Elsewhere | None = None
        self._buffer = buffer
        self._folder = buffer.folder
        self._store = core.store
        self._settings = settings = core.settings
        core.signals.on_database_returned.subscribe(self.wake)
        super().__init__(pause_seconds=settings.file_buffer_flush_ms / 1000)
        self._retry_seconds = 0.0
        self._round: asyncio.Future[None] | None = None
        self._ends: dict[bytes, int] = {}
        """Progress per file. For a file that is not in here, the database has the progress."""
        self.is_held = False
        """In maintenance, the buffer keeps its pushes."""
        self.stored = 0

    def use(self, homes: Homes) -> None:
        """Hand records to the databases that own their slots now."""
        self._elsewhere = Elsewhere(self.writer, homes, self._buffer.keyring)

    async def flush(self) -> None:
        """Replay now and wait for the end. Raises the error that stopped the replay."""
        if not self._folder.is_closed:
            return
        if self._round is None:
            self._round = asyncio.get_running_loop().create_future()
        self.wake()
        await asyncio.shield(self._round)

    async def run(self) -> float:
        """Store buffered pushes. The pause doubles while that fails."""
        waiting, self._round = self._round, None
        outcome: errors.QueenError | None = None
        try:
            await self._drain()
            self._retry_seconds = 0.0
        except (errors.ServiceError, errors.OutcomeUnknown) as error:
            outcome = error
            if self._elsewhere is not None and isinstance(error, errors.SlotMoved):
                await self._elsewhere.refresh()
        except Exception as error:
            # The cause may be gone on the next run.
            _LOG.exception("buffered pushes could not be stored")
            outcome = errors.QueenError(str(error))
        pause = self._settings.file_buffer_flush_ms / 1000
        if outcome is not None:
            self._retry_seconds = min(2 * max(self._retry_seconds, pause), _MOST_RETRY_SECONDS)
        if waiting is not None and not waiting.done():
            if outcome is None:
                waiting.set_result(None)
            else:
                waiting.set_exception(outcome)
                waiting.exception()  # The waiter may have been cancelled.
        return max(self._retry_seconds, pause) * random.uniform(0.5, 1.5)

    async def _drain(self) -> None:
        """Store everything, including pushes that arrive meanwhile, and stop buffering."""
        while self._folder.is_closed:
            if self.is_held:
                raise errors.DatabaseUnavailable("push maintenance is on")
            if self._store.database.is_away:
                raise errors.DatabaseUnavailable("the database is unavailable")
            if not self._folder.keep():
                raise errors.Overloaded("another process of this server is replaying the buffer")
            try:
                files = await asyncio.to_thread(self._files)
                starts = {found.file_id: await self._start_of(found) for found in files}
                left = sum(found.size_bytes - starts[found.file_id] for found in files)
                if left > _LAST_BYTES:
                    await self._pass(files)
                    async with self._locked():
                        gone = await asyncio.to_thread(self._folder.remove, self._ends)
                    await self._forget(gone)
                else:
                    await self._finish()
            except BaseException:
                # The database has the progress.
                self._ends.clear()
                if self._elsewhere is not None:
                    self._elsewhere.forget()
                raise

    async def _finish(self) -> None:
        """Store the last records while new pushes wait, so that the replay ends under any load."""
        try:
            async with self._locked(), asyncio.timeout(_LAST_SECONDS):
                await self._pass(await asyncio.to_thread(self._folder.files))
                gone = await asyncio.to_thread(self._folder.remove, self._ends)
        except TimeoutError as error:
            raise errors.OutcomeUnknown("the end of the buffer took too long to store") from error
        self._ends.clear()
        await self._forget(gone)

    async def _forget(self, gone: Sequence[bytes]) -> None:
        """Remove the progress of deleted files from the database."""
        # A leftover row is harmless.
        with contextlib.suppress(errors.QueenError):
            await self.writer.end([producer_of(file_id) for file_id in gone])
            if self._elsewhere is not None:
                await self._elsewhere.end(gone)

    @contextlib.asynccontextmanager
    async def _locked(self) -> AsyncGenerator[None]:
        locking = asyncio.ensure_future(asyncio.to_thread(self._folder.lock))
        try:
            lock = await asyncio.shield(locking)
        except asyncio.CancelledError:
            locking.add_done_callback(lambda done: os.close(done.result()))
            raise
        try:
            yield
        finally:
            os.close(lock)

    async def _pass(self, files: Sequence[Found]) -> None:
        """Store the records of the files and record the progress."""
        starts = {found.file_id: await self._start_of(found) for found in files}
        reading = merged(files, starts, self._buffer.keyring)
        try:
            ahead: list[Replayed] = []
            while True:
                batch, ahead = await asyncio.to_thread(
                    next_batch, reading, ahead, self._settings.file_buffer_max_batch
                )
                if not batch:
                    break
                await self._store_batch(batch)
                messages = sum(len(each.push.items) for each in batch if each.push)
                self.stored += messages
                self._folder.progress(messages, ahead[0].number if ahead else 0)
        finally:
            # If a cancellation arrives while a thread reads, that thread closes the generator.
            with contextlib.suppress(ValueError):
                reading.close()
        for found in files:
            end = self._ends.get(found.file_id, records.HEADER_BYTES)
            # The bytes after the last complete record were never acknowledged, unless the disk
            # damaged them.
            if end != found.size_bytes:
                _LOG.error(
                    "%s is torn or damaged at byte %d and was moved to failed", found.path.name, end
                )
            self._ends[found.file_id] = end if end == found.size_bytes else found.size_bytes + 1

    def _files(self) -> list[Found]:
        with self._folder.locked():
            return self._folder.files()

    async def _start_of(self, found: Found) -> int:
        """The position of the first record in a file that is not stored."""
        known = self._ends.get(found.file_id)
        if known is not None and known <= found.size_bytes:
            return known
        last = await self.writer.last(producer_of(found.file_id))
        start = records.HEADER_BYTES
        if last is not None:
            start = await asyncio.to_thread(end_of, found, last)
        self._ends[found.file_id] = start
        return start

    async def _store_batch(self, batch: Sequence[Replayed]) -> None:
        """Store the records, and the progress in their files."""
        own = batch if self._elsewhere is None else await self._elsewhere.hand_over(batch)
        await self.writer.store(own, lambda each: [(producer_of(each.found.file_id), each.number)])
        for each in batch:
            self._ends[each.found.file_id] = each.end
