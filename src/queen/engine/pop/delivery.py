"""Deliveries: ranges of stored segments, decoded into messages on access."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec

from queen.codec.extras import NO_EXTRA, decode_extra
from queen.codec.ids import Lease, message_id, reference
from queen.wire.messages import Message


class Source(Protocol):
    """A stored segment, or the copy that a redriven message carries."""

    def payload_bytes(self, first: int, end: int) -> int: ...

    def payloads(self, first: int, end: int) -> list[bytes]: ...

    def extras(self, first: int, end: int) -> list[bytes | None]: ...


class Copy(NamedTuple):
    """One message, stored outside of its segment."""

    payload: bytes
    extra: bytes | None

    def payload_bytes(self, first: int, end: int) -> int:
        del first, end
        return len(self.payload)

    def payloads(self, first: int, end: int) -> list[bytes]:
        del first, end
        return [self.payload]

    def extras(self, first: int, end: int) -> list[bytes | None]:
        del first, end
        return [self.extra]


class Run(NamedTuple):
    """Consecutive messages in one segment."""

    first_offset: int
    end_offset: int
    base_offset: int
    created_at: datetime
    source: Source

    @property
    def size_bytes(self) -> int:
        base = self.base_offset
        return self.source.payload_bytes(self.first_offset - base, self.end_offset - base)


class Delivery(msgspec.Struct, kw_only=True, eq=False):
    """Messages of one partition under one lease, in order."""

    queue: str
    partition: str
    partition_id: int
    level: int
    group: str | None
    group_id: int
    lease: Lease | None
    until: datetime | None
    attempt: int
    runs: list[Run] = msgspec.field(default_factory=list[Run])

    def __len__(self) -> int:
        return sum(run.end_offset - run.first_offset for run in self.runs)

    @property
    def size_bytes(self) -> int:
        """The size of the payloads."""
        return sum([run.size_bytes for run in self.runs])

    def shorten(self, max_bytes: int, *, is_first: bool) -> int | None:
        """
        Keep the messages that fit, and at least one if this delivery is the first of its response.

        Returns the new end offset, or None, without a change, if no message fits.
        """
        kept: list[Run] = []
        left = max_bytes
        for run in self.runs:
            base = run.base_offset
            count = 0
            for payload in run.source.payloads(run.first_offset - base, run.end_offset - base):
                if len(payload) > left and (kept or count or not is_first):
                    break
                left -= len(payload)
                count += 1
            if count:
                kept.append(run._replace(end_offset=run.first_offset + count))
            if count < run.end_offset - run.first_offset:
                break
        if not kept:
            return None
        self.runs = kept
        return kept[-1].end_offset

    @property
    def lease_id(self) -> str | None:
        return str(self.lease) if self.lease else None

    @property
    def offsets(self) -> list[int]:
        return [o for run in self.runs for o in range(run.first_offset, run.end_offset)]

    def payloads(self) -> list[bytes]:
        """The payloads, byte for byte as they were pushed."""
        if len(self.runs) == 1:
            run = self.runs[0]
            base = run.base_offset
            return run.source.payloads(run.first_offset - base, run.end_offset - base)
        return [
            each
            for run in self.runs
            for each in run.source.payloads(
                run.first_offset - run.base_offset, run.end_offset - run.base_offset
            )
        ]

    def messages(self) -> Iterator[Message]:
        """The messages with all their fields."""
        lease_id = self.lease_id
        for run in self.runs:
            first, end = run.first_offset - run.base_offset, run.end_offset - run.base_offset
            payloads, extras = run.source.payloads(first, end), run.source.extras(first, end)
            for at, (payload, stored) in enumerate(zip(payloads, extras, strict=True)):
                offset = run.first_offset + at
                extra = decode_extra(stored) if stored else NO_EXTRA
                id_ = message_id(self.partition_id, offset)
                yield Message(
                    id=id_,
                    transaction_id=extra.transaction_id or id_,
                    queue=self.queue,
                    partition=self.partition,
                    data=msgspec.Raw(payload),
                    attempt=self.attempt,
                    priority=self.level,
                    created_at=run.created_at,
                    partition_id=reference(self.partition_id),
                    lease_id=lease_id,
                    lease_expires_at=self.until,
                    consumer_group=self.group,
                    offset=offset,
                    headers=extra.headers or {},
                    trace_id=extra.trace_id,
                )
