"""Acknowledgments by message id or transactionId, each with its own outcome."""

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final
from uuid import UUID

import msgspec

from queen import errors
from queen.codec.ids import Lease, id_of, place_of, places_of
from queen.codec.names import QUEUE_MODE, check_name
from queen.engine.core import Core
from queen.engine.runtime.moved_slots import slot_of
from queen.engine.settle.results import Results
from queen.engine.settle.settler import Settler, refusal
from queen.store import messages as rows
from queen.wire.messages import Acknowledged, Acknowledgment

KINDS: Final = {
    "completed": "completed",
    "success": "completed",
    "acked": "completed",
    "ok": "completed",
    "failed": "failed",
    "retry": "retry",
    "dlq": "dead",
}
"""Statuses of the API and their names in the database."""
Settle = Callable[
    [Sequence[Sequence[rows.Settlement]]], Awaitable[list[list[rows.Record] | BaseException]]
]
_COMPLETED: Final = frozenset(word for word, kind in KINDS.items() if kind == "completed")


class Acknowledger:
    """Finds the deliveries, settles them, and returns one result per message."""

    def __init__(self, core: Core, settler: Settler, results: Results) -> None:
        self._store = core.store
        self._settings = core.settings
        self._settler = settler
        self._results = results

    async def acknowledge(
        self,
        acknowledgments: Sequence[Acknowledgment],
        group: str | None = None,
        *,
        settle: Settle | None = None,
    ) -> list[Acknowledged]:
        """
        Settle messages. Returns one result each.

        ``settle``: makes the call, maybe with other changes in its transaction.
        """
        if not 0 < len(acknowledgments) <= self._settings.max_items:
            raise errors.TooManyItems(
                f"a call takes 1 to {self._settings.max_items} acknowledgments"
            )
        if group:
            check_name("consumerGroup", group, self._settings.max_name_bytes)
        answers = None if settle else await self._complete(acknowledgments)
        if answers is None:
            answers = await self._settle(acknowledgments, group, settle or self._settler.settle)
        if answers[0].code is not None or any(answer.code is not None for answer in answers):
            await self._say_settled(acknowledgments, group, answers)
        return answers

    async def _complete(
        self, acknowledgments: Sequence[Acknowledgment]
    ) -> list[Acknowledged] | None:
        """The fast path for a successful batch of one delivery. Returns None otherwise."""
        meant = _one_delivery(acknowledgments)
        if meant is None:
            return None
        lease, partition_id, offsets = meant
        self._check_texts(acknowledgments[0])
        kept: list[tuple[int, rows.Kept]] = []
        if any(each.result is not msgspec.UNSET for each in acknowledgments):
            results = await self._results.kept([(partition_id, each) for each in acknowledgments])
            kept = [(at, each) for at, each in zip(offsets, results, strict=True) if each]
        row = await self._settler.complete(lease, partition_id, offsets, kept)
        if row["refused"] is not None:
            settlements = [
                rows.Settlement(
                    lease.delivery_id,
                    lease.token,
                    partition_id,
                    offset,
                    "completed",
                    None,
                    None,
                    lease.claimed_ms,
                )
                for offset in offsets
            ]
            records = await self._settler.each(row, settlements)
            return list(map(_answer, acknowledgments, settlements, records))
        if row["code"] is not None:
            error = refusal(row["code"])
            return [_refused(each, error) for each in acknowledgments]
        is_over = bool(row["is_over"])
        return [
            Acknowledged(transaction_id=each.transaction_id, success=True, lease_released=is_over)
            for each in acknowledgments
        ]

    async def _settle(
        self, acknowledgments: Sequence[Acknowledgment], group: str | None, settle: Settle
    ) -> list[Acknowledged]:
        answers: dict[int, Acknowledged] = {}
        by_lease: dict[tuple[int, UUID], list[tuple[int, rows.Settlement]]] = {}
        seen: set[tuple[int, int]] = set()
        meant = await self.resolve(acknowledgments, group)
        if isinstance(meant[0], errors.SlotMoved) and all(
            isinstance(each, errors.SlotMoved) for each in meant
        ):
            raise meant[0]
        for index, (each, settlement) in enumerate(zip(acknowledgments, meant, strict=True)):
            if isinstance(settlement, errors.InvalidStatus | errors.BadRequest):
                raise settlement
            if isinstance(settlement, errors.ApiError):
                answers[index] = _refused(each, settlement)
                continue
            if settlement is None:
                answers[index] = Acknowledged(
                    transaction_id=each.transaction_id, success=True, noop=True
                )
                continue
            if (settlement.delivery_id, settlement.offset) in seen:
                raise errors.BadRequest(
                    f"message {each.id or each.transaction_id} is acknowledged twice"
                )
            seen.add((settlement.delivery_id, settlement.offset))
            pair = (settlement.delivery_id, settlement.token)
            by_lease.setdefault(pair, []).append((index, settlement))
        if by_lease:
            settled = await settle(
                [[settlement for _, settlement in of_lease] for of_lease in by_lease.values()]
            )
            failures = [each for each in settled if isinstance(each, BaseException)]
            if len(failures) == len(settled) and (failure := errors.worst(failures)):
                raise failure
            for of_lease, outcome in zip(by_lease.values(), settled, strict=True):
                answers.update(_answers(acknowledgments, of_lease, outcome))
        if None in meant:
            # Another call settled it, and a standby may not have confirmed that commit yet.
            await self._store.messages.confirm()
        return [answers[index] for index in range(len(acknowledgments))]

    async def _say_settled(
        self,
        acknowledgments: Sequence[Acknowledgment],
        group: str | None,
        answers: list[Acknowledged],
    ) -> None:
        """Add to lost leases whether the group has settled the message anyway."""
        indexes: list[int] = []
        messages: list[tuple[str, int, int | None, str | None]] = []
        for index, (each, answer) in enumerate(zip(acknowledgments, answers, strict=True)):
            if answer.code != errors.LeaseLost.code or each.lease_id is None:
                continue
            of_group = each.consumer_group or group or QUEUE_MODE
            partition_id = None if each.partition_id is None else id_of(each.partition_id)
            if (place := place_of(each.id or each.transaction_id or "")) is not None:
                indexes.append(index)
                messages.append((of_group, place.partition_id, place.offset, None))
            elif partition_id is not None and each.transaction_id is not None:
                indexes.append(index)
                messages.append((of_group, partition_id, None, each.transaction_id))
        if not messages:
            return
        # The result is also valid without this.
        with contextlib.suppress(errors.ServiceError, errors.OutcomeUnknown):
            are_settled = await self._store.messages.are_settled(messages)
            if any(are_settled):
                await self._store.messages.confirm()
            for index, is_settled in zip(indexes, are_settled, strict=True):
                if is_settled:
                    answers[index] = msgspec.structs.replace(answers[index], settled=True)

    async def resolve(
        self, acknowledgments: Sequence[Acknowledgment], group: str | None = None
    ) -> list[rows.Settlement | errors.ApiError | None]:
        """
        The delivery and offset of each acknowledgment, or an error.

        None for a completed message that is already settled. One query resolves all that need a
        lookup. SlotMoved for a message that another database has.
        """
        found: list[rows.Settlement | errors.ApiError | None] = []
        sought: dict[int, rows.Sought] = {}
        for index, each in enumerate(acknowledgments):
            try:
                named = self._named(each, group)
            except errors.RequestError as error:
                named = error
            if isinstance(named, rows.Sought):
                sought[index] = named
                found.append(None)
            else:
                found.append(named)
        if sought:
            matches = await self._store.messages.find_deliveries(list(sought.values()))
            for (index, named), of_it in zip(sought.items(), matches, strict=True):
                try:
                    found[index] = self._found(acknowledgments[index], named, of_it)
                except errors.RequestError as error:
                    found[index] = error
            lost = {at: sought[at] for at in sought if isinstance(found[at], errors.RequestError)}
            for at, error in (await self._moved(lost)).items():
                found[at] = error
        for index, each in enumerate(acknowledgments):
            if each.result is not msgspec.UNSET and isinstance(
                meant := found[index], rows.Settlement
            ):
                found[index] = await self._with_result(each, meant)
        return found

    async def _moved(self, lost: Mapping[int, rows.Sought]) -> dict[int, errors.SlotMoved]:
        """The errors of those messages that were not found because their slot has moved."""
        ids = {
            at: each.delivery_id or each.partition_id or each.place_id for at, each in lost.items()
        }
        slots = {at: slot_of(id_) for at, id_ in ids.items() if id_ is not None}
        if not slots:
            return {}
        moved = await self._store.queues.moved_slots(slots.values())
        return {
            at: errors.SlotMoved(f"the message is in slot {slot}, which another database has now")
            for at, slot in slots.items()
            if slot in moved
        }

    async def _with_result(
        self, each: Acknowledgment, settlement: rows.Settlement
    ) -> rows.Settlement | errors.RequestError:
        if settlement.kind != "completed":
            return errors.BadRequest("only a message that is completed has a result")
        assert settlement.partition_id is not None
        try:
            (kept,) = await self._results.kept([(settlement.partition_id, each)])
        except errors.RequestError as error:
            return error
        return settlement._replace(kept=kept)

    def _named(self, each: Acknowledgment, group: str | None) -> rows.Settlement | rows.Sought:
        """Parse an acknowledgment: a complete settlement, or the keys of a lookup."""
        kind = KINDS.get(each.status)
        if kind is None:
            raise errors.InvalidStatus(
                f"status {each.status!r}: it must be one of {', '.join(KINDS)}"
            )
        delay, most = each.delay_seconds, self._settings.max_delay_seconds
        if delay is not None and not 0 <= delay <= most:
            raise errors.BadRequest(f"delaySeconds must be from 0 to {most}")
        self._check_texts(each)
        lease = Lease.parse(each.lease_id) if each.lease_id is not None else None
        name = each.id or each.transaction_id
        if not name:
            raise errors.BadRequest("an acknowledgment needs the id or transactionId of a message")
        place = place_of(name)
        partition_id = None if each.partition_id is None else id_of(each.partition_id)
        if each.partition_id is not None and partition_id is None:
            raise errors.MessageNotFound(f"{each.partition_id!r} is not the id of a partition")
        if each.id is not None:
            if place is None:
                raise errors.MessageNotFound(f"{each.id!r} is not the id of a message")
            if partition_id not in (None, place.partition_id):
                raise errors.MessageNotFound(
                    f"message {each.id!r} is not in partition {each.partition_id!r}"
                )
            # An id encodes a position. A message elsewhere with this transactionId is not meant.
            partition_id = place.partition_id
            if lease is not None:
                # The SDK sends all of it, so no lookup is needed.
                return self._settlement(
                    each, lease.delivery_id, lease.token, place.partition_id, place.offset
                )
        return rows.Sought(
            each.consumer_group or group or QUEUE_MODE,
            lease and lease.delivery_id,
            lease and lease.token,
            partition_id,
            name,
            place and place.partition_id,
            place and place.offset,
        )

    def _found(
        self, each: Acknowledgment, sought: rows.Sought, matches: Sequence[rows.Record]
    ) -> rows.Settlement | None:
        """The settlement of an acknowledgment, from the row of its lookup."""
        name, has_lease = sought.transaction_id, sought.delivery_id is not None
        if len(matches) > 1:
            raise errors.AmbiguousMessage(f"several messages match {name!r}; name the partition")
        row = matches[0] if matches else None
        if row is None or (row["id"] is None and not row["is_settled"]):
            if has_lease:
                raise errors.LeaseLost(f"this lease is not the current one of message {name!r}")
            raise errors.MessageNotFound(f"message {name!r} is not leased to this group")
        if has_lease and row["id"] not in (None, sought.delivery_id):
            raise errors.LeaseLost(f"this lease is not the current one of message {name!r}")
        if row["id"] is None:
            if KINDS[each.status] == "completed":
                return None
            raise errors.AlreadySettled(f"this group has already finished message {name!r}")
        return self._settlement(each, row["id"], row["token"], row["partition_id"], row["offset"])

    def _settlement(
        self, each: Acknowledgment, delivery_id: int, token: UUID, partition_id: int, offset: int
    ) -> rows.Settlement:
        claimed_ms = 0 if each.lease_id is None else Lease.parse(each.lease_id).claimed_ms
        error = each.error and _storable(each.error, self._settings.max_error_bytes)
        return rows.Settlement(
            delivery_id,
            token,
            partition_id,
            offset,
            KINDS[each.status],
            error,
            each.delay_seconds,
            claimed_ms,
        )

    def _check_texts(self, each: Acknowledgment) -> None:
        """Reject names that a push would reject, because PostgreSQL may fail to store them."""
        if not (each.transaction_id or each.consumer_group):
            return
        names = (("transactionId", each.transaction_id), ("consumerGroup", each.consumer_group))
        for what, name in names:
            if name:
                try:
                    check_name(what, name, self._settings.max_name_bytes)
                except errors.InvalidName as error:
                    raise errors.BadRequest(str(error)) from error


