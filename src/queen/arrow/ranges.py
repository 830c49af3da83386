"""A part of a queue's log."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple


class SegmentRange(NamedTuple):
    """The part of a queue that one task reads: segments by transaction numbers, in order."""

    queue: str
    queue_id: int
    start_xid: int
    end_xid: int
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
