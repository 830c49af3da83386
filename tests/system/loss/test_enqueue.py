"""32 applications enqueue in their own transactions beside producers: committed messages arrive."""

import asyncio
import json
import sys
import time

import asyncpg
import pytest

from tests.support.server import Server, until

MOST_SLOWDOWN = 1.5
SLOWER_MS = 5.0
"""Applications and pushes share the cores, so short pushes always lose some milliseconds."""


async def push_for(server: Server, seconds: float) -> list[float]:
    """Latency of each push in milliseconds."""
    took: list[float] = []
    deadline = time.perf_counter() + seconds
    number = 0
    while time.perf_counter() < deadline:
        begun = time.perf_counter()
        item = {"queue": "orders", "partition": f"p{number % 8}", "payload": f"push {number}"}
        await server.post("/push", {"items": [item]})
        took.append((time.perf_counter() - begun) * 1e3)
        number += 1
        await asyncio.sleep(0.002)  # Sets the rate of the load. It waits for no condition.
    return took


async def drained(server: Server) -> list[str]:
    got: list[str] = []
    while True:
        wanted = {"batch": 10_000, "partitions": 100, "autoAck": True, "wait": True}
        reply = await server.post("/pop/queue/orders", {**wanted, "timeout": 2000})
        if reply.status == 204:
            return got
        got += [message["data"] for message in reply.body["messages"]]


async def nothing_is_left(dsn: str) -> bool:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval("select count(*) from queen.outbox") == 0
    finally:
        await connection.close()


async def applications_beside_producers(dsn: str, seconds: float) -> float:
    """The factor by which the applications slow the slowest pushes, beyond `SLOWER_MS`."""
    async with Server(dsn, {"LOG_LEVEL": "warning"}) as server:
        await server.post("/configure", {"queue": "orders"})
        alone = await push_for(server, seconds / 3)
        command = [sys.executable, "-m", "tests.system.loss.applications", dsn, str(seconds)]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        beside = await push_for(server, seconds)
        said_by_them, _ = await process.communicate()
        assert process.returncode == 0
        committed = set[str](json.loads(said_by_them.splitlines()[-1]))
        await until(lambda: nothing_is_left(dsn), seconds=5)
        got = await drained(server)
    enqueued = [each for each in got if not each.startswith("push ")]
    p99 = [sorted(each)[len(each) * 99 // 100] for each in (alone, beside)]
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
    return (p99[1] - SLOWER_MS) / p99[0]


@pytest.mark.nightly
async def test_committed_messages_of_applications_arrive_once(dsn: str) -> None:
    await applications_beside_producers(dsn, 5)


@pytest.mark.slow
async def test_committed_messages_of_applications_arrive_once_in_a_minute(dsn: str) -> None:
    assert await applications_beside_producers(dsn, 60) <= MOST_SLOWDOWN
