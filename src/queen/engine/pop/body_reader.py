"""Reads the stored bytes of claimed positions."""

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from queen import errors
from queen.codec.encryption.keys import is_sealed
from queen.codec.ids import Lease
from queen.codec.segment import Segment
from queen.engine.core import Core
from queen.engine.pop.damage import Damaged
from queen.engine.pop.delivery import Copy, Delivery, Run
from queen.engine.pop.waiters import Target
from queen.store import messages as rows

_Problem = errors.EncryptionUnavailable | errors.MessagesDamaged


class Served(NamedTuple):
    """The deliveries or the error of each request, by its index."""

    deliveries: list[list[Delivery]]
    problems: dict[int, errors.EncryptionUnavailable]
    damaged: list[Damaged]


class BodyReader:
    """Reads segments from the cache, and the missing ones with one query."""

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._segments = core.segments
        self._sealer = core.sealer

    async def deliveries(
        self, target: Target, claimed: Sequence[rows.Record], count: int
    ) -> Served:
        """The deliveries of each request."""
        problems: dict[int, errors.EncryptionUnavailable] = {}
        served: list[list[Delivery]] = [[] for _ in range(count)]
        damaged: list[Damaged] = []
        sources: dict[tuple[int, int], Segment | _Problem] = {}
        missing: dict[tuple[int, int], int] = {}
        for row in claimed:
            if row["xid"] is not None:
                place = (row["partition_id"], row["base_offset"])
                if (
                    cached := self._segments.get(*place, row["xid"], row["message_count"])
                ) is not None:
                    sources[place] = cached
                else:
                    missing[place] = row["group_id"]
        queue_ids = dict(zip(target.group_ids, target.queue_ids, strict=True))
        if missing:
            sources.update(
                await self._read({place: queue_ids.get(g) for place, g in missing.items()})
            )
        delivery: Delivery | None = None
        last: object = None
        broken: int | None = None
        claimed_ms = int(time.time() * 1000)
        for row in claimed:
            if row["request"] is None:
                continue
            place = (row["partition_id"], row["base_offset"])
            source = await self._copy(row) if row["xid"] is None else sources.get(place)
            runs: list[Run] = []
            if isinstance(source, Segment) and _is_split(source, row):
                source = await self._parts(source, row, runs, queue_ids.get(row["group_id"]))
            elif isinstance(source, Segment | Copy):
                first, end, base = row["first_offset"], row["end_offset"], place[1]
                runs = [Run(first, end, base, row["created_at"], source)]
            if source is None:
                continue  # Removed since the claim, together with its lease.
            if isinstance(source, errors.EncryptionUnavailable):
                problems[row["request"] - 1] = source
                continue
            key = row["delivery_id"] or (row["request"], row["partition_id"], row["attempts"])
            if key == broken:
                continue
            if isinstance(source, errors.MessagesDamaged):
                damaged.append(Damaged(row, key != last, source))
                # After the damage, deliver only messages that the pop has already acknowledged.
                broken = row["delivery_id"]
                continue
            if delivery is None or key != last:
                last = key
                delivery = self._delivery(target, row, claimed_ms)
                request: int = row["request"]
                served[request - 1].append(delivery)
            delivery.runs += runs
        for request in problems:
            served[request].clear()
        return Served(served, problems, damaged)

    async def _parts(
        self, part: Segment, row: rows.Record, runs: list[Run], queue_id: int | None
    ) -> Segment | _Problem | None:
        """
        Add the claimed messages of a segment that a redaction has split since the claim.

        If the response lacked some of them, an ack of its lease would settle them unseen. Returns
        None without such messages, or the problem if a part cannot be read.
        """
        base = row["base_offset"]
        source: Segment | _Problem | None = part
        while isinstance(source, Segment):
            first, end = max(row["first_offset"], base), min(row["end_offset"], base + source.count)
            if first < end and not source.is_redacted:
                runs.append(Run(first, end, base, row["created_at"], source))
            base += source.count
            if base >= row["end_offset"]:
                return source if runs else None
            place = (row["partition_id"], base)
            source = (await self._read({place: queue_id})).get(place)
        return source

    async def _copy(self, row: rows.Record) -> Copy | errors.EncryptionUnavailable:
        """The message that a redriven delivery carries."""
        if not is_sealed(row["payload"]):
            return Copy(row["payload"], row["extras"])
        try:
            return Copy(
                *await self._sealer.open_one(row["partition_id"], row["payload"], row["extras"])
            )
        except errors.EncryptionUnavailable as error:
            return error

    def _delivery(self, target: Target, row: rows.Record, claimed_ms: int) -> Delivery:
        delivery_id = row["delivery_id"]
        lease = None
        if delivery_id is not None:
            lease = Lease(delivery_id, row["token"], claimed_ms)
        return Delivery(
            queue=target.queues[row["group_id"]],
            partition=row["partition"],
            partition_id=row["partition_id"],
            level=row["level"],
            group=target.name.group,
            group_id=row["group_id"],
            lease=lease,
            until=row["until"],
            attempt=row["attempts"] + 1,
        )

    async def _read(
        self, places: Mapping[tuple[int, int], int | None]
    ) -> dict[tuple[int, int], Segment | _Problem]:
        """Segments by position, each with its expected queue."""
        read: dict[tuple[int, int], Segment | _Problem] = {}
        for row in await self._rows(sorted(places), read):
            place = (row["partition_id"], row["base_offset"])
            if row["body"] is None:
                continue
            stored = Segment(
                xid=row["xid"],
                count=row["message_count"],
                body=row["body"],
                ends=row["ends"],
                extras=row["extras"],
            )
            try:
                stored.check()
                opened = await self._sealer.open_segment(place[0], stored, queue_id=places[place])
            except errors.EncryptionUnavailable as error:
                read[place] = error
            except errors.MessagesDamaged as error:
                read[place] = _damaged(place, error)
            except errors.QueenError:
                raise  # The database did not respond, so the state of the segment is unknown.
            except Exception as error:
                # Other segments can still be delivered.
                read[place] = _damaged(place, error)
            else:
                read[place] = opened
                self._segments.put(*place, opened)
        return read

    async def _rows(
        self,
        places: Sequence[tuple[int, int]],
        read: dict[tuple[int, int], Segment | _Problem],
    ) -> list[rows.Record]:
        """Stored segments. Those that PostgreSQL cannot read are recorded as damaged."""
        try:
            return await self._store.messages.segments(
                [partition_id for partition_id, _ in places], [base for _, base in places]
            )
        except errors.MessagesDamaged as error:
            if len(places) == 1:
                read[places[0]] = _damaged(places[0], error)
                return []
        return [row for place in places for row in await self._rows([place], read)]


def _is_split(segment: Segment, row: rows.Record) -> bool:
    """Whether a redaction has changed a claimed segment since the claim."""
    return segment.count < row["end_offset"] - row["base_offset"] or segment.is_redacted


def _damaged(place: tuple[int, int], error: Exception) -> errors.MessagesDamaged:
    # Messages of other exceptions may quote payloads.
    reason = error if isinstance(error, errors.MessagesDamaged) else type(error).__name__
    partition_id, base = place
    damaged = errors.MessagesDamaged(
        f"the segment at offset {base} of partition {partition_id} is damaged: {reason}"
    )
    damaged.__cause__ = error
    return damaged
