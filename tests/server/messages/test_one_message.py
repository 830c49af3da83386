"""Single messages: retry, dead-letter, redact."""

import asyncpg
import pytest

from tests.support.clock import Clock
from tests.support.server import Server, until
from tests.support.verbs import bury, pop, push, settle

SECRET = "4711-secret"


async def test_a_retry_ends_the_wait_for_the_next_attempt(server: Server, clock: Clock) -> None:
    (pushed,) = await push(server, "orders", 1)
    (message,) = await pop(server, "orders", consumerGroup="g")
    await settle(server, message, "failed", delaySeconds=600)
    assert await pop(server, "orders", consumerGroup="g") == []

    reply = await server.post(f"/messages/{pushed['id']}/retry", {"consumerGroup": "g"})

    assert (reply.status, reply.body["success"], reply.body["id"]) == (200, True, pushed["id"])
    (again,) = await pop(server, "orders", consumerGroup="g")
    assert (again["id"], again["attempt"]) == (pushed["id"], 2)


async def test_a_dead_letter_is_redriven_by_a_retry(server: Server) -> None:
    (pushed,) = await push(server, "orders", 1, transactionId="t")
    await bury(server, "orders")

    reply = await server.post(f"/messages/{pushed['partitionId']}/t/retry")

    assert (reply.body["transactionId"], reply.body["consumerGroup"]) == ("t", "__QUEUE_MODE__")
    (again,) = await pop(server, "orders")
    assert (again["id"], again["attempt"]) == (pushed["id"], 1)
    assert (await server.get("/dlq", queue="orders")).body["messages"] == []


async def test_a_message_that_neither_waits_nor_failed_cannot_be_retried(server: Server) -> None:
    first, second = await push(server, "orders", 1, 2)
    (held,) = await pop(server, "orders")

    async def code(message_id: str) -> str | None:
        return (await server.post(f"/messages/{message_id}/retry")).code

    assert await code(first["id"]) == "not_retryable"
    assert await code(second["id"]) == "not_retryable"
    await settle(server, held)
    assert await code(first["id"]) == "not_retryable"
    (later,) = await push(server, "orders", 3, delaySeconds=60, transactionId="t")
    path = f"/messages/{later['partitionId']}/t"
    assert (await server.post(f"{path}/retry")).code == "not_retryable"
    assert (await server.post(f"{path}/dlq")).code == "not_retryable"


async def test_a_retry_needs_an_existing_group(server: Server) -> None:
    (pushed,) = await push(server, "orders", 1)
    body = {"consumerGroup": "nobody"}

    for verb in ("retry", "dlq"):
        reply = await server.post(f"/messages/{pushed['id']}/{verb}", body)
        assert (reply.status, reply.code) == (404, "group_not_found")
        assert (await server.post(f"/messages/{pushed['id']}/{verb}", {"x": 1})).status == 400


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("state", ["unclaimed", "head", "held", "waiting", "behind what is held"])
async def test_a_message_is_dead_lettered_in_any_state(
    server: Server, clock: Clock, ordered: bool, state: str
) -> None:
    await server.post("/configure", {"queue": "orders", "options": {"ordered": ordered}})
    pushed = await push(server, "orders", *range(4))
    at = {"unclaimed": 2, "head": 0, "held": 0, "waiting": 0, "behind what is held": 2}[state]
    await server.post("/pop/queue/orders", {"subscriptionMode": "all", "batch": 1})
    await server.post("/consumer-groups/__QUEUE_MODE__/queues/orders/seek", {"toStart": True})
    if state in ("held", "waiting", "behind what is held"):
        (held,) = await pop(server, "orders")
        if state == "waiting":
            await settle(server, held, "failed", delaySeconds=60)

    reply = await server.post(f"/messages/{pushed[at]['id']}/dlq", {"error": "by hand"})

    assert reply.status == 200
    (letter,) = (await server.get("/dlq", queue="orders")).body["messages"]
    assert (letter["data"], letter["errorMessage"], letter["reason"]) == (at, "by hand", "dead")
    left = set(range(4)) - {at}
    if state == "behind what is held":
        await settle(server, held)  # pyright: ignore[reportPossiblyUnboundVariable] - by state
        left -= {0}
    found: list[int] = []
    while messages := await pop(server, "orders", batch=10):
        for message in messages:
            found.append(message["data"])
            await settle(server, message)
    assert (found if ordered else sorted(found)) == sorted(left)


async def test_a_message_is_dead_lettered_by_its_transaction_id(server: Server) -> None:
    (pushed,) = await push(server, "orders", 1, transactionId="t/1")
    await pop(server, "orders")

    reply = await server.post(f"/messages/{pushed['partitionId']}/t%2F1/dlq", {"error": "no"})

    assert (reply.status, reply.body["success"], reply.body["id"]) == (200, True, pushed["id"])
    (letter,) = (await server.get("/dlq", queue="orders")).body["messages"]
    assert (letter["transactionId"], letter["errorMessage"]) == ("t/1", "no")


async def test_a_settled_message_cannot_be_dead_lettered(server: Server) -> None:
    (pushed,) = await push(server, "orders", 1)
    (message,) = await pop(server, "orders")
    await settle(server, message)

    reply = await server.post(f"/messages/{pushed['id']}/dlq")

    assert (reply.status, reply.code) == (409, "already_settled")


async def test_a_consumer_loses_only_the_dead_lettered_message(server: Server) -> None:
    first, _ = await push(server, "orders", 1, 2)
    one, two = await pop(server, "orders", batch=2)

    await server.post(f"/messages/{first['id']}/dlq")

    names = ("transactionId", "partitionId", "leaseId")
    reply = await server.post("/ack", {name: one[name] for name in names})
    assert reply.status == 200 or reply.code == "already_settled"
    await settle(server, two)
    assert await pop(server, "orders") == []


