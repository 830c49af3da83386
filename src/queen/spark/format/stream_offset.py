"""The offset of a stream, as Spark stores it in a checkpoint."""

from datetime import datetime
from typing import Any, Self

import msgspec

from queen.arrow.planning import BatchEnd
from queen.arrow.ranges import Position


class Start(msgspec.Struct, frozen=True, omit_defaults=True):
    """
    Where a stream started, and what it skips of the messages that existed then.

    The options of a stream decide this once. Afterwards the checkpoint does, so that a changed
    option, or a partition that is created later, loses no messages.
    """

    until: int
    """Everything that this transaction and later ones store is read."""
    xid: int = 0
    partition: int = 0
    offset: int = 0
    stored_at: int = 0
    offset_of_all: int | None = None
    """The first offset to read of each partition, in transactions before ``horizon``."""
    horizon: int = 0
    offsets: dict[str, int] = {}
    """The first offset to read by partition id, in transactions from ``horizon`` on."""
    at: datetime | None = None
    """The time from which on messages are read."""


class StreamOffset(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    Everything before it is read: the end of the last segment, for all partitions.

    With the time at which that segment was stored, it is also a witness: if the segment neither
    exists nor was removed, the database lost transactions, and reuses their numbers.
    """

    queue: int
    """Its id, because a queue may be recreated under its name."""
    xid: int
    partition: int = 0
    offset: int = 0
    stored_at: int = 0
    """In microseconds since 1970. 0 before the first segment."""
    is_split: bool = False
    """The next batch continues the same transaction."""
    is_trailing: bool = False
    """An empty batch followed the last message."""
    since: int
    """From this transaction on, a deletion is data loss."""
    numbering: int = 0
    """How often a restored database was renumbered."""
    server: str = ""
    """System identifier and timeline of the server."""
    partitions: tuple[str, ...] | None = None
    """The option ``partitions``."""
    start: Start | None = None

    @classmethod
    def of(cls, stored: dict[str, Any]) -> Self:
        return msgspec.convert(stored, cls)

    def stored(self) -> dict[str, Any]:
        return msgspec.to_builtins(self)

    @property
    def position(self) -> Position:
        return Position(self.xid, self.partition, self.offset)

    def moved(self, end: BatchEnd) -> Self:
        """Return the offset after a batch."""
        return msgspec.structs.replace(
            self,
            xid=end.position.xid,
            partition=end.position.partition_id,
            offset=end.position.offset,
            stored_at=end.stored_at,
            is_split=end.is_split,
            is_trailing=False,
        )

    def trailing(self) -> Self:
        """Return the offset after an empty batch."""
        return msgspec.structs.replace(self, is_trailing=True)

    def restarted(self) -> Self:
        """Return the first offset of the stream."""
        start = self.start or Start(until=0)
        at = Position(start.xid, start.partition, start.offset)
        return self.moved(BatchEnd(at, start.stored_at, is_split=False))
