"""The keys of one partition in memory: where each was last seen."""

from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

_PART: Final = 8
_OFFSET: Final = 7
_ENTRY: Final = _PART + 2 + _OFFSET
"""The first part of a key, its last two bytes, and an offset."""
_FULL: Final = 32
"""Entries per bucket at which the number of buckets grows."""
_MOST_BUCKETS: Final = 2**16
_MARKS: Final = 16
"""A window is pruned in steps of this share."""
_FEW: Final = 1024
KEY_BYTES: Final = 24
"""Measured: an entry with its share of a bucket that is two thirds full."""
WINDOW_BYTES: Final = 1024


class KeyWindow:
    """
    The keys of all blocks of a partition up to one block, and where each was last seen.

    An entry is a part of a key and an offset, in a bucket that the end of the key selects. This
    needs a tenth of the memory of a dictionary. Two keys may share that part, so PostgreSQL
    compares a key that is found here with the whole key at its offset.
    """

    __slots__ = (
        "_added",
        "_buckets",
        "_expired",
        "_marks",
        "at",
        "count",
        "is_behind",
        "newest",
        "seconds",
    )

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        """The dedup window for which the keys are complete."""
        self.newest = -1
        """The offset and the time of the newest block. -1 without blocks."""
        self.at: datetime | None = None
        self.count = 0
        self.is_behind = False
        """Newer blocks may exist, which are read before the next comparison."""
        self._buckets = [bytearray()]
        self._added = 0
        self._expired = 0, 0
        """The offset below which keys have expired, and how many were added until then."""
        self._marks: deque[tuple[datetime, int, int]] = deque()
        """The same for later times. Keys expire up to one step late."""

    @property
    def size_bytes(self) -> int:
        return WINDOW_BYTES + self.count * KEY_BYTES

    def add(self, base: int, keys: Sequence[bytes], at: datetime) -> None:
        """Add the keys of the next block."""
        has_room = len(self._buckets) < _MOST_BUCKETS
        if has_room and self.count + len(keys) > len(self._buckets) * _FULL:
            self._grow(self.count + len(keys))
        buckets, mask = self._buckets, len(self._buckets) - 1
        for offset, key in enumerate(keys, base):
            buckets[(key[14] << 8 | key[15]) & mask] += key[:_PART] + key[14:] + offset.to_bytes(7)
        self.newest, self.at = base, at
        self.count += len(keys)
        self._added += len(keys)
        if not self._marks or (at - self._marks[-1][0]).total_seconds() >= self.seconds / _MARKS:
            self._marks.append((at, base + len(keys), self._added))
            self._expire(at)

    def find(self, keys: Sequence[bytes]) -> list[tuple[int, int]]:
        """The indexes of keys that may be known, and where each was last seen."""
        buckets, mask = self._buckets, len(self._buckets) - 1
        found = [
            index
            for index, key in enumerate(keys)
            if key[:_PART] in buckets[(key[14] << 8 | key[15]) & mask]
        ]
        places = [(index, self._last(keys[index])) for index in found]
        return [(index, offset) for index, offset in places if offset is not None]

    def _last(self, key: bytes) -> int | None:
        bucket = self._buckets[(key[14] << 8 | key[15]) & len(self._buckets) - 1]
        part = key[:_PART]
        at = bucket.rfind(part)
        while at > 0 and at % _ENTRY:
            at = bucket.rfind(part, 0, at + _PART - 1)
        if at < 0:
            return None
        return int.from_bytes(bucket[at + _ENTRY - _OFFSET : at + _ENTRY])

    def _expire(self, now: datetime) -> None:
        """Drop expired keys if they are half of all."""
        window = timedelta(seconds=self.seconds)
        while self._marks and self._marks[0][0] <= now - window:
            _, *expired = self._marks.popleft()
            self._expired = expired[0], expired[1]
        offset, added = self._expired
        dropped = added - (self._added - self.count)
        if dropped < max(_FEW, self.count // 2):
            return
        self.count -= dropped
        self._rebuild(len(self._buckets), offset)

    def _grow(self, count: int) -> None:
        size = len(self._buckets)
        while size < _MOST_BUCKETS and count > size * _FULL // 2:
            size *= 2
        self._rebuild(size, 0)

    def _rebuild(self, size: int, first: int) -> None:
        """Sort the entries from an offset on into new buckets."""
        old, mask = self._buckets, size - 1
        least = first.to_bytes(_OFFSET)
        self._buckets = buckets = [bytearray() for _ in range(size)]
        for bucket in old:
            for at in range(0, len(bucket), _ENTRY):
                entry = bucket[at : at + _ENTRY]
                if entry[-_OFFSET:] >= least:
                    buckets[(entry[_PART] << 8 | entry[_PART + 1]) & mask] += entry
