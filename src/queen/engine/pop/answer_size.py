"""How much one answer carries: what is too much goes back before anybody has seen it."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from queen.engine.core import Core
from queen.engine.pop.delivery import Delivery
from queen.engine.pop.waiters import PendingPop
from queen.store import messages as rows

LENT_SECONDS: Final = 30.0
"""How long a claim that is to be settled at once is lent for: if this process dies meanwhile."""


class AnswerSizer:
    """Keeps the payloads of an answer within the bound; one message always fits."""

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._signals = core.signals
        settings = core.settings
        self._max_bytes = settings.max_pop_bytes
        self._safe_batch = max(1, settings.max_pop_bytes // settings.max_payload_bytes)

    def is_lent(self, units: Sequence[PendingPop]) -> bool:
        """
        Whether pops with auto-ack must be lent what they ask for.

        What is settled by its claim cannot go back. So a pop that may get more than an answer
        carries has it lent first, and settled, durably, once it is known how much that is.
        """
        return any(unit.request.batch > self._safe_batch for unit in units)

    async def fit(
        self, units: Sequence[PendingPop], served: list[list[Delivery]], *, is_lent: bool
    ) -> list[list[Delivery]]:
        """
        What each unit is answered.

        The rest is given back before that: whoever acks its lease settles all that is out.
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
            found = await self._store.messages.shorten([(*_pair(d), end) for d, end in shortened])
            lost = {id(d) for (d, _), row in zip(shortened, found, strict=True) if row["code"]}
            fitting = [[d for d in each if id(d) not in lost] for each in fitting]
        if back:
            await self._store.messages.release([_pair(delivery) for delivery in back])
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
        """Ack what is answered; a lease that was lost meanwhile takes its messages out."""
        acks = [rows.Ack(*_pair(each), None) for deliveries in lent for each in deliveries]
        if not acks:
            return lent
        settled = iter(await self._store.messages.ack(acks))
        answers: list[list[Delivery]] = []
        for deliveries in lent:
            answers.append([each for each in deliveries if next(settled)["code"] is None])
            for each in deliveries:
                each.lease = each.until = None
        self._signals.groups_ready({each.group_id for deliveries in answers for each in deliveries})
        return answers


def _pair(delivery: Delivery) -> tuple[int, UUID]:
    assert delivery.lease is not None
    return delivery.lease.delivery_id, delivery.lease.token
