"""What a push does while the database is away: it goes to disk, behind all that is there."""

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
"""What a queue's options, as they are now, may answer."""


class PushFallback:
    """Pusher by way of the database, and past it while it is away or is not to be used."""

    def __init__(self, pushes: Pusher, buffer: FileBuffer | None, doubts: RetryWindow) -> None:
        self._pushes = pushes
        self._buffer = buffer
        self._doubts = doubts
        self.is_held = False
        """Maintenance: all pushes go to disk."""

    @property
    def is_buffering(self) -> bool:
        """Whether a push goes to disk: nothing overtakes what this server has there."""
        return self.is_held or (self._buffer is not None and self._buffer.folder.is_closed)

    async def push(
        self,
        items: Sequence[PushItem],
        *,
        producer: Producer | None,
        is_json: bool,
    ) -> PushResult:
        while self.is_buffering:
            # Unless the gate is opened before its turn comes.
            result = await self._put_down(items, producer, is_behind=not self.is_held)
            if result is not None:
                return result
        tried_at = time.time_ns()
        try:
            return await self._pushes.push(items, producer=producer, is_json=is_json)
        except errors.DatabaseUnavailable:
            if self._buffer is None:
                raise
        except errors.OutcomeUnknown as error:
            return await self._repeat_later(items, producer, tried_at, error)
        except _REFUSALS as error:
            if isinstance(error, errors.SequenceStale | errors.SequenceReused):
                raise
            if (first := await self._pushes.repeat(producer, items)) is None:
                raise
            # It was stored; what its queues are like since then is not asked.
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
        """Put down what may be stored, if it is recognised when it is stored again."""
        known = self._pushes.known_seconds(items)
        if self._buffer is None or not self._doubts.is_repeatable(producer, known):
            raise unknown
        try:
            result = await self._put_down(items, producer, is_behind=False, tried_at=tried_at)
        except errors.QueenError:
            raise unknown from None  # That says of itself that nothing was applied.
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
            raise errors.DatabaseUnavailable("push maintenance is on, and there is no file buffer")
        refused = await self._pushes.admit(items)
        if refused and (producer is not None or tried_at is not None):
            raise all_problems(refused)
        known = self._pushes.known_seconds(items)
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
        """Add what is known of the buffer."""
        if self._buffer is None:
            return
        folder = self._buffer.folder
        snapshot.add(telemetry.BUFFER_MESSAGES, folder.messages)
        snapshot.add(telemetry.BUFFER_BYTES, folder.state.size_bytes)
        oldest = age_seconds(folder.oldest) if folder.oldest else 0
        snapshot.add(telemetry.BUFFER_OLDEST, oldest)
