"""Several databases that form one queue, as a reader of whole queues uses them."""

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Self, TypeVar

from queen import errors
from queen.arrow.database import Database

T = TypeVar("T")

FOREVER: Final = 1 << 62
"""Above all transaction numbers."""
_LATE: Final = datetime.max.replace(tzinfo=UTC)
_PATIENCE_SECONDS: Final = 60.0
_NUMBERS: Final = 1024
"""Birthplaces with the same remainder are one database."""
_MOVING_SECONDS: Final = 1.0
"""How long a queue can be in no database, because they are asked one after the other."""
_WAIT_SECONDS: Final = 0.1


class Member(NamedTuple):
    """A database, and its transactions at one time."""

    birthplace: int
    """Identifies the messages that it has stored first."""
    horizon: int
    """Everything that lower transactions stored is readable."""
    until: int
    """Everything that this transaction and later ones store was not yet stored."""
    now: datetime
    numbering: int
    server: str


class QueueOfAll(NamedTuple):
    """A queue, whichever databases have its messages."""

    id: int
    slot: int | None
    """None for placement spread: its messages are in all slots."""
    is_sealed: bool
    database: str | None
    """Where it is now. None for placement spread."""


class Move(NamedTuple):
    """A slot that has moved from one database to another."""

    source: str
    fence: int
    """Messages of the slot that were born in the source are in lower transactions."""
    target: str
    first: int
    """Messages of the slot that were born in the target since then are in this one or later."""


class State(NamedTuple):
    """All databases at one time."""

    members: dict[str, Member]
    """By name. Those that were removed or renumbered have no open transactions."""
    moves: list[Move]


Slots = dict[int, tuple[str, int]]
"""The database and the epoch of each slot."""


