"""32 applications enqueue in their own transactions beside producers: what is committed arrives."""

import asyncio
import json
import random
import time

import asyncpg
import pytest

from tests.server.server import Server

APPLICATIONS = 32
MOST_SLOWDOWN = 1.5


async def push_for(server: Server, seconds: float) -> list[float]:
    """Milliseconds of each push of a producer beside."""
    took: list[float] = []
    deadline = time.perf_counter() + seconds
    number = 0
    while time.perf_counter() < deadline:
        begun = time.perf_counter()
        item = {"queue": "orders", "partition": f"p{number % 8}", "payload": f"push {number}"}
        await server.post("/push", {"items": [item]})
        took.append((time.perf_counter() - begun) * 1e3)
        number += 1
        await asyncio.sleep(0.002)  # A load of so many a second, not a wait.
    return took


async def apply(dsn: str, number: int, seconds: float, committed: set[str]) -> None:
    """One application: transactions of a few messages, a third rolled back, some held open."""
    chance = random.Random(number)
    connection = await asyncpg.connect(dsn)
    deadline = time.perf_counter() + seconds
    turn = 0
    while time.perf_counter() < deadline:
        transaction = connection.transaction()
        await transaction.start()
        mine = [f"{number}.{turn}.{n}" for n in range(chance.randint(1, 5))]
        for each in mine:
            await connection.execute(
                "select queen.enqueue('orders', $1, partition => $2)",
                json.dumps(each),
                f"p{chance.randrange(8)}",
            )
        if chance.random() < 0.05:
            await asyncio.sleep(chance.uniform(0.5, min(3.0, seconds / 3)))  # Held open.
        if chance.random() < 1 / 3:
            await transaction.rollback()
        else:
            await transaction.commit()
            committed.update(mine)
        turn += 1
        await asyncio.sleep(0.02)
    await connection.close()


async def drained(server: Server) -> list[str]:
    got: list[str] = []
    while True:
        wanted = {"batch": 10_000, "partitions": 100, "autoAck": True, "wait": True}
        reply = await server.post("/pop/queue/orders", {**wanted, "timeout": 2000})
        if reply.status == 204:
            return got
        got += [message["data"] for message in reply.body["messages"]]


async def applications_beside_producers(dsn: str, seconds: float) -> float:
    """How many times slower the slowest pushes are beside the applications."""
    committed: set[str] = set()
    async with Server(dsn, {"LOG_LEVEL": "warning"}) as server:
        await server.post("/configure", {"queue": "orders"})
        alone = await push_for(server, seconds / 3)
        async with asyncio.TaskGroup() as group:
            pushing = group.create_task(push_for(server, seconds))
            for number in range(APPLICATIONS):
                group.create_task(apply(dsn, number, seconds, committed))
        got = await drained(server)
    enqueued = [each for each in got if not each.startswith("push ")]
    p99 = [sorted(each)[len(each) * 99 // 100] for each in (alone, pushing.result())]
    said = {
        "committed": len(committed),
        "lost": len(committed - set(enqueued)),
        "phantoms": len(set(enqueued) - committed),
        "twice": len(enqueued) - len(set(enqueued)),
        "push_p99_ms": [round(each, 1) for each in p99],
    }
    print(json.dumps(said), flush=True)
    assert len(committed) > 100
    assert (said["lost"], said["phantoms"], said["twice"]) == (0, 0, 0)
    connection = await asyncpg.connect(dsn)
    assert await connection.fetchval("select count(*) from queen.outbox") == 0
    await connection.close()
    return p99[1] / p99[0]


async def test_what_applications_commit_arrives_once(dsn: str) -> None:
    await applications_beside_producers(dsn, 5)


@pytest.mark.slow
async def test_what_applications_commit_in_a_minute_arrives_once(dsn: str) -> None:
    assert await applications_beside_producers(dsn, 60) <= MOST_SLOWDOWN
