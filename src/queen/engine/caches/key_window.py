"""The keys of one partition in memory: where each was last seen."""

from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import islice, repeat
from operator import contains
from typing import Final

KEY: Final = 16
_OFFSET: Final = 7
_ENTRY: Final = KEY + _OFFSET
_FULL: Final = 32
"""Entries per bucket at which there are four times as many buckets."""
_MOST_BUCKETS: Final = 2**16
_MARKS: Final = 16
"""A window is pruned in steps of this share."""
_FEW: Final = 1024
RECENT_BYTES: Final = 160
"""Per key in a dictionary, measured."""
PACKED_BYTES: Final = 32
"""Per key in a bucket, measured."""
WINDOW_BYTES: Final = 1024


class KeyWindow:
    """
    The keys of all blocks of a partition up to one block, and where each was last seen.

    The most recent keys are in a dictionary, which is fast. If memory is short, the oldest of them
    are packed: an entry of a key and its offset, in a bucket that the end of the key selects.
    """

    __slots__ = (
        "_added",
        "_buckets",
        "_expired",
        "_marks",
        "_recent",
        "at",
        "is_behind",
        "newest",
        "packed",
        "seconds",
    )

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        """The dedup window for which the keys are complete."""
        self.newest = -1
        """The offset and the time of the newest block. -1 without blocks."""
        self.at: datetime | None = None
        self.is_behind = False
        """Newer blocks may exist, which are read before the next comparison."""
        self.packed = 0
        self._recent: dict[bytes, int] = {}
        """In the order of the offsets."""
        self._buckets = [bytearray()]
        self._added = 0
        self._expired = 0, 0
        """The offset below which keys have expired, and how many were added until then."""
        self._marks: deque[tuple[datetime, int, int]] = deque()
        """The same for later times. Keys expire up to one step late."""

    @property
    def recent(self) -> int:
        return len(self._recent)

    @property
    def count(self) -> int:
        return self.packed + len(self._recent)

    @property
    def size_bytes(self) -> int:
        return WINDOW_BYTES + self.packed * PACKED_BYTES + len(self._recent) * RECENT_BYTES

    def add(self, base: int, keys: Sequence[bytes], at: datetime) -> int:
        """Add the keys of the next block. Returns the change of `size_bytes`."""
        recent = self._recent
        is_mark_due = self._is_mark_due(at)
        if is_mark_due or not recent.keys().isdisjoint(keys):
            before = self.size_bytes
            for key in keys:  # An expired key is in use again. It moves to the end.
                recent.pop(key, None)
            self._put(base, keys, at)
            if is_mark_due:
                self._marks.append((at, base + len(keys), self._added))
                self._expire(at)
            return self.size_bytes - before
        self._put(base, keys, at)
        return len(keys) * RECENT_BYTES

    def _put(self, base: int, keys: Sequence[bytes], at: datetime) -> None:
        self._recent.update(zip(keys, range(base, base + len(keys)), strict=True))
        self.newest, self.at = base, at
        self._added += len(keys)

    def _is_mark_due(self, at: datetime) -> bool:
        marks = self._marks
        return not marks or (at - marks[-1][0]).total_seconds() >= self.seconds / _MARKS

    def find(self, keys: Sequence[bytes]) -> list[tuple[int, int]]:
        """The indexes of known keys, and where each was last seen."""
        recent = self._recent
        is_new = recent.keys().isdisjoint(keys)
        if is_new and not self.packed:
            return []
        buckets = self._buckets_of(keys)
        if is_new and not any(map(contains, buckets, keys)):
            return []
        places = ((index, recent.get(key)) for index, key in enumerate(keys))
        found = (
            (index, _last(buckets[index], keys[index]) if offset is None else offset)
            for index, offset in places
        )
        return [(index, offset) for index, offset in found if offset is not None]

    def pack(self, most: int) -> int:
        """Pack up to this many of the oldest recent keys. Returns how many."""
        oldest = dict(islice(self._recent.items(), most))
        count = len(oldest)
        size = len(self._buckets)
        while size < _MOST_BUCKETS and self.packed + count > size * _FULL:
            size *= 4
        if size > len(self._buckets):
            self._rebuild(size, 0)
        offsets = map(int.to_bytes, oldest.values(), repeat(_OFFSET))
        _append(self._buckets_of(list(oldest)), map(bytes.__add__, oldest, offsets))
        for key in oldest:
            del self._recent[key]
        self.packed += count
        return count

    def _buckets_of(self, keys: Sequence[bytes]) -> list[bytearray]:
        buckets, mask = self._buckets, len(self._buckets) - 1
        ends: list[int] = memoryview(b"".join(keys)).cast("H")[7::8].tolist()
        return [buckets[end & mask] for end in ends]

    def _expire(self, now: datetime) -> None:
        """Drop expired keys if they are half of all."""
        window = timedelta(seconds=self.seconds)
        while self._marks and self._marks[0][0] <= now - window:
            _, *expired = self._marks.popleft()
            self._expired = expired[0], expired[1]
        first, added = self._expired
        if added - (self._added - self.count) < max(_FEW, self.count // 2):
            return
        for key in [key for key, offset in self._recent.items() if offset < first]:
            del self._recent[key]
        if self.packed:
            self._rebuild(len(self._buckets), first)

    def _rebuild(self, size: int, first: int) -> None:
        """Sort the entries from an offset on into new buckets."""
        old, least = self._buckets, first.to_bytes(_OFFSET)
        self._buckets = [bytearray() for _ in range(size)]
        self.packed = 0
        for bucket in old:
            entries = [bytes(bucket[at : at + _ENTRY]) for at in range(0, len(bucket), _ENTRY)]
            entries = [entry for entry in entries if entry[KEY:] >= least]
            _append(self._buckets_of([entry[:KEY] for entry in entries]), entries)
            self.packed += len(entries)


def _append(buckets: Iterable[bytearray], entries: Iterable[bytes]) -> None:
    # Without a loop in Python, this takes half the time.
    deque(map(bytearray.__iadd__, buckets, entries), maxlen=0)


def _last(bucket: bytearray, key: bytes) -> int | None:
    """The offset in the last entry of a key."""
    at = bucket.rfind(key)
    while at > 0 and at % _ENTRY:
        at = bucket.rfind(key, 0, at + KEY - 1)
    return None if at < 0 else int.from_bytes(bucket[at + KEY : at + _ENTRY])
