"""Transactions over HTTP: acks and pushes are applied completely or not at all."""

from typing import Any

import pytest

from tests.support.calls import a_queue, ack, data, items, pop, pop_one, push, says, settle
from tests.support.server import Reply, Server


async def transact(server: Server, *operations: dict[str, Any], **fields: Any) -> Reply:  # noqa: ANN401 - JSON
    return await server.post("/transaction", {"operations": list(operations), **fields})


def acks(message: dict[str, Any], status: str = "completed") -> dict[str, Any]:
    return {"type": "ack", **says(message, status)}


def pushes(queue: str, *values: Any, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    return {"type": "push", "items": items(queue, *values, **fields)}


async def test_acks_and_pushes_are_applied_together(shared: Server) -> None:
    queue, other = a_queue(), a_queue()
    await push(shared, queue, 1)
    message = await pop_one(shared, queue)

    reply = await transact(shared, acks(message), pushes(other, "a", "b"), pushes(other, "c"))

    assert reply.status == 200
    assert reply.body["success"] is True
    assert reply.body["transactionId"]
    results = reply.body["results"]
    kinds = [(each["index"], each["type"]) for each in results]
    assert kinds == [(0, "ack"), (1, "push"), (2, "push")]
    assert [each["status"] for each in results[1]["messages"]] == ["queued", "queued"]
    assert data(await pop(shared, other, batch=10)) == ["a", "b", "c"]
    assert (await ack(shared, message)).code in ("lease_lost", None)
    assert await pop(shared, queue) == []


async def test_a_rejected_ack_prevents_the_pushes(shared: Server) -> None:
    queue, other = a_queue(), a_queue()
    await push(shared, queue, 1)
    message = await pop_one(shared, queue)
    lost = acks({**message, "leaseId": f"0.999999.{'0' * 32}"})

    reply = await transact(shared, pushes(other, "never"), lost)

    assert (reply.status, reply.code, reply.body["applied"]) == (409, "lease_lost", False)
    assert reply.body["failedIndex"] == 1
    assert (await shared.post(f"/pop/queue/{other}", {})).status in (204, 404)
    assert (await settle(shared, message))["leaseReleased"] is True


@pytest.mark.parametrize(
    ("operation", "code", "status"),
    [
        ({"type": "push", "items": items("q", 1, priority=5)}, "invalid_item", 422),
        ({"type": "push", "items": items("q", "x" * 2**20)}, "payload_too_large", 413),
        ({"type": "push", "items": items("__q", 1)}, "invalid_name", 400),
        ({"type": "push", "items": items("q", 1, partition="\n")}, "invalid_name", 400),
        (
            {"type": "push", "items": items("q", 1, availableAt="2200-01-01T00:00:00Z")},
            "invalid_item",
            422,
        ),
        ({"type": "ack", "transactionId": "absent"}, "message_not_found", 404),
        ({"type": "ack", "transactionId": "t", "status": "done"}, "invalid_status", 400),
    ],
)
async def test_a_rejected_operation_is_named_and_the_transaction_is_rolled_back(
    shared: Server, operation: dict[str, Any], code: str, status: int
) -> None:
    queue, other = a_queue(), a_queue()
    await push(shared, queue, 1)
    message = await pop_one(shared, queue)

    reply = await transact(shared, acks(message), pushes(other, 1), operation)

    assert (reply.status, reply.code, reply.body["applied"]) == (status, code, False)
    assert reply.body["failedIndex"] == 2
    assert (await shared.post(f"/pop/queue/{other}", {})).status in (204, 404)
    assert (await settle(shared, message))["leaseReleased"] is True


async def test_a_full_queue_rejects_the_transaction(shared: Server) -> None:
    queue, full = a_queue(), a_queue()
    await shared.post("/configure", {"queue": full, "options": {"maxSize": 1}})
    await push(shared, full, 1)
    await push(shared, queue, 1)
    message = await pop_one(shared, queue)

    reply = await transact(shared, acks(message), pushes(full, *range(10)))

    assert (reply.status, reply.code, reply.body["failedIndex"]) == (429, "queue_full", 1)
    assert (await settle(shared, message))["leaseReleased"] is True


MALFORMED: list[dict[str, Any]] = [
    {"operations": []},
    {},
    {"operations": [{"type": "pop", "queue": "q"}]},
    {"operations": [{"queue": "q"}]},
    {"operations": [{"type": "push", "items": []}]},
    {"operations": [{"type": "push", "items": [{"queue": "q"}]}]},
    {"operations": [{"type": "ack", "transactionId": "t", "item": 1}]},
    {"operations": [{"type": "ack", "transactionId": "t"}], "onDuplicate": "fail"},
    {"operations": [{"type": "ack", "transactionId": "t"}], "producerId": "p"},
]


@pytest.mark.parametrize("body", MALFORMED)
async def test_a_malformed_transaction_is_rejected(shared: Server, body: dict[str, Any]) -> None:
    reply = await shared.post("/transaction", body)

    assert (reply.status, reply.code, reply.body["applied"]) == (400, "bad_request", False)


async def test_the_same_message_twice_is_rejected(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1)
    message = await pop_one(shared, queue)

    reply = await transact(shared, acks(message), acks(message))

    assert (reply.status, reply.code) == (400, "bad_request")
    assert (await settle(shared, message))["leaseReleased"] is True


async def test_the_number_of_operations_is_limited(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_MAX_ITEMS": "2"}) as server:
        reply = await transact(server, *[pushes("q", n) for n in range(3)])

        assert (reply.status, reply.code) == (413, "too_many_items")


async def test_a_known_transaction_id_counts_as_pushed(shared: Server) -> None:
    queue, other = a_queue(), a_queue()
    (first,) = await push(shared, other, "first", transactionId="t")
    await push(shared, queue, 1)
    message = await pop_one(shared, queue)

    reply = await transact(shared, acks(message), pushes(other, "again", transactionId="t"))

    assert reply.status == 200
    (answer,) = reply.body["results"][1]["messages"]
    assert (answer["status"], answer["id"]) == ("duplicate", first["id"])
    assert data(await pop(shared, other, batch=5)) == ["first"]


async def test_a_known_transaction_id_rolls_back_on_request(shared: Server) -> None:
    queue, other = a_queue(), a_queue()
    await push(shared, other, "first", transactionId="t")
    await push(shared, queue, 1)
    message = await pop_one(shared, queue)

    reply = await transact(
        shared, acks(message), pushes(other, "again", transactionId="t"), onDuplicate="rollback"
    )

    assert (reply.status, reply.code, reply.body["applied"]) == (409, "duplicate", False)
    assert (await settle(shared, message))["leaseReleased"] is True


async def test_required_leases_must_be_current(shared: Server) -> None:
    queue, other = a_queue(), a_queue()
    await push(shared, queue, 1)
    lease = (await pop_one(shared, queue))["leaseId"]

    lost = await transact(shared, pushes(other, 1), requiredLeases=[lease, f"0.999999.{'0' * 32}"])
    held = await transact(shared, pushes(other, 2), requiredLeases=[lease])

    assert (lost.status, lost.code) == (409, "lease_lost")
    assert held.status == 200
    assert data(await pop(shared, other, batch=5)) == [2]


async def test_a_repeated_request_of_a_producer_is_replayed(shared: Server) -> None:
    queue, other = a_queue(), a_queue()
    await push(shared, queue, 1)
    message = await pop_one(shared, queue)
    operations = (acks(message), pushes(other, "once"))
    first = await transact(shared, *operations, producerId=queue, sequence=5)

    again = await transact(shared, *operations, producerId=queue, sequence=5)
    stale = await transact(shared, pushes(other, "old"), producerId=queue, sequence=4)

    assert (first.status, first.body.get("replayed")) == (200, None)
    assert (again.status, again.body["replayed"]) == (200, True)
    assert (stale.status, stale.code) == (409, "sequence_stale")
    assert data(await pop(shared, other, batch=5)) == ["once"]


async def test_messages_can_fail_or_be_dead_lettered_in_a_transaction(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, 2)
    one, two = await pop(shared, queue, batch=2)

    reply = await transact(shared, acks(one, "dlq"), acks(two, "retry"))

    assert reply.status == 200
    assert data(await pop(shared, queue, batch=2)) == [2]


async def test_required_leases_apply_to_acks_of_transactions(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_REQUIRE_LEASE": "true"}) as server:
        await push(server, "q", 1)
        message = await pop_one(server, "q")
        unfenced = acks(message)
        del unfenced["leaseId"]

        reply = await transact(server, pushes("other", 1), unfenced)

        assert (reply.status, reply.code, reply.body["applied"]) == (400, "bad_request", False)
        assert reply.body["failedIndex"] == 1
        assert (await server.post("/pop/queue/other", {})).status == 404
        assert (await transact(server, acks(message))).status == 200


async def test_the_operation_with_a_known_transaction_id_is_named(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, transactionId="known")

    reply = await transact(
        shared,
        pushes(queue, "a", "b"),
        pushes(queue, "c"),
        pushes(queue, 2, transactionId="known"),
        onDuplicate="rollback",
    )

    assert (reply.status, reply.code, reply.body["applied"]) == (409, "duplicate", False)
    assert reply.body["failedIndex"] == 2
    assert data(await pop(shared, queue, batch=10)) == [1]
