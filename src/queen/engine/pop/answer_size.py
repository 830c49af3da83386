"""The size limit of a response: messages beyond it are returned to the queue unread."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from queen.engine.core import Core
from queen.engine.pop.delivery import Delivery
from queen.engine.pop.waiters import PendingPop
from queen.engine.runtime.moved_slots import without_moved
from queen.store import messages as rows

LENT_SECONDS: Final = 30.0
"""The lease of a claim that is acknowledged right after. It ends if this process dies."""


class AnswerSizer:
    """Keeps the payloads of a response within the limit. One message always fits."""

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._signals = core.signals
        settings = core.settings
        self._max_bytes = settings.max_pop_bytes
        self._safe_batch = max(1, settings.max_pop_bytes // settings.max_payload_bytes)

    def is_lent(self, units: Sequence[PendingPop]) -> bool:
        """
        Return whether pops with auto-ack need a lease first.

        Messages that the claim acknowledges cannot go back. So a pop that may exceed the limit gets
        a lease, and the messages in its response are acknowledged durably afterwards.
        """
        return any(unit.request.batch > self._safe_batch for unit in units)

    async def fit(
        self, units: Sequence[PendingPop], served: list[list[Delivery]], *, is_lent: bool
    ) -> list[list[Delivery]]:
        """
        The deliveries in the response to each unit.

        The rest goes back before the response, because an ack of the lease acknowledges all its
        messages.
        """
        shortened: list[tuple[Delivery, int]] = []
        back: list[Delivery] = []
        fitting: list[list[Delivery]] = []
        for unit, deliveries in zip(units, served, strict=True):
            if is_lent and unit.answer.done():
                back.extend(deliveries)
                fitting.append([])
            else:
                fitting.append(self._cut(deliveries, shortened, back))
        if shortened:
            ends = [(*_pair(d), end) for d, end in shortened]
            found = await without_moved(ends, lambda end: end[0], self._store.messages.shorten)
            pairs = zip(shortened, found, strict=True)
            lost = {id(d) for (d, _), row in pairs if row is None or row["code"]}
            fitting = [[d for d in each if id(d) not in lost] for each in fitting]
        if back:
            leases = [_pair(delivery) for delivery in back]
            await without_moved(leases, lambda lease: lease[0], self._store.messages.release)
        if shortened or back:
            self._signals.groups_ready(
                {each.group_id for each in (*back, *(d for d, _ in shortened))}
            )
        return await self._settle(fitting) if is_lent else fitting

    def _cut(
        self,
        deliveries: list[Delivery],
        shortened: list[tuple[Delivery, int]],
        back: list[Delivery],
    ) -> list[Delivery]:
        left = self._max_bytes
        kept: list[Delivery] = []
        for at, delivery in enumerate(deliveries):
            size_bytes = delivery.size_bytes
            if size_bytes > left and delivery.lease is not None:
                count = len(delivery)
                end = delivery.shorten(left, is_first=not kept)
                if end is not None:
                    kept.append(delivery)
                    if len(delivery) < count:
                        shortened.append((delivery, end))
                back.extend(deliveries[at + (end is not None) :])
                break
            kept.append(delivery)
            left -= size_bytes
        return kept

    async def _settle(self, lent: list[list[Delivery]]) -> list[list[Delivery]]:
        """Acknowledge the delivered messages. Drops deliveries whose lease was lost meanwhile."""
        acks = [rows.Ack(*_pair(each), None) for deliveries in lent for each in deliveries]
        if not acks:
            return lent
        settled = iter(
            await without_moved(acks, lambda ack: ack.delivery_id, self._store.messages.ack)
        )
        answers: list[list[Delivery]] = []
        for deliveries in lent:
            answers.append([each for each in deliveries if _is_settled(next(settled))])
            for each in deliveries:
                each.lease = each.until = None
        self._signals.groups_ready({each.group_id for deliveries in answers for each in deliveries})
        return answers


def _is_settled(row: rows.Record | None) -> bool:
    return row is not None and row["code"] is None


def _pair(delivery: Delivery) -> tuple[int, UUID]:
    assert delivery.lease is not None
    return delivery.lease.delivery_id, delivery.lease.token
