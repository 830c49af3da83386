"""Processes, settings, schema, tables, and maintenance modes of all processes."""

import asyncio

from queen import sql
from tests.support.clock import Clock
from tests.support.server import Server, until
from tests.support.verbs import pages, pop, push

ITEM = {"items": [{"queue": "orders", "payload": 1}]}


async def test_running_processes_are_listed(dsn: str, server: Server, clock: Clock) -> None:
    other = Server(dsn, {"WORKER_ID": "second"})
    await other.start()
    try:

        async def are_both_there() -> bool:
            found = await pages(server, "/system/instances", "instances", limit=1)
            flat = [each for page in found for each in page]
            return {each["pid"] for each in flat if each["alive"]} == {server.pid, other.pid}

        await until(are_both_there)
        listed = (await server.get("/system/instances")).body["instances"]
        assert any(each["id"].startswith("second-") for each in listed)
        other.kill()
        await clock.advance(seconds=20)

        async def is_dead() -> bool:
            body = (await server.get("/system/instances")).body
            return {each["alive"] for each in body["instances"]} == {True, False}

        await until(is_dead)
    finally:
        await other.close()


async def test_a_stopped_process_is_removed_from_the_list(dsn: str, server: Server) -> None:
    async with Server(dsn) as other:
        await other.stop()

        (left,) = (await server.get("/system/instances")).body["instances"]

    assert left["pid"] == server.pid


async def test_settings_are_shown_with_their_source_and_masked_secrets(dsn: str) -> None:
    secret = {"PG_PASSWORD": "4711-secret", "API_MAX_LIMIT": "7"}
    async with Server(dsn, secret) as server:
        reply = await server.get("/system/config")
        limited = await server.get("/resources/queues", limit=100)

    settings = {each["name"]: each for each in reply.body["settings"]}
    assert settings["PG_PASSWORD"]["value"] == "****"
    assert settings["DATABASE_URL"]["value"] == "****"
    assert settings["API_MAX_LIMIT"] == {
        "name": "API_MAX_LIMIT",
        "value": 7,
        "source": "environment",
    }
    assert settings["QUEEN_MAX_ITEMS"]["source"] == "default"
    assert "4711-secret" not in str(reply.body)
    assert limited.status == 200


async def test_migrations_are_shown(server: Server) -> None:
    body = (await server.get("/system/migrations")).body

    assert [each["name"] for each in body["applied"]] == [*sql.MIGRATIONS, "functions"]
    assert all(each["appliedAt"] for each in body["applied"])
    assert body["pending"] == []


async def test_tables_are_shown_with_their_sizes(server: Server) -> None:
    await push(server, "orders", *range(10))

    body = (await server.get("/system/tables")).body

    tables = {each["name"]: each for each in body["tables"]}
    assert {"segments", "consumers", "operations"} <= set(tables)
    assert tables["segments"]["totalBytes"] > 0
    assert tables["segments"]["deadRows"] >= 0
    assert "oldestTransaction" in body


async def test_push_maintenance_rejects_pushes_in_all_processes(dsn: str, server: Server) -> None:
    async with Server(dsn) as other:
        assert (await server.get("/system/maintenance")).body["enabled"] is False

        reply = await server.post("/system/maintenance", {"enabled": True})

        assert (reply.status, reply.body["enabled"]) == (200, True)
        assert reply.body["changedBy"] == "anonymous"
        refused = await server.post("/push", ITEM)
        assert (refused.status, refused.code) == (503, "database_unavailable")
        assert (refused.body["applied"], refused.headers["Retry-After"]) == (False, "1")
        transaction = {"operations": [{"type": "push", **ITEM}]}
        assert (await server.post("/transaction", transaction)).code == "database_unavailable"

        async def is_off() -> bool:
            return (await other.post("/push", ITEM)).status == 503

        await until(is_off, seconds=3)
        assert (await other.get("/system/maintenance")).body["enabled"] is True
        await server.post("/system/maintenance", {"enabled": False})

        async def is_on() -> bool:
            return (await other.post("/push", ITEM)).status == 201

        await until(is_on, seconds=3)
        assert (await server.post("/push", ITEM)).status == 201


async def test_pop_maintenance_returns_empty_pops_with_the_reason(dsn: str, server: Server) -> None:
    await push(server, "orders", 1)
    async with Server(dsn) as other:
        reply = await server.post("/system/maintenance/pop", {"enabled": True})
        assert reply.body["enabled"] is True
        assert (await server.get("/system/maintenance")).body["enabled"] is False

        empty = await server.get("/pop/queue/orders", wait="true", timeout=60_000)
        assert (empty.status, empty.headers["Queen-Reason"]) == (204, "maintenance")

        async def is_off() -> bool:
            reply = await other.get("/pop/queue/empty-or-not")
            return reply.headers.get("Queen-Reason") == "maintenance"

        await until(is_off, seconds=3)
        assert (await server.get("/system/maintenance/pop")).body["enabled"] is True
        assert (await server.post("/push", ITEM)).status == 201

        await server.post("/system/maintenance/pop", {"enabled": False})
        assert len(await pop(server, "orders")) == 1


async def test_maintenance_ends_long_polls(dsn: str, server: Server) -> None:
    async with Server(dsn) as other:
        await push(other, "other", 1)
        await server.post("/configure", {"queue": "orders"})
        waiting = [
            asyncio.ensure_future(each.get("/pop/queue/orders", wait="true", timeout=60_000))
            for each in (server, other)
        ]

        async def are_waiting() -> bool:
            body = (await server.get("/system/instances")).body
            groups = (await server.get("/consumer-groups", queue="orders")).body
            return len(body["instances"]) == 2 and len(groups["consumerGroups"]) == 1

        await until(are_waiting)
        await server.post("/system/maintenance/pop", {"enabled": True})

        async with asyncio.timeout(5):
            replies = await asyncio.gather(*waiting)
        for reply in replies:
            assert (reply.status, reply.headers["Queen-Reason"]) == (204, "maintenance")


async def test_maintenance_needs_a_boolean(server: Server) -> None:
    for path in ("/system/maintenance", "/system/maintenance/pop"):
        assert (await server.post(path, {"enabled": "maybe"})).code == "bad_request"
        assert (await server.post(path, {})).code == "bad_request"
        assert (await server.delete(path)).code == "method_not_allowed"
    assert (await server.get("/system/instances", cursor="WzFd")).code == "bad_request"
