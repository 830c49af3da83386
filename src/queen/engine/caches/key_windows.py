"""The keys of recently pushed partitions, so that PostgreSQL stores keys without an index."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

from queen.engine.caches.key_window import KEY, PACKED_BYTES, WINDOW_BYTES, KeyWindow
from queen.store.connection.database import Record
from queen.store.messages import Messages, Push

MOST_KEYS: Final = 2**18
"""Keys of a partition in blocks. Its further keys become rows until some have expired."""
_SMALL_BYTES: Final = 2**16
"""Blocks of more bytes are read one partition at a time."""
_IDLE_SECONDS: Final = 60.0
"""A partition without pushes for this time gives its memory to another one."""
_GAP_WORK: Final = 2**22
"""PostgreSQL compares about one byte of a block with one key per nanosecond."""
_STEP_KEYS: Final = 2**14
_PACKED_KEYS: Final = 2**9


class KeyWindows:
    """
    The keys in memory, for each partition up to the newest block that this process knows.

    They only say which keys PostgreSQL has to search. It compares the newest block that is named
    here with the newest one that exists, under the partition's lock. So a window that is evicted,
    incomplete or of another database costs a search, and never an answer.
    """

    def __init__(self, messages: Messages, most_bytes: int) -> None:
        self._messages = messages
        self._most_bytes = most_bytes
        self._windows: OrderedDict[int, tuple[KeyWindow, float]] = OrderedDict()
        """The window of each partition and the time of its last use, least recent first."""
        self.size_bytes = 0

    def forget(self) -> None:
        """Drop everything, because this may be another database."""
        self._windows.clear()
        self.size_bytes = 0

    async def compare(self, push: Push, attempt: int) -> None:
        """Add what this process knows about the keys of a push."""
        if not self._most_bytes:
            return
        partition_ids = push.partition_ids + push.scheduled_partition_ids
        await self._read({partition_ids[entry - 1] for entry in push.key_entries})
        now = time.monotonic()
        windows = self._windows
        known: list[KeyWindow | None] = [None] * len(partition_ids)
        start = 0
        for entry, count in zip(push.key_entries, push.key_counts, strict=True):
            partition_id = partition_ids[entry - 1]
            if (kept := windows.get(partition_id)) is not None:
                window = known[entry - 1] = kept[0]
                windows[partition_id] = window, now
                windows.move_to_end(partition_id)
                for index, offset in window.find(push.keys[start : start + count]):
                    push.hits.append(start + index + 1)
                    push.hit_entries.append(entry)
                    push.hit_offsets.append(offset)
            start += count
        if not any(known):
            return
        has_room = self.size_bytes + len(push.keys) * PACKED_BYTES <= self._most_bytes
        for window in known:
            if window is None:
                push.known_offsets.append(None)
                push.known_ats.append(None)
                push.known_seconds.append(None)
                push.in_blocks.append(False)
            else:
                push.known_offsets.append(window.newest)
                push.known_ats.append(window.at)
                push.known_seconds.append(window.seconds)
                push.in_blocks.append(has_room and window.count < MOST_KEYS)
        # Other processes may push to these partitions faster than this one reads their blocks.
        push.gap_bytes = min(_GAP_WORK // len(push.keys), _SMALL_BYTES) << (4 * min(attempt, 5))

    def note(self, push: Push, rows: Sequence[Record]) -> None:
        """Add the stored keys, and note where other processes have pushed."""
        if not push.known_offsets:
            return
        partition_ids = push.partition_ids + push.scheduled_partition_ids
        bases: dict[int, Record] = {}
        for row in rows:
            ordinal: int = row["ordinal"]
            if row["kind"] == "stored":
                bases[ordinal] = row
            elif row["kind"] in ("gap", "behind"):
                window = self._window(partition_ids[ordinal - 1])
                if window is not None:
                    window.is_behind = True
        if not bases:
            return
        known: dict[int, int] = {}
        start = 0
        columns = zip(push.key_entries, push.key_places, push.key_counts, strict=True)
        for entry, place, count in columns:
            start += count
            if place is None or not push.in_blocks[entry - 1]:
                continue
            partition_id, row = partition_ids[entry - 1], bases[entry]
            window = self._window(partition_id)
            if window is None or window.is_behind:
                continue
            # Unless another push of this process has added a block since the comparison.
            if window.newest == known.get(partition_id, push.known_offsets[entry - 1]):
                base = known[partition_id] = row["offset"] + place
                keys = push.keys[start - count : start]
                self.size_bytes += window.add(base, keys, row["created_at"])
            else:
                window.is_behind = True
        if self.size_bytes > self._most_bytes:
            self._pack(known, 2 * len(push.keys))

    def _pack(self, partition_ids: Iterable[int], most: int) -> None:
        """Pack keys of these partitions while there is not enough memory, at most this many."""
        self._make_room(0)
        for partition_id in partition_ids:
            window = self._window(partition_id)
            while window and window.recent and most > 0 and self.size_bytes > self._most_bytes:
                self.size_bytes -= window.size_bytes
                most -= window.pack(_PACKED_KEYS)
                self.size_bytes += window.size_bytes

    def _window(self, partition_id: int) -> KeyWindow | None:
        kept = self._windows.get(partition_id)
        return kept and kept[0]

    async def _read(self, partition_ids: set[int]) -> None:
        """Read the blocks of partitions that are new here or that other processes pushed to."""
        first: dict[int, int] = {}
        for partition_id in partition_ids:
            window = self._window(partition_id)
            if window is None:
                first[partition_id] = 0
            elif window.is_behind:
                first[partition_id] = max(window.newest, 0)
        if not first:
            return
        self._make_room(len(first) * WINDOW_BYTES)
        if self.size_bytes + len(first) * WINDOW_BYTES > self._most_bytes:
            for partition_id in first:
                self._drop(partition_id)
            return
        room = (self._most_bytes - self.size_bytes) // len(first)
        most_bytes = min(_SMALL_BYTES, room // PACKED_BYTES * KEY)
        for partition_id, size_bytes in (await self._load(first, most_bytes)).items():
            # Other partitions may need the memory more. Then its blocks become rows.
            self._make_room(size_bytes // KEY * PACKED_BYTES)
            most_bytes = (
                min(2 * MOST_KEYS, (self._most_bytes - self.size_bytes) // PACKED_BYTES) * KEY
            )
            begin = 0 if self._window(partition_id) is None else first[partition_id]
            if await self._load({partition_id: begin}, most_bytes):
                self._drop(partition_id)

    async def _load(self, first: dict[int, int], most_bytes: int) -> dict[int, int]:
        """Read blocks from these offsets on. Returns the bytes of partitions that have more."""
        rows = await self._messages.key_blocks(list(first), list(first.values()), most_bytes)
        large: dict[int, int] = {}
        blocks: dict[int, list[Record]] = {}
        seconds: dict[int, float] = {}
        for row in rows:
            partition_id: int = row["partition_id"]
            if row["base_offset"] is not None:
                blocks[partition_id].append(row)
            elif row["bytes"] > most_bytes:
                large[partition_id] = row["bytes"]
            else:
                seconds[partition_id] = row["seconds"]
                blocks[partition_id] = []
        again: dict[int, int] = {}
        for partition_id, found in blocks.items():
            is_all = first[partition_id] == 0
            if not await self._install(partition_id, found, seconds[partition_id], is_all=is_all):
                again[partition_id] = 0
        if again:
            large |= await self._load(again, most_bytes)
        return large

    async def _install(
        self, partition_id: int, blocks: list[Record], seconds: float, *, is_all: bool
    ) -> bool:
        """
        Continue the window of a partition with these blocks, or begin one.

        Returns False if its first blocks are missing, because the window cannot be continued.
        """
        window = self._window(partition_id)
        self._drop(partition_id)  # Until it is complete.
        newest = -1
        if window is not None:
            newest = window.newest
            first = (blocks[0]["base_offset"], blocks[0]["at"]) if blocks else None
            is_continued = newest < 0 or first == (newest, window.at)
            if window.seconds < seconds or not is_continued:
                return False
        elif is_all:
            window = KeyWindow(seconds)
        else:
            return False  # It was dropped meanwhile.
        left = _STEP_KEYS
        for block in blocks:
            base: int = block["base_offset"]
            if base > newest:
                keys: list[bytes] = _split(block["keys"])
                window.add(base, keys, block["at"])
                window.pack(len(keys))
                left -= len(keys)
            if left < 0:
                left = _STEP_KEYS
                await asyncio.sleep(0)
        window.is_behind = False
        self._drop(partition_id)
        self._windows[partition_id] = window, time.monotonic()
        self.size_bytes += window.size_bytes
        return True

    def _make_room(self, size_bytes: int) -> None:
        """Drop the windows of partitions without recent pushes while there is not enough memory."""
        now = time.monotonic()
        while self._windows and self.size_bytes + size_bytes > self._most_bytes:
            partition_id, (_, used_at) = next(iter(self._windows.items()))
            if now - used_at < _IDLE_SECONDS:
                return
            self._drop(partition_id)

    def _drop(self, partition_id: int) -> None:
        if (kept := self._windows.pop(partition_id, None)) is not None:
            self.size_bytes -= kept[0].size_bytes


def _split(keys: bytes) -> list[bytes]:
    return [keys[at : at + KEY] for at in range(0, len(keys), KEY)]
