"""Checks the items of a push against settings and queue options, and sorts them by partition."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

from queen import errors
from queen.codec import payload
from queen.codec.extras import Extra, encode_extra
from queen.codec.names import check_name, check_queue_name
from queen.engine.caches.catalogue import PartitionName, Queue
from queen.engine.push.batches import MessageExtras, PartitionBatch
from queen.engine.push.producers import Producer
from queen.engine.runtime.pace import Pace
from queen.settings import Settings
from queen.wire.messages import Pushed, PushItem

_FIRST: Final = range(1)
_PLAIN_BYTES: Final = 2**23
_MAX_TTL_SECONDS: Final = 315_360_000
_LAST_YEAR: Final = 9000
"""PostgreSQL can add intervals up to this year. It checks the distance by its own clock."""


class ItemChecks:
    """The engine's validation: items that pass can be stored."""

    def __init__(self, settings: Settings, *, has_dedup: bool) -> None:
        self._settings = settings
        self._has_dedup = has_dedup
        """Whether a queue that will be created remembers transactionIds."""

    def plain(
        self, items: Sequence[PushItem], name: PartitionName, queue: Queue, is_json: bool
    ) -> PartitionBatch | None:
        """
        The part for valid items of one partition with only payload, transactionId and priority.

        None for all others, which are sorted one by one. This is the fast path of most pushes, so
        it visits each item once.
        """
        if not 0 < len(items) <= self._settings.max_items or not _are_alike(items):
            return None
        if queue.schema is not None:
            return None
        # Raw is also a buffer: it joins and slices like bytes.
        payloads: list[bytes] = [i.payload for i in items]  # pyright: ignore[reportAssignmentType]
        largest = max(map(len, payloads))
        if largest > self._max_payload_bytes(queue):
            return None
        if largest * len(payloads) > _PLAIN_BYTES and sum(map(len, payloads)) > _PLAIN_BYTES:
            return None  # Checked in steps.
        is_good = payload.are_shallow if is_json else payload.are_valid
        if not is_good(payloads, self._settings.max_json_depth):
            return None
        part = PartitionBatch(
            name, _FIRST if len(payloads) == 1 else range(len(payloads)), payloads
        )
        if items[0].transaction_id is not None:
            ids = [item.transaction_id for item in items]
            part.marked = self._marked_by_ids(ids, has_keys=queue.has_dedup)
            return part if part.marked is not None else None
        return part

    def _marked_by_ids(self, ids: Sequence[str | None], *, has_keys: bool) -> MessageExtras | None:
        """The extras of messages with only transactionIds. None if one needs a closer check."""
        if None in ids:
            return None
        names: list[str] = ids  # pyright: ignore[reportAssignmentType] - None is not in it
        text = "".join(names)
        if not text.isascii() or not text.isprintable() or '"' in text or "\\" in text:
            return None
        sizes = list(map(len, names))
        if min(sizes) < 3 or max(sizes) > self._settings.max_name_bytes:
            return None
        marked = MessageExtras(has_keys=has_keys)
        marked.transaction_ids = dict(enumerate(names))
        marked.extras = {
            place: b'{"transactionId":"%b"}' % name.encode() for place, name in enumerate(names)
        }
        return marked

    async def sort(
        self,
        items: Sequence[PushItem],
        queues: dict[str, Queue],
        *,
        chosen: Sequence[int] | None = None,
        is_admitted: bool = False,
        producer: Producer | None = None,
    ) -> tuple[list[PartitionBatch], dict[int, Pushed]]:
        """
        Parts by partition, and results for rejected items.

        Works in steps, because a request can have ten thousand items or 64 MB of payload.
        ``chosen``: the indexes of the items to sort. Default: all.
        """
        settings = self._settings
        if not items:
            raise errors.BadRequest("a push needs at least one item")
        if len(items) > settings.max_items:
            raise errors.TooManyItems(
                f"{len(items)} items; the maximum per request is {settings.max_items}"
            )
        doubtful = await self._doubtful(items)
        pace = Pace()
        parts: dict[PartitionName, PartitionBatch] = {}
        refused: dict[int, Pushed] = {}
        for index in range(len(items)) if chosen is None else chosen:
            item = items[index]
            if pace.is_due(len(item.payload)):
                await pace.rest()
            name = (item.queue, item.partition, item.priority or 0)
            part = parts.get(name)
            if part is None:
                try:
                    self._check_name(name)
                except errors.InvalidName as error:
                    error.members["failed"] = ("item", index)
                    raise
            queue = queues.get(item.queue)
            try:
                self._check(item, queue, is_doubtful=index in doubtful, is_admitted=is_admitted)
                # A message without a position has no id to be found by.
                is_held = item.delay_seconds is not None or item.available_at is not None
                minted = None
                if is_held and item.transaction_id is None:
                    minted = str(uuid4()) if producer is None else producer.mint(index)
                extra = self._extra(item, queue, minted)
                if queue is not None and queue.schema is not None and not is_admitted:
                    queue.schema.check(bytes(item.payload))
            except errors.RequestError as error:
                refused[index] = refusal(error)
                continue
            if part is None:
                part = parts[name] = PartitionBatch(name, [], [])
                part.marked = MessageExtras(has_keys=queue.has_dedup if queue else self._has_dedup)
            assert part.marked is not None
            part.marked.add(part, index, item, extra, minted)
        return list(parts.values()), refused

    def _check(
        self, item: PushItem, queue: Queue | None, *, is_doubtful: bool, is_admitted: bool
    ) -> None:
        """Raise RequestError for an item that cannot be stored."""
        if queue is None and not self._settings.auto_create:
            raise errors.QueueNotFound(f"queue {item.queue} does not exist")
        most = self._max_payload_bytes(queue)
        if len(item.payload) > most and not is_admitted:
            raise errors.PayloadTooLarge(
                f"the payload has {len(item.payload)} bytes; the maximum is {most}"
            )
        if is_doubtful:
            payload.check(bytes(item.payload), self._settings.max_json_depth)

    async def _doubtful(self, items: Sequence[PushItem]) -> set[int]:
        """Indexes of payloads that may be invalid, too deep or too large. The others are valid."""
        doubtful: set[int] = set()
        step: dict[int, bytes] = {}
        pace = Pace()
        for index, item in enumerate(items):
            size = len(item.payload)
            if size > self._settings.max_payload_bytes:
                doubtful.add(index)  # Rejected by its length, independent of its contents.
                continue
            step[index] = item.payload  # pyright: ignore[reportArgumentType] - Raw is a buffer, too
            if pace.is_due(size):
                doubtful.update(self._doubtful_of(step))
                step = {}
                await pace.rest()
        doubtful.update(self._doubtful_of(step))
        return doubtful

    def _doubtful_of(self, step: dict[int, bytes]) -> Iterable[int]:
        payloads = list(step.values())
        if not payloads or payload.are_valid(payloads, self._settings.max_json_depth):
            return ()
        return step

    def _max_payload_bytes(self, queue: Queue | None) -> int:
        most = self._settings.max_payload_bytes
        return min(queue.max_payload_bytes or most, most) if queue else most

    def _check_name(self, name: PartitionName) -> None:
        check_queue_name("queue", name[0], self._settings.max_name_bytes)
        check_name("partition", name[1], self._settings.max_partition_bytes)

    def _extra(self, item: PushItem, queue: Queue | None, minted: str | None) -> bytes | None:
        settings = self._settings
        if item.priority:
            if not 0 <= item.priority <= 9:
                raise errors.InvalidItem(f"priority {item.priority}: it must be from 0 to 9")
            if queue is None or queue.is_ordered:
                raise errors.InvalidItem(
                    "a priority per message would break the order: configure the queue as unordered"
                )
        delay, ttl = item.delay_seconds, item.ttl_seconds
        if delay is not None and item.available_at is not None:
            raise errors.InvalidItem("give delaySeconds or availableAt, not both")
        if delay is not None and not 0 <= delay <= settings.max_delay_seconds:
            raise errors.InvalidItem(f"delaySeconds must be from 0 to {settings.max_delay_seconds}")
        if ttl is not None and not 0 < ttl <= _MAX_TTL_SECONDS:
            raise errors.InvalidItem(f"ttlSeconds must be above 0 and at most {_MAX_TTL_SECONDS}")
        try:
            if item.transaction_id is not None:
                check_name("transactionId", item.transaction_id, settings.max_name_bytes)
            if item.trace_id:
                check_name("traceId", item.trace_id, settings.max_name_bytes)
        except errors.InvalidName as error:
            raise errors.InvalidItem(str(error)) from error
        if item.available_at is not None:
            _check_instant(item.available_at)
        if item.headers:
            self._check_headers(item.headers)
        extra = Extra(
            transaction_id=item.transaction_id or minted,
            trace_id=item.trace_id,
            headers=item.headers or None,
        )
        try:
            encoded = encode_extra(extra)
        except UnicodeEncodeError as error:
            raise errors.InvalidItem("a header has a lone surrogate") from error
        return None if encoded == b"{}" else encoded

    def _check_headers(self, headers: dict[str, str]) -> None:
        texts = [text for pair in headers.items() for text in pair]
        try:
            size_bytes = sum(len(text.encode("utf-8")) for text in texts)
        except UnicodeEncodeError as error:
            raise errors.InvalidItem("a header has a lone surrogate") from error
        most = self._settings.max_message_headers
        if len(headers) > most or size_bytes > self._settings.max_message_header_bytes:
            raise errors.InvalidItem(
                f"headers: at most {most}, of {self._settings.max_message_header_bytes} bytes"
            )
        if any("\0" in text for text in texts):
            raise errors.InvalidItem("a header has a NUL character")


def _check_instant(instant: datetime) -> None:
    try:
        if instant.astimezone(UTC).year > _LAST_YEAR:
            raise errors.InvalidItem("availableAt is too far ahead")
    except OverflowError as error:
        raise errors.InvalidItem("availableAt is out of range") from error


def refusal(error: errors.QueenError) -> Pushed:
    return Pushed(status="failed", code=error.code, error=str(error))


def _are_alike(items: Sequence[PushItem]) -> bool:
    """Return whether all are for one partition and have at most a transactionId."""
    queue, partition, priority = items[0].queue, items[0].partition, items[0].priority
    has_id = items[0].transaction_id is not None
    for item in items:
        if (
            item.queue != queue
            or item.partition != partition
            or (item.transaction_id is not None) is not has_id
            or item.trace_id is not None
            or item.headers is not None
            or item.delay_seconds is not None
            or item.available_at is not None
            or item.ttl_seconds is not None
            or item.priority != priority
        ):
            return False
    return True
