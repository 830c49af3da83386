"""Payloads of encrypted queues are masked, and revealed only by an audited call with `consume`."""

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import asyncpg
import msgspec
import pytest

from queen.server.routes.table import ROUTES
from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Reply, Server
from tests.support.verbs import finished

CANARY = "canary-77ab12"
KEYED = {**KEYS, "QUEEN_ENCRYPTION_KEY": "ab" * 32}
SECRET = {"name": CANARY, "card": {"number": 42}, "metadata": {"tags": ["vip"]}}


class Shop(NamedTuple):
    """An encrypted queue with an object of every kind, and the views that show it."""

    admin: Caller
    reader: Caller
    consumer: Caller
    views: dict[str, list[str]]
    """The views, and the names of their objects in the audit log."""


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn, KEYED) as server:
        yield server


@pytest.fixture
async def shop(dsn: str, server: Server) -> Shop:
    admin = Caller(server, await make_key(dsn, name="ops"))
    reader = Caller(server, await make_key(dsn, role="read-only", name="reader"))
    permissions = ["browse", "consume"]
    consumer = Caller(server, await make_key(dsn, permissions=permissions, name="consumer"))
    options = {"encryptionEnabled": True, "ordered": False}
    assert (await admin.post("/configure", {"queue": "q", "options": options})).status == 200
    item = {"queue": "q", "payload": SECRET, "headers": {"secret": CANARY}}
    later = {**item, "delaySeconds": 3600, "transactionId": "later"}
    pushed = await admin.post("/push", {"items": [item, later, {**item, "transactionId": "t"}]})
    first, _, second = pushed.body["messages"]
    (popped,) = (await admin.get("/pop/queue/q")).body["messages"]
    assert (popped["data"], popped["headers"]) == (SECRET, item["headers"])
    gone = {"id": first["id"], "leaseId": popped["leaseId"], "status": "dlq", "error": "no"}
    assert (await admin.post("/ack", gone)).status == 200
    (popped,) = (await admin.get("/pop/queue/q")).body["messages"]
    done = {"transactionId": "t", "leaseId": popped["leaseId"], "result": {"paid": CANARY}}
    assert (await admin.post("/ack", done)).status == 200
    schedule = {"name": "s", "queue": "q", "cron": "0 0 1 1 *", "payload": SECRET}
    assert (await admin.post("/schedules", schedule)).body["payload"] == SECRET
    (letter,) = (await admin.get("/dlq", queue="q")).body["messages"]
    place = second["partitionId"]
    views = {
        "/messages?queue=q": [second["id"], first["id"]],
        "/messages?queue=q&status=scheduled": ["later"],
        f"/messages/{first['id']}": [first["id"]],
        f"/messages/{place}/t": [second["id"]],
        f"/messages/{place}/later": ["later"],
        "/dlq?queue=q": [first["id"]],
        f"/dlq/{letter['id']}": [first["id"]],
        "/jobs?queue=q": ["t", first["id"]],
        "/jobs?queue=q&status=scheduled": ["later"],
        "/jobs/q/t": ["t"],
        "/jobs/q/later": ["later"],
        "/schedules/s": ["s"],
    }
    return Shop(admin, reader, consumer, views)


def with_reveal(view: str) -> str:
    return f"{view}{'&' if '?' in view else '?'}reveal=true"


def rows(reply: Reply) -> list[dict[str, Any]]:
    """The rows of a view, whether it is a list or a single object."""
    assert reply.status == 200, reply
    return reply.body.get("messages") or reply.body.get("jobs") or [reply.body]


async def newest_record(shop: Shop) -> dict[str, Any]:
    """The newest record of any caller except the one who reads the log."""
    records = (await shop.admin.get("/audit", limit=20)).body["records"]
    return next(
        each["record"] for each in records if each["record"]["action"] != "GET /api/v1/audit"
    )


async def revelations(shop: Shop) -> int:
    """The number of records about revealed payloads."""
    records = (await shop.admin.get("/audit", limit=1_000)).body["records"]
    return sum(each["record"]["revealed"] is not None for each in records)


