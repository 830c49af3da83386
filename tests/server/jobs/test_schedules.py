"""Schedules over HTTP: create, list, show, pause, run, delete, and permissions."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.callers import KEYS, Caller, make_key
from tests.support.clock import Clock
from tests.support.server import Server, until
from tests.support.verbs import pages

HOURLY: dict[str, Any] = {
    "name": "a/b",
    "queue": "orders",
    "cron": "0 * * * *",
    "payload": {"n": 1},
}


@pytest.fixture
async def guarded(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn, KEYS) as server:
        yield server


async def test_a_schedule_is_created_shown_and_deleted(clock: Clock, server: Server) -> None:
    made = await server.post("/schedules", {**HOURLY, "timeZone": "Asia/Kolkata", "missed": "all"})
    assert made.status == 200, made
    assert made.body == {
        "name": "a/b",
        "queue": "orders",
        "partition": "Default",
        "cron": "0 * * * *",
        "timeZone": "Asia/Kolkata",
        "missed": "all",
        "paused": False,
        "nextAt": "2030-01-01T00:30:00Z",
        "lastAt": None,
        "error": None,
        "createdAt": made.body["createdAt"],
        "managedBy": None,
        "payload": {"n": 1},
        "masked": False,
        "headers": None,
        "ttlSeconds": None,
        "priority": None,
    }
    assert (await server.get("/schedules/a%2Fb")).body == made.body
    (listed,) = (await server.get("/schedules")).body["schedules"]
    assert listed == {name: made.body[name] for name in listed}
    assert "payload" not in listed

    assert (await server.delete("/schedules/a%2Fb")).body == {"success": True, "name": "a/b"}
    for reply in (await server.get("/schedules/a%2Fb"), await server.delete("/schedules/a%2Fb")):
        assert (reply.status, reply.code) == (404, "not_found")


async def test_a_schedule_keeps_its_manager_until_a_request_names_another(server: Server) -> None:
    async def put(**fields: object) -> object:
        reply = await server.post("/schedules", {**HOURLY, **fields})
        assert reply.status == 200, reply
        (listed,) = (await server.get("/schedules")).body["schedules"]
        assert listed["managedBy"] == reply.body["managedBy"]
        return reply.body["managedBy"]

    assert await put(managedBy="shop") == "shop"
    assert await put() == "shop"
    assert (await server.post("/schedules/a%2Fb/pause")).body["managedBy"] == "shop"
    assert await put(managedBy="other") == "other"
    assert await put(managedBy=None) is None
    assert (await server.post("/schedules", {**HOURLY, "managedBy": ""})).code == "bad_request"


async def test_a_server_pushes_due_messages(server: Server) -> None:
    await server.post("/schedules", {**HOURLY, "cron": "* * * * * *", "headers": {"h": "1"}})

    wanted = {"wait": True, "timeout": 10_000, "autoAck": True}
    (message,) = (await server.post("/pop/queue/orders", wanted)).body["messages"]

    assert message["data"] == {"n": 1}
    assert message["headers"]["h"] == "1"
    assert message["headers"]["queen-schedule"] == "a/b"
    assert message["transactionId"] == f"a/b@{message['headers']['queen-tick']}"


async def test_a_schedule_is_paused_and_resumed(server: Server) -> None:
    await server.post("/schedules", {**HOURLY, "paused": True})
    shown = (await server.get("/schedules/a%2Fb")).body
    assert (shown["paused"], shown["nextAt"]) == (True, None)

    resumed = (await server.post("/schedules/a%2Fb/resume")).body
    assert not resumed["paused"]
    assert resumed["nextAt"] is not None
    paused = (await server.post("/schedules/a%2Fb/pause")).body
    assert (paused["paused"], paused["nextAt"]) == (True, None)
    # Options that aren't given stay unchanged.
    assert (await server.post("/schedules", HOURLY)).body["paused"]


async def test_run_now_pushes_immediately(server: Server) -> None:
    await server.post("/schedules", {**HOURLY, "paused": True})
    ids: set[str] = set()
    for _ in range(2):
        reply = await server.post("/schedules/a%2Fb/run")
        assert (reply.status, reply.body["status"]) == (201, "queued")
        ids.add(reply.body["id"])

    (first, second) = (await server.post("/pop/queue/orders", {"batch": 9})).body["messages"]
    assert {first["id"], second["id"]} == ids
    assert first["headers"]["queen-schedule"] == "a/b"


async def test_run_now_returns_why_it_failed(server: Server) -> None:
    await server.post("/configure", {"queue": "orders", "options": {"maxSize": 1}})
    await server.post("/schedules", HOURLY)
    assert (await server.post("/schedules/a%2Fb/run")).status == 201

    async def is_full() -> bool:
        return (await server.post("/schedules/a%2Fb/run")).code == "queue_full"

    await until(is_full)


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"cron": "x"}, "invalid_option"),
        ({"timeZone": "Rome"}, "invalid_option"),
        ({"missed": "never"}, "bad_request"),
        ({"priority": 3}, "invalid_item"),
        ({"queue": "__x"}, "invalid_name"),
        ({"name": "\0"}, "invalid_name"),
        ({"cronn": "* * * * *"}, "bad_request"),
    ],
)
async def test_an_invalid_schedule_is_rejected(
    shared: Server, changed: dict[str, Any], code: str
) -> None:
    reply = await shared.post("/schedules", {**HOURLY, **changed})
    assert reply.code == code, reply


async def test_a_schedules_payload_is_validated_by_the_schema(server: Server) -> None:
    await server.post("/configure", {"queue": "orders", "options": {"schema": {"type": "string"}}})
    assert (await server.post("/schedules", HOURLY)).code == "schema_violation"


async def test_lists_are_in_pages_and_filtered_by_queue(server: Server) -> None:
    for number in range(5):
        body = {**HOURLY, "name": f"s{number}", "queue": f"q{number % 2}"}
        await server.post("/schedules", body)

    found = await pages(server, "/schedules", "schedules", limit=2)
    assert [[each["name"] for each in page] for page in found] == [
        ["s0", "s1"],
        ["s2", "s3"],
        ["s4"],
    ]
    of_queue = (await server.get("/schedules", queue="q1")).body["schedules"]
    assert [each["name"] for each in of_queue] == ["s1", "s3"]


async def test_a_schedule_belongs_to_the_scope_of_its_queue(dsn: str, guarded: Server) -> None:
    admin = Caller(guarded, await make_key(dsn))
    await admin.post("/schedules", {**HOURLY, "name": "theirs"})
    tenant = Caller(guarded, await make_key(dsn, scopes=[{"queue": "ours.*"}]))
    ours = {**HOURLY, "name": "ours", "queue": "ours.1"}
    assert (await tenant.post("/schedules", ours)).status == 200

    listed = (await tenant.get("/schedules")).body["schedules"]
    assert [each["name"] for each in listed] == ["ours"]
    for name in ("theirs", "nobodys"):
        for reply in (
            await tenant.get(f"/schedules/{name}"),
            await tenant.delete(f"/schedules/{name}"),
            await tenant.post(f"/schedules/{name}/run"),
            await tenant.post(f"/schedules/{name}/pause"),
        ):
            assert (reply.status, reply.code) == (403, "forbidden")
    # The caller can neither push to other tenants' queues nor overwrite their schedules.
    assert (await tenant.post("/schedules", {**ours, "queue": "orders"})).status == 403
    assert (await tenant.post("/schedules", {**ours, "name": "theirs"})).status == 403


async def test_a_schedule_needs_the_permission_to_push(dsn: str, guarded: Server) -> None:
    admin = Caller(guarded, await make_key(dsn))
    await admin.post("/schedules", HOURLY)
    key = await make_key(dsn, permissions=["configure", "browse"])
    caller = Caller(guarded, key)

    assert (await caller.post("/schedules", HOURLY)).code == "forbidden"
    assert (await caller.post("/schedules/a%2Fb/run")).code == "forbidden"
    assert (await caller.post("/schedules/a%2Fb/pause")).status == 200


async def test_the_audit_log_records_changes_without_payloads(dsn: str, guarded: Server) -> None:
    admin = Caller(guarded, await make_key(dsn))
    await admin.post("/schedules", {**HOURLY, "payload": "canary"})
    await admin.post("/schedules", {**HOURLY, "payload": "canary", "cron": "5 * * * *"})

    (entry, *_) = (await admin.get("/audit")).body["records"]
    record = entry["record"]

    assert record["queue"] == "orders"
    assert (record["before"]["cron"], record["after"]["cron"]) == ("0 * * * *", "5 * * * *")
    assert "canary" not in str(record)