def _one_delivery(
    acknowledgments: Sequence[Acknowledgment],
) -> tuple[Lease, int, list[int]] | None:
    """Lease, partition and offsets, if all are completed, distinct, by id and of one lease."""
    first = acknowledgments[0]
    lease_id, partition_ref = first.lease_id, first.partition_id
    if lease_id is None or (partition_ref is not None and id_of(partition_ref) is None):
        return None
    ids: list[str] = []
    for each in acknowledgments:
        if (
            each.id is None
            or each.lease_id != lease_id
            or each.status not in _COMPLETED
            or each.partition_id != partition_ref
            or each.consumer_group != first.consumer_group
            or each.delay_seconds is not None
        ):
            return None
        ids.append(each.id)
    places = places_of(ids)
    if places is None or len(set(places[1])) < len(ids):
        return None
    if partition_ref is not None and id_of(partition_ref) != places[0]:
        return None
    try:
        return Lease.parse(lease_id), *places
    except errors.LeaseLost:
        return None


def _answers(
    acknowledgments: Sequence[Acknowledgment],
    settlements: Sequence[tuple[int, rows.Settlement]],
    outcome: list[rows.Record] | BaseException,
) -> dict[int, Acknowledged]:
    """The results of the acknowledgments of one delivery, by their index in the call."""
    if isinstance(outcome, BaseException):
        if not isinstance(outcome, errors.QueenError):
            raise outcome
        return {index: _refused(acknowledgments[index], outcome) for index, _ in settlements}
    return {
        index: _answer(acknowledgments[index], settlement, row)
        for (index, settlement), row in zip(settlements, outcome, strict=True)
    }


def _answer(each: Acknowledgment, settlement: rows.Settlement, row: rows.Record) -> Acknowledged:
    if row["code"] is not None:
        return _refused(each, refusal(row["code"]))
    if settlement.kind == "completed":
        return Acknowledged(
            transaction_id=each.transaction_id, success=True, lease_released=bool(row["is_over"])
        )
    return Acknowledged(
        transaction_id=each.transaction_id,
        success=True,
        dlq=bool(row["is_dead"]),
        lease_released=bool(row["is_over"]),
        retry_at=row["due_at"],
    )


def _refused(each: Acknowledgment, error: errors.QueenError) -> Acknowledged:
    return Acknowledged(
        transaction_id=each.transaction_id, success=False, code=error.code, error=str(error)
    )


def _storable(text: str, max_bytes: int) -> str:
    """An error text that PostgreSQL can store, cut between characters."""
    encoded = text.replace("\0", "\ufffd").encode("utf-8", "replace")[:max_bytes]
    return encoded.decode("utf-8", "ignore")
