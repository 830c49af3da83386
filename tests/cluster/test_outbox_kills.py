"""The server is killed between any two steps of a message to another database."""

import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.cluster.places import THREE, TWO, named
from tests.cluster.stops import STOPS, TERMINATE, WAIT, WAITERS
from tests.support.server import Server, until

Databases = dict[str, str]


async def enqueue(connection: Any, queue: str, *values: Any) -> None:  # noqa: ANN401
    """In one transaction; each value names its partition."""
    async with connection.transaction():
        for value in values:
            await connection.execute(
                "select queen.enqueue($1, $2, partition => $3)",
                queue,
                json.dumps(value),
                f"p{value % 3}",
            )


async def drain(server: Server, queue: str, count: int) -> dict[str, list[int]]:
    """The messages of each partition, at least this many, and any that follow them."""
    found: dict[str, list[int]] = {}
    # Not waiting: an `autoAck` pop that times out during its search may lose its messages.
    wanted = {"batch": 10_000, "partitions": 10, "autoAck": True}

    async def is_drained() -> bool:
        reply = await server.post(f"/pop/queue/{queue}", wanted)
        if reply.status != 200:
            return sum(map(len, found.values())) >= count
        for message in reply.body["messages"]:
            found.setdefault(message["partition"], []).append(message["data"])
        return False

    await until(is_drained, seconds=60)
    return found


def expected(count: int) -> dict[str, list[int]]:
    return {f"p{n}": [*range(n, count, 3)] for n in range(3)}


async def is_empty(connection: Any) -> bool:  # noqa: ANN401
    return not await connection.fetchval(
        "select (select count(*) from queen.outbox) + (select count(*) from queen.forwards)"
    )


@pytest.mark.parametrize("is_committed", [False, True], ids=["lost", "committed"])
@pytest.mark.parametrize("stop", STOPS)
async def test_a_message_is_stored_once_if_the_server_is_killed_before_it(
    databases: Databases, connect: Callable[[str], Awaitable[Any]], stop: str, is_committed: bool
) -> None:
    """The statement at which it was killed is lost, or is committed after its end."""
    name, when = STOPS[stop]
    application, holder = await connect("main"), await connect(name)
    await holder.execute(WAIT.format(when=when))
    async with Server(databases) as server:
        await holder.execute("select pg_advisory_lock(7)")
        await enqueue(application, TWO, *range(30))

        async def is_stopped() -> bool:
            return await holder.fetchval(WAITERS) > 0

        await until(is_stopped, seconds=30)
        server.kill()
        if not is_committed:
            await holder.fetchval(TERMINATE)
        await holder.execute("select pg_advisory_unlock(7)")
        await enqueue(application, TWO, *range(30, 60))
        await server.start()

        assert await drain(server, TWO, 60) == expected(60)
        await until(lambda: is_empty(application))


@pytest.mark.timeout(300)
async def test_messages_arrive_once_and_in_order_while_the_server_is_killed(
    databases: Databases, connect: Callable[[str], Awaitable[Any]]
) -> None:
    """2,000 messages to four queues in two other databases, and ten kills at random moments."""
    queues = [*named("two", 2), *named("three", 2)]
    assert {TWO, THREE} < {*queues}
    application = await connect("main")
    chance = random.Random(11)
    async with Server(databases, {"LOG_LEVEL": "warning"}) as server:
        for kill in range(10):
            for start in range(kill * 50, kill * 50 + 50, 10):
                for queue in queues:
                    await enqueue(application, queue, *range(start, start + 10))
            left = chance.randint(1, 150)

            async def is_in_the_middle(left: int = left) -> bool:
                count = await application.fetchval("select count(*) from queen.forwards")
                return 0 < count <= left or await is_empty(application)

            await until(is_in_the_middle, seconds=60)
            server.kill()
            await server.start()
        for queue in queues:
            assert await drain(server, queue, 500) == expected(500)
        await until(lambda: is_empty(application))
