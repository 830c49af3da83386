"""Transactions: acks, pushes and workflow steps, applied together or not at all."""

import contextlib
from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from queen import errors
from queen.codec.ids import Lease
from queen.codec.names import check_queue_name
from queen.engine.core import Core
from queen.engine.push.batches import (
    ForwardedResult,
    PartitionBatch,
    PendingPush,
    PushResult,
)
from queen.engine.push.layout import SegmentLayout
from queen.engine.push.producers import Producer
from queen.engine.push.pusher import Pusher, failed_item
from queen.engine.push.writer import Writer, contended
from queen.engine.settle.acknowledgments import Acknowledger
from queen.engine.sources import step_messages
from queen.engine.sources.outbox_items import columns_of
from queen.engine.sources.workflows import Workflows
from queen.store import messages as rows
from queen.wire.messages import Acknowledgment, PushItem
from queen.wire.transactions import AdvanceOperation

_SETTLED: Final = ("acked", "nacked", "buried", "dropped")
"""Kinds of rows about a settled message."""
_APPLIED: Final = ("stored", *_SETTLED, "advanced", "ended", "stale")
"""Kinds of rows of a transaction that was applied."""


class _Call(NamedTuple):
    """The parts of a transaction besides messages."""

    settlements: list[rows.Settlement]
    leases: list[tuple[int, UUID]]
    steps: list[rows.Advance]
    forwards: Sequence[object]
    """Columns of items for other databases."""
    is_rolled_back_on_duplicate: bool


class _Concluded(Exception):
    """The transaction needs no further attempt."""


def _lease(acknowledgment: Acknowledgment) -> Lease:
    """The lease of an acknowledgment, or one that never matches."""
    with contextlib.suppress(errors.LeaseLost):
        if acknowledgment.lease_id is not None:
            return Lease.parse(acknowledgment.lease_id)
    return Lease(0, UUID(int=0))


def _stale(answer: Sequence[rows.Record]) -> set[int]:
    """The advances that were too late for their step."""
    return {row["ordinal"] - 1 for row in answer if row["kind"] == "stale"}