async def test_every_view_of_payloads_is_masked_unless_revealed(shop: Shop) -> None:
    for view, ids in shop.views.items():
        before = await revelations(shop)
        for caller in (shop.reader, shop.consumer, shop.admin):
            reply = await caller.get(view)
            assert CANARY not in str(reply.body), view
            for each in rows(reply):
                assert each["masked"] is True, view
                assert each.get("data") is None, view
                assert each.get("payload") is None, view
                assert not each.get("headers"), view
                assert each.get("result") is None, view
                assert each.get("metadata") is None, view
        assert await revelations(shop) == before

        reply = await shop.consumer.get(with_reveal(view))
        for each in rows(reply):
            assert each["masked"] is False, view
            assert CANARY in str(each), view
        record = await newest_record(shop)
        assert (record["actor"], record["revealed"]) == ("key:consumer", ids), view
        assert record["queue"] == "q", view
        assert CANARY not in str(record)


async def test_dead_letters_are_revealed_for_one_queue_at_a_time(shop: Shop) -> None:
    (letter,) = rows(await shop.consumer.get("/dlq"))
    assert (letter["masked"], letter["data"]) == (True, None)
    reply = await shop.consumer.get("/dlq?reveal=true")
    assert (reply.status, reply.code) == (400, "bad_request")
    assert "requires queue" in reply.body["detail"]


async def test_a_schedule_cannot_copy_an_encrypted_payload_without_consume_permission(
    shop: Shop, dsn: str
) -> None:
    permissions = ["browse", "configure", "produce"]
    planner = Caller(shop.admin.server, await make_key(dsn, permissions=permissions, name="plan"))
    assert (await planner.post("/schedules/s/run")).status == 201
    plain = {"queue": "q", "options": {"encryptionEnabled": False}}
    assert (await planner.post("/configure", plain)).status == 200

    reply = await planner.post("/schedules/s/run")
    assert (reply.status, reply.code) == (403, "masked")
    assert (await shop.admin.post("/schedules/s/run")).status == 201


async def test_reveal_needs_consume_permission(shop: Shop) -> None:
    for view in shop.views:
        reply = await shop.reader.get(with_reveal(view))
        assert (reply.status, reply.code) == (403, "forbidden"), view
        assert "consume" in reply.body["detail"]
        record = await newest_record(shop)
        assert (record["actor"], record["status"]) == ("key:reader", 403)
        assert record["revealed"] is None


async def test_a_revealed_payload_equals_the_pushed_one(shop: Shop) -> None:
    view = next(each for each in shop.views if each.endswith("/t") and "/messages/" in each)
    (found,) = rows(await shop.consumer.get(with_reveal(view)))
    assert (found["data"], found["headers"]) == (SECRET, {"secret": CANARY})
    (job,) = rows(await shop.consumer.get("/jobs/q/t?reveal=true"))
    assert (job["name"], job["result"]) == (CANARY, {"paid": CANARY})
    (schedule,) = rows(await shop.consumer.get("/schedules/s?reveal=true"))
    assert schedule["payload"] == SECRET


@pytest.mark.parametrize(
    "search",
    [
        "/messages?queue=q&contains={}",
        "/messages?queue=q&where=name={}",
        "/messages?queue=q&status=scheduled&contains={}",
        "/messages?queue=q&status=scheduled&where=name={}",
        "/jobs?queue=q&name={}",
        "/jobs?queue=q&status=scheduled&name={}",
        "/jobs?queue=q&tag={}",
    ],
)
async def test_a_search_in_masked_payloads_is_rejected(shop: Shop, search: str) -> None:
    wanted = "vip" if "tag" in search else CANARY
    for caller in (shop.reader, shop.admin):
        told = [await caller.get(search.format(word)) for word in (wanted, "nonsense")]
        assert {(reply.status, reply.code) for reply in told} == {(403, "masked")}
        assert told[0].body["detail"] == told[1].body["detail"]
        assert "reveal=true" in told[0].body["detail"]

    found, nothing = [
        await shop.consumer.get(with_reveal(search.format(word))) for word in (wanted, "nonsense")
    ]
    assert CANARY in str(found.body)
    assert CANARY not in str(nothing.body)
    assert (await newest_record(shop))["revealed"] == []


async def test_a_search_by_unencrypted_fields_works(shop: Shop) -> None:
    reply = await shop.reader.get("/messages", queue="q", transactionId="t", status="completed")
    assert [(each["transactionId"], each["masked"]) for each in rows(reply)] == [("t", True)]


async def test_without_the_audit_log_payloads_stay_masked(dsn: str, shop: Shop) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        "create function public.refuse () returns trigger language plpgsql as"
        " $$ begin raise 'the disk is full' using errcode = '53100'; end $$"
    )
    await connection.execute(
        "create trigger refuse before insert on queen.audit execute function public.refuse()"
    )
    await connection.close()
    for view in shop.views:
        reply = await shop.consumer.get(with_reveal(view))
        assert reply.status == 503, view
        assert CANARY not in str(reply.body), view


