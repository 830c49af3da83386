"""What operators see of slots and databases, and plans to move slots."""

import asyncio
import contextlib
import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from queen import errors
from queen.cluster.balance import PlannedMove, Rebalance, UsedSlot, Weight, check, plan
from queen.cluster.cluster import Cluster
from queen.cluster.owners import SLOTS
from queen.cluster.results import grouped
from queen.codec.slots import hashed
from queen.store.cluster.homes import IDLE, SPREAD, Homes, Load
from queen.store.cluster.mover import Move
from queen.store.connection.database import Record

_FAILURES: Final = (errors.DatabaseUnavailable, errors.OutcomeUnknown)


class Shard(NamedTuple):
    """One database."""

    name: str
    usage: Record | None
    """None: it is unavailable."""
    slots: list[Record]
    """Its slots that have queues or are moving."""
    loads: dict[int, Load]
    """By slot, without those that are idle."""
    arriving: dict[int, Record]
    """Slots that are copied to it, by slot."""

    @property
    def load(self) -> Load:
        """The load of all its slots."""
        return Load(*map(sum, zip(IDLE, *self.loads.values(), strict=True)))


class Plan(NamedTuple):
    """Moves, in their order."""

    moves: list[Move]
    hindrance: str | None
    """What prevents the first of them that can't begin."""


