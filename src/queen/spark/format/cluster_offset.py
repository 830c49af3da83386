"""The offset of a stream that reads several databases, as Spark stores it in a checkpoint."""

from collections.abc import Mapping
from typing import Any, Self

import msgspec

from queen import errors
from queen.arrow.births import Births, End
from queen.arrow.databases import Member
from queen.arrow.planning import BatchEnd
from queen.arrow.ranges import Position
from queen.spark.format.stream_offset import Start, StreamOffset


class ClusterOffset(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    For each database: all messages that were born in it before this transaction are read.

    A transaction belongs to one batch, so of each offset only whole transactions count.
    """

    queue: int
    databases: dict[str, StreamOffset]
    is_of_one: bool = False
    """The stream has read one database until now."""

    @classmethod
    def of(cls, stored: Mapping[str, Any], first: str) -> Self:
        """
        Read a stored offset.

        ``first``: the database that one without names belongs to, as the stream had only this one.
        """
        if "databases" in stored:
            return msgspec.convert(stored, cls)
        offset = StreamOffset.of(dict(stored))
        if offset.is_split:
            raise errors.InvalidOption(
                "databases: the last batch ended within a transaction. Run the stream once more"
                " with dsn, with a higher maxMessagesPerTrigger"
            )
        return cls(queue=offset.queue, databases={first: offset}, is_of_one=True)

    def stored(self) -> dict[str, Any]:
        return msgspec.to_builtins(self)

    def position(self, name: str) -> int:
        """Return the first transaction of a database that is not read."""
        offset = self.databases.get(name)
        return 0 if offset is None else offset.position.horizon

    def moved(self, ends: Mapping[str, End], members: Mapping[str, Member]) -> Self:
        """Return the offset after a batch, with the current servers."""
        databases = dict(self.databases)
        for name, end in ends.items():
            # All messages of a database that has joined since are read.
            new = StreamOffset(queue=self.queue, xid=0, since=0, numbering=members[name].numbering)
            at = BatchEnd(Position(*end[:3]), end.stored_at, is_split=False)
            databases[name] = databases.get(name, new).moved(at)
        return msgspec.structs.replace(
            self,
            databases={
                name: msgspec.structs.replace(each, server=_server(members, name) or each.server)
                for name, each in databases.items()
            },
            is_of_one=False,
        )

    def restarted(self) -> Self:
        """Return the first offset of the stream."""
        started = {name: each.restarted() for name, each in self.databases.items() if each.start}
        return msgspec.structs.replace(self, databases=started)

    @property
    def starts(self) -> dict[str, Start]:
        return {name: each.start for name, each in self.databases.items() if each.start}

    def births(self, end: Self, members: Mapping[str, Member]) -> tuple[Births, ...]:
        """Return the messages between two offsets."""
        found: list[Births] = []
        for name, member in members.items():
            offset = self.databases.get(name)
            start = None if offset is None else offset.start
            until = start.until if start is not None and start.at is not None else 0
            low = self.position(name)
            found.append(Births(member.birthplace, low, max(low, end.position(name)), until))
        return tuple(found)


def _server(members: Mapping[str, Member], name: str) -> str:
    return members[name].server if name in members else ""
