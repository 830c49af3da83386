"""Steps of background tasks beside concurrent calls, and the pages that they read."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING
from uuid import uuid4

import asyncpg
import pytest

from tests.sql.calls import Call, configure, partition_ids, pop, push, run, subscribe
from tests.sql.plans.explained import Explained
from tests.support.postgres import Server

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

AGE: Call = ("retain", 0, 1, "age", 100, 1.0)
COMPLETED: Call = ("retain", 0, 1, "completed", 100, 1.0)
EVICT: Call = ("evict", 0, 1, 100, 100)
REMOVE: Call = ("remove_partitions", 0, 1, 0.000_001, None, None, 100)

EVERYTHING_IS_OLD = {
    "retention_enabled": True,
    "retention_seconds": 0.000_001,
    "completed_retention_seconds": 0.000_001,
    "dedup_seconds": 0,
}


class Scene:
    """A queue of one partition with an old message, a group, and three connections."""

    def __init__(self, connections: "list[Connection]") -> None:
        self.one, self.other, self.watcher = connections
        self.partition_id = 0
        self.group_id = 0

    async def arrange(self) -> None:
        connection = self.watcher
        await run(connection, configure("orders", **EVERYTHING_IS_OLD))
        (found,) = await run(connection, subscribe("orders", "g"))
        self.group_id = found["group_id"]
        (row,) = await run(connection, partition_ids("orders", "p"))
        self.partition_id = row["partition_id"]
        await run(connection, push(self.partition_id))
        await connection.execute(
            """
            insert into queen.duties (name) values ('retention'), ('evictions'), ('partitions');
            -- No earlier window is open.
            update queen.queues set old_dedup_untils = null;
            """
        )

    async def waits(self, connection: "Connection", task: "asyncio.Task[object]") -> None:
        """Wait until a call waits for a lock. It must not return."""
        pid = connection.get_server_pid()
        async with asyncio.timeout(10):
            while not await self.watcher.fetchval(
                "select cardinality(pg_blocking_pids($1)) > 0", pid
            ):
                assert not task.done()

    async def bodies(self) -> int:
        return await self.watcher.fetchval(
            "select count(*) from queen.segments where body is not null"
        )


@pytest.fixture
async def scene(dsn: str) -> AsyncIterator[Scene]:
    async with AsyncExitStack() as stack:
        connections: list[Connection] = []
        for _ in range(3):
            connections.append(await asyncpg.connect(dsn))
            stack.push_async_callback(connections[-1].close)
        scene = Scene(connections)
        await scene.arrange()
        yield scene


async def test_a_concurrent_claim_protects_its_messages(scene: Scene) -> None:
    claim = scene.one.transaction()
    await claim.start()
    assert await run(scene.one, pop(scene.group_id))
    step = asyncio.create_task(run(scene.other, AGE))
    await scene.waits(scene.other, step)
    await claim.commit()

    (answer,) = await step

    assert answer["messages"] == 0
    assert await scene.bodies() == 1


async def test_a_rolled_back_claim_protects_no_message(scene: Scene) -> None:
    claim = scene.one.transaction()
    await claim.start()
    await run(scene.one, pop(scene.group_id))
    step = asyncio.create_task(run(scene.other, AGE))
    await scene.waits(scene.other, step)
    await claim.rollback()

    (answer,) = await step

    assert answer["messages"] == 1


async def test_a_pop_beside_a_step_does_not_wait_and_gets_no_removed_message(
    scene: Scene,
) -> None:
    step = scene.one.transaction()
    await step.start()
    assert (await run(scene.one, AGE))[0]["messages"] == 1
    async with asyncio.timeout(5):
        beside = await run(scene.other, pop(scene.group_id))
    await step.commit()
    after = await run(scene.other, pop(scene.group_id))

    assert [row["request"] for row in (*beside, *after)] == [None, None]


async def test_a_step_does_not_wait_for_a_concurrent_push_and_checks_its_partition_later(
    scene: Scene,
) -> None:
    pushing = scene.one.transaction()
    await pushing.start()
    await run(scene.one, push(scene.partition_id))
    async with asyncio.timeout(5):
        (answer,) = await run(scene.other, AGE)
    assert answer["messages"] == 0
    await pushing.commit()
    await scene.watcher.execute("update queen.laggards set look_at = '-infinity'")

    (answer,) = await run(scene.other, AGE)

    assert answer["messages"] == 2


async def test_a_push_that_waited_for_a_step_continues_the_offsets(scene: Scene) -> None:
    step = scene.one.transaction()
    await step.start()
    await run(scene.one, AGE)
    pushing = asyncio.create_task(run(scene.other, push(scene.partition_id)))
    await scene.waits(scene.other, pushing)
    await step.commit()

    (stored,) = await pushing

    assert (stored["kind"], stored["offset"]) == ("stored", 1)


async def test_a_push_that_waited_for_the_removal_of_its_partition_fails(scene: Scene) -> None:
    await run(scene.one, AGE)
    removal = scene.one.transaction()
    await removal.start()
    assert (await run(scene.one, REMOVE))[0]["removed"] == 1
    pushing = asyncio.create_task(run(scene.other, push(scene.partition_id)))
    await scene.waits(scene.other, pushing)
    await removal.commit()

    (refused,) = await pushing

    assert (refused["kind"], refused["code"]) == ("partition", "QN004")


async def test_a_hold_waits_for_a_step_that_has_not_seen_it(scene: Scene) -> None:
    step = scene.one.transaction()
    await step.start()
    await run(scene.one, COMPLETED)
    holding = asyncio.create_task(
        scene.other.fetch("select queen.hold('orders', 'archive', '0'::xid8)")
    )
    await scene.waits(scene.other, holding)
    await step.commit()
    await holding

    (answer,) = await run(scene.one, AGE)

    assert answer["messages"] == 0


async def test_a_concurrent_claim_is_not_evicted(scene: Scene) -> None:
    claim = scene.one.transaction()
    await claim.start()
    await run(scene.one, pop(scene.group_id))
    await scene.watcher.execute("update queen.queues set max_wait_seconds = 0.000001")
    step = asyncio.create_task(run(scene.other, EVICT))
    await scene.waits(scene.other, step)
    await claim.commit()

    (answer,) = await step

    assert answer["messages"] == 0
    assert await scene.watcher.fetchval("select count(*) from queen.dead_letters") == 0


async def test_a_step_is_rejected_once_another_process_leads_the_task(scene: Scene) -> None:
    step = scene.one.transaction()
    await step.start()
    await run(scene.one, COMPLETED)
    await scene.watcher.execute("set lock_timeout = '10s'")
    # While a step runs, no other process can take over its task.
    assert not await run(scene.other, ("take_duties", 2, ["retention"], 60.0))
    await step.commit()
    await scene.other.execute("update queen.duties set until = '-infinity'")
    assert await run(scene.other, ("take_duties", 2, ["retention"], 60.0))

    with pytest.raises(asyncpg.PostgresError) as refusal:
        await run(scene.one, AGE)

    assert refusal.value.sqlstate == "QN016"


# 100 partitions per transaction, each with an old message that its group has settled, a segment
# that was emptied long ago, and a new message.
PARTITIONS = """
select queen.configure('orders', null, null, '{{"retention_enabled": true, "retention_seconds": 60,
  "completed_retention_seconds": 60, "partition_retention_seconds": 60, "dedup_seconds": 0}}',
  false, null, null);
