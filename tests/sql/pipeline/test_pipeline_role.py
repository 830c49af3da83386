"""The pipeline role may run every statement with which a pipeline writes."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from uuid import uuid4

import asyncpg
import pytest

from queen import sql
from queen.codec.segment import encode
from tests.sql.calls import configure, partition_ids, push, run

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

STAGE = """
insert into queen.staged (write_id, entry, partition_id, message_count, staged_at, body, ends)
values ($1, 0, $2, 1, now(), $3, $4)
"""


@pytest.fixture
async def pipeline(dsn: str) -> AsyncIterator["Connection"]:
    """A connection with the role, to a database with a queue and a group that has drained it."""
    connection = await asyncpg.connect(dsn)
    await run(connection, configure("orders"))
    await connection.execute(sql.ROLES + sql.GRANTS)
    await connection.execute("select queen.subscribe('orders', 'g', 'all', null)")
    await connection.execute("set role queen_pipeline")
    yield connection
    await connection.close()


async def queue_id(connection: "Connection") -> int:
    return (await run(connection, ("pipeline_queue", "orders")))[0]["id"]


async def test_a_batch_is_staged_and_published_and_wakes_consumers(
    pipeline: "Connection",
) -> None:
    id_ = await queue_id(pipeline)
    for version in range(2):
        ((_, partition_id),) = await run(pipeline, partition_ids("orders", f"p{version}"))
        write = uuid4()
        await pipeline.execute(STAGE, write, partition_id, *encode([b"1"]))
        (row,) = await run(pipeline, ("publish", "app", id_, version, [write], [1], None, None))
        assert (row["outcome"], row["messages"]) == ("published", 1)
        await run(pipeline, push(partition_id))

    ready = "select count(*) from queen.consumers where ready_at is not null"
    assert await pipeline.fetchval(ready) == 2
    await run(pipeline, ("unstage", [uuid4()]))
    await run(pipeline, ("forget_staged", 0.0, 10))


async def test_a_data_key_is_created_and_used(pipeline: "Connection") -> None:
    id_ = await queue_id(pipeline)
    (asked,) = await run(pipeline, ("take_data_key", id_, 1, 10, None, None, None))

    made = await run(pipeline, ("take_data_key", id_, 1, 10, asked["id"], "master", b"wrapped"))
    used = await run(pipeline, ("take_data_key", id_, 1, 10, None, None, None))

    assert [row["wrapped"] for row in (asked, *made, *used)] == [None, b"wrapped", b"wrapped"]


async def test_a_queue_is_archived_and_held(pipeline: "Connection") -> None:
    ((_, partition_id),) = await run(pipeline, partition_ids("orders", "p"))
    await run(pipeline, push(partition_id))
    await run(pipeline, ("open_archive", "orders", "orders", "iceberg", "/lake"))
    (horizon,) = await run(pipeline, ("horizon",))

    (plan,) = await run(pipeline, ("plan_archive", "orders", str(horizon["xid"])))
    assert plan["batch"] == 1
    assert (await run(pipeline, ("find_archive", "orders")))[0]["batch"] == 0
    await pipeline.execute("select queen.hold('orders', 'mine', '3')")
    await pipeline.execute("select queen.unhold('orders', 'mine')")
    await run(pipeline, ("drop_archive", "orders"))


async def test_streams_plans_and_replays_are_stored(pipeline: "Connection") -> None:
    id_ = await queue_id(pipeline)

    await run(pipeline, ("begin_stream", "app", id_, 3, 3, "{}"))
    await run(pipeline, ("plan_batch", id_, 3, 0, 0, 100, 10, None, False))
    await run(pipeline, ("remember_plan", "app", id_, 3, 0, 0, False, 100, "{}"))
    await run(pipeline, ("plan_replay", "again", "orders", "copy", [], 1))

    assert (await run(pipeline, ("find_replay", "again")))[0]["source"] == "orders"
