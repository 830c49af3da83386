"""Convert segments of a queue to Arrow columns without looping over messages."""

# pyright: basic, reportAttributeAccessIssue=false
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from queen import errors
from queen.arrow.columns import BY_NAME
from queen.arrow.database import call, connect
from queen.arrow.ranges import SegmentRange
from queen.codec.encryption.keyring import keyring_of_environment
from queen.codec.encryption.keys import MARK, DataKey, Wrapped
from queen.codec.encryption.sealing import key_ids_of, open_segment
from queen.codec.ids import message_id
from queen.codec.segment import Segment

_METHODS: Final = {
    "transactionId": "transaction_id",
    "traceId": "trace_id",
    "createdAt": "created_at",
}
"""Methods of `_Messages` whose names differ from their columns."""

_HEX: Final = np.frombuffer(bytes.hex(bytes(range(256))).encode(), dtype=np.uint16)
_LOW_BITS: Final = 42
_HEAD: Final = 24
"""Characters of an id that all messages of a segment share, below 2^42 offsets."""


class _Extra(msgspec.Struct, rename="camel"):
    transaction_id: str | None = None
    trace_id: str | None = None
    headers: msgspec.Raw = msgspec.Raw()
    """As stored. Empty if there is none."""


_DECODE_EXTRAS: Final = msgspec.json.Decoder(list[_Extra | None]).decode


class Expander:
    """Converts record batches of segments to record batches of messages."""

    def __init__(self, dsn: str, range_: SegmentRange, columns: Sequence[str]) -> None:
        self._dsn = dsn
        self._range = range_
        self._columns = columns
        self._schema = pa.schema([(name, BY_NAME[name].arrow) for name in columns])
        self._keys: dict[int, DataKey] = {}

    def __call__(self, segments: pa.RecordBatch) -> pa.RecordBatch:
        batch = _Messages(segments, self._range, self._opened(segments))
        columns = [getattr(batch, _METHODS.get(name, name))() for name in self._columns]
        messages = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        mask = batch.mask()
        return messages if mask is None else messages.filter(pa.array(mask))

    def _opened(self, segments: pa.RecordBatch) -> "_Columns":
        """Return bodies, ends and extras, decrypted if necessary."""
        body = segments.column("body")
        _, _, data = body.buffers()
        # JSON never contains this byte, so one scan proves that everything is unencrypted.
        if data is None or not self._range.is_sealed or MARK not in data.to_pybytes():
            return _Columns(body, segments.column("ends"), segments.column("extras"))
        opened = [self._open(row) for row in segments.to_pylist()]
        return _Columns(
            pa.array([each.body for each in opened], pa.binary()),
            pa.array([each.ends for each in opened], pa.binary()),
            pa.array([each.stored_extras for each in opened], pa.binary()),
        )

    def _open(self, row: dict[str, Any]) -> Segment:
        segment = Segment(
            xid=0,
            count=row["message_count"],
            body=row["body"],
            ends=row["ends"],
            extras=row["extras"],
        )
        ids = key_ids_of(segment)
        if not ids:
            return segment
        self._load(ids)
        keys = {each: self._keys[each] for each in ids}
        if any(key.queue_id != self._range.queue_id for key in keys.values()):
            raise errors.EncryptionUnavailable("a payload was encrypted for another queue")
        return open_segment(keys, row["partition_id"], segment)

    def _load(self, ids: Iterable[int]) -> None:
        missing = [each for each in ids if each not in self._keys]
        if not missing:
            return
        keyring = keyring_of_environment()
        with connect(self._dsn) as connection:
            for row in call(connection, "data_keys", missing):
                self._keys[row["id"]] = keyring.unwrap(Wrapped(**row))
        if lost := [each for each in missing if each not in self._keys]:
            raise errors.EncryptionUnavailable(f"data key {lost[0]} does not exist")


class _Columns(NamedTuple):
    body: pa.Array
    ends: pa.Array
    extras: pa.Array


