"""The slots of queues, and the owners of slots."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

from queen.store.connection.database import Database, Record

SPREAD: Final = -1
"""Stands for the slot of a spread queue. Each of its partitions has its own."""


class Load(NamedTuple):
    """Messages that are pushed per second, and their payload bytes."""

    messages_per_second: float = 0.0
    bytes_per_second: float = 0.0


IDLE: Final = Load()


class Homes:
    """What one database knows about where queues are. The first database decides."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, names: Sequence[str]) -> dict[str, int]:
        """The slots of those queues that have one."""
        rows = await self._database.fetch("find_homes", names)
        return _slots(rows)

    async def claim(
        self, namespaces: Mapping[str, str], spread: Collection[str] = ()
    ) -> dict[str, int]:
        """
        The slots of queues, decided now if necessary.

        ``namespaces``: by queue. ``spread``: new queues to spread.
        """
        rows = await self._database.fetch(
            "claim_homes",
            [*namespaces],
            [*namespaces.values()],
            [name in spread for name in namespaces],
        )
        return _slots(rows)

    async def copy(self, homes: Mapping[str, int]) -> None:
        """Store what the first database decided."""
        await self._database.fetch("copy_homes", [*homes], [*homes.values()])

    async def reserve(self, name: str, database: str, seconds: float) -> datetime | None:
        """
        Reserve the name of an object for a database. Returns until when.

        None: it is reserved for another one.
        """
        (row,) = await self._database.fetch("reserve", name, database, seconds)
        return row["until"]

    async def end_reservation(self, name: str, database: str, until: datetime) -> None:
        """End a reservation, unless another request has extended it."""
        await self._database.fetch("end_reservation", name, database, until)

    async def owned(self) -> list[tuple[int, int]]:
        """The slots that this database owns, with their epochs."""
        return [(row["slot"], row["epoch"]) for row in await self._database.fetch("owned_slots")]

    async def elsewhere(self) -> dict[int, str]:
        """The slots that have left this database or are leaving it, with their destinations."""
        rows = await self._database.fetch("slots_elsewhere")
        return {row["slot"]: row["moved_to"] for row in rows}

    async def has_left(self, slots: Sequence[int]) -> bool:
        """Whether one of these slots has left this database or is leaving it."""
        (row,) = await self._database.fetch("has_left", slots)
        return row["has_left"]

    async def of_namespace(self, namespace: str) -> set[int]:
        """The slots of this database that have queues of a namespace."""
        return {row["slot"] for row in await self._database.fetch("slots_of_namespace", namespace)}

    async def used(self) -> list[Record]:
        """The slots of this database that have queues or are moving."""
        return await self._database.fetch("used_slots")

    async def loads(self) -> dict[int, Load]:
        """The load of those slots to which messages were pushed in the last minutes."""
        return {
            row["slot"]: Load(row["messages_per_second"], row["bytes_per_second"])
            for row in await self._database.fetch("slot_loads")
        }

    async def sizes(self) -> dict[int, int]:
        """About how many bytes of messages each slot has stored."""
        rows = await self._database.fetch("slot_sizes", None)
        return {row["slot"]: row["bytes"] for row in rows}

    async def arriving(self) -> dict[int, Record]:
        """The progress of those slots that are copied to this database."""
        return {row["slot"]: row for row in await self._database.fetch("arriving_slots")}

    async def usage(self) -> Record:
        """How many slots, queues and other objects this database has."""
        (row,) = await self._database.fetch("usage")
        return row

    async def databases(self) -> list[str]:
        """The names of the databases that this one lists."""
        return [row["name"] for row in await self._database.fetch("databases")]

    async def remove(self, name: str, *, is_removed: bool = True) -> bool:
        """Remove another database, or list it again. Returns False if that changes nothing."""
        (row,) = await self._database.fetch("remove_database", name, is_removed)
        return row["is_changed"]

    async def running_moves(self) -> list[Record]:
        """The operations that move slots now."""
        return await self._database.fetch("running_moves")


def _slots(rows: Sequence[Record]) -> dict[str, int]:
    return {row["name"]: SPREAD if row["slot"] is None else row["slot"] for row in rows}
