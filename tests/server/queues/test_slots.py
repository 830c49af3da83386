"""A queue whose slot has moved: a clear error, and success once a server owns the slot again."""

import asyncpg

from tests.support.calls import a_queue, pop, push
from tests.support.server import Server

SET_STATE = """
update queen.slots s
set state = $2, moved_to = case when $2 <> 'owned' then 'other' end
from queen.queues q
where q.name = $1 and s.slot = q.slot
"""


async def test_requests_for_a_queue_that_moves_are_rejected_and_can_be_repeated(
    server: Server,
) -> None:
    queue = a_queue()
    await push(server, queue, 1)
    connection = await asyncpg.connect(server.environment["DATABASE_URL"])
    try:
        await connection.execute(SET_STATE, queue, "leaving")

        replies = [
            await server.post("/push", {"items": [{"queue": queue, "payload": 2}]}),
            await server.post(f"/pop/queue/{queue}", {"batch": 10}),
        ]

        assert [(each.status, each.code) for each in replies] == [(503, "slot_moved")] * 2
        assert [each.body["applied"] for each in replies] == [False, False]
        await connection.execute(SET_STATE, queue, "owned")
        await push(server, queue, 2)
        assert [each["data"] for each in await pop(server, queue, batch=10)] == [1, 2]
    finally:
        await connection.close()
