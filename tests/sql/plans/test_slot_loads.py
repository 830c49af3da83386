"""The load of slots is read from recent counters only."""

import asyncpg

from tests.sql.plans.explained import pages_read

QUEUES = """
insert into queen.queues overriding system value
select q.*
from generate_series(1, 1000) n
cross join lateral queen.new_queue('q' || n, null, null) q
"""
MINUTES = """
with minutes as (
  select q.id, date_trunc('minute', queen.now()) - m * interval '1 minute' as minute
  from queen.queues q
  cross join generate_series($1::integer, $2::integer) m
),
counted as (
  insert into queen.counters (
    minute, queue_id, group_id, process, pushed, duplicates, popped, acked, nacked, dead_lettered,
    expired, evicted, leases_expired, wait_bins, wait_counts, processing_bins, processing_counts
  )
  select minute, id, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, '{}', '{}', '{}', '{}' from minutes
)
insert into queen.samples
select minute, id, 0, queen.now(), 0, 0, 0, 0, 0, 0, 0, 0, 0, true, 100 from minutes
"""


async def test_old_counters_and_samples_add_no_reads(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(QUEUES)
        await connection.execute(MINUTES, 0, 9)
        await connection.execute("vacuum analyze")
        before = await pages_read(connection, "slot_loads")
        await connection.execute(MINUTES, 10, 99)
        await connection.execute("vacuum analyze")
        after = await pages_read(connection, "slot_loads")
    finally:
        await connection.close()

    assert after <= 1.5 * before
