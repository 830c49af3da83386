"""What a push gathers into a flush: one segment a partition, one transaction for all."""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, NamedTuple, overload

import msgspec

from queen import errors
from queen.codec import payload, segment
from queen.codec.identity import dedup_key, message_id
from queen.engine.backlogs import Backlogs
from queen.engine.catalogue import Catalogue, LaneName, Queue
from queen.engine.lanes import Lanes
from queen.engine.segment_cache import SegmentCache
from queen.settings import Settings
from queen.store import messages as rows
from queen.store.store import Store
from queen.wire import Extra, Pushed, PushItem

_ENCODE_EXTRA: Final = msgspec.json.Encoder().encode
_ROUNDS: Final = 10


class Scheduled(NamedTuple):
    """A message that is held back."""

    item: int
    payload: bytes
    extra: bytes | None
    delay_seconds: float | None
    due_at: datetime | None
    ttl_seconds: float | None
    transaction_id: str | None


class Part:
    """The messages of one request for one lane, and what became of each."""

    __slots__ = (
        "_skipped",
        "base",
        "duplicates",
        "echoes",
        "extras",
        "items",
        "keys",
        "lane",
        "partition_id",
        "payloads",
        "scheduled",
        "scheduled_keys",
        "transaction_ids",
        "ttls",
    )

    def __init__(self, lane: LaneName) -> None:
        self.lane = lane
        self.items: list[int] = []
        self.payloads: list[bytes] = []
        self.extras: list[bytes | None] | None = None
        self.ttls: list[float | None] | None = None
        self.transaction_ids: dict[int, str] = {}
        """By place in ``payloads``."""
        self.keys: dict[int, bytes] = {}
        self.scheduled: list[Scheduled] = []
        self.scheduled_keys: dict[int, bytes] = {}
        self.partition_id: int | None = None
        self.base: int | None = None
        """Offset of the first message that was stored."""
        self.duplicates: dict[int, int | None] = {}
        """Places whose transactionId was known, and the offset of the first message with it."""
        self.echoes: dict[int, tuple[Part, int]] = {}
        """Places whose transactionId another message of the same flush has."""
        self._skipped: list[int] | None = None

    def add(self, index: int, item: PushItem, extra: bytes | None) -> None:
        """An item with something besides its payload; plain ones are appended by the caller."""
        if item.delay_seconds is not None or item.available_at is not None:
            if item.transaction_id is not None:
                self.scheduled_keys[len(self.scheduled)] = dedup_key(item.transaction_id)
            self.scheduled.append(
                Scheduled(
                    index,
                    bytes(item.payload),
                    extra,
                    item.delay_seconds,
                    item.available_at,
                    item.ttl_seconds,
                    item.transaction_id,
                )
            )
            return
        place = len(self.payloads)
        if item.transaction_id is not None:
            self.transaction_ids[place] = item.transaction_id
            self.keys[place] = dedup_key(item.transaction_id)
        if extra is not None:
            if self.extras is None:
                self.extras = []
            self.extras.extend([None] * (place - len(self.extras)))
            self.extras.append(extra)
        if item.ttl_seconds is not None:
            if self.ttls is None:
                self.ttls = []
            self.ttls.extend([None] * (place - len(self.ttls)))
            self.ttls.append(item.ttl_seconds)
        self.items.append(index)
        self.payloads.append(item.payload)  # type: ignore[arg-type] # Raw is a buffer, and so joins.

    @property
    def left_out(self) -> bool:
        return bool(self.duplicates or self.echoes)

    def is_left_out(self, place: int) -> bool:
        return place in self.duplicates or place in self.echoes

    def answer(self, place: int, shard: int) -> Pushed:
        """What became of the message at a place in ``payloads``."""
        status = "queued"
        origin, at = self, place
        while at in origin.echoes:
            origin, at = origin.echoes[at]
            status = "duplicate"
        if at in origin.duplicates:
            offset = origin.duplicates[at]
            status = "duplicate"
        elif origin.base is None:
            offset = None
        elif origin.left_out:
            if origin._skipped is None:
                origin._skipped = _counts_before(len(origin.payloads), origin.is_left_out)
            offset = origin.base + at - origin._skipped[at]
        else:
            offset = origin.base + at
        partition_id = self.partition_id
        known = offset is not None and partition_id is not None
        id_ = message_id(shard, partition_id, offset) if known else None  # type: ignore[arg-type]
        return Pushed(
            status=status,  # type: ignore[arg-type]
            id=id_,
            transaction_id=self.transaction_ids.get(place) or id_,
            partition_id=partition_id,
            offset=offset,
        )

    def answer_scheduled(self, place: int, shard: int) -> Pushed:
        """What became of a message that is held back; its places count down from -1."""
        held = self.scheduled[-place - 1]
        partition_id, offset = self.partition_id, self.duplicates.get(place)
        known = offset is not None and partition_id is not None
        return Pushed(
            status="duplicate" if place in self.duplicates else "queued",
            id=message_id(shard, partition_id, offset) if known else None,  # type: ignore[arg-type]
            transaction_id=held.transaction_id,
            partition_id=partition_id,
            offset=offset,
        )