class Databases:
    """
    Connections to all databases, by name.

    Messages are identified by the database and the transaction that stored them first: their
    birth. A move of a slot does not change it.
    """

    def __init__(self, dsns: Mapping[str, str]) -> None:
        self.dsns = dsns
        self._databases = {name: Database(dsn) for name, dsn in dsns.items()}
        self._numbers: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for each in self._databases.values():
            each.close()

    def call(self, name: str, statement: str, *arguments: object) -> list[dict[str, Any]]:
        return self._databases[name].call(statement, *arguments)

    def ask(self, name: str, question: Callable[..., T], *arguments: object) -> T:
        """Call a function with the connection to a database."""
        return self._databases[name].ask(question, *arguments)

    def sessions(self) -> dict[str, int]:
        """How many connections to each database were opened."""
        return {name: each.sessions for name, each in self._databases.items()}

    def each(self, statement: str, *arguments: object) -> dict[str, list[dict[str, Any]]]:
        """Run a statement in every database."""
        return {name: self.call(name, statement, *arguments) for name in self.dsns}

    def rows(self, statement: str, *arguments: object) -> list[dict[str, Any]]:
        """Run a statement in every database, and return all rows."""
        return [row for rows in self.each(statement, *arguments).values() for row in rows]

    @property
    def numbers(self) -> dict[str, int]:
        """The number of each database, also of those that were removed."""
        if not self._numbers:
            self._numbers = self._listed()
        return self._numbers

    def _listed(self) -> dict[str, int]:
        listed: list[dict[str, Any]] = []
        for name in self.dsns:
            rows = self.call(name, "member")
            if not rows or rows[0]["name"] != name:
                found = f"is {rows[0]['name']}" if rows else "has not joined others"
                raise errors.InvalidOption(
                    f"databases: {name} {found}: write the names of QUEEN_DATABASES"
                )
            if rows[0]["number"] == 0:
                listed = self.call(name, "members_listed")
        missing = [
            each["name"]
            for each in listed
            if each["name"] not in self.dsns and not each["is_removed"]
        ]
        if missing or not listed:
            named = ", ".join(missing) or "the first one"
            raise errors.InvalidOption(
                f"databases: {named} is missing: name all of QUEEN_DATABASES"
            )
        return {each["name"]: each["number"] for each in listed}

    def state(self, slot: int | None) -> "State":
        """Read the transactions of all databases, and the moves of a slot or of all."""
        members: dict[str, Member] = {}
        for name in self.dsns:
            (row,) = self.call(name, "member")
            members[name] = Member(**{each: row[each] for each in Member._fields})
        # After the horizons: messages of moves that are not seen yet are above them.
        rows = {(row["slot"], row["epoch"]): row for row in self.rows("moves", slot)}
        names = {each.birthplace: name for name, each in members.items()}
        listed = {number: name for name, number in self.numbers.items()}
        places = {row[end] for row in rows.values() for end in ("source", "target")}
        for place in sorted(places - names.keys(), reverse=True):
            # No message is born there any more: its numbers have changed, or it was removed.
            name = listed[place % _NUMBERS]
            names[place] = f"{name}/{place // _NUMBERS}" if name in members else name
            members[names[place]] = Member(place, FOREVER, FOREVER, _LATE, 0, "")
        moves = [
            Move(names[row["source"]], row["fence"], names[row["target"]], row["first"])
            for _, row in sorted(rows.items())
        ]
        return State(members, moves)

    def slots(self, slot: int | None) -> Slots:
        """Where the rows of a slot are, or those of all slots."""
        return _owners(self.each("slots_here", slot))

    def unmoved(self, slot: int | None, work: Callable[[Slots], T]) -> T:
        """
        Read in several databases while no slot moves between them. Repeats it otherwise.

        Without this, messages of a slot could be seen twice, or not at all.
        """
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            before = self.each("slots_here", slot)
            try:
                result = work(_owners(before))
            except errors.DataLost:
                if self.each("slots_here", slot) == before:
                    raise
            else:
                if self.each("slots_here", slot) == before:
                    return result
            if time.monotonic() > until:
                raise errors.DatabaseUnavailable("slots move too often: run this again later")

    def find(self, queue: str) -> QueueOfAll:
        """Return a queue. Raises QueueNotFound, or InvalidOption for other databases."""
        assert self.numbers
        until = time.monotonic() + _MOVING_SECONDS
        while True:
            for name, rows in self.each("pipeline_queue", queue).items():
                for row in rows:
                    slot: int | None = row["slot"]
                    # Before a slot arrives, its queues do.
                    if slot is None or self.slots(slot).get(slot, ("", 0))[0] == name:
                        place = None if slot is None else name
                        return QueueOfAll(row["id"], slot, row["has_data_keys"], place)
            # It may have moved from a database that was asked late to one that was asked early.
            if time.monotonic() > until:
                raise errors.QueueNotFound(f"queue {queue} does not exist")
            time.sleep(_WAIT_SECONDS)

    def place(self, queue: str) -> str:
        """Return the database of a queue. Raises QueueNotFound, or CrossShard if it is in all."""
        found = self.find(queue)
        if found.database is None:
            raise errors.CrossShard(
                f"queue {queue} has placement spread, and this pipeline needs one database"
            )
        return found.database

    def partition_ids(self, queue_id: int, names: Iterable[str]) -> dict[str, list[int]]:
        """Return the ids of partitions by name."""
        found: dict[str, set[int]] = {}
        for row in self.rows("partitions_named", queue_id, sorted(set(names))):
            found.setdefault(row["name"], set()).add(row["id"])
        return {name: sorted(ids) for name, ids in found.items()}


def _owners(rows: Mapping[str, list[dict[str, Any]]]) -> Slots:
    found: Slots = {}
    for name, slots in rows.items():
        for row in slots:
            # The former owner still has the rows when a slot has just arrived.
            if row["slot"] not in found or found[row["slot"]][1] < row["epoch"]:
                found[row["slot"]] = (name, row["epoch"])
    return found


def by_database(slots: Slots) -> dict[str, dict[int, int]]:
    """The slots in each database, with their epochs."""
    found: dict[str, dict[int, int]] = {}
    for slot, (name, epoch) in slots.items():
        found.setdefault(name, {})[slot] = epoch
    return found


def parse(text: str) -> dict[str, str]:
    """Return the DSN of each database by name, from ``NAME=URL`` separated by spaces."""
    found: dict[str, str] = {}
    for each in text.split():
        name, equals, url = each.partition("=")
        if not equals or not name.replace("-", "").isalnum() or "://" not in url:
            # The text has passwords.
            raise errors.InvalidOption(
                "databases: write NAME=URL for each database, separated by spaces"
            )
        if name in found:
            raise errors.InvalidOption(f"databases: {name} is named twice")
        found[name] = url
    return found
