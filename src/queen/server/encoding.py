"""Answers that carry payloads, spliced from stored bytes: nothing is parsed or built twice."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from queen.codec.identity import message_id, partition_ref
from queen.engine.catalogue import Queue
from queen.engine.deliveries import Delivery
from queen.engine.parts import PushResult
from queen.wire.messages import Extra, PushResponse

_ENCODE: Final = msgspec.json.Encoder().encode
_DECODE_EXTRA: Final = msgspec.json.Decoder(Extra).decode
_PLAIN_TAIL: Final = b',"headers":{},"traceId":null}'


def popped(deliveries: Iterable[Delivery], queues: Mapping[str, Queue]) -> bytes:
    """The answer to a pop."""
    chunks: list[bytes] = []
    for delivery in deliveries:
        _splice(chunks, delivery, queues.get(delivery.queue))
    # Each message begins with the comma that the first one must not have.
    chunks[0] = b'{"messages":[' + chunks[0][1:]
    chunks.append(b"]}")
    return b"".join(chunks)


def _splice(chunks: list[bytes], delivery: Delivery, queue: Queue | None) -> None:
    shard, partition_id = delivery.shard, delivery.partition_id
    where = b'","queue":%b,"partition":%b,"data":' % (
        _ENCODE(delivery.queue),
        _ENCODE(delivery.partition),
    )
    options = b"{}"
    if queue is not None:
        options = b'{"leaseTime":%g,"retryLimit":%d}' % (queue.lease_seconds, queue.retry_limit)
    lease = (
        b',"partitionId":"%b","leaseId":%b,"leaseExpiresAt":%b,"consumerGroup":%b,"attempt":%d,'
        b'"options":%b,"offset":'
    ) % (
        partition_ref(shard, partition_id).encode(),
        _ENCODE(delivery.lease_id),
        b'"%b"' % instant(delivery.until) if delivery.until else b"null",
        _ENCODE(delivery.group),
        delivery.attempt,
        options,
    )
    for run in delivery.runs:
        first, end = run.first_offset - run.base_offset, run.end_offset - run.base_offset
        rest = b',"retryCount":%d,"priority":%d,"createdAt":"%b"%b' % (
            delivery.attempt - 1,
            delivery.level,
            instant(run.created_at),
            lease,
        )
        offset = run.first_offset
        for payload, stored in zip(
            run.source.payloads(first, end), run.source.extras(first, end), strict=True
        ):
            id_ = message_id(shard, partition_id, offset).encode()
            if stored is None:
                chunks.append(b',{"id":"%b","transactionId":"%b%b' % (id_, id_, where))
                chunks.append(payload)
                chunks.append(b"%b%d%b" % (rest, offset, _PLAIN_TAIL))
            else:
                extra = _DECODE_EXTRA(stored)
                name = _ENCODE(extra.transaction_id)[1:-1] if extra.transaction_id else id_
                chunks.append(b',{"id":"%b","transactionId":"%b%b' % (id_, name, where))
                chunks.append(payload)
                headers, trace_id = _ENCODE(extra.headers or {}), _ENCODE(extra.trace_id)
                tail = b',"headers":%b,"traceId":%b}' % (headers, trace_id)
                chunks.append(b"%b%d%b" % (rest, offset, tail))
            offset += 1


def pushed(result: PushResult) -> bytes:
    """The answer to a push."""
    if (plain := result.plain()) is not None:
        shard, partition_id, base, count = plain
        head = b',"status":"queued","partitionId":"%b","offset":' % (
            partition_ref(shard, partition_id).encode()
        )
        ids = [message_id(shard, partition_id, base + at).encode() for at in range(count)]
        messages = b",".join(
            [
                b'{"id":"%b","transactionId":"%b"%b%d}' % (id_, id_, head, base + at)
                for at, id_ in enumerate(ids)
            ]
        )
        return b'{"messages":[%b]}' % messages
    return _ENCODE(PushResponse(messages=list(result), replayed=result.is_replayed))


def instant(at: datetime) -> bytes:
    """RFC 3339 in UTC, to the millisecond."""
    at = at.astimezone(UTC)
    return b"%04d-%02d-%02dT%02d:%02d:%02d.%03dZ" % (
        at.year,
        at.month,
        at.day,
        at.hour,
        at.minute,
        at.second,
        at.microsecond // 1000,
    )
