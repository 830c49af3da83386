"""Recent segments, bounded in bytes: what this process pushed, it delivers without reading."""

from collections import OrderedDict

from queen.codec.segment import Segment


class SegmentCache:
    """Segments never change: what is here is right if its xid is the one that was claimed."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._segments: OrderedDict[tuple[int, int], Segment] = OrderedDict()
        self.hits = 0
        self.misses = 0

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def put(self, partition_id: int, base_offset: int, segment: Segment) -> None:
        """Keep a segment; only after its commit was confirmed."""
        size_bytes = segment.size_bytes
        if size_bytes > self._max_bytes // 4:
            return
        key = (partition_id, base_offset)
        if old := self._segments.pop(key, None):
            self._size_bytes -= old.size_bytes
        self._segments[key] = segment
        self._size_bytes += size_bytes
        while self._size_bytes > self._max_bytes:
            _, dropped = self._segments.popitem(last=False)
            self._size_bytes -= dropped.size_bytes

    def get(self, partition_id: int, base_offset: int, xid: int) -> Segment | None:
        segment = self._segments.get((partition_id, base_offset))
        if segment is None:
            self.misses += 1
            return None
        if segment.xid != xid:
            # Another history than the one that was cached: a failover lost this commit.
            self.clear()
            self.misses += 1
            return None
        self.hits += 1
        return segment

    def clear(self) -> None:
        self._segments.clear()
        self._size_bytes = 0
