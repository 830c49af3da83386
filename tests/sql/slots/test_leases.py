"""Leases of a spread queue count in the database that owns their slot."""

import asyncpg

_LEASES = """
insert into queen.deliveries (id, group_id, partition_id, priority, pending, until, held, ordered)
select
  n.slot << 53 | g, 1, n.slot << 53 | g, 0, '{[0,1)}', queen.now() + interval '1 hour', true, true
from unnest(array[1, 2]::bigint[]) n (slot)
cross join generate_series(1, 10) g
"""
_COUNT = "select queen.live_leases(1, $1, queen.now(), 1000)"
_CALLS = """
select coalesce(sum(f.calls), 0)
from pg_stat_xact_user_functions f
where f.schemaname = 'queen' and f.funcname = 'is_owned'
"""


async def test_leases_are_counted_without_a_call_for_each(dsn: str) -> None:
    """A pop of a group with a limit counts up to as many leases as the limit allows."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(_LEASES)
        await connection.execute(
            "update queen.slots set state = 'gone', moved_to = 'two' where slot = 2"
        )
        async with connection.transaction():
            await connection.execute("set local track_functions = 'all'")
            assert await connection.fetchval(_COUNT, True) == 10
            assert await connection.fetchval(_CALLS) == 0
            assert await connection.fetchval(_COUNT, False) == 20
    finally:
        await connection.close()
