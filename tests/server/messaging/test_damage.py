"""A damaged segment over HTTP: its pop fails, the log has an event, other partitions continue."""

import asyncpg

from tests.support.server import Server
from tests.support.verbs import pop, push


async def test_a_damaged_segment_causes_a_problem_a_log_event_and_a_metric(dsn: str) -> None:
    async with Server(dsn) as producer, Server(dsn) as consumer:
        await push(producer, "orders", 1, partition="damaged")
        await push(producer, "orders", 2, partition="healthy")
        connection = await asyncpg.connect(dsn)
        await connection.execute(
            "update queen.segments set ends = '' where partition_id ="
            " (select id from queen.partitions where name = 'damaged')"
        )
        await connection.close()

        reply = await consumer.get("/pop/queue/orders")

        assert (reply.status, reply.code) == (503, "messages_damaged")
        assert reply.body["applied"] is False
        assert '"messages.damaged"' in consumer.log
        assert [each["data"] for each in await pop(consumer, "orders")] == [2]
        metrics = await consumer.get("/metrics")
        assert 'queen_messages_damaged_total{queue="orders"' in str(metrics.body)