def _counts_before(length: int, is_left_out: Callable[[int], bool]) -> list[int]:
    counts: list[int] = []
    count = 0
    for place in range(length):
        counts.append(count)
        count += is_left_out(place)
    return counts


class PushUnit:
    """Messages that are stored together: a lane's part of a request, or all of a producer's request."""

    __slots__ = ("done", "is_replayed", "keys", "parts", "producer_id", "sequence", "size_bytes")

    def __init__(
        self,
        parts: Sequence[Part],
        size_bytes: int,
        *,
        producer_id: str | None = None,
        sequence: int | None = None,
    ) -> None:
        self.parts = parts
        self.size_bytes = size_bytes
        self.producer_id = producer_id
        self.sequence = sequence
        self.is_replayed = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lanes: tuple[Hashable, ...] = tuple(part.lane for part in parts)
        # One in flight per producer, whatever its lanes.
        self.keys = lanes if producer_id is None else (*lanes, producer_id)

    def fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            # Its caller may have gone.
            self.done.exception()

    def finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


class PushResult(Sequence[Pushed]):
    """The answers to a push in the order of its items, each made when it is looked at."""

    def __init__(
        self,
        count: int,
        parts: Sequence[Part],
        refused: dict[int, Pushed],
        *,
        shard: int,
        is_replayed: bool,
    ) -> None:
        self.is_replayed = is_replayed
        self._count = count
        self._parts = parts
        self._refused = refused
        self._shard = shard
        self._where: list[tuple[Part, int]] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Pushed: ...
    @overload
    def __getitem__(self, index: slice) -> list[Pushed]: ...
    def __getitem__(self, index: int | slice) -> Pushed | list[Pushed]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        if not -self._count <= index < self._count:
            raise IndexError(index)
        index %= self._count
        if index in self._refused:
            return self._refused[index]
        if self._where is None:
            self._where = self._places()
        part, place = self._where[index]
        if place >= 0:
            return part.answer(place, self._shard)
        return part.answer_scheduled(place, self._shard)

    def _places(self) -> list[tuple[Part, int]]:
        where: list[tuple[Part, int]] = [(self._parts[0], 0)] * self._count
        for part in self._parts:
            for place, item in enumerate(part.items):
                where[item] = (part, place)
            for place, held in enumerate(part.scheduled):
                where[held.item] = (part, -place - 1)
        return where


