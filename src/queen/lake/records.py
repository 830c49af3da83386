"""Records of a lake: its files and its batches."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Self

import msgspec


class DataFile(msgspec.Struct, frozen=True):
    """A Parquet file of messages of one day."""

    path: str
    day: date | None
    """None if another tool partitioned the table differently."""
    messages: int
    bytes: int
    deletes: tuple[str, ...] = ()
    """Files of deleted rows. They count in ``messages``."""
    misfits: int = 0
    """Messages of a typed table that don't fit. They count in ``messages``."""
    first_at: datetime | None = None
    """No message is earlier. None if the table doesn't have the bounds of the file."""
    last_at: datetime | None = None
    """No message is later."""


class Batch(msgspec.Struct, frozen=True):
    """The last batch according to the lake itself."""

    batch: int
    token: int
    files: int
    messages: int
    bytes: int
    missed: int = 0
    """Messages that were removed from the queue before this batch could read them."""
    missed_total: int = 0
    """The same for all batches up to this one."""
    misfits: int = 0
    """Messages of a typed table that don't fit."""

    @classmethod
    def of(cls, batch: int, token: int, files: Sequence[DataFile]) -> Self:
        messages = sum(file.messages for file in files)
        size_bytes, misfits = (
            sum(getattr(file, name) for file in files) for name in ("bytes", "misfits")
        )
        return cls(batch, token, len(files), messages, size_bytes, misfits=misfits)