async def bytes_anywhere(dsn: str, needle: str) -> int:
    """The number of rows in any table that contain a text, as text or as bytes."""
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(
            """
            select
              (select count(*) from queen.segments
                where position($1::bytea in body) > 0 or position($1::bytea in extras) > 0)
              + (select count(*) from queen.dead_letters where position($1::bytea in payload) > 0)
              + (select count(*) from queen.deliveries where position($1::bytea in payload) > 0)
              + (select count(*) from queen.scheduled where position($1::bytea in payload) > 0)
            """,
            needle.encode(),
        )
    finally:
        await connection.close()


async def test_a_redacted_message_is_erased_and_not_redelivered(dsn: str, server: Server) -> None:
    pushed = [
        *(await push(server, "orders", "a")),
        *(await push(server, "orders", SECRET, headers={"h": SECRET}, traceId="x")),
        *(await push(server, "orders", "c")),
    ]

    reply = await server.delete(f"/messages/{pushed[1]['id']}")

    assert (reply.status, reply.body["redacted"]) == (200, True)
    assert await bytes_anywhere(dsn, SECRET) == 0
    body = (await server.get(f"/messages/{pushed[1]['id']}")).body
    assert (body["redacted"], body["data"], body["headers"], body["offset"]) == (True, None, {}, 1)
    assert body["traceId"] == "x"
    for group in ("g", "h"):
        found: list[tuple[str, int]] = []
        while messages := await pop(server, "orders", consumerGroup=group, batch=10):
            for message in messages:
                found.append((message["data"], message["offset"]))
                await settle(server, message)
        assert found == [("a", 0), ("c", 2)]


@pytest.mark.parametrize("at", [0, 2, 4])
async def test_other_messages_of_its_segment_are_unchanged(server: Server, at: int) -> None:
    items = [
        {"queue": "orders", "payload": n, "transactionId": f"t{n}", "headers": {"n": str(n)}}
        for n in range(5)
    ]
    pushed = (await server.post("/push", {"items": items})).body["messages"]

    assert (await server.delete(f"/messages/{pushed[at]['id']}")).status == 200
    assert (await server.delete(f"/messages/{pushed[at]['id']}")).status == 200

    found: list[tuple[int, str, str, int]] = []
    while messages := await pop(server, "orders", batch=10):
        for message in messages:
            headers = message["headers"]["n"]
            found.append((message["data"], message["transactionId"], headers, message["offset"]))
            await settle(server, message)
    assert found == [(n, f"t{n}", str(n), n) for n in range(5) if n != at]
    await push(server, "orders", "next")
    assert [each["offset"] for each in await pop(server, "orders")] == [5]


@pytest.mark.parametrize("state", ["held", "failed", "dlq", "redriven"])
async def test_a_redacted_message_is_removed_from_deliveries_and_dead_letters(
    dsn: str, server: Server, clock: Clock, state: str
) -> None:
    (first,) = await push(server, "orders", SECRET)
    await push(server, "orders", "b")
    held = (await pop(server, "orders"))[0]
    if state != "held":
        await settle(server, held, "dlq" if state == "redriven" else state)
    if state == "redriven":
        assert (await server.post(f"/messages/{first['id']}/retry")).status == 200

    assert (await server.delete(f"/messages/{first['id']}")).status == 200

    assert await bytes_anywhere(dsn, SECRET) == 0
    assert (await server.get("/dlq", queue="orders")).body["messages"] == []
    await clock.advance(seconds=1000)
    assert [each["data"] for each in await pop(server, "orders", batch=5)] == ["b"]


async def test_other_processes_do_not_deliver_a_redacted_message_from_their_cache(
    dsn: str, server: Server
) -> None:
    async with Server(dsn) as other:
        (pushed,) = await push(other, "orders", SECRET)
        await push(other, "orders", "b")

        await server.delete(f"/messages/{pushed['id']}")

        assert [each["data"] for each in await pop(other, "orders", batch=5)] == ["b"]


async def test_a_cancelled_scheduled_message_can_be_pushed_again(server: Server) -> None:
    (pushed,) = await push(server, "orders", 1, delaySeconds=60, transactionId="t")
    path = f"/messages/{pushed['partitionId']}/t"

    reply = await server.delete(path)

    assert (reply.body["cancelled"], reply.body["redacted"]) == (True, False)
    assert (await server.get(path)).code == "message_not_found"
    (again,) = await push(server, "orders", 2, transactionId="t")
    assert again["status"] == "queued"
    assert [each["data"] for each in await pop(server, "orders")] == [2]


async def test_a_message_is_redacted_during_pops_and_acks(dsn: str, server: Server) -> None:
    """Pops run during redactions: no other message is lost or delivered twice."""
    pushed = await push(server, "orders", *range(60))
    gone = {pushed[n]["id"] for n in range(0, 60, 3)}
    found: list[str] = []

    async def drained() -> bool:
        for message in await pop(server, "orders", batch=4):
            found.append(message["id"])
            names = ("transactionId", "partitionId", "leaseId")
            await server.post("/ack", {name: message[name] for name in names})
        if waiting := gone - erased:
            id_ = waiting.pop()
            assert (await server.delete(f"/messages/{id_}")).status == 200
            erased.add(id_)
        return len(erased) == len(gone) and {each["id"] for each in pushed} - gone <= set(found)

    erased: set[str] = set()
    await until(drained, seconds=30)
    assert len(found) == len(set(found))
