"""What several databases record about each other, and repairs after one was restored."""

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from queen import sql

if TYPE_CHECKING:
    import asyncpg

    Connection = asyncpg.Connection[asyncpg.Record]

_ASIDE: Final = "may be stored already: this database was restored to an earlier state"


class SlotRow(NamedTuple):
    """A slot, as one database knows it."""

    slot: int
    state: str
    epoch: int
    moved_to: str | None
    copied_to: str | None
    source: str | None
    """The database from which it is copied to this one."""


class LostHome(NamedTuple):
    """A queue that the first database does not find in its slot."""

    queue: str
    slot: int
    database: str
    recorded: int | None
    """The slot in which the first database searches for it, if any."""


class NewerId(NamedTuple):
    """An id that a database has created, although its sequence is below it."""

    database: str
    sequence: str
    newest: int
    found_in: str


class Outbox(NamedTuple):
    """Messages of one queue that a database sends to another one."""

    queue: str
    sender: str
    receiver: str
    waiting: int = 0
    """How many may be stored already, because the receiver knows a later batch than the sender."""
    lost: int = 0
    """The sequence of the last batch that the sender has sent, and the receiver does not know."""


class Comparison:
    """
    The databases that are available.

    The comparisons read whole tables of names and ids, but no messages.
    """

    def __init__(self, connections: "Mapping[str, Connection]", names: Sequence[str]) -> None:
        """``names``: of all databases, the first one first."""
        self._connections = connections
        self._names = names
        self._first = connections.get(names[0])

    async def slots(self) -> dict[str, list[SlotRow]]:
        """All slots, as each database knows them."""
        return {
            name: [SlotRow(**row) for row in await self._fetch(name, "slots")]
            for name in self._connections
        }

    async def running_moves(self) -> list[str]:
        """The arguments of the operations that move slots now."""
        if self._first is None:
            return []
        rows = await self._fetch(self._names[0], "running_moves")
        return [row["arguments"] for row in rows]

    async def lost_homes(self) -> list[LostHome]:
        """Queues that a request does not find."""
        lost: list[LostHome] = []
        for name in self._connections if self._first is not None else ():
            last = ""
            while queues := await self._fetch(name, "owned_queues", last):
                last = queues[-1]["name"]
                lost += [
                    LostHome(row["name"], row["slot"], name, row["recorded"])
                    for row in await self._fetch(
                        self._names[0],
                        "other_homes",
                        [row["name"] for row in queues],
                        [row["slot"] for row in queues],
                    )
                ]
        return lost

    async def newer_ids(self) -> list[NewerId]:
        """Ids that a database would create again. ``found_in`` has the newest."""
        newest: dict[tuple[str, str], NewerId] = {}
        by_number = await self._by_number()
        used = {name: await self._used_ids(name) for name in self._connections}
        for found_in in self._connections:
            for row in await self._fetch(found_in, "newest_ids"):
                name, sequence, id_ = by_number.get(row["number"]), row["sequence"], row["newest"]
                if name is None or id_ <= used[name][sequence]:
                    continue
                if (name, sequence) not in newest or newest[name, sequence].newest < id_:
                    newest[name, sequence] = NewerId(name, sequence, id_, found_in)
        return [*newest.values()]

    async def outboxes(self) -> list[Outbox]:
        """Messages that may have been sent already, and messages that were lost."""
        if self._first is None:
            return []
        # In this order, because batches are sent meanwhile.
        before = {name: await self._fetch(name, "sent_batches") for name in self._connections}
        stored = {name: await self._stored(name) for name in self._connections}
        after = {name: await self._fetch(name, "sent_batches") for name in self._connections}
        receivers = await self._receivers({row["queue"] for rows in after.values() for row in rows})
        found: list[Outbox] = []
        for sender, number in (await self._numbers()).items():
            for row in before[sender]:
                receiver = receivers.get(row["queue"])
                if receiver is None or not row["is_ended"] or not row["is_recent"]:
                    continue
                if stored[receiver].get((row["queue"], number), 0) < row["sequence"]:
                    found.append(Outbox(row["queue"], sender, receiver, lost=row["sequence"]))
            for row in after[sender]:
                receiver = receivers.get(row["queue"])
                latest = max(each.get((row["queue"], number), 0) for each in stored.values())
                if receiver is not None and row["waiting"] and latest > row["sequence"]:
                    found.append(Outbox(row["queue"], sender, receiver, waiting=row["waiting"]))
        return found

    async def _receivers(self, queues: Collection[str]) -> dict[str, str]:
        """The databases of queues."""
        slots = await self._fetch(self._names[0], "find_homes", [*queues])
        owners = {
            row.slot: name
            for name, rows in (await self.slots()).items()
            for row in rows
            if row.state == "owned"
        }
        return {row["name"]: owners[row["slot"]] for row in slots if row["slot"] in owners}

    async def _stored(self, name: str) -> dict[tuple[str, int], int]:
        """The last batch of each queue and database."""
        rows = await self._fetch(name, "stored_batches")
        return {(row["queue"], row["number"]): row["sequence"] for row in rows}

    async def _numbers(self) -> dict[str, int]:
        numbers: dict[str, int] = {}
        for name in self._connections:
            for row in await self._fetch(name, "databases"):
                if row["is_here"]:
                    numbers[name] = row["number"]
        return numbers

    async def _by_number(self) -> dict[int, str]:
        return {number: name for name, number in (await self._numbers()).items()}

    async def _used_ids(self, name: str) -> dict[str, int]:
        return {row["sequence"]: row["used"] for row in await self._fetch(name, "used_ids")}

    # Repairs.

    async def repair(self) -> None:
        """
        Let a database that was restored to an earlier state continue with the others.

        Those that were not restored stay as they are.
        """
        await self._repair_slots()
        for each in await self.lost_homes():
            if each.recorded is None:
                await self._value(self._names[0], "copy_homes", [each.queue], [each.slot])
        for each in await self.newer_ids():
            await self._value(each.database, "pass_shared_id", each.sequence, each.newest)
        for each in await self.outboxes():
            if each.waiting:
                await self._value(each.sender, "set_aside", each.queue, _ASIDE)

    async def _repair_slots(self) -> None:
        by_slot: dict[int, dict[str, SlotRow]] = {}
        for name, rows in (await self.slots()).items():
            for row in rows:
                by_slot.setdefault(row.slot, {})[name] = row
        for slot, rows in by_slot.items():
            last = max(row.epoch for row in rows.values())
            owners = [name for name, row in rows.items() if row.state == "owned"]
            if not owners and not any(row.state == "leaving" for row in rows.values()):
                owners = await self._owned_again(slot, rows, last)
                last += 1
            if not owners:
                continue
            owner = max(owners, key=functools.partial(_epoch, rows))
            epoch = last if rows[owner].epoch == last else last + 1
            await self._value(owner, "raise_epoch", slot, epoch)
            for name, row in rows.items():
                is_wrong = name == self._names[0] and row.moved_to != owner
                if name != owner and (row.state != "gone" or is_wrong):
                    await self._value(name, "close_slot", slot, owner, epoch)

    async def _owned_again(self, slot: int, rows: Mapping[str, SlotRow], last: int) -> list[str]:
        """Let the last owner of a slot, which was restored to a state before, own it again."""
        owner = next(row.moved_to for row in rows.values() if row.epoch == last)
        if owner is None or owner not in rows or len(rows) < len(self._names):
            return []
        await self._value(owner, "own_slots", [slot], [last])
        return [owner]

    async def _fetch(self, name: str, call: str, *arguments: object) -> "list[asyncpg.Record]":
        return await self._connections[name].fetch(sql.CALLS[call], *arguments)

    async def _value(self, name: str, call: str, *arguments: object) -> Any:  # noqa: ANN401 - any column
        return await self._connections[name].fetchval(sql.CALLS[call], *arguments)


def _epoch(rows: Mapping[str, SlotRow], name: str) -> int:
    return rows[name].epoch