async def test_views_of_payloads_are_not_shared_between_callers(shop: Shop) -> None:
    assert not [route.path for route in ROUTES if route.is_payload_view and route.is_shared]
    said = {"cache-control": "max-age=10"}
    for view in shop.views:
        for path in (with_reveal(view), view):
            await shop.consumer.request("GET", path, headers=said)
        other = await shop.reader.request("GET", view, headers=said)
        assert CANARY not in str(other.body), view
        again = await shop.admin.request("GET", with_reveal(view), headers=said)
        assert CANARY in str(again.body), view
        record = await newest_record(shop)
        assert (record["actor"], bool(record["revealed"])) == ("key:ops", True), view


def test_every_view_of_payloads_supports_reveal() -> None:
    silent = {
        route.path
        for route in ROUTES
        if route.is_payload_view
        and (
            route.query is None
            or "reveal" not in {each.name for each in msgspec.structs.fields(route.query)}
        )
    }
    # A workflow with an encrypted queue is rejected, so its steps are never encrypted.
    assert {path.split("/")[3] for path in silent} == {"workflows"}


async def test_an_unencrypted_message_is_shown_next_to_an_encrypted_one(shop: Shop) -> None:
    options = {"queue": "q", "options": {"encryptionEnabled": False}}
    assert (await shop.admin.post("/configure", options)).status == 200
    await shop.admin.push("q", "plain")
    newest, *rest = rows(await shop.reader.get("/messages", queue="q"))
    assert (newest["data"], newest["masked"]) == ("plain", False)
    assert {each["masked"] for each in rest} == {True}
    await shop.consumer.get("/messages", queue="q", reveal="true")
    revealed = (await newest_record(shop))["revealed"]
    assert newest["id"] not in revealed
    assert revealed == [each["id"] for each in rest]


async def test_a_redacted_message_is_deleted_instead_of_masked(shop: Shop) -> None:
    id_ = shop.views["/dlq?queue=q"][0]
    assert (await shop.admin.delete(f"/messages/{id_}")).status == 200
    (gone,) = rows(await shop.reader.get(f"/messages/{id_}"))
    assert (gone["redacted"], gone["masked"], gone["data"]) == (True, False, None)


async def test_a_server_without_the_encryption_key_masks_and_cannot_reveal(
    dsn: str, shop: Shop
) -> None:
    async with Server(dsn, KEYS) as keyless:
        reader = Caller(keyless, shop.reader.token)
        for view in shop.views:
            assert {each["masked"] for each in rows(await reader.get(view))} == {True}, view
        consumer = Caller(keyless, shop.consumer.token)
        reply = await consumer.get("/messages?queue=q&reveal=true")
        assert (reply.status, reply.code) == (503, "encryption_unavailable")
        (letter,) = rows(await consumer.get("/dlq?queue=q&reveal=true"))
        assert (letter["masked"], letter["dataError"]) == (False, "encryption_unavailable")
        assert (await newest_record(shop))["revealed"] == []


async def test_a_redrive_to_an_unencrypted_queue_needs_consume_permission(
    dsn: str, shop: Shop
) -> None:
    await shop.admin.push("plain")
    permissions = ["browse", "operate", "produce"]
    mover = Caller(shop.admin.server, await make_key(dsn, permissions=permissions))
    (letter,) = rows(await mover.get("/dlq", queue="q"))
    by_id = {"filter": {"ids": [letter["id"]]}}
    reply = await mover.post("/dlq/redrive", {**by_id, "destination": {"queue": "plain"}})
    assert (reply.status, reply.code) == (403, "masked")
    by_filter = {"filter": {"queue": "q"}, "destination": {"queue": "plain"}}
    reply = await mover.post("/dlq/redrive", by_filter)
    operation = await finished(mover, reply.body)
    assert (operation["state"], "not encrypted" in operation["error"]) == ("failed", True)
    assert len(rows(await mover.get("/dlq", queue="q"))) == 1

    options = {"queue": "sealed", "options": {"encryptionEnabled": True}}
    assert (await shop.admin.post("/configure", options)).status == 200
    reply = await mover.post("/dlq/redrive", {**by_id, "destination": {"queue": "sealed"}})
    assert reply.body["count"] == 1
    (moved,) = rows(await mover.get("/messages", queue="sealed"))
    assert moved["masked"] is True
    (popped,) = (await shop.admin.get("/pop/queue/sealed")).body["messages"]
    assert popped["data"] == SECRET