update queen.queues set old_dedup_untils = null;
insert into queen.duties (name) values ('retention'), ('evictions'), ('partitions'), ('scheduled');
insert into queen.groups (queue_id, name, start_mode, start_at, created_at, filled_to, fill_end)
values (1, 'g', 'all', '-infinity', now(), null, 0);
insert into queen.partitions (id, queue_id, name) overriding system value
select i, 1, 'p' || i from generate_series(1, {count} * 3) i;
insert into queen.segments
  (partition_id, base_offset, message_count, created_at, queue_id, xid, body, ends)
select
  i, o, 1, now() - interval '1 hour' * (1 - o), 1, (3 + i / 100 + o * {count} / 100)::text::xid8,
  '{{}}', '\\x0000000002000000'
from generate_series(1, {count}) i cross join generate_series(0, 1) o;
insert into queen.segments (partition_id, base_offset, message_count, created_at, queue_id, xid)
select i, 0, 1, now() - interval '1 hour' + i * interval '1 ms', 1, '3'
from generate_series({count} + 1, {count} * 2) i;
insert into queen.consumers (partition_id, group_id, claimed, idle_at, priority)
select i, 1, 1, now(), 0 from generate_series(1, {count} * 2) i;
insert into queen.scheduled (queue_id, partition_id, due_at, payload)
select 1, i, now() + interval '1 hour', '{{}}' from generate_series(1, {count}) i;
insert into queen.laggards (queue_id, kind, partition_id, look_at)
select 1, 'unused', i, now() - interval '1 hour' + i * interval '1 ms'
from generate_series({count} * 2 + 1, {count} * 3) i;
analyze;
"""

CALLS: dict[str, Call] = {
    "retain by age": ("retain", 0, 1, "age", 10, 1.0),
    "retain completed": ("retain", 0, 1, "completed", 10, 1.0),
    "evict": ("evict", 0, 1, 10, 100),
    "remove_partitions": ("remove_partitions", 0, 1, 60.0, None, None, 10),
    "promote_due": ("promote_due", 0, 0, 100),
    "kept_queues": ("kept_queues", 0, 100),
    "emptied_queues": ("emptied_queues", 0, 100),
}


async def pages(server: Server, template: str, count: int) -> dict[str, int]:
    name = f"test_{uuid4().hex}"
    dsn = server.create_database(name, template=template)
    await asyncio.to_thread(server.execute, PARTITIONS.format(count=count), name)
    found: dict[str, int] = {}
    async with await Explained.connect(dsn) as database:
        await database.connection.execute("update queen.queues set max_wait_seconds = 60")
        for call_name, call in CALLS.items():
            found[call_name] = min([(await database.call(call)).pages for _ in range(7)][-2:])
    return found


async def test_a_step_reads_no_more_at_20_000_partitions_than_at_200(
    postgres: Server, template: str
) -> None:
    few = await pages(postgres, template, 200)
    many = await pages(postgres, template, 20_000)

    assert {name: (few[name], many[name]) for name in few if many[name] > 2 * few[name] + 20} == {}
