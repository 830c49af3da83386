"""The arguments of one push call, and the mapping of its rows back to messages."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from queen import errors
from queen.codec import segment
from queen.codec.encryption.keys import DataKey
from queen.codec.encryption.sealing import seal, seal_segment
from queen.codec.ids import dedup_key, dedup_keys
from queen.engine.caches.catalogue import Catalogue, Partition, PartitionName
from queen.engine.caches.segments import SegmentCache
from queen.engine.push.batches import MessageExtras, PartitionBatch, PendingPush
from queen.engine.push.first_outcomes import encode_outcome
from queen.engine.push.producers import stale
from queen.settings import Settings
from queen.store import messages as rows
from queen.wire.messages import Pushed


def _start(run: tuple[int, MessageExtras, int]) -> int:
    return run[0]


class Key(NamedTuple):
    """The key of a transactionId: its position in the partition, and its message and part."""

    at: int
    key: bytes
    marked: MessageExtras
    place: int


class SegmentLayout:
    """Units grouped by partition, with the messages of each laid out as segments."""

    def __init__(
        self,
        units: Sequence[PendingPush],
        partitions: Mapping[PartitionName, Partition],
        settings: Settings,
        data_keys: Mapping[int, DataKey],
    ) -> None:
        self.units = list(units)
        self.push = rows.Push(max_delay_seconds=settings.max_delay_seconds)
        self.queue_ids = self.push.queue_ids
        self._settings = settings
        self._data_keys = data_keys
        """Keys of encrypted queues, by queue id."""
        self._opened: dict[int, tuple[bytes, bytes, bytes | None]] = {}
        """The decrypted body, ends and extras of encrypted entries."""
        self._keys: list[tuple[int, MessageExtras, int]] = []
        """Runs of keys: its start in the call, its messages, and the position of the first."""
        self._first_entries: list[tuple[int, list[tuple[PartitionBatch, int]]]] = []
        """Per partition: its first entry, and where each part begins."""
        by_name: dict[PartitionName, list[PartitionBatch]] = {}
        for unit in units:
            for part in unit.parts:
                if part.name in by_name:
                    by_name[part.name].append(part)
                else:
                    by_name[part.name] = [part]
            if unit.producer is not None:
                self.push.producers.append(unit.producer.key)
                self.push.sequences.append(unit.producer.sequence)
                self.push.digests.append(unit.producer.digest)
        self._held: list[tuple[PartitionBatch, MessageExtras, int]] = []
        self._queue_of = {name: partitions[name].queue_id for name in by_name} if data_keys else {}
        for name, parts in by_name.items():
            partition = partitions[name]
            self.queue_ids.add(partition.queue_id)
            if any(part.marked is not None for part in parts):
                self._add_marked(partition, parts)
            else:
                self._add_plain(partition, parts)
        self._add_scheduled()
        if self.push.is_repeatable:
            self._add_outcomes()

    def _add_plain(self, partition: Partition, parts: list[PartitionBatch]) -> None:
        """Add a partition whose messages have only payloads, as most."""
        payloads: list[bytes] = parts[0].payloads if len(parts) == 1 else []
        starts: list[tuple[PartitionBatch, int]] = []
        for part in parts:
            part.partition_id = partition.partition_id
            starts.append((part, len(payloads) if len(parts) > 1 else 0))
            if len(parts) > 1:
                payloads.extend(part.payloads)
        self._first_entries.append((len(self.push.partition_ids), starts))
        for first, end in self._cuts(payloads, {}):
            is_whole = end - first == len(payloads)
            self._add_entry(partition, payloads if is_whole else payloads[first:end], None, None)

    def _add_marked(self, partition: Partition, parts: list[PartitionBatch]) -> None:
        if self._add_uniform(partition, parts):
            return
        payloads: list[bytes] = []
        extras: dict[int, bytes] = {}
        ttls: dict[int, float] = {}
        keys: list[Key] = []
        starts: list[tuple[PartitionBatch, int]] = []
        firsts: dict[str, tuple[PartitionBatch, int]] = {}
        for part in parts:
            part.partition_id = partition.partition_id
            starts.append((part, len(payloads)))
            marked = part.marked
            if marked is None:
                payloads.extend(part.payloads)
                continue
            marked.begin_again()
            for place in (*range(len(part.payloads)), *range(-1, -1 - len(marked.scheduled), -1)):
                if place in marked.refused:
                    continue
                name = marked.transaction_ids.get(place) if marked.has_keys else None
                if place < 0 and not marked.scheduled[-1 - place].has_key:
                    name = None
                if place in marked.duplicates:
                    # Later messages with the same transactionId are duplicates of it and need no
                    # lookup.
                    if name is not None:
                        firsts.setdefault(name, (part, place))
                    continue
                if name is not None:
                    first = firsts.setdefault(name, (part, place))
                    if first != (part, place):
                        marked.echoes[place] = first
                        continue
                if place < 0:
                    self._held.append((part, marked, place))
                    continue
                at = len(payloads)
                if name is not None:
                    keys.append(Key(at, dedup_key(partition.partition_id, name), marked, place))
                if place in marked.extras:
                    extras[at] = marked.extras[place]
                if place in marked.ttls:
                    ttls[at] = marked.ttls[place]
                payloads.append(part.payloads[place])
        if payloads:
            self._first_entries.append((len(self.push.partition_ids), starts))
        next_key = 0
        for first, end in self._cuts(payloads, ttls):
            encoded = segment.encode_extras(map(extras.get, range(first, end))) if extras else None
            self._add_entry(partition, payloads[first:end], encoded, ttls.get(first))
            entry = len(self.push.partition_ids)
            while next_key < len(keys) and keys[next_key].at < end:
                key = keys[next_key]
                self._add_key(key.key, entry, key.at - first, key.marked, key.place)
                next_key += 1

    def _add_uniform(self, partition: Partition, parts: list[PartitionBatch]) -> bool:
        """Add a partition if its messages all have a transactionId and no other extras."""
        names: list[str] = []
        payloads: list[bytes] = []
        extras: list[bytes] = []
        starts: list[tuple[PartitionBatch, int]] = []
        for part in parts:
            marked = part.marked
            if (
                marked is None
                or not marked.has_keys
                or not marked.has_ids_alone(len(part.payloads))
            ):
                return False
            starts.append((part, len(payloads)))
            names.extend(marked.transaction_ids.values())
            extras.extend(marked.extras.values())
            payloads.extend(part.payloads)
        if len(set(names)) < len(names) or next(self._cuts(payloads, {})) != (0, len(payloads)):
            return False
        push = self.push
        partition_id = partition.partition_id
        for part, start in starts:
            assert part.marked is not None
            part.partition_id = partition_id
            part.marked.begin_again()
            self._keys.append((len(push.keys) + start, part.marked, 0))
        push.key_places.append(0)
        push.key_counts.append(len(names))
        self._first_entries.append((len(push.partition_ids), starts))
        self._add_entry(partition, payloads, segment.encode_extras(extras), None)
        push.keys.extend(dedup_keys(partition_id, names))
        push.key_entries.append(len(push.partition_ids))
        return True

    def _add_entry(
        self, partition: Partition, payloads: list[bytes], extras: bytes | None, ttl: float | None
    ) -> None:
        body, ends = segment.encode(payloads)
        push = self.push
        if (key := self._data_keys.get(partition.queue_id)) is not None:
            self._opened[len(push.partition_ids)] = body, ends, extras
            body, ends, extras = seal_segment(key, partition.partition_id, payloads, ends, extras)
        push.partition_ids.append(partition.partition_id)
        push.counts.append(len(payloads))
        push.bodies.append(body)
        push.ends.append(ends)
        push.extras.append(extras)
        push.ttls.append(ttl)

    def _add_key(
        self, key: bytes, entry: int, place_in_entry: int | None, marked: MessageExtras, place: int
    ) -> None:
        push = self.push
        self._keys.append((len(push.keys), marked, place))
        push.keys.append(key)
        if place_in_entry is not None and push.key_entries and push.key_entries[-1] == entry:
            first = push.key_places[-1]
            if first is not None and first + push.key_counts[-1] == place_in_entry:
                push.key_counts[-1] += 1
                return
        push.key_entries.append(entry)
        push.key_places.append(place_in_entry)
        push.key_counts.append(1)

    def _add_scheduled(self) -> None:
        """Add scheduled messages. Their keys refer to entries after the segments."""
        push = self.push
        for part, marked, place in self._held:
            held = marked.scheduled[-1 - place]
            push.scheduled_partition_ids.append(part.partition_id or 0)
            push.scheduled_delays.append(held.delay_seconds)
            push.scheduled_dues.append(held.due_at)
            payload, extra = held.payload, held.extra
            if (key := self._data_keys.get(self._queue_of.get(part.name, 0))) is not None:
                (payload,), (extra,) = seal(key, part.partition_id or 0, [payload], [extra])
            push.scheduled_payloads.append(payload)
            push.scheduled_extras.append(extra)
            push.scheduled_ttls.append(held.ttl_seconds)
            if held.has_key:
                key = dedup_key(part.partition_id or 0, marked.transaction_ids[place])
                entry = len(push.partition_ids) + len(push.scheduled_partition_ids)
                self._add_key(key, entry, None, marked, place)

    def _add_outcomes(self) -> None:
        """Add the stored outcomes for repeats of the producers' requests."""
        push = self.push
        entries = {
            id(part): (entry, start)
            for entry, starts in self._first_entries
            for part, start in starts
        }
        units = (unit for unit in self.units if unit.producer is not None)
        for number, (unit, digest) in enumerate(zip(units, push.digests, strict=True), 1):
            outcome = None
            if digest is not None:
                outcome, bases = encode_outcome(unit, entries)
                push.base_producers += [number] * len(bases)
                push.base_entries += bases
            push.outcomes.append(outcome)

    def _cuts(self, payloads: list[bytes], ttls: dict[int, float]) -> Iterator[tuple[int, int]]:
        """Where a partition's messages are split into segments: by size and TTL."""
        count = len(payloads)
        most_bytes = self._settings.segment_max_bytes
        most = self._settings.segment_max_messages
        if not ttls and count <= most and sum(map(len, payloads)) <= most_bytes:
            if count:
                yield 0, count
            return
        first = size = 0
        for index, each in enumerate(payloads):
            is_full = size + len(each) > most_bytes or index - first >= most
            if index > first and (is_full or ttls.get(index) != ttls.get(first)):
                yield first, index
                first, size = index, 0
            size += len(each)
        if count:
            yield first, count

    def place(self, stored: Sequence[rows.Record], segments: SegmentCache) -> None:
        """After everything was stored: set the position of each part and cache the segments."""
        push = self.push
        bases: list[int] = [0] * len(push.partition_ids)
        for row in stored:
            entry: int = row["ordinal"] - 1
            base: int = row["offset"]
            bases[entry] = base
            body, ends, extras = self._opened.get(entry) or (
                push.bodies[entry],
                push.ends[entry],
                push.extras[entry],
            )
            kept = segment.Segment(
                xid=row["xid"], count=push.counts[entry], body=body, ends=ends, extras=extras
            )
            segments.put(push.partition_ids[entry], base, kept)
        # The segments of a partition are consecutive, so the first base gives the positions of all
        # its parts.
        for entry, starts in self._first_entries:
            for part, start in starts:
                part.base = bases[entry] + start

    def without(self, problems: Sequence[rows.Record], catalogue: Catalogue) -> list[PendingPush]:
        """Finish rejected messages, and return the units to send again."""
        gone: set[int] = set()
        concluded: set[int] = set()
        partition_ids = self.push.partition_ids + self.push.scheduled_partition_ids
        with_producer = [unit for unit in self.units if unit.producer is not None]
        for row in problems:
            at: int = row["ordinal"] - 1
            if row["kind"] == "duplicate":
                start, marked, place = self._keys[bisect_right(self._keys, at, key=_start) - 1]
                marked.duplicates[place + at - start] = row["offset"]
            elif row["kind"] == "producer":
                unit = with_producer[at]
                concluded.add(id(unit))
                if row["code"] and unit.producer is not None:
                    unit.fail(stale(unit.producer))
                else:
                    unit.is_replayed = True
                    unit.finish()
            elif row["kind"] == "behind":
                continue  # The writer reads the blocks before it sends the units again.
            elif row["kind"] == "plain":
                # Encryption was turned on since the options were read: read them again and encrypt.
                catalogue.forget_options(self.queue_ids)
            elif row["kind"] == "scheduled":
                part, marked, place = self._held[at]
                error = errors.InvalidItem("availableAt is too far ahead")
                marked.refused[place] = Pushed(status="failed", code=error.code, error=str(error))
                for unit in with_producer:
                    if part in unit.parts:
                        concluded.add(id(unit))
                        unit.fail(error)
            else:
                gone.add(partition_ids[at])
        if gone:
            catalogue.forget_partitions(gone)
        return [unit for unit in self.units if id(unit) not in concluded]
