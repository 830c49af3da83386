"""What acks, nacks, extends and releases gather: whole deliveries fold into one statement."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import Final
from uuid import UUID

from queen import errors
from queen.codec.identity import partition_of, place_of
from queen.engine.counters import Counters
from queen.engine.deliveries import Lease
from queen.engine.lanes import Lanes
from queen.engine.waiters import QUEUE_MODE
from queen.meters import Histogram
from queen.settings import Settings
from queen.store import messages as rows
from queen.store.store import Store
from queen.wire.messages import Acknowledged, Acknowledgment, Extended

KINDS: Final = {
    "completed": "completed",
    "success": "completed",
    "acked": "completed",
    "ok": "completed",
    "failed": "failed",
    "retry": "retry",
    "dlq": "dead",
}
"""Words of the contract to words of the database."""


class AckUnit:
    """What one call says of one delivery: all of it done, or each message on its own."""

    __slots__ = ("done", "keys", "lease", "offsets", "partition_id", "settlements", "size_bytes")

    def __init__(
        self,
        lease: Lease,
        *,
        offsets: Sequence[int] | None = None,
        partition_id: int | None = None,
        settlements: Sequence[rows.Settlement] = (),
    ) -> None:
        self.lease = lease
        self.offsets = offsets
        self.partition_id = partition_id
        self.settlements = settlements
        self.size_bytes = 100
        self.done: asyncio.Future[list[rows.Record]] = asyncio.get_running_loop().create_future()
        # A delivery stands in one flush once: whoever comes second meets what the first left.
        self.keys: tuple[Hashable, ...] = (lease.delivery_id,)

    def fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()

    def finish(self, answer: list[rows.Record]) -> None:
        if not self.done.done():
            self.done.set_result(answer)


class Acks:
    """Settles deliveries, many in one transaction."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        counters: Counters,
        *,
        wake: Callable[[Iterable[int]], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._wake = wake
        self._counters = counters
        self.flushed = Histogram()
        """Deliveries of a flush."""
        self._lanes = Lanes[AckUnit](
            self._flush,
            lanes=settings.ack_lanes,
            max_units=2_000,
            max_bytes=settings.flush_max_bytes,
            max_queued=settings.max_queued_requests,
            max_queued_bytes=settings.max_queued_bytes,
        )

    @property
    def flush_seconds(self) -> Histogram:
        return self._lanes.seconds

    async def close(self) -> None:
        await self._lanes.close()

    async def ack(self, lease: Lease, offsets: Sequence[int] | None = None) -> int:
        """Settle a delivery, or some of its messages; answers how many were settled by this."""
        unit = AckUnit(lease, offsets=offsets)
        self._lanes.submit(unit)
        (row,) = await unit.done
        if row["code"] is not None:
            raise _refusal(row["code"])
        return row["settled"]

    async def settle(self, settlements: Sequence[rows.Settlement]) -> list[rows.Record]:
        """Say what became of messages of one delivery; one row each, refusals as codes."""
        first = settlements[0]
        lease = Lease(self._store.shard, first.delivery_id, first.token, first.claimed_ms)
        if all(
            each.kind == "completed" and each.partition_id == first.partition_id
            for each in settlements
        ):
            offsets = [each.offset for each in settlements]
            unit = AckUnit(lease, offsets=offsets, partition_id=first.partition_id)
            self._lanes.submit(unit)
            (row,) = await unit.done
            if row["refused"] is None:
                return [row] * len(settlements)
            refused = {
                offset for each in row["refused"] for offset in range(each.lower, each.upper)
            }
            # Of these each hears why.
            rest = [each for each in settlements if each.offset in refused]
            unit = AckUnit(lease, settlements=rest)
            self._lanes.submit(unit)
            reasons = iter(await unit.done)
            return [next(reasons) if each.offset in refused else row for each in settlements]
        unit = AckUnit(lease, settlements=settlements)
        self._lanes.submit(unit)
        return await unit.done

    async def acknowledge(
        self, acknowledgments: Sequence[Acknowledgment], group: str | None = None
    ) -> list[Acknowledged]:
        """The contract's form: messages by id or transactionId, each with a status."""
        if not 0 < len(acknowledgments) <= self._settings.max_items:
            raise errors.TooManyItems(f"1 to {self._settings.max_items} acknowledgments fit a call")
        answers: list[Acknowledged | None] = [None] * len(acknowledgments)
        by_lease: dict[tuple[int, UUID], list[tuple[int, rows.Settlement]]] = {}
        seen: set[tuple[int, int]] = set()
        for index, each in enumerate(acknowledgments):
            try:
                settlement = await self.resolve(each, group)
            except (errors.InvalidStatus, errors.BadRequest):
                raise
            except errors.RequestError as error:
                answers[index] = Acknowledged(
                    transaction_id=each.transaction_id,
                    success=False,
                    code=error.code,
                    error=str(error),
                )
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
        settled = await asyncio.gather(
            *(self.settle([each for _, each in of_lease]) for of_lease in by_lease.values())
        )
        for of_lease, records in zip(by_lease.values(), settled, strict=True):
            for (index, settlement), row in zip(of_lease, records, strict=True):
                answers[index] = self._answer(acknowledgments[index], settlement, row)
        return [answer for answer in answers if answer is not None]

    def _answer(
        self, each: Acknowledgment, settlement: rows.Settlement, row: rows.Record
    ) -> Acknowledged:
        if row["code"] is not None:
            error = _refusal(row["code"])
            return Acknowledged(
                transaction_id=each.transaction_id,
                success=False,
                code=error.code,
                error=str(error),
            )
        if settlement.kind == "completed":
            return Acknowledged(
                transaction_id=each.transaction_id,
                success=True,
                lease_released=bool(row["is_over"]),
            )
        return Acknowledged(
            transaction_id=each.transaction_id,
            success=True,
            dlq=bool(row["is_dead"]),
            lease_released=bool(row["is_over"]),
            retry_at=row["due_at"],
        )

    async def resolve(
        self, each: Acknowledgment, group: str | None = None
    ) -> rows.Settlement | None:
        """
        The delivery and offset that an acknowledgment means.

        None for a completed message that is settled already: there is nothing left to do.
        """
        kind = KINDS.get(each.status)
        if kind is None:
            raise errors.InvalidStatus(
                f"status {each.status!r}: it must be one of {', '.join(KINDS)}"
            )
        delay, most = each.delay_seconds, self._settings.max_delay_seconds
        if delay is not None and not 0 <= delay <= most:
            raise errors.BadRequest(f"delaySeconds must be from 0 to {most}")
        lease = Lease.parse(each.lease_id) if each.lease_id is not None else None
        error = each.error and _storable(each.error, self._settings.max_error_bytes)
        name = each.id or each.transaction_id
        if not name:
            raise errors.BadRequest("an acknowledgment needs the id or transactionId of a message")
        place = place_of(name)
        partition_id = None if each.partition_id is None else partition_of(each.partition_id)
        if each.partition_id is not None and partition_id is None:
            raise errors.MessageNotFound(f"{each.partition_id!r} is not the id of a partition")
        if each.id is not None and place is None:
            raise errors.MessageNotFound(f"{each.id!r} is not the id of a message")
        if lease is not None and each.id is not None and place is not None:
            # What the SDK sends: nothing to look up.
            return rows.Settlement(
                lease.delivery_id,
                lease.token,
                place.partition_id,
                place.offset,
                kind,
                error,
                each.delay_seconds,
                lease.claimed_ms,
            )
        found = await self._store.messages.find_delivery(
            group=each.consumer_group or group or QUEUE_MODE,
            lease=lease and (lease.delivery_id, lease.token),
            partition_id=partition_id,
            transaction_id=name,
            place=place and (place.partition_id, place.offset),
        )
        if len(found) > 1:
            raise errors.AmbiguousMessage(f"several messages are {name!r}; name the partition")
        row = found[0] if found else None
        if row is None or (row["id"] is None and not row["is_settled"]):
            if lease is not None:
                raise errors.LeaseLost(f"this lease is not the current one of message {name!r}")
            raise errors.MessageNotFound(f"message {name!r} is not out with this group")
        if lease is not None and row["id"] not in (None, lease.delivery_id):
            raise errors.LeaseLost(f"this lease is not the current one of message {name!r}")
        if row["id"] is None:
            if kind == "completed":
                return None
            raise errors.AlreadySettled(f"this group is done with message {name!r}")
        return rows.Settlement(
            row["id"],
            row["token"],
            row["partition_id"],
            row["offset"],
            kind,
            error,
            each.delay_seconds,
            lease.claimed_ms if lease else 0,
        )

    async def extend(self, lease_ids: Sequence[str], seconds: float | None) -> list[Extended]:
        """Move the ends of leases; what was never a lease is lost like one that was."""
        if seconds is not None and not 0 < seconds <= self._settings.max_lease_seconds:
            raise errors.BadRequest(
                f"seconds must be above 0 and at most {self._settings.max_lease_seconds}"
            )
        if not 0 < len(lease_ids) <= self._settings.max_items:
            raise errors.TooManyItems(f"1 to {self._settings.max_items} leases fit a call")
        leases: dict[str, tuple[int, UUID]] = {}
        for lease_id in lease_ids:
            with contextlib.suppress(errors.LeaseLost):
                lease = Lease.parse(lease_id)
                leases[lease_id] = (lease.delivery_id, lease.token)
        moved: dict[str, rows.Record] = {}
        if leases:
            found = await self._store.messages.extend(
                list(leases.values()), [seconds] * len(leases)
            )
            moved = dict(zip(leases, found, strict=True))
        extended = sum(row["code"] is None for row in moved.values())
        self._counters.extended += extended
        if extended < len(lease_ids):
            self._counters.count_refused("extend", len(lease_ids) - extended)
        lost = _refusal("QN002")
        return [
            Extended(lease_id=each, success=True, expires_at=moved[each]["until"])
            if each in moved and moved[each]["code"] is None
            else Extended(lease_id=each, success=False, code=lost.code, error=str(lost))
            for each in lease_ids
        ]

    async def release(self, lease: Lease) -> None:
        """Give back what is left of a delivery, at once and uncounted."""
        (row,) = await self._store.messages.release([(lease.delivery_id, lease.token)])
        if row["code"] is not None:
            self._counters.count_refused("release")
            raise _refusal(row["code"])
        self._wake((row["group_id"],))

    async def _flush(self, units: list[AckUnit]) -> None:
        self.flushed.observe(len(units))
        taken: dict[int, AckUnit] = {}
        later: list[AckUnit] = []
        for unit in units:
            if unit.lease.delivery_id in taken:
                later.append(unit)
            else:
                taken[unit.lease.delivery_id] = unit
        acks = [unit for unit in taken.values() if not unit.settlements]
        nacks = [unit for unit in taken.values() if unit.settlements]
        if acks:
            await self._alone_on_error(acks, self._ack)
        if nacks:
            await self._alone_on_error(nacks, self._nack)
        if later:
            await self._flush(later)

    async def _alone_on_error(
        self, units: list[AckUnit], flush: Callable[[list[AckUnit]], Awaitable[None]]
    ) -> None:
        try:
            await flush(units)
        except (errors.ServiceError, errors.OutcomeUnknown) as error:
            for unit in units:
                unit.fail(error)
        except Exception as error:
            if len(units) == 1:
                units[0].fail(error)
                return
            for unit in units:
                await self._alone_on_error([unit], flush)

    async def _ack(self, units: list[AckUnit]) -> None:
        settled = await self._store.messages.ack(
            [
                rows.Ack(
                    unit.lease.delivery_id,
                    unit.lease.token,
                    _ranges(unit.offsets),
                    unit.partition_id,
                )
                for unit in units
            ]
        )
        for unit, row in zip(units, settled, strict=True):
            if row["code"] is None:
                self._counters.count_settled(row["group_id"], "acked", unit.lease, row["settled"])
            else:
                self._counters.count_refused("ack")
            unit.finish([row])
        self._wake({row["group_id"] for row in settled if row["is_over"]})

    async def _nack(self, units: list[AckUnit]) -> None:
        settlements = [each for unit in units for each in unit.settlements]
        settled = await self._store.messages.nack(settlements)
        at = 0
        for unit in units:
            for each, row in zip(unit.settlements, settled[at:], strict=False):
                if row["code"] is None:
                    self._counters.count_settled(row["group_id"], _became(each, row), unit.lease)
                else:
                    self._counters.count_refused("nack")
            unit.finish(settled[at : at + len(unit.settlements)])
            at += len(unit.settlements)
        # Also for what waits for its backoff: the search that finds nothing learns until when.
        self._wake({row["group_id"] for row in settled if row["group_id"] is not None})


def _became(settlement: rows.Settlement, row: rows.Record) -> str:
    """What a settlement came to, in the words of those who count."""
    if settlement.kind == "completed":
        return "acked"
    if row["is_dead"]:
        return "buried"
    return "nacked" if row["due_at"] is not None else "dropped"


def _ranges(offsets: Sequence[int] | None) -> tuple[tuple[int, int], ...] | None:
    if offsets is None:
        return None
    ranges: list[tuple[int, int]] = []
    for offset in sorted(set(offsets)):
        if ranges and ranges[-1][1] == offset:
            ranges[-1] = (ranges[-1][0], offset + 1)
        else:
            ranges.append((offset, offset + 1))
    return tuple(ranges)


def _storable(text: str, max_bytes: int) -> str:
    """An error text that PostgreSQL can hold, cut at a character."""
    encoded = text.replace("\0", "\ufffd").encode("utf-8", "replace")[:max_bytes]
    return encoded.decode("utf-8", "ignore")


def _refusal(code: str) -> errors.QueenError:
    error = errors.of_sqlstate(code) or errors.RequestError
    return error((error.__doc__ or code).strip().splitlines()[0])
