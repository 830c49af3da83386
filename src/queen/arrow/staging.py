"""Convert rows of a DataFrame to segments: split by partition, checked, and staged."""

# pyright: basic
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from queen import errors, sql
from queen.arrow.database import Connection, call
from queen.arrow.sealing import SegmentSealer, sealed
from queen.codec import payload
from queen.codec.extras import Extra
from queen.codec.names import check_name
from queen.codec.schemas import PayloadSchema
from queen.codec.segment import encode_extras

WRITTEN: Final = ("partition", "payload", "headers", "traceId")
LEFT_OUT: Final = ("queue", "offset", "id", "transactionId", "createdAt")
"""Columns of the source with the position of a message, which changes when it is written."""

_DEFAULT_PARTITION: Final = "Default"
_MAX_MESSAGES: Final = 10_000
_MAX_BYTES: Final = 4 * 2**20
"""Bytes per segment, as on a server."""
_MAX_PAYLOAD_BYTES: Final = 2**20
"""Maximum payload if the queue sets none. Servers have their own setting."""
_MAX_DEPTH: Final = 64
_MAX_PARTITION_BYTES: Final = 512
_MAX_NAME_BYTES: Final = 256
_NAMED_AT_ONCE: Final = 5_000
_TYPES: Final = ("uuid", "int4", "int8", "int4", "timestamptz", "bytea", "bytea", "bytea")
Extras = list[bytes | None]
"""The optional fields of each message, as JSON."""
_ENCODE: Final = msgspec.json.Encoder().encode
_DECODE_HEADERS: Final = msgspec.json.Decoder(dict[str, str]).decode


class Piece(NamedTuple):
    """Messages of one partition that form one segment."""

    partition: str
    count: int
    body: memoryview | bytes
    ends: bytes
    extras: bytes | None


class Staging:
    """Stages the rows of one attempt of one task."""

    def __init__(
        self, connection: Connection, queue: dict[str, Any], name: str, write_id: UUID
    ) -> None:
        self._connection = connection
        self._queue = queue
        self._name = name
        self._write_id = write_id
        self._now = call(connection, "now")[0]["now"]
        self._ids: dict[str, int] = {}
        self._sealer = SegmentSealer(connection, queue)
        schema = queue["schema"]
        self._schema = None if schema is None else PayloadSchema(msgspec.json.decode(schema))
        self.entries = 0
        self.messages = 0
        self.checksum = 0
        """Sum of a checksum per message, so that it does not depend on their order."""

    def add(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Stage the rows of some batches in one short transaction."""
        table = pa.Table.from_batches(batches).combine_chunks()
        pieces = list(_pieces(table, self._examine))
        self._find([piece.partition for piece in pieces])
        key = self._sealer.key(table.num_rows)
        with self._connection.cursor() as cursor, cursor.copy(sql.CALLS["stage"].encode()) as copy:
            copy.set_types(_TYPES)
            for piece in pieces:
                partition_id = self._ids[piece.partition]
                row = (self._write_id, self.entries, partition_id, piece.count, self._now)
                stored = sealed(key, partition_id, piece.body, piece.ends, piece.extras)
                copy.write_row((*row, *stored))
                self.entries += 1
                self.messages += piece.count

    def _examine(
        self, payloads: list[bytes], partitions: pa.DictionaryArray, extras: Extras | None
    ) -> None:
        """Check payloads, and add the messages to the checksum."""
        self._check(payloads)
        # A plain checksum of few messages would reveal something of their payloads.
        secret = self._sealer.checksum_key()
        hashed = zlib.crc32 if secret is None else partial(_keyed_hash, secret)
        names = [hashed(name.encode()) for name in partitions.dictionary.to_pylist()]
        hashes = map(hashed, payloads, (names[code] for code in partitions.indices.to_pylist()))
        if extras is not None:
            pairs = zip(extras, hashes, strict=True)
            hashes = (hashed(extra, before) if extra else before for extra, before in pairs)
        self.checksum += sum(hashes)

    def _check(self, payloads: list[bytes]) -> None:
        """Raise InvalidItem, PayloadTooLarge or SchemaViolation for invalid payloads."""
        most = self._queue["max_payload_bytes"] or _MAX_PAYLOAD_BYTES
        if (largest := max(map(len, payloads))) > most:
            raise errors.PayloadTooLarge(f"a payload has {largest} bytes; the limit is {most}")
        if not payload.are_valid(payloads, _MAX_DEPTH):
            for each in payloads:
                payload.check(each, _MAX_DEPTH)
        if self._schema is not None:
            for each in payloads:
                self._schema.check(each)

    def _find(self, names: Sequence[str]) -> None:
        """Load the ids of partitions, and create missing ones."""
        missing = [name for name in dict.fromkeys(names) if name not in self._ids]
        for at in range(0, len(missing), _NAMED_AT_ONCE):
            some = missing[at : at + _NAMED_AT_ONCE]
            for name in some:
                check_name("partition", name, _MAX_PARTITION_BYTES)
            queues, levels = [self._name] * len(some), [0] * len(some)
            rows = call(self._connection, "partition_ids", queues, some, levels, True, None)
            if rows[0]["queue_id"] != self._queue["id"]:
                raise errors.QueueNotFound(f"queue {self._name} was deleted")
            self._ids.update(zip(some, (row["partition_id"] for row in rows), strict=True))


def check_columns(schema: Any) -> None:  # noqa: ANN401 - a StructType, or an Arrow schema
    """Raise InvalidOption for columns that the sink can't write."""
    names = list(schema.names)
    if "payload" not in names:
        raise errors.InvalidOption("column payload is missing: create it with to_json")
    for name in names:
        if name not in WRITTEN and name not in LEFT_OUT:
            raise errors.InvalidOption(
                f"column {name}: the sink writes {', '.join(WRITTEN)}; put it into payload with"
                " to_json(struct(…)), or drop it"
            )


def _keyed_hash(key: bytes, data: bytes, seed: int = 0) -> int:
    """Return a hash as `zlib.crc32` does, for which one needs the key."""
    hashed = blake2b(data, digest_size=8, key=key, salt=seed.to_bytes(8))
    return int.from_bytes(hashed.digest())


def _pieces(
    table: pa.Table,
    examine: Callable[[list[bytes], pa.DictionaryArray, Extras | None], None],
) -> Iterator[Piece]:
    """Split rows into segments: partitions by first appearance, rows in their order."""
    payloads = _column(table, "payload")
    if payloads.null_count:
        raise errors.InvalidItem("a payload is null: use the JSON text `null` for an empty one")
    partitions = _partitions(table)
    codes = partitions.indices.to_numpy()
    extras = _extras(table)
    examine(payloads.cast(pa.binary()).to_pylist(), partitions, extras)
    if len(partitions.dictionary) > 1:
        order = np.argsort(codes, kind="stable")
        codes, payloads = codes[order], payloads.take(pa.array(order))
        extras = extras and [extras[at] for at in order.tolist()]
    _, positions, data = payloads.buffers()
    ends = np.frombuffer(positions, "<i4", len(payloads) + 1, payloads.offset * 4)
    body = memoryview(data) if data is not None else memoryview(b"")
    names = partitions.dictionary.to_pylist()
    edges = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), len(codes)]
    for first, last in pairwise(edges):
        start = first
        while start < last:
            stop = segment_end(ends, start, last)
            yield Piece(
                names[codes[start]],
                stop - start,
                body[ends[start] : ends[stop]],
                (ends[start : stop + 1] - ends[start]).astype("<i4").tobytes(),
                encode_extras(extras[start:stop]) if extras else None,
            )
            start = stop


