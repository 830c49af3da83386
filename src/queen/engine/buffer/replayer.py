"""Stores buffered pushes when the database is back: in order, and each request once."""

import asyncio
import contextlib
import logging
import os
import random
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from queen import errors
from queen.engine.buffer import records
from queen.engine.buffer.directory import Found
from queen.engine.buffer.file_buffer import (
    DOUBTFUL,
    BufferedPush,
    FileBuffer,
    age_seconds,
    encode_push,
    part_of,
)
from queen.engine.buffer.reader import Replayed, end_of, merged, next_batch
from queen.engine.buffer.retry_window import RetryWindow
from queen.engine.core import Core
from queen.engine.push.batches import PendingPush
from queen.engine.push.layout import SegmentLayout
from queen.engine.push.producers import Producer, is_another
from queen.engine.push.pusher import Pusher
from queen.engine.push.writer import Writer, contended
from queen.engine.runtime.periodic import PeriodicTask
from queen.store.connection.database import Record
from queen.store.messages import Push
from queen.wire.messages import Pushed

_LOG: Final = logging.getLogger("queen.engine")
_LAST_BYTES: Final = 2**18
_LAST_SECONDS: Final = 5.0
_MOST_RETRY_SECONDS: Final = 2.0
_SCOPE: Final = ""
"""The scope of producers that stand for files. Servers from before scopes use the same."""
_PRODUCER: Final = "__buffer:"
"""Each file is a producer. Its sequence is the number of its last stored record."""


class _Done(Exception):
    """Some of these records are already stored: a response was lost."""


