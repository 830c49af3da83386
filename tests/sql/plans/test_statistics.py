"""The statistics of a queue in lists cost no more with many more partitions."""

import asyncpg

from tests.sql.plans.explained import pages_read

QUEUE = """
insert into queen.queues overriding system value
select q.* from queen.new_queue('wide', null, null) q
returning id
"""
PARTITIONS = """
with made as (
  insert into queen.partitions (queue_id, name)
  select $1, 'p' || n from generate_series($2::integer, $3::integer) n
  returning id
),
held_back as (
  insert into queen.scheduled (partition_id, queue_id, due_at, payload)
  select id, $1, queen.now() + interval '1 hour', '1' from made
),
stored as (
  insert into queen.segments (
    partition_id, base_offset, message_count, created_at, queue_id, xid, body, ends
  )
  -- One flush each.
  select id, 0, 1, queen.now(), $1, id::text::xid8, '1', '\\x0000000001000000' from made
)
insert into queen.consumers (partition_id, group_id, claimed, ready_at, priority)
select id, $4, 0, queen.now(), 0 from made
"""


async def test_statistics_and_lists_read_no_more_at_20_000_partitions_than_at_2_000(
    dsn: str,
) -> None:
    connection = await asyncpg.connect(dsn, server_settings={"enable_seqscan": "off"})
    try:
        queue_id = await connection.fetchval(QUEUE)
        group_id = await connection.fetchval(
            "insert into queen.groups (queue_id, name, start_mode, start_at, created_at, fill_end) "
            "values ($1, 'g', 'all', '-infinity', queen.now(), 0) returning id",
            queue_id,
        )
        calls: dict[str, tuple[object, ...]] = {
            "list_queues": (f"{{{queue_id}}}", 1_000, 60),
            "list_groups": (f"{{{group_id}}}", 1_000),
            "count_purge": ("wide", None, True, "2030-01-01", 250),
            "list_partitions": (queue_id, "", -1, "", 100, None),
            "list_deliveries": (queue_id, None, 0, -1, "-infinity", 0, 100),
            "newest_segments": (queue_id, str(2**62), 2**62, 2**62, 100),
        }
        of_one = ("wide", "p7", False, None, 250)
        read: dict[str, list[int]] = {name: [] for name in (*calls, "of one")}
        for first, last in ((1, 2_000), (2_001, 20_000)):
            await connection.execute(PARTITIONS, queue_id, first, last, group_id)
            await connection.execute("vacuum analyze")
            for name, arguments in calls.items():
                read[name].append(await pages_read(connection, name, *arguments))
            read["of one"].append(await pages_read(connection, "count_purge", *of_one))
    finally:
        await connection.close()

    grown = {name: pages for name, pages in read.items() if pages[1] > 1.5 * pages[0] + 50}
    assert grown == {}
