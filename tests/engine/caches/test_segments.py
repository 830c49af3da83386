"""The cache returns only what the database has."""

from queen.codec.segment import Segment, encode
from queen.engine.caches.segments import SegmentCache


def segment(xid: int, *payloads: bytes) -> Segment:
    body, ends = encode(payloads)
    return Segment(xid=xid, count=len(payloads), body=body, ends=ends, extras=None)


def test_a_segment_of_another_transaction_means_another_history() -> None:
    cache = SegmentCache(1_000_000)
    cache.put(1, 0, segment(7, b"1"))
    cache.put(2, 0, segment(8, b"2"))

    assert cache.get(1, 0, 7, 1) is not None
    assert cache.get(1, 0, 9, 1) is None
    assert cache.get(2, 0, 8, 1) is None  # Of that history too.


def test_a_recalled_segment_with_other_borders_is_read_again() -> None:
    cache = SegmentCache(1_000_000)
    cache.put(1, 0, segment(0, b"1"))
    cache.put(2, 0, segment(8, b"2"))

    assert cache.get(1, 0, 0, 1) is not None
    assert cache.get(1, 0, 0, 2) is None
    cache.put(1, 0, segment(7, b"1"))
    assert cache.get(1, 0, 0, 1) is None
    assert cache.get(2, 0, 8, 1) is not None
