"""A cache of recent segments, bounded in bytes. A process delivers its own pushes from it."""

from collections import OrderedDict

from queen.codec.segment import Segment


class SegmentCache:
    """Segments never change: an entry is valid if its xid equals the claimed one."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._segments: OrderedDict[tuple[int, int], Segment] = OrderedDict()
        self._bases: dict[int, set[int]] = {}
        """Base offsets of the cached segments, by partition id."""
        self.hits = 0
        self.misses = 0

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def put(self, partition_id: int, base_offset: int, segment: Segment) -> None:
        """Add a segment. Call this only after its commit was confirmed."""
        size_bytes = segment.size_bytes
        if size_bytes > self._max_bytes // 4:
            return
        key = (partition_id, base_offset)
        if old := self._segments.pop(key, None):
            self._size_bytes -= old.size_bytes
        else:
            self._bases.setdefault(partition_id, set()).add(base_offset)
        self._segments[key] = segment
        self._size_bytes += size_bytes
        while self._size_bytes > self._max_bytes:
            self._remove(next(iter(self._segments)))

    def get(self, partition_id: int, base_offset: int, xid: int, count: int) -> Segment | None:
        """Return the segment if the stored one has the same xid and number of messages."""
        segment = self._segments.get((partition_id, base_offset))
        if segment is None:
            self.misses += 1
            return None
        if 0 in (segment.xid, xid) and (segment.xid, segment.count) != (xid, count):
            # Recalled from a lake, where segments may have other borders.
            self._remove((partition_id, base_offset))
            self.misses += 1
            return None
        if segment.xid != xid:
            # The database has another history: a failover lost this commit.
            self.clear()
            self.misses += 1
            return None
        self.hits += 1
        return segment

    def drop(self, partition_id: int, offset: int) -> None:
        """Drop the segments that contain this message."""
        for base in tuple(self._bases.get(partition_id, ())):
            if base <= offset < base + self._segments[partition_id, base].count:
                self._remove((partition_id, base))

    def _remove(self, key: tuple[int, int]) -> None:
        self._size_bytes -= self._segments.pop(key).size_bytes
        bases = self._bases[key[0]]
        bases.remove(key[1])
        if not bases:
            del self._bases[key[0]]

    def clear(self) -> None:
        self._segments.clear()
        self._bases.clear()
        self._size_bytes = 0
