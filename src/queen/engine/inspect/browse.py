"""Browse and search messages: newest first, with their status in each group."""

from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from queen import errors
from queen.codec.encryption.keys import is_sealed
from queen.codec.extras import NO_EXTRA, Extra, decode_extra
from queen.codec.segment import Segment
from queen.engine.encryption.sealer import Sealer
from queen.engine.inspect.group_status import Pair, Status, overall, pairs_of
from queen.engine.inspect.payload_filter import Where, spellings
from queen.store.connection.database import Record, is_enough
from queen.store.store import Store

MOST_READ: Final = 100_000
"""The most messages that are scanned to find one by name."""
MOST_SEARCHED: Final = 5_000
"""The most messages per page of a search, so that each is fast. The cursor continues it."""
_SEGMENTS: Final = 200
_CHUNK_BYTES: Final = 8 * 2**20
# Segments are found by their transactions, which get their number before their time.
_MARGIN: Final = timedelta(seconds=60)
_LAST: Final = 2**63 - 1
_NULL: Final = b"null"


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """A filter for the messages of a queue."""

    queue_id: int
    partition: str | None = None
    group: str | None = None
    status: Status | None = None
    since: datetime | None = None
    until: datetime | None = None
    transaction_id: str | None = None
    contains: str | None = None
    where: Where | None = None

    @property
    def is_deep(self) -> bool:
        """Whether payloads are searched."""
        return self.contains is not None or self.where is not None

    def spellings(self) -> tuple[bytes, ...]:
        """How JSON can encode the text of the search."""
        return () if self.contains is None else spellings(self.contains)

    def holds(self, payload: bytes, written: tuple[bytes, ...]) -> bool:
        """Return whether a payload matches. ``written`` are the spellings, computed once."""
        if written and not any(each in payload for each in written):
            return False
        return self.where is None or self.where.holds(payload)


class Cursor(NamedTuple):
    """Continue in this segment, below this offset."""

    xid: int
    partition_id: int
    base_offset: int
    below: int


FROM_THE_TOP: Final = Cursor(_LAST, _LAST, _LAST, _LAST)


class Found(NamedTuple):
    """A stored message and its status. A masked one has no payload."""

    partition_id: int
    offset: int
    created_at: datetime
    expires_at: datetime | None
    is_redacted: bool
    payload: bytes
    extra: Extra
    status: Status
    is_masked: bool = False
    is_revealed: bool = False
    """It is stored encrypted, and is decrypted here."""


class Page(msgspec.Struct, kw_only=True):
    """The matches, the number of scanned messages, and the cursor, or None at the end."""

    found: list[Found]
    scanned: int = 0
    next: Cursor | None = None


class Body(NamedTuple):
    """A segment as stored and as decrypted. Both are the same if it is unencrypted or masked."""

    stored: Segment
    opened: Segment


class ReadAhead:
    """
    Reads segments for a search ahead, up to a limit in bytes.

    Without ``sealer``, encrypted segments stay encrypted.
    """

    def __init__(self, store: Store, sealer: Sealer | None) -> None:
        self._store = store
        self._sealer = sealer
        self._read: dict[tuple[int, int], Body] = {}
        self._asked: set[tuple[int, int]] = set()

    async def of(self, head: Record, rest: Sequence[Record]) -> Body | None:
        """None if the segment was removed since it was found."""
        key = (head["partition_id"], head["base_offset"])
        if key not in self._asked:
            keys, size_bytes = [key], head["body_bytes"]
            for each in rest:
                size_bytes += each["body_bytes"]
                if size_bytes > _CHUNK_BYTES:
                    break
                keys.append((each["partition_id"], each["base_offset"]))
            self._asked = set(keys)
            self._read = {}
            for row in await self._store.messages.segments(*map(list, zip(*keys, strict=True))):
                if row["body"] is not None:
                    place = (row["partition_id"], row["base_offset"])
                    opened = stored = segment_of(row)
                    if self._sealer is not None:
                        opened = await self._sealer.open_segment(place[0], stored)
                    self._read[place] = Body(stored, opened)
        return self._read.get(key)


def segment_of(row: Record) -> Segment:
    """The segment of a row."""
    return Segment(
        xid=row["xid"],
        count=row["message_count"],
        body=row["body"],
        ends=row["ends"],
        extras=row["extras"],
    )


