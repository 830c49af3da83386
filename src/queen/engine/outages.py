"""What a push does while the database is away: it goes to disk, behind all that is there."""

from collections.abc import Sequence

from queen import errors, telemetry
from queen.engine.file_buffer import BufferedItem, BufferedPush, FileBuffer, age_seconds
from queen.engine.parts import BufferedResult, PushResult
from queen.engine.pushes import Pushes, all_problems
from queen.meters import Snapshot
from queen.wire.messages import PushItem


class Outages:
    """Pushes by way of the database, and past it while it is away or is not to be used."""

    def __init__(self, pushes: Pushes, buffer: FileBuffer | None) -> None:
        self._pushes = pushes
        self._buffer = buffer
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
        producer_id: str | None,
        sequence: int | None,
        is_json: bool,
    ) -> PushResult:
        if self.is_buffering:
            return await self._put_down(items, producer_id, sequence)
        try:
            return await self._pushes.push(
                items, producer_id=producer_id, sequence=sequence, is_json=is_json
            )
        except errors.DatabaseUnavailable:
            if self._buffer is None:
                raise
        except errors.OutcomeUnknown:
            if self._buffer is None:
                raise
            if producer_id is None and not self._pushes.is_repeatable(items):
                raise
        return await self._put_down(items, producer_id, sequence)

    async def _put_down(
        self, items: Sequence[PushItem], producer_id: str | None, sequence: int | None
    ) -> PushResult:
        if self._buffer is None:
            raise errors.DatabaseUnavailable("push maintenance is on, and there is no file buffer")
        refused = self._pushes.admit(items)
        if refused and producer_id is not None:
            raise all_problems(refused)
        kept = [BufferedItem.of(item) for item in items]
        admitted = [each for index, each in enumerate(kept) if index not in refused]
        if admitted:
            await self._buffer.append(BufferedPush(admitted, producer_id, sequence))
        return BufferedResult([each.transaction_id for each in kept], refused)

    def fill(self, snapshot: Snapshot) -> None:
        """Add what is known of the buffer."""
        if self._buffer is None:
            return
        state = self._buffer.folder.state
        snapshot.add(telemetry.BUFFER_MESSAGES, state.messages)
        snapshot.add(telemetry.BUFFER_BYTES, state.size_bytes)
        oldest = age_seconds(state.oldest) if state.oldest else 0
        snapshot.add(telemetry.BUFFER_OLDEST, oldest)
