"""Operations that move slots, and what they leave in the databases."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from queen.store.migrations import connected
from tests.support.server import Server, until


async def database_of(server: Server, queue: str) -> str:
    reply = await server.get("/shards")
    assert reply.status == 200, reply.body
    (found,) = (each["database"] for each in reply.body["slots"] if queue in each["queues"])
    return found


async def execute(dsn: str, statement: str) -> None:
    async with connected(dsn) as connection:
        await connection.execute(statement)


async def value(dsn: str, query: str) -> Any:  # noqa: ANN401 - any column
    async with connected(dsn) as connection:
        return await connection.fetchval(query)


async def operation(server: Server, id_: str) -> dict[str, Any]:
    reply = await server.get(f"/operations/{id_}")
    assert reply.status == 200, reply.body
    return reply.body["operation"]


async def begin(server: Server, **body: Any) -> str:  # noqa: ANN401 - JSON
    reply = await server.post("/shards/moves", body)
    assert reply.status == 202, reply.body
    return reply.body["operation"]["id"]


async def ended(server: Server, id_: str, state: str = "done") -> dict[str, Any]:
    """Wait until an operation has ended."""
    found: dict[str, Any] = {}

    async def has_ended() -> bool:
        nonlocal found
        found = await operation(server, id_)
        return found["state"] != "running"

    await until(has_ended, seconds=40)
    assert found["state"] == state, found
    return found


@asynccontextmanager
async def blocked(
    dsn: str, statement: str = "alter sequence queen.partitions_id_seq cache 1"
) -> AsyncGenerator[None]:
    """No slot can arrive in a database whose ids are locked. The queue's ids are above them."""
    async with connected(dsn) as connection:
        await connection.execute("begin")
        await connection.execute(statement)
        yield
        connection.terminate()  # The server may not run any more.


async def add_partitions(server: Server, queue: str) -> None:
    """Let the ids of a queue's database be above those of the others."""
    items = [{"queue": queue, "payload": 0, "partition": f"p{n}"} for n in range(20)]
    assert (await server.post("/push", {"items": items})).status == 201


async def is_copied(dsn: str, slot: int) -> bool:
    return bool(
        await value(dsn, f"select exists (select 1 from queen.partitions where id >> 53 = {slot})")
    )


async def has_state(dsn: str, slot: int, state: str) -> bool:
    return await value(dsn, f"select state = '{state}' from queen.slots where slot = {slot}")


async def has_no_mover(dsn: str) -> bool:
    """Whether no process that moves slots is connected, while `blocked` is. Both have no name."""
    return await value(
        dsn,
        "select count(*) = 1 from pg_stat_activity where datname = current_database()"
        " and application_name = '' and backend_type = 'client backend'"
        " and pid <> pg_backend_pid()",
    )