class Transactions:
    """Each transaction is one call, so its checks still hold when it is applied."""

    def __init__(
        self,
        core: Core,
        pusher: Pusher,
        acknowledger: Acknowledger,
        workflows: Workflows,
    ) -> None:
        self._core = core
        self._writer = Writer(core)
        self._store = core.store
        self._settings = core.settings
        self._catalogue = core.catalogue
        self._sealer = core.sealer
        self._pusher = pusher
        self._acknowledger = acknowledger
        self._workflows = workflows

    async def transact(
        self,
        *,
        acknowledgments: Sequence[Acknowledgment] = (),
        items: Sequence[PushItem] = (),
        forwarded: Sequence[int] = (),
        hindrance: errors.QueenError | None = None,
        advances: Sequence[AdvanceOperation] = (),
        required_leases: Sequence[str] = (),
        consumer_group: str | None = None,
        is_rolled_back_on_duplicate: bool = False,
        producer: Producer | None = None,
    ) -> PushResult:
        """
        Apply all of it, or raise the first error without a change.

        ``forwarded``: the indexes of items to send to other databases, which have checked them.
        ``hindrance``: why they can't be sent, unless this is a repeat.
        """
        if len(advances) > len(acknowledgments):
            # The lease decides which of several workers may settle the step.
            raise errors.BadRequest("a step needs the ack of its message in the same call")
        steps = self._workflows.advances(advances)
        try:
            settlements = await self._resolve(acknowledgments, consumer_group)
        except (errors.LeaseLost, errors.AlreadySettled, errors.MessageNotFound):
            if (first := await self._pusher.repeat(producer, items)) is None:
                raise
            # The first attempt of this request has settled these messages.
            return first
        if len({(each.delivery_id, each.offset) for each in settlements}) < len(settlements):
            raise errors.BadRequest("a message is acknowledged twice")
        if steps:
            try:
                await step_messages.require_acks(self._store, self._sealer, steps, settlements)
            except errors.BadRequest:
                if (first := await self._pusher.repeat(producer, items)) is None:
                    raise
                return first  # Its messages are not kept any more.
        leases = [(each.delivery_id, each.token) for each in map(Lease.parse, required_leases)]
        parts, problem = await self._prepare(items, forwarded, producer)
        if problem := hindrance or problem:
            if (first := await self._pusher.repeat(producer, items)) is not None:
                # They are stored. Changes to the queue since then don't matter.
                return first
            raise problem
        unit = PendingPush(parts, producer=producer, forwarded=forwarded)
        forwards = columns_of([items[at] for at in forwarded])
        call = _Call(settlements, leases, steps, forwards, is_rolled_back_on_duplicate)
        answer = await self._apply(unit, call)
        if answer is None:
            unit.done.result()  # Raises if the sequence is stale.
            assert producer is not None
            return await self._pusher.repeated(producer, items)
        self._count(answer, [_lease(each) for each in acknowledgments])
        self._end(answer, steps)
        names = {at: items[at].transaction_id for at in forwarded}
        return ForwardedResult(len(items), parts, names, _stale(answer))

    async def check_steps(
        self,
        acknowledgments: Sequence[Acknowledgment],
        advances: Sequence[AdvanceOperation],
        consumer_group: str | None,
    ) -> None:
        """Raise unless these acknowledgments can be applied and are of the steps' messages."""
        settlements = await self._resolve(acknowledgments, consumer_group)
        steps = self._workflows.advances(advances)
        await step_messages.require_acks(self._store, self._sealer, steps, settlements)

    async def advance(self, advances: Sequence[AdvanceOperation]) -> set[int]:
        """Advance steps whose messages are in another database. Returns the stale ones."""
        steps = self._workflows.advances(advances)
        answer = await self._store.messages.transact([], [], rows.Push(), steps)
        self._end(answer, steps)
        return _stale(answer)

    def _end(self, answer: Sequence[rows.Record], steps: Sequence[rows.Advance]) -> None:
        """Wake waiters for the workflows that have ended."""
        ended: list[int] = [row["ordinal"] for row in answer if row["kind"] == "ended"]
        self._core.signals.workflows_ended([steps[ordinal - 1].workflow for ordinal in ended])

    async def _apply(self, unit: PendingPush, call: _Call) -> list[rows.Record] | None:
        """The rows of the applied transaction, or None if it was applied before."""

        async def send(push: rows.Push) -> list[rows.Record]:
            return await self._store.messages.transact(
                call.settlements, call.leases, push, call.steps, call.forwards
            )

        async def retry(
            layout: SegmentLayout, problems: Sequence[rows.Record]
        ) -> list[PendingPush]:
            self._judge(problems)
            left = layout.without(problems, self._catalogue)
            self._judge_items(unit.parts, problems, call.is_rolled_back_on_duplicate)
            if not left:
                raise _Concluded
            return left

        try:
            answer = await self._writer.write([unit], send, retry=retry, applied=_APPLIED)
        except _Concluded:
            return None
        if answer is None:
            raise contended("the transaction")
        return answer

    def _count(self, answer: Sequence[rows.Record], leases: Sequence[Lease]) -> None:
        """Count settled messages, and wake waiters for queue capacity or for an outcome."""
        # The column of the offset contains the group.
        settled = [row for row in answer if row["kind"] in _SETTLED]
        self._core.signals.groups_ready({row["offset"] for row in settled})
        self._core.signals.settled()
        for row in settled:
            number: int = row["ordinal"] - 1
            claimed_ms = leases[number].claimed_ms
            self._core.counters.count_settled(row["offset"], row["kind"], claimed_ms)

    async def _prepare(
        self, items: Sequence[PushItem], forwarded: Sequence[int], producer: Producer | None
    ) -> tuple[list[PartitionBatch], errors.QueenError | None]:
        """The parts for this database, and the error of the first rejected item."""
        left = {*forwarded}
        chosen = [at for at in range(len(items)) if at not in left]
        if not chosen:
            return [], None
        try:
            parts, refused = await self._pusher.prepare(items, chosen=chosen, producer=producer)
        except errors.InvalidName as error:
            if "failed" not in error.members:
                # Queue names are checked before items, so the error does not name the item.
                error.members["failed"] = ("item", self._first_misnamed(items))
            raise
        return parts, failed_item(refused) if refused else None

    def _first_misnamed(self, items: Sequence[PushItem]) -> int:
        for index, item in enumerate(items):
            try:
                check_queue_name("queue", item.queue, self._settings.max_name_bytes)
            except errors.InvalidName:
                return index
        return 0

    async def _resolve(
        self, acknowledgments: Sequence[Acknowledgment], group: str | None
    ) -> list[rows.Settlement]:
        """The settlement of each acknowledgment. Raises for the first that cannot be applied."""
        settlements: list[rows.Settlement] = []
        if not acknowledgments:
            return settlements
        for index, meant in enumerate(await self._acknowledger.resolve(acknowledgments, group)):
            if isinstance(meant, rows.Settlement):
                settlements.append(meant)
                continue
            each = acknowledgments[index]
            error = meant or errors.AlreadySettled(
                f"message {each.id or each.transaction_id!r} is not leased any more"
            )
            error.members["failed"] = ("ack", index)
            raise error
        return settlements

    def _judge(self, problems: Sequence[rows.Record]) -> None:
        for row in problems:
            if row["kind"] in ("nack", "lease"):
                error = errors.of_sqlstate(row["code"]) or errors.LeaseLost
                number: int = row["ordinal"] - 1
                is_lease = row["kind"] == "lease"
                what = "a required lease is over" if is_lease else "an ack was refused"
                raise error(
                    f"{what}, so nothing of the transaction was applied",
                    **({} if is_lease else {"failed": ("ack", number)}),
                )

    def _judge_items(
        self,
        parts: Sequence[PartitionBatch],
        problems: Sequence[rows.Record],
        is_rolled_back_on_duplicate: bool,
    ) -> None:
        """Raise for the first rejected item, or for a duplicate if duplicates are rejected."""
        kinds = {row["kind"] for row in problems}
        marks = [(part, part.marked) for part in parts if part.marked is not None]
        if "scheduled" in kinds:
            items = [part.item_at(place) for part, marked in marks for place in marked.refused]
            raise errors.InvalidItem("availableAt is too far ahead", failed=("item", min(items)))
        if "duplicate" in kinds and is_rolled_back_on_duplicate:
            items = [part.item_at(place) for part, marked in marks for place in marked.duplicates]
            raise errors.Duplicate(
                "a transactionId of the transaction was used before", failed=("item", min(items))
            )
