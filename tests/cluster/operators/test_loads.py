"""The load of slots, as operators see it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.cluster.places import ONE, THREE, TWO, slot_of
from tests.support.server import Server, until

FAST = {"QUEEN_COUNTERS_FLUSH_SECONDS": "0.1", "QUEEN_SAMPLE_SECONDS": "0.1"}
PAYLOAD = "x" * 1_000


@pytest.fixture
async def server(databases: dict[str, str]) -> AsyncIterator[Server]:
    async with Server(databases, FAST) as server:
        yield server


async def push(server: Server, queue: str, count: int) -> None:
    items = [{"queue": queue, "payload": PAYLOAD}] * count
    reply = await server.post("/push", {"items": items})
    assert reply.status == 201, reply.body


async def listed(server: Server, name: str, key: str) -> dict[Any, dict[str, Any]]:
    reply = await server.get("/shards")
    assert reply.status == 200, reply.body
    return {each[key]: each for each in reply.body[name]}


async def has_load_of(server: Server, queue: str) -> bool:
    return (await listed(server, "slots", "slot"))[slot_of(queue)]["bytesPerSecond"] > 0


async def test_slots_and_databases_show_what_is_pushed_to_them(server: Server) -> None:
    await push(server, ONE, 90)
    await push(server, TWO, 30)
    await server.post("/configure", {"queue": THREE})

    for queue in (ONE, TWO):
        await until(lambda queue=queue: has_load_of(server, queue), seconds=20)
    slots = await listed(server, "slots", "slot")
    one, two, three = (slots[slot_of(each)] for each in (ONE, TWO, THREE))
    assert one["messagesPerSecond"] == pytest.approx(3 * two["messagesPerSecond"], rel=0.2)
    assert one["bytesPerSecond"] / one["messagesPerSecond"] == pytest.approx(1_000, rel=0.05)
    assert (three["messagesPerSecond"], three["bytesPerSecond"]) == (0, 0)
    assert (one["queues"], one["queueCount"]) == ([ONE], 1)
    databases = await listed(server, "databases", "name")
    assert databases["main"]["bytesPerSecond"] == pytest.approx(one["bytesPerSecond"], rel=0.2)
    assert databases["three"]["bytesPerSecond"] == 0


async def test_the_load_is_known_although_all_messages_are_processed(server: Server) -> None:
    await push(server, ONE, 10)
    await server.get(f"/pop/queue/{ONE}", batch=100, autoAck="true")

    await until(lambda: has_load_of(server, ONE), seconds=20)


async def test_the_metrics_have_the_load_of_each_slot(server: Server) -> None:
    """Once a minute, and when a server starts."""
    await push(server, ONE, 90)
    await until(lambda: has_load_of(server, ONE), seconds=20)
    await server.stop()
    await server.start()
    label = f'queen_slot_bytes_per_second{{database="main",slot="{slot_of(ONE)}"}}'

    async def has_load() -> bool:
        text = (await server.get("/metrics")).body.decode()
        return any(line.startswith(label) and line.split()[1] != "0" for line in text.splitlines())

    await until(has_load, seconds=20)