class Replayer(PeriodicTask):
    """
    Replays the files of all processes. One process per server runs it.

    A batch is one transaction that also records the progress in each file. So a batch that runs
    twice, after a lost response or a crash, is stored once.
    """

    def __init__(
        self, core: Core, buffer: FileBuffer, pusher: Pusher, retry_window: RetryWindow
    ) -> None:
        self._writer = Writer(core)
        self._buffer = buffer
        self._folder = buffer.folder
        self._store = core.store
        self._settings = settings = core.settings
        self._catalogue = core.catalogue
        self._pusher = pusher
        self._retry_window = retry_window
        core.signals.on_database_returned.subscribe(self.wake)
        super().__init__(pause_seconds=settings.file_buffer_flush_ms / 1000)
        self._retry_seconds = 0.0
        self._round: asyncio.Future[None] | None = None
        self._ends: dict[bytes, int] = {}
        """Progress per file. For a file that is not in here, the database has the progress."""
        self.is_held = False
        """In maintenance, the buffer keeps its pushes."""
        self.stored = 0

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
            await self._store.messages.end_buffers([_producer(file_id) for file_id in gone])

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
                await self._store_batch([await self._without_doubts(each) for each in batch])
                messages = sum(len(each.push.items) for each in batch if each.push)
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
        last = await self._store.messages.last_request(_producer(found.file_id), _SCOPE)
        start = records.HEADER_BYTES
        if last is not None:
            start = await asyncio.to_thread(end_of, found, last["sequence"])
        self._ends[found.file_id] = start
        return start

    async def _store_batch(self, batch: Sequence[Replayed]) -> None:
        """Store the records together, or one by one if one of them fails."""
        try:
            await self._store_together(batch)
        except (errors.ServiceError, errors.OutcomeUnknown):
            raise
        except Exception as error:
            if len(batch) > 1 and not isinstance(error, _Done):
                for each in batch:
                    await self._store_batch([each])
                return
            if isinstance(error, _Done):
                raise errors.OutcomeUnknown("some of these records are already stored") from error
            (each,) = batch
            await self._fail(each, each.body, error)
            await self._store_together([each._replace(push=None, body=b"")])

    async def _without_doubts(self, each: Replayed, *, is_counted: bool = True) -> Replayed:
        """Set aside the messages that may already be stored, and return the record without them."""
        if each.push is None:
            return each
        judged = await self._retry_window.judge(each.push, is_counted=is_counted)
        if judged.doubtful is None:
            return each._replace(until=judged.until)
        doubtful = encode_push(judged.doubtful, self._buffer.keyring)
        reason = "whether it was stored at the first attempt is not known any more"
        suffix = DOUBTFUL if is_counted else f"-stale{DOUBTFUL}"
        await self._fail(each, doubtful, reason, suffix=suffix)
        body = encode_push(judged.push, self._buffer.keyring) if judged.push else b""
        return each._replace(push=judged.push, body=body, until=judged.until)

    async def _store_together(self, batch: Sequence[Replayed]) -> None:
        units: list[tuple[Replayed, PendingPush]] = []
        for each in batch:
            if each.push is not None:
                units.append((each, await self._unit_of(each, each.push)))
            elif each.body:
                await self._fail(each, each.body, "this release cannot read it")
        last = {each.found.file_id: each for each in batch}
        progress = [
            PendingPush((), producer=Producer(_producer(each.found.file_id), each.number, _SCOPE))
            for each in last.values()
        ]
        await self._push(units, progress)
        for each in last.values():
            self._ends[each.found.file_id] = each.end
        self.stored += sum(len(each.push.items) for each in batch if each.push)

    async def _unit_of(self, each: Replayed, push: BufferedPush) -> PendingPush:
        """The messages of a record that can be stored. The others are set aside."""
        items = [item.item(age_seconds(each.number)) for item in push.items]
        parts, refused = await self._pusher.prepare(items, is_admitted=True)
        for at, answer in refused.items():
            await self._fail_item(each, push, at, answer)
        producer = push.producer
        if producer is not None and refused:
            producer = producer._replace(digest=None)
        return PendingPush(parts, producer=producer, are_minted=True)

    async def _push(
        self, replayed: Sequence[tuple[Replayed, PendingPush]], progress: Sequence[PendingPush]
    ) -> None:
        async def send(push: Push) -> list[Record]:
            if any(time.time() > each.until for each, _ in replayed):
                raise errors.Overloaded("the buffer took too long to store")
            return await self._store.messages.push(push)

        async def retry(layout: SegmentLayout, rows: Sequence[Record]) -> list[PendingPush]:
            nonlocal replayed
            left = layout.without(rows, self._catalogue)
            if any(unit not in left for unit in progress):
                raise _Done
            replayed = [
                left
                for each, unit in replayed
                if (left := await self._left_of(each, unit)) is not None
            ]
            return [*(unit for _, unit in replayed), *progress]

        # Without their data key, the writer raises and the messages stay in the file until the key
        # is back.
        units = [*(unit for _, unit in replayed), *progress]
        if await self._writer.write(units, send, retry=retry) is None:
            raise contended("the buffer")

    async def _left_of(
        self, each: Replayed, unit: PendingPush
    ) -> tuple[Replayed, PendingPush] | None:
        """The messages of a request that are left to store after an attempt that stored none."""
        assert each.push is not None
        if unit.is_replayed and not await self._is_reused(unit):
            return None
        if unit.done.done():
            error = unit.done.exception()
            if not unit.is_replayed and not isinstance(error, errors.SequenceStale):
                await self._fail(each, each.body, error)
                return None
            # The producer continued on another server, or used its number for another request. This
            # server has acknowledged the request and must store it. Only transactionIds show
            # whether the other server stored it. If the request was sent before, messages without
            # them are set aside.
            each = await self._without_doubts(each, is_counted=False)
            if each.push is None:
                return None
            if each.push.tried_at is not None:
                unit = await self._unit_of(each, each.push)
            return each, PendingPush(unit.parts)
        for part in unit.parts:
            held = part.marked.scheduled if part.marked else []
            for place, answer in (part.marked.refused if part.marked else {}).items():
                await self._fail_item(each, each.push, held[-1 - place].item, answer)
        return each, unit

    async def _is_reused(self, unit: PendingPush) -> bool:
        """Return whether another request was stored under this number."""
        producer = unit.producer
        assert producer is not None
        last = await self._store.messages.last_request(producer.id, producer.scope)
        if last is None or last["sequence"] != producer.sequence:
            return False  # It was stored, and its producer has continued since.
        return is_another(producer, last["digest"])

    async def _fail_item(self, each: Replayed, push: BufferedPush, at: int, answer: Pushed) -> None:
        rest = part_of(push, [push.items[at]])
        body = encode_push(rest, self._buffer.keyring)
        await self._fail(each, body, answer.error or "refused", suffix=f"-{at}")

    async def _fail(
        self, each: Replayed, body: bytes, reason: object, *, suffix: str = "-0"
    ) -> None:
        _LOG.error("a buffered push cannot be stored and was moved to failed: %s", reason)
        await self._buffer.set_aside(f"{each.name}{suffix}", each.number, body)


def _producer(file_id: bytes) -> str:
    return f"{_PRODUCER}{file_id.hex()}"
