"""Callers that accept a cached response share it. Other callers get a new one."""

import asyncio
import re

import pytest

from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Server, until
from tests.support.verbs import push

OVERVIEW = "/resources/overview"


async def queues(server: Server, said: str | None = None) -> int:
    headers = {} if said is None else {"cache-control": said}
    reply = await server.request("GET", OVERVIEW, headers=headers)
    assert reply.status == 200
    return reply.body["queues"]


async def test_a_response_is_shared_only_on_request(server: Server) -> None:
    await push(server, "one", 1)
    assert await queues(server, "max-age=10") == 1
    await push(server, "two", 1)

    assert await queues(server, "max-age=10") == 1
    assert await queues(server, "no-transform, max-age=10") == 1
    for said in (None, "no-cache", "max-age=0", "s-max-age=10", "max-age=1000000", "max-age="):
        assert await queues(server, said) == 2
    # A new response replaces the cached one for all.
    assert await queues(server, "max-age=10") == 2


async def test_a_change_is_visible_immediately(server: Server) -> None:
    await push(server, "one", 1)
    await push(server, "two", 1)
    assert await queues(server, "max-age=10") == 2

    await server.delete("/resources/queues/two")

    assert await queues(server, "max-age=10") == 1


async def test_a_cached_response_expires(server: Server) -> None:
    await push(server, "one", 1)
    assert await queues(server, "max-age=1") == 1
    await push(server, "two", 1)

    async def is_new() -> bool:
        return await queues(server, "max-age=1") == 2

    await until(is_new, seconds=5)


async def test_concurrent_requests_share_one_response(server: Server) -> None:
    await push(server, "one", 1)

    async def calls() -> float:
        text = (await server.get("/metrics")).body.decode()
        (found,) = re.findall(
            r'^queen_db_call_seconds_count\{call="queue_names"[^}]*\} (\S+)', text, re.M
        )
        return float(found)

    await queues(server)
    before = await calls()
    found = await asyncio.gather(*(queues(server, "max-age=5") for _ in range(50)))

    assert set(found) == {1}
    assert await calls() - before == 1


async def test_callers_with_different_scopes_do_not_share_responses(dsn: str) -> None:
    async with Server(dsn, KEYS) as server:
        admin = Caller(server, await make_key(dsn))
        shop = Caller(server, await make_key(dsn, scopes=[{"queue": "shop.*"}]))
        await admin.push("shop.a")
        await admin.push("secret")
        found = [
            (await caller.request("GET", OVERVIEW, headers={"cache-control": "max-age=10"})).body
            for caller in (admin, shop, admin, shop)
        ]
    assert [each["queues"] for each in found] == [2, 1, 2, 1]


@pytest.mark.parametrize("path", ["/resources/queues/none", "/resources/queues?limit=x"])
async def test_an_error_is_not_cached(server: Server, path: str) -> None:
    first, second = [
        await server.request("GET", path, headers={"cache-control": "max-age=10"}) for _ in range(2)
    ]

    assert first.status == second.status >= 400
    assert first.body["requestId"] != second.body["requestId"]


async def test_a_response_shows_its_database_time(server: Server) -> None:
    found, again = [
        await server.request("GET", OVERVIEW, headers={"cache-control": "max-age=10"})
        for _ in range(2)
    ]

    assert re.fullmatch(r"db;dur=\d+\.\d", found.headers["server-timing"])
    assert float(found.headers["server-timing"].removeprefix("db;dur=")) > 0
    assert again.headers["server-timing"] == "db;dur=0.0"
    pushed = await server.post("/push", {"items": [{"queue": "shop", "payload": 1}]})
    assert "server-timing" not in pushed.headers
