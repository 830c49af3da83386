"""With `acrossShards`, the pushes of a transaction to other databases go through its outbox."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from queen import Queen, errors
from tests.cluster.moves import Members, finish
from tests.cluster.places import ONE, THREE, TWO, named, slot_of
from tests.support.server import Reply, Server, until

SAME = named("two", 2)[1]
ENCRYPTION = {"QUEEN_ENCRYPTION_KEY": "ab" * 32}

Query = Callable[..., Awaitable[Any]]


@pytest.fixture
async def server(databases: dict[str, str]) -> AsyncIterator[Server]:
    async with Server(databases, ENCRYPTION) as server:
        yield server


@pytest.fixture
async def query(databases: dict[str, str]) -> AsyncIterator[Query]:
    """Run a query in one database."""
    connections = {name: await asyncpg.connect(dsn) for name, dsn in databases.items()}

    async def query(name: str, statement: str) -> Any:  # noqa: ANN401
        return await connections[name].fetchval(statement)

    yield query
    for each in connections.values():
        await each.close()


async def leased(server: Server, queue: str, value: int = 1) -> dict[str, Any]:
    """Push a message and pop it. Returns its acknowledgment."""
    reply = await server.post("/push", {"items": [{"queue": queue, "payload": value}]})
    assert reply.status == 201, reply.body
    (message,) = (await server.get(f"/pop/queue/{queue}")).body["messages"]
    return {"type": "ack", "id": message["id"], "leaseId": message["leaseId"]}


async def is_leased(server: Server, ack: dict[str, Any]) -> bool:
    """Whether a message could still be acknowledged, which is done now."""
    reply = await server.post("/ack", {"id": ack["id"], "leaseId": ack["leaseId"]})
    return reply.status == 200 and reply.body["success"]


def push(queue: str, *payloads: Any, **fields: Any) -> dict[str, Any]:  # noqa: ANN401
    items = [{"queue": queue, "payload": each, **fields} for each in payloads or (1,)]
    return {"type": "push", "items": items}


async def transact(server: Server, *operations: dict[str, Any], **fields: Any) -> Reply:  # noqa: ANN401
    body = {"operations": operations, "acrossShards": "outbox", **fields}
    return await server.post("/transaction", body)


async def taken(server: Server, queue: str, count: int) -> list[Any]:
    """Pop at least this many messages. Returns their payloads in order."""
    found: list[Any] = []

    async def is_enough() -> bool:
        reply = await server.post(f"/pop/queue/{queue}", {"batch": 100, "autoAck": True})
        if reply.status == 200:
            found.extend(each["data"] for each in reply.body["messages"])
        return len(found) >= count

    await until(is_enough, seconds=30)
    return found


async def is_empty(server: Server, queue: str) -> bool:
    return (await server.get(f"/pop/queue/{queue}")).status in (204, 404)


async def test_acks_and_pushes_to_other_databases_are_applied_together(server: Server) -> None:
    ack = await leased(server, TWO)

    reply = await transact(server, ack, push(ONE, 1, 2), push(SAME, 3), push(THREE, 4))

    assert reply.status == 200, reply.body
    there, here, elsewhere = (each["messages"] for each in reply.body["results"][1:])
    assert [each["status"] for each in (*there, *here, *elsewhere)] == ["queued"] * 4
    assert [each["id"] for each in (*there, *elsewhere)] == [None] * 3
    assert here[0]["offset"] == 0
    assert await taken(server, ONE, 2) == [1, 2]
    assert await taken(server, SAME, 1) == [3]
    assert await taken(server, THREE, 1) == [4]
    assert not await is_leased(server, ack)


@pytest.mark.parametrize("fields", [{}, {"acrossShards": "reject"}])
async def test_by_default_other_databases_are_rejected(
    server: Server, fields: dict[str, str]
) -> None:
    ack = await leased(server, TWO)

    reply = await server.post("/transaction", {"operations": [ack, push(ONE)], **fields})

    assert (reply.status, reply.code) == (422, "cross_shard")
    assert 'acrossShards "outbox"' in reply.body["detail"]


async def test_acknowledgments_in_several_databases_are_rejected(server: Server) -> None:
    acks = [await leased(server, queue) for queue in (ONE, TWO)]

    reply = await transact(server, *acks, push(THREE))

    assert (reply.status, reply.code) == (422, "cross_shard")
    assert "only pushes can be sent to another database" in reply.body["detail"]
    for ack in acks:
        assert await is_leased(server, ack)


async def test_a_required_lease_decides_the_database(server: Server) -> None:
    lease = (await leased(server, TWO))["leaseId"]
    other = await leased(server, ONE)

    accepted = await transact(server, push(ONE), requiredLeases=[lease])
    apart = await transact(server, other, push(ONE), requiredLeases=[lease])

    assert accepted.body["results"][0]["messages"][0]["offset"] is None
    assert apart.code == "cross_shard"


async def test_without_acknowledgments_the_first_push_decides_the_database(
    server: Server,
) -> None:
    reply = await transact(server, push(TWO, 1), push(ONE, 2))

    here, there = (each["messages"][0] for each in reply.body["results"])
    assert (here["offset"], there["offset"]) == (0, None)
    assert await taken(server, ONE, 1) == [2]


async def test_a_rejected_transaction_sends_nothing(server: Server, query: Query) -> None:
    ack = await leased(server, TWO)
    assert await is_leased(server, ack)

    reply = await transact(server, ack, push(ONE))

    assert (reply.status, reply.code) == (409, "lease_lost")
    assert await query("two", "select count(*) from queen.forwards") == 0
    assert not await query("two", "select is_called from queen.outbox_id_seq")
    assert await is_empty(server, ONE)


async def test_a_repeated_request_is_applied_once(server: Server) -> None:
    ack = await leased(server, TWO)
    operations = [push(ONE, 1), ack, push(SAME, 2, delaySeconds=0), push(THREE, 3)]

    first = await transact(server, *operations, producerId="p", sequence=1)
    # A first attempt would be rejected now.
    await server.post("/configure", {"queue": ONE, "options": {"maxSize": 1}})
    again = await transact(server, *operations, producerId="p", sequence=1)
    other = await transact(server, *operations[1:], producerId="p", sequence=1)

    assert first.status == 200, first.body
    assert again.body == {**first.body, "replayed": True}
    assert other.code == "sequence_reused"
    assert await taken(server, ONE, 1) == [1]
    assert await taken(server, THREE, 1) == [3]
    assert await is_empty(server, ONE)
    assert await is_empty(server, THREE)


@pytest.mark.parametrize("fields", [{"acrossShards": "outbox"}, {"acrossShards": "reject"}])
async def test_a_repeat_gets_the_first_outcome_after_its_messages_were_removed(
    server: Server, fields: dict[str, str]
) -> None:
    """Only the number finds the database then, because the acknowledgment names no database."""
    item = {"queue": TWO, "payload": 1, "transactionId": "t"}
    await server.post("/push", {"items": [item]})
    assert len((await server.get(f"/pop/queue/{TWO}")).body["messages"]) == 1
    pushes = [push(ONE, 2)] if fields["acrossShards"] == "outbox" else []
    operations = [{"type": "ack", "transactionId": "t"}, *pushes]
    numbered = {"producerId": "p", "sequence": 1, **fields}

    first = await transact(server, *operations, **numbered)
    assert first.status == 200, first.body
    assert (await server.delete(f"/resources/queues/{TWO}")).status == 202
    await server.post("/push", {"items": [{**item, "queue": THREE}]})
    other = (await server.get(f"/pop/queue/{THREE}")).body["messages"][0]
    again = await transact(server, *operations, **numbered)

    assert again.body == {**first.body, "replayed": True}
    assert await is_leased(server, other)


async def test_a_repeat_gets_the_first_outcome_after_its_queues_were_separated(
    server: Server, databases: dict[str, str]
) -> None:
    """The databases that they are in now could not apply it."""
    ack = await leased(server, TWO)
    body = {"operations": [ack, push(SAME)], "producerId": "p", "sequence": 1}
    items = [{"queue": queue, "payload": 1} for queue in (TWO, SAME)]
    numbered = {"items": items, "producerId": "q", "sequence": 1}
    first = await server.post("/transaction", body)
    pushed = await server.post("/push", numbered)
    assert (first.status, pushed.status) == (200, 201)
    async with Members.connected(databases) as members:
        await finish(members.move(slot_of(SAME), "two", "three"))

    again = await server.post("/transaction", body)
    repeated = await server.post("/push", numbered)

    assert again.body == {**first.body, "replayed": True}
    assert repeated.body["messages"] == pushed.body["messages"]
    new = await server.post("/push", {**numbered, "sequence": 2})
    assert new.code == "cross_shard"


async def test_fields_of_a_message_are_kept(server: Server) -> None:
    fields = {"transactionId": "t", "headers": {"a": "b"}, "partition": "p", "traceId": "x"}

    reply = await transact(server, push(TWO), push(ONE, {"n": "é\0"}, **fields))

    assert reply.body["results"][1]["messages"][0]["transactionId"] == "t"
    (message,) = (await _first(server, ONE))["messages"]
    assert message["data"] == {"n": "é\0"}
    assert {name: message[name] for name in fields} == fields


async def _first(server: Server, queue: str) -> Any:  # noqa: ANN401
    body: Any = None

    async def is_there() -> bool:
        nonlocal body
        reply = await server.get(f"/pop/queue/{queue}")
        body = reply.body
        return reply.status == 200

    await until(is_there, seconds=30)
    return body


async def test_a_delay_counts_from_the_transaction(server: Server, query: Query) -> None:
    assert (await transact(server, push(TWO), push(ONE, 1, delaySeconds=3600))).status == 200

    async def is_scheduled() -> bool:
        return await query("main", "select count(*) from queen.scheduled") == 1

    await until(is_scheduled, seconds=30)
    left = "select extract(epoch from due_at - queen.now())::float8 from queen.scheduled"
    assert 3500 < await query("main", left) < 3600


async def test_a_known_transaction_id_is_dropped_where_it_arrives(server: Server) -> None:
    await server.post("/push", {"items": [{"queue": ONE, "payload": 1, "transactionId": "t"}]})

    reply = await transact(server, push(TWO), push(ONE, 2, transactionId="t"), push(ONE, 3))

    assert reply.body["results"][1]["messages"][0]["status"] == "queued"
    assert await taken(server, ONE, 2) == [1, 3]


@pytest.mark.parametrize(
    ("options", "fields", "request_fields", "code"),
    [
        ({"maxSize": 5}, {}, {}, "cross_shard"),
        ({"encryptionEnabled": True}, {}, {}, "cross_shard"),
        ({"placement": "spread"}, {"partition": "q0"}, {}, "cross_shard"),
        ({}, {"transactionId": "t"}, {"onDuplicate": "rollback"}, "cross_shard"),
        ({}, {"priority": 3}, {}, "invalid_item"),
        ({"schema": {"type": "string"}}, {}, {}, "schema_violation"),
        ({"maxPayloadBytes": 1}, {"payload": "long"}, {}, "payload_too_large"),
    ],
)
async def test_a_condition_of_another_database_is_checked_or_rejected(
    server: Server,
    options: dict[str, Any],
    fields: dict[str, Any],
    request_fields: dict[str, Any],
    code: str,
) -> None:
    configured = await server.post("/configure", {"queue": ONE, "options": options})
    assert configured.status in (200, 201), configured.body
    ack = await leased(server, TWO)
    item = {"queue": ONE, "payload": 1, **fields}

    reply = await transact(server, ack, {"type": "push", "items": [item]}, **request_fields)

    assert (reply.code, reply.body["failedIndex"]) == (code, 1)
    assert await is_leased(server, ack)


async def test_with_one_database_the_option_changes_nothing(dsn: str) -> None:
    async with Server(dsn) as server:
        reply = await transact(server, await leased(server, TWO), push(ONE), push(THREE))

    pushed = [each["messages"][0] for each in reply.body["results"][1:]]
    assert [each["offset"] for each in pushed] == [0, 0]


async def test_an_unknown_value_is_rejected(server: Server) -> None:
    reply = await transact(server, push(TWO), acrossShards="later")

    assert (reply.status, reply.code) == (400, "bad_request")


@pytest.mark.parametrize("transport", ["stream", "http"])
async def test_the_sdk_sends_the_option(server: Server, transport: str) -> None:
    async with Queen(server.base_url, stream=transport == "stream") as queen:
        await queen.queue(TWO).push([{"data": 1}])
        (message,) = await queen.queue(TWO).pop()
        steps = queen.transaction(across_shards="outbox").ack(message)
        with pytest.raises(errors.CrossShard):
            await queen.transaction().ack(message).queue(ONE).push([{"data": 2}]).commit()

        result = await steps.queue(ONE).push([{"data": 2}]).commit()

        assert result.success
        assert await taken(server, ONE, 1) == [2]
        assert await queen.queue(TWO).pop() == []