class Pushes:
    """Takes requests apart by lane, and stores what is waiting in as few transactions as it can."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        catalogue: Catalogue,
        cache: SegmentCache,
        backlogs: Backlogs,
        *,
        wake: Callable[[Iterable[int]], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._catalogue = catalogue
        self._cache = cache
        self._backlogs = backlogs
        self._wake = wake
        self._lanes = Lanes[PushUnit](
            self._flush,
            lanes=settings.push_lanes,
            max_units=settings.segment_max_messages,
            max_bytes=settings.flush_max_bytes,
            max_queued=settings.max_queued_requests,
            max_queued_bytes=settings.max_queued_bytes,
        )

    async def close(self) -> None:
        await self._lanes.close()

    async def push(
        self,
        items: Sequence[PushItem],
        *,
        producer_id: str | None = None,
        sequence: int | None = None,
    ) -> PushResult:
        """Store the items, durably, before this returns."""
        parts, refused = await self.prepare(items, producer_id)
        if producer_id is not None and refused:
            first = refused[min(refused)]
            raise (errors.of_code(first.code or "") or errors.InvalidItem)(first.error)
        if not parts:
            return PushResult(
                len(items), parts, refused, shard=self._store.shard, is_replayed=False
            )
        if producer_id is None:
            units = [PushUnit((part,), _size_of(part)) for part in parts]
        else:
            size_bytes = sum(map(_size_of, parts))
            units = [PushUnit(parts, size_bytes, producer_id=producer_id, sequence=sequence)]
        for unit in units:
            self._lanes.submit(unit)
        if len(units) == 1:
            await units[0].done
        else:
            refused.update(await self._each(units))
        return PushResult(
            len(items),
            parts,
            refused,
            shard=self._store.shard,
            is_replayed=any(unit.is_replayed for unit in units),
        )

    async def _each(self, units: Sequence[PushUnit]) -> dict[int, Pushed]:
        """Lanes of one request stand alone: one that failed does not take the answers of the others."""
        outcomes = await asyncio.gather(*(unit.done for unit in units), return_exceptions=True)
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if len(failures) == len(units):
            raise failures[0]
        refused: dict[int, Pushed] = {}
        for unit, outcome in zip(units, outcomes, strict=True):
            if outcome is None:
                continue
            if not isinstance(outcome, errors.QueenError):
                raise outcome
            answer = Pushed(status="failed", code=outcome.code, error=str(outcome))
            for part in unit.parts:
                refused.update(dict.fromkeys(part.items, answer))
                refused.update(dict.fromkeys((held.item for held in part.scheduled), answer))
        return refused

    async def prepare(
        self, items: Sequence[PushItem], producer_id: str | None
    ) -> tuple[list[Part], dict[int, Pushed]]:
        """Check the items and sort them by lane; those refused on their own are answered at once."""
        settings = self._settings
        if not items:
            raise errors.BadRequest("a push needs at least one item")
        if len(items) > settings.max_items:
            raise errors.TooManyItems(
                f"{len(items)} items; at most {settings.max_items} fit a request"
            )
        refused: dict[int, Pushed] = {}
        # A buffer that joins like bytes, whatever its type.
        payloads: list[bytes] = [item.payload for item in items]  # type: ignore[misc]
        if not payload.are_valid(payloads, settings.max_json_depth):
            for index, each in enumerate(payloads):
                try:
                    payload.check(bytes(each), settings.max_json_depth)
                except errors.InvalidItem as error:
                    refused[index] = _refusal(error)
        queues = await self._queues({item.queue for item in items})
        largest = min(
            (queue.max_payload_bytes or settings.max_payload_bytes for queue in queues.values()),
            default=settings.max_payload_bytes,
        )
        largest = min(largest, settings.max_payload_bytes)
        parts: dict[LaneName, Part] = {}
        last_queue: str | None = None
        last_partition: str | None = None
        part: Part | None = None
        for index, item in enumerate(items):
            if len(item.payload) > largest or (refused and index in refused):
                if index in refused or self._is_too_large(index, item, queues, refused):
                    continue
            is_plain = (
                item.transaction_id is None
                and item.headers is None
                and item.trace_id is None
                and item.delay_seconds is None
                and item.available_at is None
                and item.ttl_seconds is None
                and not item.priority
                and producer_id is None
            )
            if is_plain:
                if part is None or item.queue != last_queue or item.partition != last_partition:
                    part = self._part(parts, item, 0)
                    last_queue, last_partition = item.queue, item.partition
                part.items.append(index)
                part.payloads.append(item.payload)  # type: ignore[arg-type] # Raw is a buffer.
                continue
            try:
                extra = self._extra(item, queues.get(item.queue), producer_id)
            except errors.InvalidItem as error:
                refused[index] = _refusal(error)
                continue
            self._part(parts, item, item.priority or 0).add(index, item, extra)
            part = None
        if limited := [queue for queue in queues.values() if queue.max_size]:
            await self._refuse_full(limited, parts, refused)
        return [part for part in parts.values() if part.payloads or part.scheduled], refused

    async def _queues(self, names: set[str]) -> dict[str, Queue]:
        known = {name: queue for name in names if (queue := self._catalogue.known(name))}
        if len(known) < len(names):
            return await self._catalogue.queues(names)
        return known

    def _part(self, parts: dict[LaneName, Part], item: PushItem, level: int) -> Part:
        lane = (item.queue, item.partition, level)
        part = parts.get(lane)
        if part is None:
            self._check_name(item.queue, self._settings.max_name_bytes, "queue")
            self._check_name(item.partition, self._settings.max_partition_bytes, "partition")
            if item.queue.startswith("__") or item.queue != item.queue.strip():
                raise errors.InvalidName(
                    f"queue name {item.queue!r}: it cannot begin with __ or have outer spaces"
                )
            part = parts[lane] = Part(lane)
        return part

    def _check_name(self, name: str, max_bytes: int, what: str) -> None:
        try:
            size = len(name.encode("utf-8"))
        except UnicodeEncodeError as error:
            raise errors.InvalidName(f"{what} name {name!r} has a lone surrogate") from error
        if not 0 < size <= max_bytes:
            raise errors.InvalidName(f"{what} name of {size} bytes: it must have 1 to {max_bytes}")
        if name in (".", "..") or any(ord(letter) < 32 or ord(letter) == 127 for letter in name):
            raise errors.InvalidName(
                f"{what} name {name!r}: control characters, . and .. are refused"
            )

    def _is_too_large(
        self, index: int, item: PushItem, queues: dict[str, Queue], refused: dict[int, Pushed]
    ) -> bool:
        queue = queues.get(item.queue)
        most = min(
            (queue and queue.max_payload_bytes) or self._settings.max_payload_bytes,
            self._settings.max_payload_bytes,
        )
        if len(item.payload) <= most:
            return False
        refused[index] = _refusal(
            errors.PayloadTooLarge(f"the payload has {len(item.payload)} bytes; at most {most} fit")
        )
        return True

    def _extra(self, item: PushItem, queue: Queue | None, producer_id: str | None) -> bytes | None:
        settings = self._settings
        if item.priority:
            if not 0 <= item.priority <= 9:
                raise errors.InvalidItem(f"priority {item.priority}: it must be from 0 to 9")
            if queue is None or queue.is_ordered:
                raise errors.InvalidItem(
                    "a priority per message would break the order; configure the queue with ordered: false"
                )
        if item.delay_seconds is not None and item.available_at is not None:
            raise errors.InvalidItem("give delaySeconds or availableAt, not both")
        if (
            item.delay_seconds is not None
            and not 0 <= item.delay_seconds <= settings.max_delay_seconds
        ):
            raise errors.InvalidItem(f"delaySeconds must be from 0 to {settings.max_delay_seconds}")
        if item.ttl_seconds is not None and not 0 < item.ttl_seconds <= 315_360_000:
            raise errors.InvalidItem("ttlSeconds must be above 0 and at most ten years")
        if (
            item.transaction_id is not None
            and not 0 < len(item.transaction_id.encode()) <= settings.max_name_bytes
        ):
            raise errors.InvalidItem(f"a transactionId has 1 to {settings.max_name_bytes} bytes")
        if item.headers:
            sizes = sum(len(k.encode()) + len(v.encode()) for k, v in item.headers.items())
            if (
                len(item.headers) > settings.max_message_headers
                or sizes > settings.max_message_header_bytes
            ):
                raise errors.InvalidItem("too many headers, or too large ones")
            if any("\0" in text for pair in item.headers.items() for text in pair):
                raise errors.InvalidItem("a header has a NUL character")
        extra = Extra(
            transaction_id=item.transaction_id,
            trace_id=item.trace_id,
            headers=item.headers or None,
            producer_id=producer_id,
        )
        encoded = _ENCODE_EXTRA(extra)
        return None if encoded == b"{}" else encoded

    async def _refuse_full(
        self, queues: Iterable[Queue], parts: dict[LaneName, Part], refused: dict[int, Pushed]
    ) -> None:
        for queue in queues:
            full = [lane for lane in parts if lane[0] == queue.name]
            count = sum(len(parts[lane].items) + len(parts[lane].scheduled) for lane in full)
            if not await self._backlogs.admits(queue, count):
                answer = _refusal(
                    errors.QueueFull(
                        f"queue {queue.name} holds {queue.max_size} messages to settle"
                    )
                )
                for lane in full:
                    part = parts.pop(lane)
                    refused.update(dict.fromkeys(part.items, answer))
                    refused.update(dict.fromkeys((held.item for held in part.scheduled), answer))

    async def _flush(self, units: list[PushUnit]) -> None:
        """Store the units. Refusals concern their own unit, and an unexpected error is tried alone."""
        while units:
            taken: list[PushUnit] = []
            later: list[PushUnit] = []
            producers: set[str] = set()
            for unit in units:
                if unit.producer_id is not None and unit.producer_id in producers:
                    later.append(unit)
                    continue
                if unit.producer_id is not None:
                    producers.add(unit.producer_id)
                taken.append(unit)
            try:
                await self._store_units(taken)
            except (errors.ServiceError, errors.OutcomeUnknown) as error:
                for unit in (*taken, *later):
                    unit.fail(error)
                return
            except Exception as error:
                if len(taken) == 1:
                    taken[0].fail(error)
                else:
                    for unit in taken:
                        await self._flush([unit])
            units = later

    async def _store_units(self, units: list[PushUnit]) -> None:
        for _ in range(_ROUNDS):
            await self._catalogue.lanes([part.lane for unit in units for part in unit.parts])
            flush = Flush(units, self._catalogue, self._settings)
            if flush.is_empty:
                break
            stored = await self._store.messages.push(flush.push)
            if not stored or stored[0]["kind"] == "stored":
                flush.place(stored, self._cache)
                self._wake(flush.queue_ids)
                break
            units = flush.without(stored, self._catalogue)
        else:
            raise errors.Overloaded("the push met duplicates or removed partitions time and again")
        for unit in units:
            unit.finish()


class Flush:
    """The columns of one call, and the way back from its rows to the messages."""

    def __init__(self, units: Sequence[PushUnit], catalogue: Catalogue, settings: Settings) -> None:
        self.units = list(units)
        self.push = rows.Push()
        self.queue_ids: set[int] = set()
        self._settings = settings
        self._keys: list[tuple[Part, int]] = []
        self._scheduled: list[tuple[Part, int]] = []
        self._lanes: list[tuple[list[tuple[Part, int]], list[int]]] = []
        """Per lane: parts with their place in it, and its entries."""
        self._echoes: dict[tuple[int, bytes], tuple[Part, int]] = {}
        by_lane: dict[LaneName, list[Part]] = {}
        for unit in units:
            for part in unit.parts:
                if part.lane in by_lane:
                    by_lane[part.lane].append(part)
                else:
                    by_lane[part.lane] = [part]
        for name, parts in by_lane.items():
            lane = catalogue.lane(name)
            if lane is None:
                raise errors.QueueNotFound(f"queue {name[0]} was deleted meanwhile")
            self.queue_ids.add(lane.queue_id)
            self._add_lane(lane.partition_id, parts)
        entries = len(self.push.partition_ids)
        for at, (part, place) in enumerate(self._scheduled):
            if (key := part.scheduled_keys.get(place)) is not None:
                self.push.keys.append(key)
                self.push.key_entries.append(entries + at + 1)
                self.push.key_places.append(None)
                self._keys.append((part, -place - 1))
        for unit in units:
            if unit.producer_id is not None:
                self.push.producers.append(unit.producer_id)
                self.push.sequences.append(unit.sequence or 0)

    @property
    def is_empty(self) -> bool:
        return not (
            self.push.partition_ids or self.push.scheduled_partition_ids or self.push.producers
        )

    def _add_lane(self, partition_id: int, parts: list[Part]) -> None:
        payloads: list[bytes] = []
        extras: list[bytes | None] | None = None
        ttls: list[float | None] | None = None
        keys: list[tuple[int, bytes, Part, int]] = []
        starts: list[tuple[Part, int]] = []
        for part in parts:
            part.partition_id = partition_id
            starts.append((part, len(payloads)))
            kept = self._kept(partition_id, part)
            if part.extras is not None or extras is not None:
                extras = extras if extras is not None else [None] * len(payloads)
                own = part.extras or []
                extras.extend(own[place] if place < len(own) else None for place in kept)
            if part.ttls is not None or ttls is not None:
                ttls = ttls if ttls is not None else [None] * len(payloads)
                own_ttls = part.ttls or []
                ttls.extend(own_ttls[place] if place < len(own_ttls) else None for place in kept)
            if part.keys:
                start = len(payloads)
                keys.extend(
                    (start + at, part.keys[place], part, place)
                    for at, place in enumerate(kept)
                    if place in part.keys
                )
            if len(kept) == len(part.payloads):
                payloads.extend(part.payloads)
            else:
                payloads.extend(part.payloads[place] for place in kept)
            for place, held in enumerate(part.scheduled):
                if -place - 1 in part.duplicates or -place - 1 in part.echoes:
                    continue
                self._add_scheduled(partition_id, part, place, held)
        entries = self._add_entries(partition_id, payloads, extras, ttls, keys)
        self._lanes.append((starts, entries))

    def _kept(self, partition_id: int, part: Part) -> Sequence[int]:
        """The places of a part that are to be stored: not those known, nor twice in this flush."""
        if not part.keys and not part.left_out:
            return range(len(part.payloads))
        kept: list[int] = []
        part.echoes = {place: first for place, first in part.echoes.items() if place < 0}
        for place in range(len(part.payloads)):
            if place in part.duplicates:
                continue
            key = part.keys.get(place)
            if key is not None:
                first = self._echoes.setdefault((partition_id, key), (part, place))
                if first != (part, place):
                    part.echoes[place] = first
                    continue
            kept.append(place)
        return kept

    def _add_scheduled(self, partition_id: int, part: Part, place: int, held: Scheduled) -> None:
        push = self.push
        push.scheduled_partition_ids.append(partition_id)
        push.scheduled_delays.append(held.delay_seconds)
        push.scheduled_dues.append(held.due_at)
        push.scheduled_payloads.append(held.payload)
        push.scheduled_extras.append(held.extra)
        push.scheduled_ttls.append(held.ttl_seconds)
        self._scheduled.append((part, place))

    def _add_entries(
        self,
        partition_id: int,
        payloads: list[bytes],
        extras: list[bytes | None] | None,
        ttls: list[float | None] | None,
        keys: list[tuple[int, bytes, Part, int]],
    ) -> list[int]:
        """Cut a lane's messages into segments: by size, and where the time to live changes."""
        push = self.push
        entries: list[int] = []
        key_at = 0
        for first, end in self._cuts(payloads, ttls):
            chunk = payloads if (first, end) == (0, len(payloads)) else payloads[first:end]
            body, ends = segment.encode(chunk)
            entries.append(len(push.partition_ids))
            push.partition_ids.append(partition_id)
            push.counts.append(end - first)
            push.bodies.append(body)
            push.ends.append(ends)
            push.extras.append(segment.encode_extras(extras[first:end]) if extras else None)
            push.ttls.append(ttls[first] if ttls else None)
            while key_at < len(keys) and keys[key_at][0] < end:
                at, key, part, place = keys[key_at]
                push.keys.append(key)
                push.key_entries.append(len(push.partition_ids))
                push.key_places.append(at - first)
                self._keys.append((part, place))
                key_at += 1
        return entries

    def _cuts(
        self, payloads: list[bytes], ttls: list[float | None] | None
    ) -> Iterator[tuple[int, int]]:
        count = len(payloads)
        if not count:
            return
        most_bytes = self._settings.segment_max_bytes
        most = self._settings.segment_max_messages
        if ttls is None and count <= most and sum(map(len, payloads)) <= most_bytes:
            yield 0, count
            return
        first = size = 0
        for index, each in enumerate(payloads):
            is_full = size + len(each) > most_bytes or index - first >= most
            if index > first and (is_full or (ttls is not None and ttls[index] != ttls[first])):
                yield first, index
                first, size = index, 0
            size += len(each)
        yield first, count

    def place(self, stored: Sequence[rows.Record], cache: SegmentCache) -> None:
        """Everything was stored: tell each part where, and remember the segments."""
        push = self.push
        bases = {row["ordinal"] - 1: row["offset"] for row in stored}
        xid = stored[0]["xid"] if stored else 0
        for starts, entries in self._lanes:
            if not entries:
                continue
            base = bases[entries[0]]
            for part, start in starts:
                part.base = base + start
        for entry, base in bases.items():
            kept = segment.Segment(
                xid=xid,
                count=push.counts[entry],
                body=push.bodies[entry],
                ends=push.ends[entry],
                extras=push.extras[entry],
            )
            cache.put(push.partition_ids[entry], base, kept)

    def without(self, problems: Sequence[rows.Record], catalogue: Catalogue) -> list[PushUnit]:
        """Nothing was stored: leave out what was wrong, and answer the units that this concludes."""
        gone: set[int] = set()
        concluded: set[int] = set()
        partition_ids = self.push.partition_ids + self.push.scheduled_partition_ids
        with_producer = [unit for unit in self.units if unit.producer_id is not None]
        for row in problems:
            at = row["ordinal"] - 1
            if row["kind"] == "duplicate":
                part, place = self._keys[at]
                part.duplicates[place] = row["offset"]
            elif row["kind"] == "producer":
                unit = with_producer[at]
                concluded.add(id(unit))
                if row["code"]:
                    unit.fail(
                        errors.SequenceStale(
                            f"producer {unit.producer_id} is past sequence {unit.sequence}"
                        )
                    )
                else:
                    unit.is_replayed = True
                    unit.finish()
            else:
                gone.add(partition_ids[at])
        if gone:
            catalogue.forget_lanes(gone)
        return [unit for unit in self.units if id(unit) not in concluded]


def _refusal(error: errors.QueenError) -> Pushed:
    return Pushed(status="failed", code=error.code, error=str(error))


def _size_of(part: Part) -> int:
    return sum(map(len, part.payloads)) + sum(len(held.payload) for held in part.scheduled) + 100
