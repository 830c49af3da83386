"""Convert messages of a lake back to segments, without looping over messages."""

# pyright: basic, reportAttributeAccessIssue=false
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from queen import errors
from queen.arrow.staging import segment_end
from queen.codec.extras import Extra, encode_extra
from queen.codec.ids import place_of
from queen.codec.segment import encode_extras

COLUMNS: Final = (
    "partition", "offset", "id", "transactionId", "payload", "headers", "traceId", "createdAt",
)  # fmt: skip
"""The columns of a lake that become segments."""

_DECODE_HEADERS: Final = msgspec.json.Decoder(dict[str, str]).decode
_ID_BYTES: Final = 36
_HEAD_BYTES: Final = 24
"""Bytes of an id that all messages of a segment share."""


class RecalledSegment(NamedTuple):
    """Consecutive messages of one partition that were stored at the same time."""

    partition_id: int
    base_offset: int
    count: int
    created_at: datetime
    body: memoryview
    ends: bytes
    extras: bytes | None


class Recaller:
    """Converts record batches of a lake, and counts messages of partitions that don't exist."""

    def __init__(self, starts: Mapping[int, int], erased: Mapping[int, Sequence[int]]) -> None:
        self._starts = starts
        """Where the log of each partition starts. Later messages are not recalled."""
        self._erased = erased
        """Sorted offsets of erased messages by partition."""
        self.homeless = 0
        self.counts: Counter[int] = Counter()
        """Messages by partition."""

    def segments(self, batch: pa.RecordBatch) -> Iterator[RecalledSegment]:
        """Yield segments, in the order of the rows."""
        if not batch.num_rows:
            return
        payloads = batch.column("payload").cast(pa.string())
        _, positions, data = payloads.buffers()
        ends = np.frombuffer(positions, "<i4", len(payloads) + 1, payloads.offset * 4)
        body = memoryview(data) if data is not None else memoryview(b"")
        extras = _extras(batch)
        for first, last, partition_id, base in self._runs(batch):
            start = first
            while start < last:
                stop = segment_end(ends, start, last)
                self.counts[partition_id] += stop - start
                yield RecalledSegment(
                    partition_id,
                    base + start - first,
                    stop - start,
                    batch.column("createdAt")[start].as_py(),
                    body[ends[start] : ends[stop]],
                    (ends[start : stop + 1] - ends[start]).astype("<i4").tobytes(),
                    encode_extras(extras[start:stop]) if extras else None,
                )
                start = stop

    def _runs(self, batch: pa.RecordBatch) -> Iterator[tuple[int, int, int, int]]:
        """Yield consecutive messages: first row, last row, partition and first offset."""
        ids = _ids(batch.column("id"))
        heads = np.ascontiguousarray(ids[:, :_HEAD_BYTES]).view("<u8")
        offsets = batch.column("offset").to_numpy()
        instants = batch.column("createdAt").cast(pa.int64()).to_numpy()
        is_new = (heads[1:] != heads[:-1]).any(axis=1)
        is_new |= (np.diff(offsets) != 1) | (np.diff(instants) != 0)
        edges = [0, *(np.flatnonzero(is_new) + 1).tolist(), len(offsets)]
        for first, last in pairwise(edges):
            place = place_of(ids[first].tobytes().decode())
            if place is None:
                raise errors.LakeDiverged("the lake has rows that are not messages of Queen")
            partition_id, base = place.partition_id, place.offset
            start = self._starts.get(partition_id)
            if start is None:
                self.homeless += last - first
                continue
            for one, end in self._present(partition_id, base, min(base + last - first, start)):
                yield first + one - base, first + end - base, partition_id, one

    def _present(self, partition_id: int, base: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of offsets between erased messages."""
        erased = self._erased.get(partition_id, ())
        while base < end:
            at = bisect_left(erased, base)
            stop = min(erased[at], end) if at < len(erased) else end
            if base < stop:
                yield base, stop
            base = stop + 1


def _ids(column: pa.Array) -> np.ndarray:
    """Return the characters of the ids, one row each."""
    texts = column.cast(pa.string())
    _, positions, data = texts.buffers()
    ends = np.frombuffer(positions, "<i4", len(texts) + 1, texts.offset * 4)
    if texts.null_count or (np.diff(ends) != _ID_BYTES).any():
        raise errors.LakeDiverged("the lake has rows that are not messages of Queen")
    return np.frombuffer(data, np.uint8, _ID_BYTES * len(texts), int(ends[0])).reshape(
        -1, _ID_BYTES
    )


def _extras(batch: pa.RecordBatch) -> list[bytes | None] | None:
    """Return the extra fields of messages, or None if no message has any."""
    ids, transaction_ids, headers, traces = (
        batch.column(name) for name in ("id", "transactionId", "headers", "traceId")
    )
    given = pc.if_else(pc.not_equal(transaction_ids, ids), transaction_ids, None)
    if all(column.null_count == len(column) for column in (given, headers, traces)):
        return None
    columns = (column.to_pylist() for column in (given, traces, headers))
    return [_extra(*each) for each in zip(*columns, strict=True)]


def _extra(transaction_id: str | None, trace_id: str | None, headers: str | None) -> bytes | None:
    if transaction_id is None and trace_id is None and headers is None:
        return None
    pairs = _DECODE_HEADERS(headers) if headers else None
    return encode_extra(Extra(transaction_id=transaction_id, trace_id=trace_id, headers=pairs))
