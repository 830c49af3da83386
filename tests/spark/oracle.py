"""
The content of a queue, and comparisons of two queues.

This module reads segments without any code of the pipelines that it checks.
"""

import hashlib
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import psycopg

Digests = dict[str, list[bytes]]
"""SHA-256 hashes of payloads by partition, in the order of offsets."""

SEGMENTS = """
select p.name, s.base_offset, s.message_count, s.body, s.ends
from queen.segments s
join queen.partitions p on p.id = s.partition_id
join queen.queues q on q.id = s.queue_id
where q.name = %s and q.deleted_at is null
order by p.name, s.base_offset
"""
_RAISED = """
select count(*) from queen.segments s join queen.queues q on q.id = s.queue_id
where q.name = %s and s.xid::text::bigint %% (2::bigint ^ 32)::bigint <> s.xmin::text::bigint
"""


def digests(dsn: str, queue: str, *, first: int | None = 0) -> Digests:
    """
    The hashes of a queue. Offsets must have no gaps and begin at ``first``, or anywhere if None.
    """
    found: Digests = {}
    ends: dict[str, int] = {}
    with psycopg.connect(dsn) as connection, connection.cursor("segments", binary=True) as cursor:
        cursor.execute(SEGMENTS, (queue,))
        for name, base, count, body, positions in cursor:
            offset = ends.get(name, base if first is None else first)
            assert base == offset, f"{queue}/{name}: {base} comes where {offset} was due"
            ends[name] = base + count
            if body is not None:
                payloads = payloads_of(body, positions, count)
                found.setdefault(name, []).extend(
                    hashlib.sha256(each).digest() for each in payloads
                )
    return found


def assert_same(expected: Digests, found: Digests) -> int:
    """Check that no message is lost, duplicated or out of order, and return their number."""
    total = sum(map(len, expected.values()))
    if expected == found:
        assert total > 0, "nothing of nothing proves nothing"
        return total
    wanted, there = Counter(_pairs(expected)), Counter(_pairs(found))
    lost, more = (wanted - there).total(), (there - wanted).total()
    assert not lost, f"{lost} of {total} are lost, {more} are there too often"
    assert not more, f"{more} are there too often, beside {total}"
    wrong = [name for name in expected if expected[name] != found[name]]
    raise AssertionError(f"{len(wrong)} of {len(expected)} partitions are out of order")


def assert_beginning(expected: Digests, found: Digests) -> int:
    """
    Check that `found` has a prefix of each partition, and return the number of missing messages.
    """
    for name, there in found.items():
        assert there == expected[name][: len(there)], f"{name} is not as it was"
    return sum(map(len, expected.values())) - sum(map(len, found.values()))


def raised(dsn: str, queue: str) -> int:
    """The number of segments with a higher xid than the transaction that stored them."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute(_RAISED, (queue,)).fetchone()
    assert row is not None
    return int(row[0])


def payloads_of(body: bytes, positions: bytes, count: int) -> Iterator[bytes]:
    bounds: Sequence[int] = struct.unpack(f"<{count + 1}i", positions)
    for at in range(count):
        yield body[bounds[at] : bounds[at + 1]]


def _pairs(found: Mapping[str, Sequence[bytes]]) -> Iterator[tuple[str, bytes]]:
    for name, each in found.items():
        for digest in each:
            yield name, digest
