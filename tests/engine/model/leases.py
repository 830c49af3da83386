"""The lease rules of the model: acknowledge, fail, extend and release deliveries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.engine.model.state import Delivery, Group, Held, Letter, Pair, Queue, due_after


class Leases:
    """All queues of one test program, and the operations of lease holders."""

    def __init__(self, queues: Mapping[str, Queue]) -> None:
        self.now = 0
        self.queues = dict(queues)

    def held(self) -> list[Held]:
        """All current leases, oldest place first."""
        return [
            Held(name, group, partition, delivery)
            for name, queue in self.queues.items()
            for group, partition, pair in queue.places()
            for delivery in pair.deliveries
            if delivery.is_held
        ]

    def ack(self, held: Held, offsets: Sequence[int] | None = None) -> int:
        """Settle the given messages of a delivery in any order, and return their number."""
        named = held.delivery.out if offsets is None else set(offsets)
        done = [offset for offset in held.delivery.out if offset in named]
        self._settle(self.queues[held.queue], self._pair(held), held.delivery, done)
        return len(done)

    def nack(self, held: Held, offset: int, status: str, error: str | None) -> None:
        """Return one message to the queue (failed, retry) or dead-letter it (dlq)."""
        self._fail(
            self.queues[held.queue],
            held.group,
            held.partition,
            held.delivery,
            offset,
            status,
            error=error,
            base=self.now,
        )

    def extend(self, held: Held, seconds: int) -> None:
        held.delivery.until = max(held.delivery.until, self.now + seconds)

    def release(self, held: Held) -> None:
        self._give_back(held.delivery, self.now)

    def _pair(self, held: Held) -> Pair:
        return self.queues[held.queue].pair(held.group, held.partition)

    def _settle(self, queue: Queue, pair: Pair, delivery: Delivery, offsets: Sequence[int]) -> None:
        done = set(offsets)
        delivery.pending = [each for each in delivery.pending if each not in done]
        delivery.out = [each for each in delivery.out if each not in done]
        if not delivery.pending:
            self._end(queue, pair, delivery)
        elif not delivery.out:
            delivery.head, delivery.failures = None, 0
            self._give_back(delivery, self.now)

    def _give_back(self, delivery: Delivery, until: int) -> None:
        delivery.lease_id = None
        delivery.out = []
        delivery.until = until

    def _end(self, queue: Queue, pair: Pair, delivery: Delivery) -> None:
        pair.deliveries.remove(delivery)
        if queue.is_ordered:
            waiting = [each for each in pair.deliveries if each.is_parked]
            if waiting:
                parked = min(waiting, key=lambda each: each.pending[0])
                parked.is_parked = False
                parked.until = max(parked.until, self.now)

    def _fail(
        self,
        queue: Queue,
        group: Group,
        partition: str,
        delivery: Delivery,
        offset: int,
        kind: str,
        *,
        error: str | None,
        base: int,
    ) -> None:
        pair = queue.pair(group, partition)
        failures = delivery.failures if offset == delivery.head else 0
        if kind in ("failed", "expired"):
            failures += 1
        # The holder keeps the rest if only this message leaves.
        is_over = kind == "expired" or (queue.is_ordered and kind != "dlq")

        if kind == "dlq" or (kind != "retry" and failures > queue.retry_limit):
            # An existing dead letter stays unchanged.
            queue.letters.setdefault(
                (group, partition, offset),
                Letter(
                    queue.partitions[partition][offset],
                    None if kind == "dlq" else failures,
                    error,
                ),
            )
            if is_over and len(delivery.pending) > 1:
                delivery.pending.remove(offset)
                delivery.head, delivery.failures = None, 0
                self._give_back(delivery, self.now)
            else:
                self._settle(queue, pair, delivery, [offset])
            return

        due = self.now if kind == "retry" else due_after(base, failures)
        before = [each for each in delivery.pending if each < offset]
        if queue.is_ordered and before:
            # Unsettled messages before it come first, and the message waits behind them.
            rest = delivery.pending[len(before) :]
            pair.deliveries.append(
                Delivery(rest, due, head=offset, failures=failures, is_parked=True)
            )
            delivery.pending = before
            self._give_back(delivery, self.now)
            return
        if queue.is_ordered or delivery.pending == [offset]:
            delivery.head, delivery.failures = offset, failures
            self._give_back(delivery, due)
            return
        pair.deliveries.append(Delivery([offset], due, head=offset, failures=failures))
        delivery.pending.remove(offset)
        delivery.out.remove(offset)
        if is_over or not delivery.out:
            self._give_back(delivery, self.now)
