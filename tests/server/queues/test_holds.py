"""Holds and archives over HTTP: they are listed and dropped, and a purge does not ignore a hold."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from queen import sql
from queen.engine.engine import Engine
from tests.engine.helpers import push as store_messages
from tests.server.metrics.test_metrics import value
from tests.support.callers import KEYS, Caller, make_key
from tests.support.clock import Clock
from tests.support.server import Server, until
from tests.support.verbs import finished, pages, pop, push, settle

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

PURGE = "/resources/queues/orders/purge"


@pytest.fixture
async def guarded(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn, KEYS) as server:
        yield server


@pytest.fixture
async def database(dsn: str) -> AsyncIterator["Connection"]:
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()


async def hold(database: "Connection", queue: str, name: str, xid: int | None = None) -> None:
    """Keep messages from a transaction on; by default from the next one on."""
    statement = "select queen.hold($1, $2, coalesce($3, pg_current_xact_id()::text)::xid8)"
    await database.execute(statement, queue, name, None if xid is None else str(xid))


async def open_archive(database: "Connection", name: str, queue: str) -> None:
    lake = ("iceberg", f"s3://k:secret@lake/{name}")
    await database.execute(sql.CALLS["open_archive"], name, queue, *lake)


async def test_holds_are_listed_with_the_messages_that_they_keep(
    clock: Clock, database: "Connection", server: Server
) -> None:
    await push(server, "orders", *range(5))
    await clock.advance(seconds=30)
    await hold(database, "orders", "late")
    await push(server, "orders", *range(3))
    await hold(database, "orders", "archive:orders", 0)
    await clock.advance(seconds=60)

    ((first,), (second,), _) = await pages(server, "/holds", "holds", limit=1)

    assert (first["queue"], first["name"], first["messages"]) == ("orders", "archive:orders", 8)
    assert (first["position"], first["expiresAt"]) == (0, None)
    assert (second["name"], second["messages"]) == ("late", 3)
    assert 60 <= second["ageSeconds"] < 61
    assert 90 <= first["ageSeconds"] < 91


async def test_a_released_hold_is_not_listed(database: "Connection", server: Server) -> None:
    await push(server, "orders", 1)
    await hold(database, "orders", "archive:a/b", 0)

    assert (await server.delete("/holds/orders/archive%3Aa%2Fb")).body == {
        "count": 1,
        "complete": True,
    }
    assert (await server.get("/holds")).body["holds"] == []
    again = await server.delete("/holds/orders/archive%3Aa%2Fb")
    assert (again.status, again.code) == (404, "not_found")
    assert (await server.delete("/holds/none/x")).code == "queue_not_found"


async def test_archives_are_listed_and_dropped_with_their_hold(
    database: "Connection", server: Server
) -> None:
    await push(server, "orders", 1, 2)
    await open_archive(database, "a", "orders")
    await hold(database, "orders", "archive:a", 0)
    reply = await server.post(PURGE, {"scope": "all", "force": True})
    await finished(server, reply.body)

    (shown,) = (await server.get("/archives")).body["archives"]

    assert (shown["name"], shown["queue"], shown["batch"]) == ("a", "orders", 0)
    assert (shown["location"], shown["missedMessages"]) == ("s3://***@lake/a", 2)
    assert (await server.delete("/archives/a")).status == 200
    assert (await server.get("/archives")).body["archives"] == []
    assert (await server.get("/holds")).body["holds"] == []
    assert (await server.delete("/archives/a")).code == "not_found"


async def test_a_caller_sees_and_drops_only_those_of_its_queues(
    dsn: str, database: "Connection", guarded: Server
) -> None:
    admin = Caller(guarded, await make_key(dsn))
    shop = Caller(guarded, await make_key(dsn, role="admin", scopes=[{"queue": "shop.*"}]))
    for name in ("shop.a", "secret"):
        await admin.post("/push", {"items": [{"queue": name, "payload": 1}]})
        await open_archive(database, name, name)
        await hold(database, name, "mine", 0)

    assert [each["queue"] for each in (await shop.get("/holds")).body["holds"]] == ["shop.a"]
    assert [each["name"] for each in (await shop.get("/archives")).body["archives"]] == ["shop.a"]
    for path in ("/holds/secret/mine", "/archives/secret", "/archives/none"):
        assert (await shop.delete(path)).code == "forbidden"
    assert (await shop.delete("/holds/shop.a/mine")).status == 200
    assert (await shop.delete("/archives/shop.a")).status == 200
    assert len((await admin.get("/holds")).body["holds"]) == 1


@pytest.mark.parametrize(
    "purge", [{"scope": "all"}, {"scope": "completed"}, {"scope": "all", "partition": "a"}]
)
async def test_a_purge_of_held_messages_needs_force(
    database: "Connection", server: Server, purge: dict[str, Any]
) -> None:
    await push(server, "orders", 1, partition="a")
    (message,) = await pop(server, "orders")
    await settle(server, message)
    await hold(database, "orders", "archive:orders", 0)

    refused = await server.post(PURGE, purge)
    counted = await server.post(PURGE, {**purge, "dryRun": True})
    forced = await server.post(PURGE, {**purge, "force": True})

    assert (refused.status, refused.code) == (409, "queue_held")
    assert "archive:orders" in refused.body["detail"]
    assert counted.body["count"] == 1
    assert (await finished(server, forced.body))["done"] == 1


async def test_a_purge_of_messages_before_the_hold_needs_no_force(
    clock: Clock, database: "Connection", server: Server
) -> None:
    await push(server, "orders", 1, partition="a")
    await hold(database, "orders", "archive:orders")
    await push(server, "orders", 2, partition="b")

    for purge in ({"scope": "all", "partition": "a"}, {"scope": "all", "olderThanSeconds": 3600}):
        assert (await server.post(PURGE, purge)).status == 202
    assert (await server.post(PURGE, {"scope": "all"})).code == "queue_held"


async def test_an_expired_hold_does_not_stop_a_purge(
    clock: Clock, database: "Connection", server: Server
) -> None:
    await push(server, "orders", 1)
    await hold(database, "orders", "archive:orders", 0)
    await database.execute("update queen.holds set expires_at = queen.now()")
    await clock.advance(seconds=1)

    assert (await server.post(PURGE, {"scope": "all"})).status == 202
    assert (await server.get("/holds")).body["holds"] == []


async def test_metrics_show_the_age_and_size_of_holds_and_the_horizon(
    dsn: str, engine: Engine, database: "Connection"
) -> None:
    await store_messages(engine, "orders", 1, 2)
    await hold(database, "orders", "archive:orders", 0)
    await database.execute("update queen.segments set created_at = created_at - interval '1 hour'")
    await database.execute("begin; create table public.open ()")
    async with Server(dsn) as server:

        async def is_sampled() -> bool:
            return await value(server, "queen_hold_messages", queue="orders") == 2

        await until(is_sampled, seconds=30)
        name = {"queue": "orders", "name": "archive:orders"}
        assert await value(server, "queen_hold_age_seconds", **name) >= 3_600
        assert await value(server, "queen_horizon_age_seconds") > 0
