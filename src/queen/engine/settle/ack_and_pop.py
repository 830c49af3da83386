"""Acknowledgments that a consumer sends with its next pop, in one transaction with it."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from queen import errors
from queen.engine.pop.delivery import Delivery
from queen.engine.pop.popper import Popper
from queen.engine.settle.acknowledgments import Acknowledger
from queen.engine.settle.settler import Settler
from queen.store import messages as rows
from queen.wire.messages import Acknowledged, Acknowledgment, PopRequest

_ATTEMPTS = 3
"""A combined call waits only a moment for a lock."""

Settled = list[list[rows.Record] | BaseException]


class _Transaction(NamedTuple):
    """The results of a transaction that settles messages and claims the next ones."""

    acknowledged: list[Acknowledged]
    popped: list[Delivery]
    was_searched: bool


class AckAndPop:
    """Settles messages and claims the next ones in one transaction."""

    def __init__(self, acknowledger: Acknowledger, settler: Settler, popper: Popper) -> None:
        self._acknowledger = acknowledger
        self._settler = settler
        self._popper = popper

    async def run(
        self,
        request: PopRequest,
        acknowledgments: Sequence[Acknowledgment],
        group: str | None,
        results: "asyncio.Future[list[Acknowledged]] | None" = None,
    ) -> tuple[list[Acknowledged], list[Delivery]]:
        """
        One result per acknowledgment, and the deliveries.

        ``results`` gets the results of the acknowledgments, also if this call is cancelled.

        Rejected acknowledgments don't prevent the pop. If the transaction claims nothing, the pop
        waits as usual. Without anything to settle, it is an ordinary pop. A pop that raises after
        the transaction leaves the messages settled, so a repeated call reports them as such.

        Cancelled while messages are being acknowledged automatically, it raises OutcomeUnknown.
        """
        # A task of its own: its deliveries are returned even if this call is cancelled.
        task = self._popper.spawn(self._transact(request, acknowledgments, group))
        if results is not None:
            task.add_done_callback(partial(_report, results))
        try:
            acknowledged, popped, was_searched = await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(self._give_back)
            if request.auto_ack:
                raise errors.OutcomeUnknown(
                    "This pop ended during a search, which may have acknowledged its messages."
                ) from None
            raise
        if not popped and (request.wait or not was_searched):
            try:
                popped = await self._popper.pop(request)
            except errors.SlotMoved:
                if not any(each.success for each in acknowledged):
                    raise
                # The error means that the request was not applied. The next pop raises it.
        return acknowledged, popped

    async def _transact(
        self,
        request: PopRequest,
        acknowledgments: Sequence[Acknowledgment],
        group: str | None,
    ) -> _Transaction:
        popped: list[Delivery] = []
        was_searched = False

        async def settle(deliveries: Sequence[Sequence[rows.Settlement]]) -> Settled:
            nonlocal was_searched
            settled: Settled | None = None

            async def send(pop: rows.Pop) -> list[rows.Record]:
                nonlocal settled
                settled, found = await self._send(deliveries, pop)
                return found

            try:
                popped.extend(await self._popper.claim_with(request, send))
            except (errors.Overloaded, errors.SlotMoved):
                if settled is not None:
                    raise
            # The queue doesn't exist, or a row was locked for longer than a combined call waits, or
            # a slot has moved: that of some messages, or that of the pop.
            if settled is None:
                return await self._settler.settle(deliveries)
            was_searched = True
            return settled

        acknowledged = await self._acknowledger.acknowledge(acknowledgments, group, settle=settle)
        return _Transaction(acknowledged, popped, was_searched)

    def _give_back(self, task: asyncio.Task[_Transaction]) -> None:
        """Return the deliveries of a transaction whose caller is gone."""
        if not task.cancelled() and task.exception() is None and task.result().popped:
            self._popper.spawn(self._popper.give_back(task.result().popped))

    async def _send(
        self, deliveries: Sequence[Sequence[rows.Settlement]], pop: rows.Pop
    ) -> tuple[Settled, list[rows.Record]]:
        for _ in range(_ATTEMPTS - 1):
            try:
                return await self._settler.settle_and_pop(deliveries, pop)
            except errors.Overloaded:
                continue
        return await self._settler.settle_and_pop(deliveries, pop)


def _report(
    results: "asyncio.Future[list[Acknowledged]]", task: asyncio.Task[_Transaction]
) -> None:
    if results.done():
        return
    if task.cancelled():
        results.cancel()
    elif (error := task.exception()) is not None:
        results.set_exception(error)
        results.exception()  # Usually the call itself raises it.
    else:
        results.set_result(task.result().acknowledged)
