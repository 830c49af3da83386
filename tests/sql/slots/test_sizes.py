"""The stored bytes of slots are exact if there are few, and otherwise estimated from some pages."""

import asyncpg
import pytest

from queen import sql
from tests.sql.plans.explained import pages_read

SEGMENTS = """
insert into queen.segments (
  partition_id, base_offset, message_count, created_at, queue_id, xid, body, ends
)
select
  ($1::bigint << 53) + 1, n, 1, now(), 1, '3', decode(repeat(md5(n::text), 62), 'hex'),
  '\\x0000000001000000'
from generate_series(1, $2::integer) n
"""


async def sizes(
    connection: "asyncpg.Connection[asyncpg.Record]", slot: int | None = None
) -> dict[int, int]:
    return {
        row["slot"]: row["bytes"] for row in await connection.fetch(sql.CALLS["slot_sizes"], slot)
    }


async def stored(connection: "asyncpg.Connection[asyncpg.Record]", slot: int) -> int:
    query = "select sum(pg_column_size(body)) from queen.segments where partition_id >> 53 = $1"
    return await connection.fetchval(query, slot)


async def test_few_segments_are_counted(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        assert await sizes(connection) == {}
        for slot, count in ((0, 10), (7, 30)):
            await connection.execute(SEGMENTS, slot, count)
        await connection.execute("update queen.segments set body = null where base_offset = 1")

        assert await sizes(connection) == {slot: await stored(connection, slot) for slot in (0, 7)}
        assert await sizes(connection, 7) == {7: await stored(connection, 7)}
        assert await sizes(connection, 8) == {}
    finally:
        await connection.close()


async def test_many_segments_are_estimated_from_1000_pages(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("alter table queen.segments alter column body set storage plain")
        for n in range(4):  # Slots are mixed in the pages, as they are when queues are in use.
            for slot, count in ((0, 1_000), (7, 3_000)):
                await connection.execute(SEGMENTS.replace("+ 1,", f"+ {n} + 1,"), slot, count)

        found = await sizes(connection)

        for slot in (0, 7):
            assert found[slot] == pytest.approx(await stored(connection, slot), rel=0.3)
        assert await pages_read(connection, "slot_sizes", None) < 1_300
    finally:
        await connection.close()
