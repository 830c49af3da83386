"""Pushes while the database is unavailable: they go to disk, behind earlier buffered pushes."""

import time
from collections.abc import Sequence
from typing import Final
from uuid import uuid4

from queen import errors, telemetry
from queen.engine.buffer.file_buffer import BufferedItem, BufferedPush, FileBuffer, age_seconds
from queen.engine.buffer.retry_window import RetryWindow
from queen.engine.push.batches import BufferedResult, PushResult
from queen.engine.push.producers import Producer
from queen.engine.push.pusher import Pusher, all_problems
from queen.meters import Snapshot
from queen.wire.messages import PushItem

_REFUSALS: Final = (errors.RequestError, errors.QueueFull, errors.EncryptionUnavailable)
"""Rejections that depend on the current options of a queue."""


class PushFallback:
    """Pushes to the database, or to disk while the database is unavailable or in maintenance."""

    def __init__(
        self, pusher: Pusher, buffer: FileBuffer | None, retry_window: RetryWindow
    ) -> None:
        self._pusher = pusher
        self._buffer = buffer
        self._retry_window = retry_window
        self.is_held = False
        """In maintenance, all pushes go to disk."""

    @property
    def is_buffering(self) -> bool:
        """Return whether pushes go to disk. New pushes must not overtake buffered ones."""
        return self.is_held or (self._buffer is not None and self._buffer.folder.is_closed)

    async def push(
        self,
        items: Sequence[PushItem],
        *,
        producer: Producer | None,
        is_json: bool,
    ) -> PushResult:
        while self.is_buffering:
            # If buffering ends before its turn, the push goes to the database.
            result = await self._put_down(items, producer, is_behind=not self.is_held)
            if result is not None:
                return result
        tried_at = time.time_ns()
        try:
            return await self._pusher.push(items, producer=producer, is_json=is_json)
        except errors.DatabaseUnavailable:
            if self._buffer is None:
                raise
        except errors.OutcomeUnknown as error:
            return await self._repeat_later(items, producer, tried_at, error)
        except _REFUSALS as error:
            if isinstance(error, errors.SequenceStale | errors.SequenceReused):
                raise
            if (first := await self._pusher.repeat(producer, items)) is None:
                raise
            # It is stored. Changes to its queues since then don't matter.
            return first
        result = await self._put_down(items, producer, is_behind=False)
        assert result is not None
        return result

    async def _repeat_later(
        self,
        items: Sequence[PushItem],
        producer: Producer | None,
        tried_at: int,
        unknown: errors.OutcomeUnknown,
    ) -> PushResult:
        """Buffer a push that may be stored, if the database can recognise it as a duplicate."""
        known = self._pusher.known_seconds(items)
        if self._buffer is None or not self._retry_window.is_repeatable(producer, known):
            raise unknown
        try:
            result = await self._put_down(items, producer, is_behind=False, tried_at=tried_at)
        except errors.QueenError:
            raise unknown from None  # This error states that the database applied no change.
        assert result is not None
        return result

    async def _put_down(
        self,
        items: Sequence[PushItem],
        producer: Producer | None,
        *,
        is_behind: bool,
        tried_at: int | None = None,
    ) -> PushResult | None:
        if self._buffer is None:
            raise errors.DatabaseUnavailable(
                "push maintenance is on, and this server has no file buffer"
            )
        refused = await self._pusher.admit(items)
        if refused and (producer is not None or tried_at is not None):
            raise all_problems(refused)
        known = self._pusher.known_seconds(items)
        kept = [
            BufferedItem.of(item, seconds, str(uuid4()) if producer is None else producer.mint(at))
            for at, (item, seconds) in enumerate(zip(items, known, strict=True))
        ]
        admitted = [each for index, each in enumerate(kept) if index not in refused]
        if admitted:
            push = BufferedPush.of(admitted, producer, tried_at)
            if not await self._buffer.append(push, is_behind=is_behind):
                return None
        return BufferedResult([each.transaction_id for each in kept], refused)

    def fill(self, snapshot: Snapshot) -> None:
        """Add the state of the buffer."""
        if self._buffer is None:
            return
        folder = self._buffer.folder
        snapshot.add(telemetry.BUFFER_MESSAGES, folder.messages)
        snapshot.add(telemetry.BUFFER_BYTES, folder.state.size_bytes)
        oldest = age_seconds(folder.oldest) if folder.oldest else 0
        snapshot.add(telemetry.BUFFER_OLDEST, oldest)