def segment_end(ends: np.ndarray, start: int, last: int) -> int:
    """Return where a segment that starts here ends. It contains at least one payload."""
    by_bytes = int(np.searchsorted(ends, int(ends[start]) + _MAX_BYTES, side="right")) - 1
    return max(start + 1, min(last, start + _MAX_MESSAGES, by_bytes))


def _column(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name)
    try:
        column = column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise errors.InvalidItem(f"column {name} is {column.type}, not a string") from error
    return pa.concat_arrays(column.chunks) if column.num_chunks != 1 else column.chunk(0)


def _partitions(table: pa.Table) -> pa.DictionaryArray:
    if "partition" not in table.column_names:
        names = pa.array([_DEFAULT_PARTITION] * table.num_rows, pa.string())
    else:
        names = pc.fill_null(_column(table, "partition"), _DEFAULT_PARTITION)
    return names.dictionary_encode()


def _extras(table: pa.Table) -> Extras | None:
    """Return the extra fields of messages, or None if no message has any."""
    columns = [name for name in ("headers", "traceId") if name in table.column_names]
    if all(table.column(name).null_count == table.num_rows for name in columns):
        return None
    nothing = [None] * table.num_rows
    headers = table.column("headers").to_pylist() if "headers" in columns else nothing
    traces = _column(table, "traceId").to_pylist() if "traceId" in columns else nothing
    return [_extra(*each) for each in zip(headers, traces, strict=True)]


def _extra(headers: Any, trace_id: str | None) -> bytes | None:  # noqa: ANN401 - text or pairs
    if not headers and not trace_id:
        return None
    if trace_id:
        check_name("traceId", trace_id, _MAX_NAME_BYTES)
    return _ENCODE(Extra(trace_id=trace_id or None, headers=_headers(headers or {}) or None))


def _headers(given: Any) -> dict[str, str]:  # noqa: ANN401 - text or pairs
    """Return headers as strings. Other values would block consumers, which can't decode them."""
    try:
        if isinstance(given, str):
            headers = _DECODE_HEADERS(given)
        else:
            headers = msgspec.convert(dict(given), dict[str, str])
    except (msgspec.DecodeError, TypeError, ValueError) as error:
        raise errors.InvalidItem(f"headers must be a JSON object of strings: {error}") from error
    if any("\0" in text for pair in headers.items() for text in pair):
        raise errors.InvalidItem("a header contains a NUL character")
    return headers
