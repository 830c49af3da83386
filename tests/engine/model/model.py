"""An in-memory model of the delivery rules, which shares no code with the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.engine.model.leases import Leases
from tests.engine.model.state import (
    DEDUP_SECONDS,
    LEASE_SECONDS,
    Delivery,
    Got,
    Group,
    Held,
    Item,
    Message,
    Pair,
    Queue,
    Refused,
    Stored,
)


def _common(some: Sequence[int], others: Sequence[int]) -> int:
    """The length of the common prefix."""
    pairs = zip(some, others, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(some), len(others)))


class Model(Leases):
    """All queues of one test program: pushes, pops, lease holders and operators."""

    def __init__(self, queues: Mapping[str, Queue]) -> None:
        super().__init__(queues)
        self.sequences: dict[str, int] = {}
        self.requests: dict[str, tuple[str, list[Item]] | None] = {}
        """The last push of a producer, or None if it was a transaction."""

    # --- push

    def push(
        self,
        queue: str,
        items: Sequence[Item],
        *,
        producer_id: str | None = None,
        sequence: int | None = None,
    ) -> list[Stored] | None:
        """One result per item, or None if the sequence was already stored."""
        self._name(queue, items)
        if producer_id is not None and sequence is not None:
            last = self.sequences.get(producer_id, -1)
            if sequence < last:
                raise Refused("sequence_stale")
            if sequence == last and self.requests[producer_id] == (queue, list(items)):
                return None
            if sequence == last:
                raise Refused("sequence_reused")
            self.sequences[producer_id] = sequence
            self.requests[producer_id] = (queue, list(items))
        return [self._store(self.queues[queue], item) for item in items]

    def _name(self, queue: str, items: Sequence[Item]) -> None:
        """Create the queue and partitions that a push names, even if the push then fails."""
        for item in items:
            self.queues[queue].add_partition(item.partition)

    def _store(self, queue: Queue, item: Item) -> Stored:
        log = queue.partitions[item.partition]
        if (known := self._known(queue, item)) is not None:
            return Stored("duplicate", known)
        if item.transaction_id is not None:
            queue.keys[item.partition, item.transaction_id] = (len(log), self.now)
        log.append(Message(item.payload, item.transaction_id))
        return Stored("queued", len(log) - 1)

    def _known(self, queue: Queue, item: Item) -> int | None:
        """The offset of the first message with this transactionId, inside the dedup window."""
        if item.transaction_id is None:
            return None
        known = queue.keys.get((item.partition, item.transaction_id))
        return known[0] if known and self.now - known[1] < DEDUP_SECONDS else None

    def transact(
        self,
        acks: Sequence[tuple[Held, Sequence[int]]],
        queue: str,
        items: Sequence[Item],
        *,
        is_rolled_back_on_duplicate: bool = False,
        producer_id: str | None = None,
        sequence: int | None = None,
    ) -> list[Stored] | None:
        """Apply all acks and pushes, or no change at all."""
        self._name(queue, items)
        if producer_id is not None and sequence is not None:
            last = self.sequences.get(producer_id, -1)
            if sequence < last:
                raise Refused("sequence_stale")
            if sequence == last:
                raise Refused("sequence_reused")
        if is_rolled_back_on_duplicate and any(
            self._known(self.queues[queue], item) is not None for item in items
        ):
            raise Refused("duplicate")
        stored = self.push(queue, items, producer_id=producer_id, sequence=sequence)
        if producer_id is not None:
            self.requests[producer_id] = None
        for held, offsets in acks:
            self.ack(held, offsets)
        return stored

    # --- pop

    def pop(
        self,
        name: str,
        group: Group,
        *,
        partition: str | None,
        batch: int,
        partitions: int,
        is_auto: bool,
        got: Sequence[Got],
        current: set[str],
    ) -> None:
        """
        Check the result of a pop, and apply it to the model.

        A pop may choose any ready partitions. It may or may not notice an expired lease: `current`
        has the leases in force after the pop.
        """
        queue = self.queues[name]
        queue.add_group(group)
        scope = {
            place: pair
            for place, pair in queue.pairs[group].items()
            if partition is None or place == partition
        }
        if queue.is_paused:
            assert not got, f"a paused queue gave {got}"
            return

        freed = self._expire(queue, group, scope, current)
        # Messages that were available: a pop with room left must take all of them. Messages that
        # the
        # pop itself freed became ready after it began, so they don't count.
        before = {place: pair for place, pair in scope.items() if place not in freed}
        ready = [(place, each) for place, pair in before.items() for each in self._due(pair)]
        fresh = [place for place, pair in before.items() if self._has_new(queue, place, pair)]
        takes = 0
        for each in got:
            assert each.partition in scope, f"{each} is not of the partition asked for"
            assert (each.lease_id is None) == is_auto, f"auto-ack is {is_auto}: {each}"
            for part in self._parts(scope[each.partition], each):
                takes += 1
                taken = self._take(queue, scope[each.partition], part)
                if taken is None:
                    fresh = [place for place in fresh if place != each.partition]
                else:
                    ready = [(place, left) for place, left in ready if left is not taken]
        messages = sum(len(each.offsets) for each in got)
        assert messages <= batch, f"{messages} messages for a batch of {batch}"
        assert takes <= partitions, f"{takes} deliveries from {partitions} partitions"
        if messages < batch and takes < partitions:
            left = [place for place, _ in ready] + fresh
            assert not left, f"a pop with room left did not take what is ready in {left}"

    def _expire(
        self, queue: Queue, group: Group, scope: Mapping[str, Pair], current: set[str]
    ) -> set[str]:
        """
        End the expired leases that the pop found, and return the ordered pairs that this freed.
        """
        freed: set[str] = set()
        for partition, pair in scope.items():
            for delivery in list(pair.deliveries):
                if (
                    delivery.is_held
                    and delivery.until <= self.now
                    and delivery.lease_id not in current
                ):
                    self._fail(
                        queue,
                        group,
                        partition,
                        delivery,
                        delivery.out[0],
                        "expired",
                        error="the lease expired",
                        base=delivery.until,
                    )
                    if queue.is_ordered and delivery not in pair.deliveries:
                        freed.add(partition)
        return freed

    def _due(self, pair: Pair) -> list[Delivery]:
        """
        Deliveries that are due, and leases past their end, which a pop with room must have ended.
        """
        return [each for each in pair.deliveries if not each.is_parked and each.until <= self.now]

    def _has_new(self, queue: Queue, partition: str, pair: Pair) -> bool:
        is_free = not queue.is_ordered or not pair.deliveries
        return is_free and pair.claimed < len(queue.partitions[partition])

    def _parts(self, pair: Pair, got: Got) -> Iterator[Got]:
        """Split auto-acked messages into deliveries by their offsets, because there is no lease."""
        rest = got
        while got.lease_id is None and rest.offsets:
            counts = [
                count
                for each in self._due(pair)
                if not each.is_held
                and (count := _common(each.on_offer, rest.offsets))
                in (len(each.on_offer), len(rest.offsets))
            ]
            if not counts:
                break
            count = max(counts)
            yield rest._replace(offsets=rest.offsets[:count], payloads=rest.payloads[:count])
            rest = rest._replace(offsets=rest.offsets[count:], payloads=rest.payloads[count:])
        if rest.offsets or rest is got:
            yield rest

    def _take(self, queue: Queue, pair: Pair, got: Got) -> Delivery | None:
        """
        Apply one delivery. Returns the waiting delivery that it was, or None for new messages.
        """
        is_auto = got.lease_id is None
        log = queue.partitions[got.partition]
        count = len(got.offsets)
        assert count, f"an empty delivery: {got}"
        expected = tuple(log[offset].payload for offset in got.offsets)
        assert got.payloads == expected, f"{got.payloads} is not what was pushed: {expected}"

        waiting = [
            each
            for each in self._due(pair)
            if not each.is_held and tuple(each.on_offer[:count]) == got.offsets
        ]
        if waiting:
            # Only a copy and its original can look alike. Either may come first.
            matching = [each for each in waiting if each.failures + 1 == got.attempt]
            assert matching, f"attempt {got.attempt}, not {waiting[0].failures + 1}: {got}"
            delivery = matching[0]
            if not queue.is_ordered and len(delivery.pending) > count:
                rest = Delivery(delivery.pending[count:], self.now)
                delivery.pending = delivery.pending[:count]
                pair.deliveries.append(rest)
            self._lend(delivery, got)
            if is_auto:
                self._settle(queue, pair, delivery, got.offsets)
            return delivery

        assert self._has_new(queue, got.partition, pair), (
            f"{got} is neither new nor due: claimed {pair.claimed}, out {pair.deliveries}"
        )
        first = pair.claimed
        assert got.offsets == tuple(range(first, first + count)), f"{got}: claimed is {first}"
        assert got.attempt == 1, f"attempt {got.attempt} of new messages: {got}"
        pair.claimed += count
        if not is_auto:
            delivery = Delivery(list(got.offsets), self.now)
            self._lend(delivery, got)
            pair.deliveries.append(delivery)
        return None

    def _lend(self, delivery: Delivery, got: Got) -> None:
        delivery.lease_id = got.lease_id
        delivery.out = list(got.offsets)
        delivery.until = self.now + LEASE_SECONDS

    # --- operations of an operator

    def seek(self, name: str, group: Group, partition: str | None, offset: int | None) -> None:
        """Move a group in one partition or all. None moves to the end. Live leases are lost."""
        queue = self.queues[name]
        if group not in queue.pairs:
            raise Refused("group_not_found")
        if partition is not None and partition not in queue.partitions:
            raise Refused("partition_not_found")
        for place, pair in queue.pairs[group].items():
            if partition is not None and place != partition:
                continue
            end = len(queue.partitions[place])
            pair.claimed = end if offset is None else min(offset, end)
            self._keep_copies(queue, pair)
            for letter in queue.letters:
                if letter[:2] == (group, place):
                    if letter[2] >= pair.claimed:
                        queue.sought_back.add(letter)
                    else:
                        queue.sought_back.discard(letter)

    def _keep_copies(self, queue: Queue, pair: Pair) -> None:
        """Keep redriven messages due after a seek, unless the log delivers them again."""
        kept = [each for each in pair.deliveries if each.is_copy and each.pending[0] < pair.claimed]
        kept.sort(key=lambda each: (each.is_parked, each.pending[0]))
        for at, each in enumerate(kept):
            was_out = each.is_held or each.is_parked
            each.is_parked = queue.is_ordered and at > 0
            self._give_back(each, self.now if was_out else each.until)
        pair.deliveries[:] = kept

    def redrive(self, name: str, letter: tuple[Group, str, int]) -> None:
        """
        Redeliver a dead letter from attempt 1, behind the claimed messages of an ordered pair.
        """
        queue = self.queues[name]
        group, partition, offset = letter
        pair = queue.pair(group, partition)
        del queue.letters[letter]
        queue.sought_back.discard(letter)
        if offset >= pair.claimed or any(offset in each.pending for each in pair.deliveries):
            return  # A seek already made the message deliverable, so only the dead letter goes.
        is_parked = queue.is_ordered and bool(pair.deliveries)
        pair.deliveries.append(Delivery([offset], self.now, is_copy=True, is_parked=is_parked))