class _Messages:
    """The message columns of some segments, each computed when it is used."""

    def __init__(self, segments: pa.RecordBatch, range_: SegmentRange, stored: _Columns) -> None:
        self._segments = segments
        self._range = range_
        self._stored = stored
        self._counts = _numbers(segments.column("message_count"))
        self._count = int(self._counts.sum())
        self._firsts = np.cumsum(self._counts) - self._counts
        self._extras: list[_Extra | None] | None = None
        self._ids: pa.Array | None = None

    def queue(self) -> pa.Array:
        return pa.repeat(pa.scalar(self._range.queue, pa.string()), self._count)

    def partition(self) -> pa.Array:
        names = self._segments.column("partition")
        return names.take(pa.array(np.repeat(np.arange(len(names)), self._counts)))

    def offset(self) -> pa.Array:
        return pa.array(self._offsets())

    def _offsets(self) -> np.ndarray:
        bases = _numbers(self._segments.column("base_offset")) - self._firsts
        return np.repeat(bases, self._counts) + np.arange(self._count)

    def created_at(self) -> pa.Array:
        instants = self._segments.column("created_at").cast(pa.int64())
        return pa.array(np.repeat(_numbers(instants), self._counts)).cast(
            BY_NAME["createdAt"].arrow
        )

    def payload(self) -> pa.Array:
        """Payloads without copying: the bodies are contiguous, so only positions are computed."""
        body = self._stored.body
        _, positions, data = body.buffers()
        starts = np.frombuffer(positions, np.int32, len(body) + 1, body.offset * 4)
        ends = _joined(self._stored.ends)
        # The first position of a segment is 0, and equals the end of the previous segment.
        keep = np.ones(len(ends), dtype=bool)
        keep[self._firsts + np.arange(len(self._firsts))] = False
        made = np.empty(self._count + 1, np.int32)
        made[0] = starts[0]
        np.add(ends[keep], np.repeat(starts[:-1], self._counts), out=made[1:], casting="unsafe")
        return pa.StringArray.from_buffers(self._count, pa.py_buffer(made), data)

    def id(self) -> pa.Array:
        if self._ids is None:
            ids, bases = (
                _numbers(self._segments.column(name)) for name in ("partition_id", "base_offset")
            )
            self._ids = _ids(ids, bases, self._counts, self._offsets())
        return self._ids

    def transaction_id(self) -> pa.Array:
        extras = self._extra()
        if extras is None:
            return self.id()
        given = pa.array([each and each.transaction_id for each in extras], pa.string())
        return given if given.null_count == 0 else pc.coalesce(given, self.id())

    def headers(self) -> pa.Array:
        extras = self._extra()
        if extras is None:
            return pa.nulls(self._count, pa.string())
        return pa.array([(each and bytes(each.headers)) or None for each in extras], pa.string())

    def trace_id(self) -> pa.Array:
        extras = self._extra()
        if extras is None:
            return pa.nulls(self._count, pa.string())
        return pa.array([each and each.trace_id for each in extras], pa.string())

    def _extra(self) -> list[_Extra | None] | None:
        """Extra fields of the messages, parsed in one call. None if no message has any."""
        stored = self._stored.extras
        if stored.null_count == len(stored):
            return None
        if self._extras is None:
            texts: list[bytes] = []
            for value, count in zip(stored.to_pylist(), self._counts.tolist(), strict=True):
                if value is None:
                    texts += [b"null"] * count
                    continue
                segment = Segment(xid=0, count=count, body=b"", ends=b"", extras=value)
                texts += [each or b"null" for each in segment.extras(0, count)]
            self._extras = _DECODE_EXTRAS(b"[" + b",".join(texts) + b"]")
        return self._extras

    def mask(self) -> np.ndarray | None:
        """Which messages are inside the offset bounds. None selects all."""
        starts, ends = self._range.start_offsets, self._range.end_offsets
        if starts is None and ends is None:
            return None
        offsets = self._offsets()
        return (offsets >= self._bounds(starts, 0)) & (offsets < self._bounds(ends, 2**62))

    def _bounds(self, by_partition: Mapping[int, int] | int | None, other: int) -> np.ndarray | int:
        if by_partition is None:
            return other
        if isinstance(by_partition, int):
            return by_partition
        ids = self._segments.column("partition_id").to_pylist()
        return np.repeat([by_partition.get(each, other) for each in ids], self._counts)


def _numbers(column: pa.Array) -> np.ndarray:
    return column.to_numpy(zero_copy_only=False)


def _joined(ends: pa.Array) -> np.ndarray:
    """Concatenate the positions of all segments."""
    _, positions, data = ends.buffers()
    bounds = np.frombuffer(positions, np.int32, len(ends) + 1, ends.offset * 4)
    first, end = int(bounds[0]), int(bounds[-1])
    if first % 4:
        return np.frombuffer(memoryview(data)[first:end].tobytes(), "<i4")
    return np.frombuffer(data, "<i4", (end - first) // 4, first)


def _ids(
    partition_ids: np.ndarray,
    bases: np.ndarray,
    counts: np.ndarray,
    offsets: np.ndarray,
) -> pa.Array:
    """Vectorized `queen.codec.ids.message_id`: in a segment, ids differ only in their last part."""
    count = len(offsets)
    heads = b"".join(
        message_id(partition_id, base)[:_HEAD].encode()
        for partition_id, base in zip(partition_ids.tolist(), bases.tolist(), strict=True)
    )
    texts = np.empty((count, 36), np.uint8)
    by_segment = np.frombuffer(heads, np.uint8).reshape(len(counts), _HEAD)
    texts[:, :_HEAD] = np.repeat(by_segment, counts, axis=0)
    lows = (offsets & (2**_LOW_BITS - 1)).astype(">u8").view(np.uint8).reshape(count, 8)
    texts[:, _HEAD:] = _HEX[lows[:, 2:]].view(np.uint8)
    positions = np.arange(0, 36 * (count + 1), 36, dtype=np.int32)
    return pa.StringArray.from_buffers(count, pa.py_buffer(positions), pa.py_buffer(texts))