class Shards:
    """The databases and slots of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._homes: dict[str, Homes] = {
            name: engine.store.homes for name, engine in cluster.engines.items()
        }

    async def read(self) -> list[Shard]:
        """All databases, also those that are unavailable."""

        async def one(name: str, homes: Homes) -> Shard:
            try:
                return Shard(
                    name,
                    await homes.usage(),
                    await homes.used(),
                    await homes.loads(),
                    await homes.arriving(),
                )
            except _FAILURES:
                return Shard(name, None, [], {}, {})

        return await asyncio.gather(*(one(*each) for each in self._homes.items()))

    async def owned(self) -> dict[str, list[int]]:
        """The slots of each database, in order, also of those that are unavailable."""
        with contextlib.suppress(*_FAILURES):  # Then as last known.
            await self._cluster.owners.load()
        return grouped(range(SLOTS), self._cluster.owners.of_slot)

    async def operations(self) -> list[Record]:
        """Operations that move slots now. None if the first database is unavailable."""
        with contextlib.suppress(*_FAILURES):
            return await self._first.running_moves()
        return []

    async def plan_move(
        self,
        to: str,
        *,
        slot: int | None = None,
        queue: str | None = None,
        namespace: str | None = None,
    ) -> Plan:
        """Plan to move a slot, or else the slots of a queue or of a namespace."""
        await self._check(to)
        if slot is not None:
            slots, what = {slot}, f"slot {slot}"
        elif queue is not None:
            found = await self._cluster.slot_of_queue(queue)
            if found is None:
                raise errors.QueueNotFound(f"queue {queue} does not exist")
            if found == SPREAD:
                raise errors.BadRequest(
                    f"queue {queue} has placement spread, so it is in many slots. Name a slot"
                )
            slots, what = {found}, f"queue {queue}"
        else:
            assert namespace is not None
            slots, what = await self._of_namespace(namespace), f"namespace {namespace}"
        shards = await self.read()
        where = await self._sources(shards)
        moves = [Move(each, where[each], to) for each in sorted(slots) if where[each] != to]
        if not moves:
            raise errors.BadRequest(f"{what} is in database {to} already")
        await self._check_free({each.slot for each in moves})
        return self._plan(moves, shards)

    async def plan_drain(self, name: str) -> Plan:
        """Plan to move all slots of a database evenly to the others."""
        await self._check(name)
        shards = await self.read()
        where = await self._sources(shards)
        used = {row["slot"] for shard in shards for row in shard.slots}
        listed = await self._listed()
        available = {each.name for each in shards if each.usage is not None}
        counts = {each: [0, 0] for each in listed if each in available and each != name}
        if not counts:
            raise errors.DatabaseUnavailable("no other database is available")
        for slot, owner in where.items():
            if owner in counts:
                counts[owner][slot in used] += 1
        moves: list[Move] = []
        for is_used in (False, True):
            leaving = sorted(s for s, o in where.items() if o == name and (s in used) == is_used)
            moves += _divided(leaving, name, {each: n[is_used] for each, n in counts.items()})
        if not moves:
            raise errors.BadRequest(f"database {name} owns no slots")
        await self._check_free({each.slot for each in moves}, name)
        return self._plan(moves, shards)

    async def plan_rebalance(self, confirmed: Sequence[PlannedMove] | None = None) -> Rebalance:
        """
        Plan to make the load of all databases even.

        ``confirmed``: the moves of an earlier plan, to make again as they are. Raises
        Conflict if one of their slots is in another database now.
        """
        self._check_several()
        listed = await self._listed()
        shards = [each for each in await self.read() if each.name in listed]
        for each in shards:
            if each.usage is None:
                raise errors.DatabaseUnavailable(f"database {each.name} is unavailable")
        for row in await self._first.running_moves():
            raise errors.SlotBusy(
                f"operation {row['id']} moves slots. Wait for its end, or cancel it"
            )
        sizes = await asyncio.gather(*(self._homes[name].sizes() for name in listed))
        slots = [
            used for shard, found in zip(shards, sizes, strict=True) for used in _used(shard, found)
        ]
        if confirmed is not None:
            check(confirmed, listed, slots)
        return Rebalance(listed, slots, confirmed if confirmed is not None else plan(listed, slots))

    async def remove(self, name: str) -> None:
        """Remove a database that owns no slots, and has nothing else that is in use."""
        await self._check(name)
        if name == next(iter(self._homes)):
            raise errors.BadRequest(f"database {name} is the first one, which can't be removed")
        # First, because a move to it that begins later fails.
        if not await self._first.remove(name):
            raise _unknown(name, await self._listed())
        try:
            await self._check_unused(name)
        except BaseException:
            await self._first.remove(name, is_removed=False)
            raise

    async def _check_unused(self, name: str) -> None:
        for row in await self._first.running_moves():
            if any(name in each[1:] for each in row["arguments"]["moves"]):
                raise errors.SlotBusy(f"operation {row['id']} moves slots of database {name}")
        usage = await self._homes[name].usage()
        names = {
            "slots": "slots. Run `queen shard drain` first",
            "leaving": "slots that are leaving",
            "arrivals": "slots that arrive",
            "queues": "queues",
            "outbox": "messages in its outbox",
            "forwards": "messages for other databases",
            "workflows": "workflows that are running",
        }
        for field, what in names.items():
            if usage[field]:
                raise errors.SlotBusy(f"database {name} has {usage[field]} {what}")

    @property
    def _first(self) -> Homes:
        return self._homes[next(iter(self._homes))]

    async def _listed(self) -> list[str]:
        """The databases that this server knows, without those that were removed."""
        listed = await self._first.databases()
        return [name for name in self._homes if name in listed]

    async def _check(self, name: str) -> None:
        """Raise unless there are several databases, and this is one of them."""
        self._check_several()
        if name not in (listed := await self._listed()):
            raise _unknown(name, listed)

    def _check_several(self) -> None:
        if self._cluster.is_alone:
            raise errors.BadRequest(
                "this server has one database. Add others with QUEEN_DATABASES first"
            )

    async def _of_namespace(self, namespace: str) -> set[int]:
        found = await asyncio.gather(
            *(homes.of_namespace(namespace) for homes in self._homes.values())
        )
        slots = set[int]().union(*found)
        if not slots:
            raise errors.NotFound(f"namespace {namespace} has no queues")
        return slots | {hashed(namespace)}  # Its next queues get this slot.

    async def _sources(self, shards: Sequence[Shard]) -> dict[int, str]:
        """The database of each slot. A slot that is leaving is in the database that it leaves."""
        await self._cluster.owners.load()
        where = self._cluster.owners.all()
        for shard in shards:
            where |= {row["slot"]: shard.name for row in shard.slots if row["state"] == "leaving"}
        return where

    def _plan(self, moves: list[Move], shards: Sequence[Shard]) -> Plan:
        by_slot = {each.slot: each for each in moves}
        used = {each.source for each in moves} | {each.target for each in moves}
        hindrances: list[str] = []
        for shard in shards:
            if shard.usage is None and shard.name in used:
                hindrances.append(f"database {shard.name} is unavailable")
            for row in shard.slots:
                move = by_slot.get(row["slot"])
                if move is None or move.source != shard.name:
                    continue
                if row["state"] == "leaving" and row["moved_to"] != move.target:
                    raise errors.SlotBusy(
                        f"slot {move.slot} is leaving to database {row['moved_to']}. Move it there"
                        " first"
                    )
                hindrances += row["hindrances"]
        return Plan(moves, next(iter(hindrances), None))

    async def _check_free(self, slots: Collection[int], target: str | None = None) -> None:
        """Raise SlotBusy if an operation will move one of these slots, or any to this database."""
        for row in await self._first.running_moves():
            if row["arguments"].get("is_cancelled"):
                continue
            for slot, _, to in row["arguments"]["moves"][row["cursor"] or 0 :]:
                if slot in slots or to == target:
                    raise errors.SlotBusy(f"operation {row['id']} moves slot {slot} to {to}")


def _used(shard: Shard, sizes: Mapping[int, int]) -> list[UsedSlot]:
    """The slots of a database that have queues. Those that are moving or must not move stay."""
    used: list[UsedSlot] = []
    for row in shard.slots:
        slot: int = row["slot"]
        if row["queue_count"]:
            weight = Weight(shard.loads.get(slot, IDLE).bytes_per_second, sizes.get(slot, 0), 1)
            is_free = row["state"] == "owned" and row["copied_to"] is None
            is_movable = is_free and not row["hindrances"]
            used.append(UsedSlot(slot, shard.name, weight, is_movable, tuple(row["queues"])))
    return used


def _divided(slots: Iterable[int], source: str, counts: Mapping[str, int]) -> list[Move]:
    """Moves to the databases that have the fewest slots, by target."""
    least = [(count, name) for name, count in counts.items()]
    heapq.heapify(least)
    moves: list[Move] = []
    for slot in slots:
        count, name = least[0]
        moves.append(Move(slot, source, name))
        heapq.heapreplace(least, (count + 1, name))
    return sorted(moves, key=lambda each: (each.target, each.slot))


def _unknown(name: str, listed: Collection[str]) -> errors.NotFound:
    return errors.NotFound(f"database {name} does not exist. There are {', '.join(listed)}")
