"""A part of a queue's log."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple


class Position(NamedTuple):
    """
    A place between two segments: a transaction, a partition, and an offset in that partition.

    Segments are read in this order. No partition has the id 0, so a transaction without a partition
    is the place before its first segment.
    """

    xid: int = 0
    partition_id: int = 0
    offset: int = 0

    @property
    def horizon(self) -> int:
        """The horizon from which on everything before this place is readable."""
        return self.xid + 1 if self.partition_id else self.xid


class SegmentRange(NamedTuple):
    """The part of a queue that one task reads, in order."""

    queue: str
    queue_id: int
    start: Position
    end: Position
    """The place after the last segment."""
    since_xid: int = 0
    """From this transaction on, a deletion is data loss for this reader. 0 means never."""
    partition_ids: tuple[int, ...] | None = None
    start_at: datetime | None = None
    end_at: datetime | None = None
    start_offsets: Mapping[int, int] | int | None = None
    """By partition id, or for all partitions."""
    end_offsets: Mapping[int, int] | int | None = None
    is_sealed: bool = True
    """Whether payloads may be encrypted."""
