"""`GET /api/v1/cluster` shows which server prefers the database of a slot."""

import asyncio
from typing import Any

import asyncpg

from queen import Queen
from tests.cluster.places import NAMES, ONE
from tests.support.server import Server, until

URLS = {"main": "http://one:6632", "two": "http://two:6632"}


def preferring(databases: dict[str, str], *names: str) -> Server:
    return Server(
        databases,
        {
            "QUEEN_PREFERRED_DATABASES": ",".join(names),
            "QUEEN_ADVERTISED_URL": URLS[names[0]],
        },
    )


async def read(server: Server, etag: str | None = None) -> tuple[int, str, Any]:
    headers = {} if etag is None else {"If-None-Match": etag}
    reply = await server.request("GET", "/cluster", headers=headers)
    return reply.status, reply.headers["ETag"], reply.body


async def test_the_map_names_slots_databases_and_servers(databases: dict[str, str]) -> None:
    async with preferring(databases, "main", "three") as one, preferring(databases, "two"):
        await one.post("/push", {"items": [{"queue": ONE, "payload": 1}]})
        status, etag, found = await read(one)

        assert status == 200
        assert f'"{found["revision"]}"' == etag
        assert [each["name"] for each in found["databases"]] == [*NAMES]
        slots = [
            slot
            for each in found["databases"]
            for owned in each["ranges"]
            for slot in range(owned["first"], owned["last"] + 1)
        ]
        assert sorted(slots) == [*range(1024)]
        assert found["servers"] == [
            {"url": URLS["main"], "preferredDatabases": ["main", "three"]},
            {"url": URLS["two"], "preferredDatabases": ["two"]},
        ]
        assert ONE not in str(found)
        assert (await read(one, etag))[0] == 304

        reply = await one.post("/shards/moves", {"to": "two", "queue": ONE})
        assert reply.status == 202

        async def has_changed() -> bool:
            return (await read(one, etag))[0] == 200

        await until(has_changed, seconds=20)
        async with Queen(one.base_url) as queen:
            assert (await queen.admin.cluster()).revision != found["revision"]


async def test_a_server_without_preferences_and_with_one_database(dsn: str) -> None:
    async with Server(dsn) as server:
        _, _, found = await read(server)

    assert found["servers"] == [{"url": None, "preferredDatabases": None}]
    assert found["databases"] == [
        {"name": "main", "available": True, "ranges": [{"first": 0, "last": 1023}]}
    ]


async def test_a_server_has_few_connections_to_databases_that_it_does_not_prefer(
    databases: dict[str, str],
) -> None:
    """Concurrent calls open as many connections as the pool allows."""
    items = [{"queue": f"q{n}", "payload": n} for n in range(200)]
    async with preferring(databases, "two") as server:
        async with Queen(server.base_url, stream=False) as queen:
            for _ in range(3):
                await _at_once(queen, [str(each["queue"]) for each in items])
        counts = {name: await _connections(dsn) for name, dsn in databases.items()}

    assert counts["two"] > 2
    assert counts["main"] <= 2
    assert counts["three"] <= 2


async def _at_once(queen: Queen, names: list[str]) -> None:
    await asyncio.gather(*(queen.queue(name).push([{"data": 1}]) for name in names))


async def _connections(dsn: str) -> int:
    """Connections of the server, without the one for notifications."""
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(
            "select count(*) from pg_stat_activity where datname = current_database()"
            " and application_name = 'queen'"
        )
    finally:
        await connection.close()
