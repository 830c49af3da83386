"""The list of databases and slots."""

from typing import Any

from tests.cluster.places import NAMES, slot_of
from tests.support.server import Server


async def listed(server: Server) -> dict[str, Any]:
    reply = await server.get("/shards")
    assert reply.status == 200, reply.body
    return reply.body


def owned(database: dict[str, Any]) -> list[int]:
    return [slot for each in database["ranges"] for slot in range(each["first"], each["last"] + 1)]


async def test_each_slot_is_in_one_database(databases: dict[str, str]) -> None:
    async with Server(databases) as server:
        found = (await listed(server))["databases"]

    assert [each["name"] for each in found] == [*NAMES]
    assert [len(owned(each)) for each in found] == [each["slots"] for each in found]
    assert sorted(slot for each in found for slot in owned(each)) == [*range(1_024)]


async def test_one_database_has_all_slots(dsn: str) -> None:
    async with Server(dsn) as server:
        (found,) = (await listed(server))["databases"]

    assert found["ranges"] == [{"first": 0, "last": 1_023}]


async def test_a_slot_lists_at_most_100_of_its_queues(databases: dict[str, str]) -> None:
    async with Server(databases) as server:
        for n in range(101):
            body = {"queue": f"n{n:03}", "namespace": "shop"}
            assert (await server.post("/configure", body)).status == 200
        slots = (await listed(server))["slots"]

    (found,) = (each for each in slots if each["slot"] == slot_of("shop"))
    assert found["queueCount"] == 101
    assert found["queues"] == [f"n{n:03}" for n in range(100)]
