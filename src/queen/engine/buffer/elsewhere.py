"""Buffered records whose slots have moved to other databases while they waited."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from queen.codec.encryption.keys import Keyring
from queen.engine.buffer.file_buffer import BufferedItem, BufferedPush, encode_push, part_of
from queen.engine.buffer.reader import Replayed
from queen.engine.buffer.record_writer import RecordWriter

Name = tuple[str, str]
"""A queue and a partition."""


class Home(NamedTuple):
    """Where the messages of a partition are stored."""

    slot: int
    writer: RecordWriter


class Homes(Protocol):
    """The databases of partitions."""

    async def of_partitions(self, names: Collection[Name]) -> Mapping[Name, Home]:
        """Where partitions are, without those whose queue no database knows."""
        ...

    async def refresh(self) -> None:
        """Read again which database owns which slots."""
        ...


class Elsewhere:
    """
    Divides records among databases, and stores the parts that belong to others.

    A part has all messages of a record in one database. It is stored before the progress of its
    file is, so it can be sent twice. Each database recognises it by producers of its own: one per
    file and slot, whose sequence is the number of the last stored record. They move with the slot,
    and no other slot uses them. So they are right after any number of moves.

    A numbered request that is in one database keeps its number. If it is in several, it loses the
    number, because one number would stand for several parts.
    """

    def __init__(self, own: RecordWriter, homes: Homes, keyring: Keyring) -> None:
        self._own = own
        self._homes = homes
        self._keyring = keyring
        self._last: dict[tuple[bytes, int], int] = {}
        """The last stored record per file and slot, as far as it was read."""
        self._used: set[RecordWriter] = set()

    def forget(self) -> None:
        """Read the progress from the databases again."""
        self._last.clear()

    async def refresh(self) -> None:
        """Read again which database owns which slots."""
        await self._homes.refresh()

    async def hand_over(self, batch: Sequence[Replayed]) -> list[Replayed]:
        """Store the parts of other databases. Returns the records with the rest."""
        names = {_name(item) for each in batch if each.push for item in each.push.items}
        homes = await self._homes.of_partitions(names)
        parts: dict[RecordWriter, list[Replayed]] = {}
        own: list[Replayed] = []
        for each in batch:
            divided = await self._divided(each, homes)
            own.append(divided.pop(self._own, each._replace(push=None, body=b"")))
            for writer, part in divided.items():
                parts.setdefault(writer, []).append(part)
        for writer, some in parts.items():
            self._used.add(writer)
            slots = {_key(each): _slots(each.push, homes) for each in some}
            await writer.store(some, lambda each: _progress(each, slots[_key(each)]))  # noqa: B023 - called in this iteration
            for each in some:
                for slot in slots[_key(each)]:
                    self._last[each.found.file_id, slot] = each.number
        return own

    async def end(self, files: Iterable[bytes]) -> None:
        """Remove the progress of deleted files."""
        gone = {*files}
        keys = [key for key in self._last if key[0] in gone]
        for writer in self._used:
            await writer.end([_producer(*key) for key in keys])
        for key in keys:
            del self._last[key]

    async def _divided(
        self, each: Replayed, homes: Mapping[Name, Home]
    ) -> dict[RecordWriter, Replayed]:
        """The parts of a record that are not stored yet, by their databases."""
        if each.push is None:
            return {self._own: each}
        items: dict[RecordWriter, list[BufferedItem]] = {}
        for item in each.push.items:
            home = homes.get(_name(item))
            if home is None:
                items.setdefault(self._own, []).append(item)
            elif not await self._is_stored(each, home):
                items.setdefault(home.writer, []).append(item)
        left = sum(map(len, items.values()))
        if len(items) == 1 and left == len(each.push.items):
            return {writer: each for writer in items}
        if each.push.producer is not None:
            for writer in items:
                if await writer.has_stored(each.push.producer):
                    return {}  # By an attempt before it was buffered, in one database.
        return {writer: self._part(each, each.push, some) for writer, some in items.items()}

    def _part(self, each: Replayed, push: BufferedPush, items: list[BufferedItem]) -> Replayed:
        part = part_of(push, items)
        return each._replace(push=part, body=encode_push(part, self._keyring))

    async def _is_stored(self, each: Replayed, home: Home) -> bool:
        key = each.found.file_id, home.slot
        if key not in self._last:
            last = await home.writer.last(_producer(*key))
            self._last[key] = -1 if last is None else last
        return each.number <= self._last[key]


def producer_of(file_id: bytes) -> str:
    """The producer that stands for a file. Its sequence is the number of its last stored record."""
    return f"__buffer:{file_id.hex()}"


def _producer(file_id: bytes, slot: int) -> str:
    return f"{producer_of(file_id)}:{slot}"


def _slots(push: BufferedPush | None, homes: Mapping[Name, Home]) -> set[int]:
    return {homes[_name(item)].slot for item in push.items} if push else set()


def _name(item: BufferedItem) -> Name:
    return item.queue, item.partition


def _key(each: Replayed) -> tuple[bytes, int]:
    return each.found.file_id, each.number


def _progress(each: Replayed, slots: Iterable[int]) -> list[tuple[str, int]]:
    return [(_producer(each.found.file_id, slot), each.number) for slot in slots]
