"""Operations: list, cancel, and continue after their process dies."""

from typing import Any

import asyncpg

from tests.support.clock import Clock
from tests.support.server import Server, until
from tests.support.verbs import bury, finished, pages, push


async def letters_of(server: Server, count: int) -> None:
    """Create this many dead letters in an unordered queue."""
    await server.post("/configure", {"queue": "orders", "options": {"ordered": False}})
    await push(server, "orders", *range(count))
    for _ in range(count):
        await bury(server, "orders")


async def slow_redrive(server: Server) -> dict[str, Any]:
    body = {"filter": {"queue": "orders"}, "ratePerSecond": 1}
    return (await server.post("/dlq/redrive", body)).body


async def test_operations_are_listed_newest_first_in_pages(server: Server) -> None:
    await push(server, "orders", 1)
    for _ in range(3):
        reply = await server.post("/resources/queues/orders/purge", {"scope": "all"})
        await finished(server, reply.body)

    found = await pages(server, "/operations", "operations", limit=2)

    flat = [each for page in found for each in page]
    assert [int(each["id"]) for each in flat] == sorted((int(e["id"]) for e in flat), reverse=True)
    assert {(each["kind"], each["state"], each["error"]) for each in flat} == {
        ("purge", "done", None)
    }
    assert flat[0]["createdBy"] == "anonymous"


async def test_an_unknown_operation_is_not_found(server: Server) -> None:
    for id_ in ("4711", "odd", "9" * 30):
        assert (await server.get(f"/operations/{id_}")).code == "not_found"
        assert (await server.delete(f"/operations/{id_}")).code == "not_found"
    assert (await server.get("/operations", cursor="WyJhIl0")).code == "bad_request"


async def test_a_cancelled_operation_takes_no_further_step(server: Server) -> None:
    await letters_of(server, 4)
    operation = (await slow_redrive(server))["operation"]
    path = f"/operations/{operation['id']}"

    cancelled = (await server.delete(path)).body["operation"]
    again = (await server.delete(path)).body["operation"]

    assert (cancelled["state"], again["state"]) == ("cancelled", "cancelled")
    left = (await server.get("/dlq", queue="orders")).body["total"]
    assert left >= 3


async def test_an_operation_that_cannot_continue_fails_with_a_reason(server: Server) -> None:
    await letters_of(server, 30)
    await server.post("/configure", {"queue": "target"})
    body = {
        "filter": {"queue": "orders"},
        "ratePerSecond": 1,
        "destination": {"queue": "target"},
    }
    started = (await server.post("/dlq/redrive", body)).body
    await server.delete("/resources/queues/target")

    operation = await finished(server, started)

    assert (operation["state"], operation["error"]) == ("failed", "queue target does not exist")
    assert (await server.get("/dlq", queue="orders")).body["total"] >= 2


async def test_an_operation_of_a_newer_release_is_left_to_its_processes(
    dsn: str, server: Server, clock: Clock
) -> None:
    await letters_of(server, 2)
    operation = (await slow_redrive(server))["operation"]
    server.kill()
    connection = await asyncpg.connect(dsn)
    try:
        later = await connection.fetchval(
            "insert into queen.operations (kind, arguments, owner, seen_at, created_by, created_at)"
            " values ('later', '{}', 'newer', queen.now(), 'anonymous', queen.now()) returning id"
        )
    finally:
        await connection.close()
    async with Server(dsn) as other:
        await clock.advance(seconds=20)

        assert (await finished(other, {"operation": operation}))["state"] == "done"
        left = (await other.get(f"/operations/{later}")).body["operation"]
        assert (left["state"], left["error"]) == ("running", None)


async def test_another_process_continues_an_operation_of_a_dead_one(
    dsn: str, server: Server, clock: Clock
) -> None:
    await letters_of(server, 3)
    operation = (await slow_redrive(server))["operation"]
    path = f"/operations/{operation['id']}"

    async def has_begun() -> bool:
        return (await server.get(path)).body["operation"]["done"] >= 1

    await until(has_begun)
    server.kill()
    async with Server(dsn) as other:
        await clock.advance(seconds=20)

        after = await finished(other, {"operation": operation})

        assert (after["state"], after["done"], after["total"]) == ("done", 3, 3)
        assert (await other.get("/dlq", queue="orders")).body["messages"] == []
