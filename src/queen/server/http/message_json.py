"""Responses with payloads, spliced from stored bytes without parsing them."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from queen.codec.extras import decode_extra
from queen.codec.ids import id_runs, message_id, message_ids, reference
from queen.engine.caches.catalogue import Queue
from queen.engine.pop.delivery import Delivery, Run
from queen.engine.push.batches import PushResult
from queen.wire.messages import Acknowledged, PushResponse
from queen.wire.options import plain

_ENCODE: Final = msgspec.json.Encoder().encode
_PLAIN_TAIL: Final = b',"headers":{},"traceId":null}'


def popped(deliveries: Iterable[Delivery], queues: Mapping[str, Queue]) -> bytes:
    """Encode the response of a pop, message by message."""
    chunks: list[bytes] = []
    for delivery in deliveries:
        _splice(chunks, delivery, _shared(delivery, queues.get(delivery.queue)))
    # Each message begins with a comma, which the first one must not have.
    chunks[0] = b'{"messages":[' + chunks[0][1:]
    chunks.append(b"]}")
    return b"".join(chunks)


def popped_runs(deliveries: Iterable[Delivery], queues: Mapping[str, Queue]) -> bytes:
    """Encode the response of a pop, run by run."""
    chunks: list[bytes] = []
    for delivery in deliveries:
        shared = _shared(delivery, queues.get(delivery.queue))
        for run in delivery.runs:
            for first, end in id_runs(run.first_offset, run.end_offset):
                chunks.append(_run(delivery, run, first, end, shared))
    return b'{"runs":[%b]}' % b",".join(chunks)


def _run(delivery: Delivery, run: Run, first: int, end: int, shared: bytes) -> bytes:
    base = run.base_offset
    extras = run.source.extras(first - base, end - base)
    return b'{"id":"%b","offset":%d,"createdAt":"%b"%b%b,"data":[%b]}' % (
        message_id(delivery.partition_id, first).encode(),
        first,
        instant(run.created_at),
        shared,
        b',"extras":[%b]' % b",".join([each or b"null" for each in extras]) if any(extras) else b"",
        b",".join(run.source.payloads(first - base, end - base)),
    )


def _shared(delivery: Delivery, queue: Queue | None) -> bytes:
    """Encode the common fields of a delivery's messages."""
    options = b"{}" if queue is None else _options(queue.lease_seconds, queue.retry_limit)
    return (
        b',"queue":%b,"partition":%b,"partitionId":"%b","leaseId":%b,"leaseExpiresAt":%b,'
        b'"consumerGroup":%b,"attempt":%d,"retryCount":%d,"priority":%d,"options":%b'
    ) % (
        _ENCODE(delivery.queue),
        _ENCODE(delivery.partition),
        reference(delivery.partition_id).encode(),
        _ENCODE(delivery.lease_id),
        b'"%b"' % instant(delivery.until) if delivery.until else b"null",
        _ENCODE(delivery.group),
        delivery.attempt,
        delivery.attempt - 1,
        delivery.level,
        options,
    )


@functools.lru_cache(maxsize=10_000)
def _options(lease_seconds: float, retry_limit: int) -> bytes:
    """Encode the options of a queue."""
    return b'{"leaseTime":%b,"retryLimit":%d}' % (_ENCODE(plain(lease_seconds)), retry_limit)


def _splice(chunks: list[bytes], delivery: Delivery, shared: bytes) -> None:
    for run in delivery.runs:
        first, end = run.first_offset - run.base_offset, run.end_offset - run.base_offset
        rest = b'%b,"createdAt":"%b","data":' % (shared, instant(run.created_at))
        ids = message_ids(delivery.partition_id, run.first_offset, run.end_offset)
        for offset, (id_, payload, stored) in enumerate(
            zip(ids, run.source.payloads(first, end), run.source.extras(first, end), strict=True),
            run.first_offset,
        ):
            if stored is None:
                name, tail = id_, _PLAIN_TAIL
            else:
                extra = decode_extra(stored)
                name = _ENCODE(extra.transaction_id)[1:-1] if extra.transaction_id else id_
                headers, trace_id = _ENCODE(extra.headers or {}), _ENCODE(extra.trace_id)
                tail = b',"headers":%b,"traceId":%b}' % (headers, trace_id)
            chunks.append(
                b',{"id":"%b","transactionId":"%b","offset":%d%b' % (id_, name, offset, rest)
            )
            chunks.append(payload)
            chunks.append(tail)


def pushed(result: PushResult) -> bytes:
    """Encode the response of a push."""
    if (place := result.plain()) is not None:
        partition_id, base, count = place
        tail = _queued(partition_id)
        if count == 1:
            name = message_id(partition_id, base).encode()
            return b'{"messages":[{"id":"%b","transactionId":"%b",%b%d}]}' % (
                name,
                name,
                tail,
                base,
            )
        messages: list[bytes] = []
        for first, end in id_runs(base, base + count):
            name = message_id(partition_id, first).encode()
            head, low = name[:-12], int(name[-12:], 16)
            form = b'{"id":"%b%%012x","transactionId":"%b%%012x",%b%%d}' % (head, head, tail)
            places = range(low, low + end - first)
            messages += [form % (n, n, at) for at, n in enumerate(places, first)]
        return b'{"messages":[%b]}' % b",".join(messages)
    return _ENCODE(PushResponse(messages=list(result), replayed=result.is_replayed))


@functools.lru_cache(maxsize=10_000)
def _queued(partition_id: int) -> bytes:
    """Encode the fields that all stored messages of a partition share."""
    return b'"status":"queued","partitionId":"%b","code":null,"error":null,"offset":' % (
        reference(partition_id).encode()
    )


def acknowledged(answers: Sequence[Acknowledged]) -> bytes:
    """Encode the response of several acknowledgments."""
    results: list[bytes] = []
    is_success = True
    last: Acknowledged | None = None
    tail = b""
    for index, answer in enumerate(answers):
        # Consecutive results mostly differ only in their name, or not at all.
        if last is None or answer != last:
            tail = _ENCODE(answer)[1:]
            is_success = is_success and answer.success
            last = answer
        results.append(b'{"index":%d,%b' % (index, tail))
    return b'{"success":%b,"results":[%b]}' % (
        b"true" if is_success else b"false",
        b",".join(results),
    )


def instant(at: datetime) -> bytes:
    """Format a timestamp as RFC 3339 in UTC, in milliseconds."""
    text = at.astimezone(UTC).isoformat(timespec="milliseconds")
    return b"%bZ" % text.removesuffix("+00:00").encode()
