"""Redact one message permanently: its segment is cut around it, and its copies are erased."""

from typing import Final

import msgspec

from queen import errors
from queen.codec import segment as codec
from queen.codec.extras import Extra
from queen.engine.caches.segments import SegmentCache
from queen.engine.inspect.browse import extra_of, segment_of
from queen.store.store import Store

_ATTEMPTS: Final = 5
_MOST_AT_ONCE: Final = 1_000
_ENCODE: Final = msgspec.json.Encoder().encode


async def redact(
    store: Store, segments: SegmentCache, partition_id: int, offset: int, *, by: str
) -> None:
    """Erase payload and headers. The transactionId and traceId stay."""
    for _ in range(_ATTEMPTS):
        head = await store.browse.segment_at(partition_id, offset)
        if head is None or head["is_redacted"]:
            cut: tuple[object, ...] = (None,) * 9
        else:
            base = head["base_offset"]
            rows = await store.messages.segments([partition_id], [base])
            if not rows or rows[0]["body"] is None:
                continue
            cut = (base, *_cut(segment_of(rows[0]), offset - base))
        if await store.browse.redact(partition_id, offset, *cut, by):
            segments.drop(partition_id, offset)
            return
    raise errors.Overloaded("the segment changed at every attempt; try again")


async def forget_redacted(store: Store, segments: SegmentCache, after: int) -> None:
    """Drop messages from the cache that other processes redacted after this redaction."""
    rows = await store.browse.redactions(after, _MOST_AT_ONCE)
    if len(rows) == _MOST_AT_ONCE:
        segments.clear()
    for row in rows:
        segments.drop(row["partition_id"], row["offset"])


def _cut(segment: codec.Segment, index: int) -> tuple[object, ...]:
    """The count, remaining fields, and body, ends and extras before and after the message."""
    if index >= segment.count:
        return (-1, *(None,) * 7)  # Another process cut it since it was found.
    (stored,) = segment.extras(index, index + 1)
    extra = extra_of(stored)
    kept = Extra(transaction_id=extra.transaction_id, trace_id=extra.trace_id)
    known = codec.encode_extras([_ENCODE(kept)]) if stored else None
    return (
        segment.count,
        known,
        *_part(segment, 0, index),
        *_part(segment, index + 1, segment.count),
    )


def _part(segment: codec.Segment, first: int, end: int) -> tuple[bytes, bytes, bytes | None]:
    body, ends = codec.encode(segment.payloads(first, end))
    return body, ends, codec.encode_extras(segment.extras(first, end))
