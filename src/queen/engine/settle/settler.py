"""Batches acks, nacks, extensions and releases. Complete deliveries share one statement."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from uuid import UUID

from queen import errors
from queen.codec.ids import Lease
from queen.engine.core import Core
from queen.engine.runtime.batcher import Batcher
from queen.engine.runtime.moved_slots import split_moved, without_moved
from queen.meters import Histogram
from queen.store import messages as rows
from queen.wire.messages import Extended


class PendingAck:
    """One call about one delivery: all of it is completed, or each message has its own outcome."""

    __slots__ = (
        "done",
        "kept",
        "keys",
        "lease",
        "offsets",
        "partition_id",
        "settlements",
        "size_bytes",
    )

    def __init__(
        self,
        lease: Lease,
        *,
        offsets: Sequence[int] | None = None,
        partition_id: int | None = None,
        settlements: Sequence[rows.Settlement] = (),
        kept: Sequence[tuple[int, rows.Kept]] = (),
    ) -> None:
        self.lease = lease
        self.offsets = offsets
        self.kept = kept
        self.partition_id = partition_id
        self.settlements = settlements
        self.size_bytes = 100 + 8 * len(offsets or ()) + 50 * len(settlements)
        if kept:
            self.size_bytes += sum(len(each.result) + 100 for _, each in kept)
        self.done: asyncio.Future[list[rows.Record]] = asyncio.get_running_loop().create_future()
        # A flush contains a delivery once. A second call waits and sees the state after the first.
        self.keys: tuple[Hashable, ...] = (lease.delivery_id,)

    def fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()

    def finish(self, answer: list[rows.Record]) -> None:
        if not self.done.done():
            self.done.set_result(answer)


class Settler:
    """Settles deliveries, many in one transaction."""

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._settings = settings = core.settings
        self._signals = core.signals
        self._counters = core.counters
        self._combiner = core.combiner
        self.flushed = Histogram()
        """Deliveries per flush."""
        self._batcher = Batcher[PendingAck](
            self._flush,
            max_flushes=settings.ack_lanes,
            max_units=2_000,
            max_bytes=settings.flush_max_bytes,
            max_queued=settings.max_queued_requests,
            max_queued_bytes=settings.max_queued_bytes,
        )

    @property
    def flush_seconds(self) -> Histogram:
        return self._batcher.seconds

    async def close(self) -> None:
        await self._batcher.close()

    async def ack(self, lease: Lease, offsets: Sequence[int] | None = None) -> int:
        """Settle a delivery, or some of its messages. Returns how many this call settled."""
        unit = PendingAck(lease, offsets=offsets)
        self._batcher.submit(unit)
        (row,) = await unit.done
        if row["code"] is not None:
            raise refusal(row["code"])
        return row["settled"]

    async def settle(
        self, deliveries: Sequence[Sequence[rows.Settlement]]
    ) -> list[list[rows.Record] | BaseException]:
        """
        Settle messages with individual outcomes, one sequence per delivery. Accepts all or none.

        Returns per delivery one row per message, with rejections as codes, or an error if its
        outcome is unknown.
        """
        units = [self._unit(settlements) for settlements in deliveries]
        self._batcher.submit(*units)
        return await asyncio.gather(
            *map(self._settled, units, deliveries),
            return_exceptions=True,
        )

    async def settle_and_pop(
        self, deliveries: Sequence[Sequence[rows.Settlement]], pop: rows.Pop
    ) -> tuple[list[list[rows.Record] | BaseException], list[rows.Record]]:
        """Settle messages and claim new ones in one transaction. Returns the rows of both."""
        units = [self._unit(settlements) for settlements in deliveries]
        is_ack = not any(unit.settlements or unit.kept for unit in units)
        if not is_ack:
            units = [PendingAck(_lease_of(each[0]), settlements=each) for each in deliveries]
        acks = [_ack_of(unit) for unit in units if is_ack]
        nacks = [each for unit in units for each in unit.settlements]
        found = await self._store.messages.combine(None, acks, [pop], nacks)
        (self._finish_acks if is_ack else self._finish_nacks)(units, found.settled)
        settled = await asyncio.gather(
            *map(self._settled, units, deliveries), return_exceptions=True
        )
        return settled, found.popped[0]

    async def complete(
        self,
        lease: Lease,
        partition_id: int,
        offsets: Sequence[int],
        kept: Sequence[tuple[int, rows.Kept]] = (),
    ) -> rows.Record:
        """Settle these messages. Returns one row for all, with the rejected offsets."""
        unit = PendingAck(lease, offsets=offsets, partition_id=partition_id, kept=kept)
        self._batcher.submit(unit)
        (row,) = await unit.done
        return row

    def _unit(self, settlements: Sequence[rows.Settlement]) -> PendingAck:
        first = settlements[0]
        lease = _lease_of(first)
        if all(
            each.kind == "completed" and each.partition_id == first.partition_id
            for each in settlements
        ):
            offsets = [each.offset for each in settlements]
            kept = [(each.offset, each.kept) for each in settlements if each.kept is not None]
            return PendingAck(lease, offsets=offsets, partition_id=first.partition_id, kept=kept)
        return PendingAck(lease, settlements=settlements)

    async def _settled(
        self, unit: PendingAck, settlements: Sequence[rows.Settlement]
    ) -> list[rows.Record]:
        found = await unit.done
        return found if unit.settlements else await self.each(found[0], settlements)

    async def each(
        self, row: rows.Record, settlements: Sequence[rows.Settlement]
    ) -> list[rows.Record]:
        """Expand one row about several messages to one row per message."""
        if row["refused"] is None:
            return [row] * len(settlements)
        refused = {offset for each in row["refused"] for offset in range(each.lower, each.upper)}
        # Each of these gets its own reason.
        rest = [each for each in settlements if each.offset in refused]
        again = PendingAck(_lease_of(rest[0]), settlements=rest)
        self._batcher.submit(again)
        reasons = iter(await again.done)
        return [next(reasons) if each.offset in refused else row for each in settlements]

    async def extend(self, lease_ids: Sequence[str], seconds: float | None) -> list[Extended]:
        """Extend leases. An invalid lease id counts as a lost lease."""
        if seconds is not None and not 0 < seconds <= self._settings.max_lease_seconds:
            raise errors.BadRequest(
                f"seconds must be above 0 and at most {self._settings.max_lease_seconds}"
            )
        if not 0 < len(lease_ids) <= self._settings.max_items:
            raise errors.TooManyItems(f"a call takes 1 to {self._settings.max_items} leases")
        leases: dict[str, tuple[int, UUID]] = {}
        for lease_id in lease_ids:
            with contextlib.suppress(errors.LeaseLost):
                lease = Lease.parse(lease_id)
                leases[lease_id] = (lease.delivery_id, lease.token)
        found = await without_moved(
            list(leases.values()),
            lambda lease: lease[0],
            lambda some: self._store.messages.extend(some, [seconds] * len(some)),
        )
        if found and all(each is None for each in found):
            raise errors.SlotMoved(errors.SlotMoved.default_message)
        rows_of = dict(zip(leases, found, strict=True))
        answers = [_extended(each, rows_of) for each in lease_ids]
        extended = len({each.lease_id for each in answers if each.success})
        self._counters.extended += extended
        if extended < len(lease_ids):
            self._counters.count_refused("extend", len(lease_ids) - extended)
        return answers

    async def release(self, lease: Lease) -> None:
        """Return the rest of a delivery immediately, without counting an attempt."""
        (row,) = await self._store.messages.release([(lease.delivery_id, lease.token)])
        if row["code"] is not None:
            self._counters.count_refused("release")
            raise refusal(row["code"])
        self._signals.groups_ready((row["group_id"],))

    async def _flush(self, units: list[PendingAck]) -> None:
        self.flushed.observe(len(units))
        taken: dict[int, PendingAck] = {}
        later: list[PendingAck] = []
        for unit in units:
            if unit.lease.delivery_id in taken:
                later.append(unit)
            else:
                taken[unit.lease.delivery_id] = unit
        acks = [unit for unit in taken.values() if not unit.settlements]
        nacks = [unit for unit in taken.values() if unit.settlements]
        if acks:
            await self._by_halves(acks, self._ack)
        if nacks:
            await self._by_halves(nacks, self._nack)
        if later:
            await self._flush(later)

    async def _by_halves(
        self,
        units: Sequence[PendingAck],
        flush: Callable[[Sequence[PendingAck]], Awaitable[None]],
    ) -> None:
        """
        Flush. If one unit causes an error, flush the halves until that unit is isolated.

        Units in slots that have moved fail, and the others are flushed together.
        """
        try:
            await flush(units)
        except errors.SlotMoved as error:
            moved, rest = split_moved(units, error, lambda unit: unit.lease.delivery_id)
            for unit in moved:
                unit.fail(error)
            if rest:
                await self._by_halves(rest, flush)
        except (errors.ServiceError, errors.OutcomeUnknown) as error:
            for unit in units:
                unit.fail(error)
        except Exception as error:
            if len(units) == 1:
                units[0].fail(error)
                return
            half = len(units) // 2
            await self._by_halves(units[:half], flush)
            await self._by_halves(units[half:], flush)

    async def _ack(self, units: Sequence[PendingAck]) -> None:
        acks = [_ack_of(unit) for unit in units]
        self._finish_acks(units, await self._combiner.ack(acks))

    def _finish_acks(self, units: Sequence[PendingAck], settled: Sequence[rows.Record]) -> None:
        for unit, row in zip(units, settled, strict=True):
            if row["code"] is None:
                self._counters.count_settled(
                    row["group_id"], "acked", unit.lease.claimed_ms, row["settled"]
                )
            else:
                self._counters.count_refused("ack")
            unit.finish([row])
        self._signals.groups_ready({row["group_id"] for row in settled if row["has_more"]})
        self._signals.settled({unit.partition_id for unit in units})

    async def _nack(self, units: Sequence[PendingAck]) -> None:
        settlements = [each for unit in units for each in unit.settlements]
        self._finish_nacks(units, await self._store.messages.nack(settlements))

    def _finish_nacks(self, units: Sequence[PendingAck], settled: list[rows.Record]) -> None:
        settlements = [each for unit in units for each in unit.settlements]
        at = 0
        for unit in units:
            for each, row in zip(unit.settlements, settled[at:], strict=False):
                if row["code"] is None:
                    self._counters.count_settled(
                        row["group_id"], _became(each, row), unit.lease.claimed_ms
                    )
                else:
                    self._counters.count_refused("nack")
            unit.finish(settled[at : at + len(unit.settlements)])
            at += len(unit.settlements)
        # Also for messages in backoff: the search that finds none learns when they are due.
        self._signals.groups_ready(
            {row["group_id"] for row in settled if row["group_id"] is not None}
        )
        self._signals.settled({each.partition_id for each in settlements})


def _extended(lease_id: str, rows_of: Mapping[str, rows.Record | None]) -> Extended:
    """The result of an extension. None: the slot of the lease has moved. No row: invalid id."""
    row = rows_of.get(lease_id)
    if row is not None and row["code"] is None:
        return Extended(lease_id=lease_id, success=True, expires_at=row["until"])
    error = refusal("QN018" if row is None and lease_id in rows_of else "QN002")
    return Extended(lease_id=lease_id, success=False, code=error.code, error=str(error))


def _became(settlement: rows.Settlement, row: rows.Record) -> str:
    """The name of a settlement's outcome in the counters."""
    if settlement.kind == "completed":
        return "acked"
    if row["is_dead"]:
        return "buried"
    return "nacked" if row["due_at"] is not None else "dropped"


def _lease_of(settlement: rows.Settlement) -> Lease:
    return Lease(settlement.delivery_id, settlement.token, settlement.claimed_ms)


def _ack_of(unit: PendingAck) -> rows.Ack:
    lease = unit.lease
    ranges = _ranges(unit.offsets)
    return rows.Ack(lease.delivery_id, lease.token, ranges, unit.partition_id, unit.kept)


def _ranges(offsets: Sequence[int] | None) -> tuple[tuple[int, int], ...] | None:
    if offsets is None:
        return None
    ordered = sorted(set(offsets))
    if ordered and ordered[-1] - ordered[0] == len(ordered) - 1:
        return ((ordered[0], ordered[-1] + 1),)
    ranges: list[tuple[int, int]] = []
    for offset in ordered:
        if ranges and ranges[-1][1] == offset:
            ranges[-1] = (ranges[-1][0], offset + 1)
        else:
            ranges.append((offset, offset + 1))
    return tuple(ranges)


def refusal(code: str) -> errors.QueenError:
    """The error for a SQLSTATE that a row carries."""
    error = errors.of_sqlstate(code) or errors.RequestError
    return error(error.default_message)