async def browse(
    store: Store,
    sealer: Sealer | None,
    wanted: Filter,
    *,
    start: Cursor,
    limit: int,
    max_bytes: int,
    most: int = MOST_SEARCHED,
) -> Page:
    """
    The newest matches among at most ``most`` messages, within a time limit.

    Without ``sealer``, encrypted messages are masked. Then a search in their payloads is rejected,
    because a match would reveal their contents. Raises Masked.
    """
    page = Page(found=[])
    bodies = ReadAhead(store, sealer)
    written = wanted.spellings()
    size_bytes = 0
    async for heads in _heads(store, wanted, start):
        places = [
            (head["partition_id"], head["base_offset"], head["base_offset"] + head["message_count"])
            for head in heads
        ]
        pairs = await pairs_of(store, places, wanted.group)
        for at, head in enumerate(heads):
            for offset, status in _candidates(head, pairs, wanted, start):
                is_full = len(page.found) >= limit or size_bytes >= max_bytes
                if is_full or is_enough(page.scanned, most):
                    page.next = Cursor(
                        head["xid"], head["partition_id"], head["base_offset"], offset + 1
                    )
                    return page
                page.scanned += 1
                if status is None or (wanted.status or status) != status:
                    continue
                body = await bodies.of(head, heads[at + 1 :])
                found = body and found_at(head, offset, body, status)
                if found and _matches(found, wanted, written):
                    page.found.append(found)
                    size_bytes += len(found.payload)
    return page


def found_at(head: Record, offset: int, body: Body, status: Status) -> Found | None:
    """One message of a segment. None if the segment was cut since it was found."""
    index = offset - head["base_offset"]
    opened = body.opened
    if index >= opened.count:
        return None
    (payload,), (extra,) = opened.payloads(index, index + 1), opened.extras(index, index + 1)
    (stored,) = body.stored.payloads(index, index + 1)
    is_masked = is_sealed(payload)
    return Found(
        partition_id=head["partition_id"],
        offset=offset,
        created_at=head["created_at"],
        expires_at=head["expires_at"],
        is_redacted=head["is_redacted"],
        payload=_NULL if is_masked else payload,
        extra=extra_of(extra),
        status=status,
        is_masked=is_masked,
        is_revealed=is_sealed(stored) and not is_masked,
    )


def extra_of(stored: bytes | None) -> Extra:
    """The fields of a message besides its payload."""
    return decode_extra(stored) if stored else NO_EXTRA


def _matches(found: Found, wanted: Filter, written: tuple[bytes, ...]) -> bool:
    if wanted.transaction_id is not None and found.extra.transaction_id != wanted.transaction_id:
        return False
    if found.is_masked and wanted.is_deep:
        raise masked()
    return wanted.holds(found.payload, written)


def masked() -> errors.Masked:
    """The error for a search in masked payloads."""
    return errors.Masked(
        "these payloads are encrypted and masked: search them with reveal=true, which is logged"
    )


def _candidates(
    head: Record, pairs: dict[int, list[Pair]], wanted: Filter, start: Cursor
) -> Iterator[tuple[int, Status | None]]:
    """Offsets of a segment, highest first, with their status. None outside the time range."""
    base = head["base_offset"]
    end = base + head["message_count"]
    if (head["partition_id"], base) == (start.partition_id, start.base_offset):
        end = min(end, start.below)
    is_timely = (wanted.since is None or head["created_at"] >= wanted.since) and (
        wanted.until is None or head["created_at"] < wanted.until
    )
    groups = pairs.get(head["partition_id"], [])
    for offset in range(end - 1, base - 1, -1):
        if not is_timely:
            yield offset, None
        elif head["is_redacted"]:
            yield offset, "completed"
        else:
            yield offset, overall(pair.state(offset) for pair in groups)


async def _heads(store: Store, wanted: Filter, start: Cursor) -> AsyncIterator[list[Record]]:
    """Segments without bodies, newest first, within the filter's time range."""
    if wanted.partition is not None:
        async for heads in _heads_of_partition(store, wanted, wanted.partition, start):
            yield heads
        return
    xid, partition_id, base_offset, _ = start
    while True:
        heads = await store.browse.newest_segments(
            wanted.queue_id,
            xid=xid,
            partition_id=partition_id,
            base_offset=base_offset,
            limit=_SEGMENTS,
        )
        yield heads
        if len(heads) < _SEGMENTS or _is_past(heads[-1], wanted, _MARGIN):
            return
        xid, partition_id = heads[-1]["xid"], heads[-1]["partition_id"]
        base_offset = heads[-1]["base_offset"] - 1


async def _heads_of_partition(
    store: Store, wanted: Filter, partition: str, start: Cursor
) -> AsyncIterator[list[Record]]:
    """The same for one partition: priority by priority, highest first."""
    partition_ids = await store.browse.partition_ids(wanted.queue_id, partition)
    if start.partition_id in partition_ids:
        partition_ids = partition_ids[partition_ids.index(start.partition_id) :]
    for partition_id in partition_ids:
        base_offset = start.base_offset if partition_id == start.partition_id else _LAST
        while True:
            heads = await store.browse.newest_of_partition(
                partition_id, base_offset=base_offset, limit=_SEGMENTS
            )
            yield heads
            if len(heads) < _SEGMENTS or _is_past(heads[-1], wanted, timedelta()):
                break
            base_offset = heads[-1]["base_offset"] - 1


def _is_past(head: Record, wanted: Filter, margin: timedelta) -> bool:
    return wanted.since is not None and head["created_at"] < wanted.since - margin
