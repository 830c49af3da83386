"""What a pop hands out: positions in stored segments, made into messages when somebody looks."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple, Protocol
from uuid import UUID

import msgspec

from queen import errors
from queen.codec.extras import Extra
from queen.codec.ids import message_id, partition_ref
from queen.wire.messages import Message

_DECODE_EXTRA: Final = msgspec.json.Decoder(Extra).decode
_NONE: Final = Extra()


class Source(Protocol):
    """A stored segment, or the copy that a redriven message carries."""

    def payload_bytes(self, first: int, end: int) -> int: ...

    def payloads(self, first: int, end: int) -> list[bytes]: ...

    def extras(self, first: int, end: int) -> list[bytes | None]: ...


class Copy(NamedTuple):
    """One message apart from its segment."""

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
    """Messages that lie together in one segment."""

    first_offset: int
    end_offset: int
    base_offset: int
    created_at: datetime
    source: Source

    @property
    def size_bytes(self) -> int:
        base = self.base_offset
        return self.source.payload_bytes(self.first_offset - base, self.end_offset - base)


class Lease(NamedTuple):
    """Which delivery, and the token that proves whose it is: together they are the leaseId."""

    shard: int
    delivery_id: int
    token: UUID
    claimed_ms: int = 0
    """When it was handed out, by the clock of whoever did: for figures alone, nothing obeys it."""

    def __str__(self) -> str:
        return f"{self.shard}.{self.delivery_id}.{self.claimed_ms}.{self.token.hex}"

    @classmethod
    def parse(cls, lease_id: str) -> "Lease":
        """Raises LeaseLost for what was never a lease: it cannot be the current one."""
        try:
            shard, delivery_id, claimed_ms, token = lease_id.split(".")
            lease = cls(int(shard), int(delivery_id), UUID(hex=token), int(claimed_ms))
        except ValueError as error:
            raise errors.LeaseLost(f"{lease_id!r} is not a lease") from error
        if not 0 <= lease.delivery_id < 2**63:
            raise errors.LeaseLost(f"{lease_id!r} is not a lease")
        return lease


class Delivery:
    """Messages of one partition under one lease, in order."""

    __slots__ = (
        "attempt",
        "group",
        "group_id",
        "lease",
        "level",
        "partition",
        "partition_id",
        "queue",
        "runs",
        "shard",
        "until",
    )

    def __init__(
        self,
        *,
        shard: int,
        queue: str,
        partition: str,
        partition_id: int,
        level: int,
        group: str | None,
        group_id: int,
        lease: Lease | None,
        until: datetime | None,
        attempt: int,
    ) -> None:
        self.shard = shard
        self.queue = queue
        self.partition = partition
        self.partition_id = partition_id
        self.level = level
        self.group = group
        self.group_id = group_id
        self.lease = lease
        self.until = until
        self.attempt = attempt
        self.runs: list[Run] = []

    def __len__(self) -> int:
        return sum(run.end_offset - run.first_offset for run in self.runs)

    @property
    def size_bytes(self) -> int:
        """Of the payloads alone."""
        return sum([run.size_bytes for run in self.runs])

    def shorten(self, max_bytes: int, *, is_first: bool) -> int | None:
        """
        Keep what fits, and at least one message if it is the first of its answer.

        Answers the offset before which it ends now; None, and nothing was changed, if none fits.
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
        """The payloads alone, byte for byte as they were pushed."""
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
        """The messages with all that belongs to them."""
        lease_id = self.lease_id
        for run in self.runs:
            first, end = run.first_offset - run.base_offset, run.end_offset - run.base_offset
            payloads, extras = run.source.payloads(first, end), run.source.extras(first, end)
            for at, (payload, stored) in enumerate(zip(payloads, extras, strict=True)):
                offset = run.first_offset + at
                extra = _DECODE_EXTRA(stored) if stored else _NONE
                id_ = message_id(self.shard, self.partition_id, offset)
                yield Message(
                    id=id_,
                    transaction_id=extra.transaction_id or id_,
                    queue=self.queue,
                    partition=self.partition,
                    data=msgspec.Raw(payload),
                    attempt=self.attempt,
                    priority=self.level,
                    created_at=run.created_at,
                    partition_id=partition_ref(self.shard, self.partition_id),
                    lease_id=lease_id,
                    lease_expires_at=self.until,
                    consumer_group=self.group,
                    offset=offset,
                    headers=extra.headers or {},
                    trace_id=extra.trace_id,
                )
