"""Acknowledgments over HTTP: each status and each rejection, with and without a lease."""

from typing import Any

import pytest

from tests.support.calls import (
    a_queue,
    ack,
    configure,
    data,
    pop,
    pop_one,
    push,
    says,
    settle,
)
from tests.support.clock import Clock
from tests.support.server import Server

ANSWER = {"transactionId", "success", "noop", "dlq", "leaseReleased", "retryAt"}


@pytest.mark.parametrize("status", ["completed", "success", "acked", "ok", None])
async def test_synonyms_of_completed(shared: Server, status: str | None) -> None:
    queue = a_queue()
    await push(shared, queue, 1, 2)
    message = await pop_one(shared, queue)
    body = says(message)
    del body["status"]

    reply = await shared.post("/ack", body if status is None else {**body, "status": status})

    assert reply.status == 200
    assert set(reply.body) >= ANSWER
    assert (reply.body["success"], reply.body["leaseReleased"]) == (True, True)
    assert (reply.body["noop"], reply.body["dlq"], reply.body["retryAt"]) == (False, False, None)
    assert reply.body["transactionId"] == message["transactionId"]
    assert data(await pop(shared, queue)) == [2]


async def test_an_unknown_status_changes_nothing(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, 2)
    first, second = await pop(shared, queue, batch=2)

    reply = await ack(shared, first, status="done")
    batch = await shared.post(
        "/ack/batch", {"acknowledgments": [says(first), says(second, "done")]}
    )

    for each in (reply, batch):
        assert (each.status, each.code, each.body["applied"]) == (400, "invalid_status", False)
    assert (await settle(shared, first))["noop"] is False


async def test_the_id_works_in_place_of_the_transaction_id(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, transactionId="t1")
    message = await pop_one(shared, queue)

    for name in ("id", "transactionId"):
        body = {name: message["id"], "leaseId": message["leaseId"]}
        reply = await shared.post("/ack", {**body, "status": "retry"})
        assert reply.status == 200, reply.body
        message = await pop_one(shared, queue)


async def test_an_acknowledgment_needs_a_message_reference(shared: Server) -> None:
    for body in ({}, {"status": "completed"}, {"transactionId": ""}):
        reply = await shared.post("/ack", body)
        assert (reply.status, reply.code) == (400, "bad_request")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/ack", {"transactionId": 1}),
        ("/ack", {"transactionId": "t", "states": "failed"}),
        ("/ack", {"transactionId": "t", "delaySeconds": -1}),
        ("/ack", {"transactionId": "t", "delaySeconds": "1"}),
        ("/ack/batch", {"acknowledgments": []}),
        ("/ack/batch", {}),
        ("/ack/batch", {"acknowledgments": [{"transactionId": "t"}], "group": "g"}),
        ("/ack/batch", {"acknowledgments": {"transactionId": "t"}}),
    ],
)
async def test_a_malformed_acknowledgment_is_rejected(
    shared: Server, path: str, body: dict[str, Any]
) -> None:
    reply = await shared.post(path, body)

    assert (reply.status, reply.code, reply.body["applied"]) == (400, "bad_request", False)


async def test_messages_of_a_delivery_are_acknowledged_in_any_order(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, 2, 3)
    messages = await pop(shared, queue, batch=3)

    answers = [await settle(shared, messages[index]) for index in (2, 0, 1)]

    assert [each["leaseReleased"] for each in answers] == [False, False, True]
    assert await pop(shared, queue) == []


async def test_a_failure_in_an_ordered_queue_ends_the_delivery(dsn: str, clock: Clock) -> None:
    async with Server(dsn) as server:
        await push(server, "q", 1, 2, 3)
        one, two, _ = await pop(server, "q", batch=3)
        await settle(server, one)

        answer = await settle(server, two, status="failed", error="why")

        assert answer["leaseReleased"] is True
        assert answer["retryAt"]
        assert await pop(server, "q") == []
        await clock.advance(seconds=5)
        # The failed message is delivered first, without the others.
        again = await pop(server, "q", batch=3)
        assert [(each["data"], each["attempt"]) for each in again] == [(2, 2)]
        await settle(server, again[0])
        assert [(each["data"], each["attempt"]) for each in await pop(server, "q")] == [(3, 1)]


async def test_a_failure_in_an_unordered_queue_affects_one_message_only(
    dsn: str, clock: Clock
) -> None:
    async with Server(dsn) as server:
        await configure(server, "q", ordered=False)
        await push(server, "q", 1, 2, 3)
        one, two, three = await pop(server, "q", batch=3)

        answer = await settle(server, two, status="failed")

        assert answer["leaseReleased"] is False
        await settle(server, one)
        assert (await settle(server, three))["leaseReleased"] is True
        await clock.advance(seconds=5)
        assert [(each["data"], each["attempt"]) for each in await pop(server, "q", batch=3)] == [
            (2, 2)
        ]


async def test_status_retry_redelivers_immediately_without_counting(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1)
    for _ in range(6):
        message = await pop_one(shared, queue)
        assert (message["attempt"], message["retryCount"]) == (1, 0)
        await settle(shared, message, status="retry")


async def test_an_explicit_delay_replaces_the_backoff(dsn: str, clock: Clock) -> None:
    async with Server(dsn) as server:
        for status in ("failed", "retry"):
            await push(server, status, 1)
            await settle(server, await pop_one(server, status), status=status, delaySeconds=100)

            await clock.advance(seconds=90)
            assert await pop(server, status) == []
            await clock.advance(seconds=11)
            assert len(await pop(server, status)) == 1


async def test_status_dlq_dead_letters_one_message_and_the_delivery_continues(
    shared: Server,
) -> None:
    queue = a_queue()
    await push(shared, queue, 1, 2)
    one, two = await pop(shared, queue, batch=2)

    answer = await settle(shared, one, status="dlq", error="poison")

    assert (answer["dlq"], answer["leaseReleased"]) == (True, False)
    await settle(shared, two)
    assert await pop(shared, queue) == []


async def test_a_message_has_one_attempt_plus_its_retries(dsn: str, clock: Clock) -> None:
    async with Server(dsn) as server:
        await configure(server, "q", retryLimit=2)
        await push(server, "q", 1)
        answers: list[dict[str, Any]] = []
        for attempt in (1, 2, 3):
            message = await pop_one(server, "q")
            assert message["attempt"] == attempt
            answers.append(await settle(server, message, status="failed"))
            await clock.advance(seconds=400)

        assert [each["dlq"] for each in answers] == [False, False, True]
        assert await pop(server, "q") == []


async def test_the_lowest_of_several_failures_in_one_call_counts(dsn: str, clock: Clock) -> None:
    async with Server(dsn) as server:
        await push(server, "q", 1, 2, 3, 4)
        one, two, three, four = await pop(server, "q", batch=4)
        failures = [says(three, "failed"), says(two, "failed"), says(four), says(one)]

        reply = await server.post("/ack/batch", {"acknowledgments": failures})

        assert (reply.status, reply.body["success"]) == (200, True)
        await clock.advance(seconds=5)
        again = await pop(server, "q", batch=4)
        assert [(each["data"], each["attempt"]) for each in again] == [(2, 2)]
        await settle(server, again[0])
        assert [(e["data"], e["attempt"]) for e in await pop(server, "q", batch=4)] == [(3, 1)]


async def test_a_batch_returns_a_result_per_index(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, 2)
    one, two = await pop(shared, queue, batch=2)
    lost = {**says(two), "leaseId": f"0.999999.{'0' * 32}"}

    reply = await shared.post("/ack/batch", {"acknowledgments": [says(one), lost]})

    assert (reply.status, reply.body["success"]) == (200, False)
    first, second = reply.body["results"]
    assert ANSWER | {"index"} <= set(first)
    assert (first["index"], first["success"]) == (0, True)
    assert (second["index"], second["success"], second["code"]) == (1, False, "lease_lost")
    assert second["error"]
    # Rejected messages are still leased, accepted ones are settled.
    assert (await settle(shared, two))["leaseReleased"] is True


async def test_a_batch_with_the_whole_delivery_releases_it(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, *range(100))
    messages = await pop(shared, queue, batch=100, consumerGroup="g")
    bare = [{k: v for k, v in says(m).items() if k != "consumerGroup"} for m in messages]

    reply = await shared.post("/ack/batch", {"consumerGroup": "g", "acknowledgments": bare})

    assert reply.body["success"] is True
    assert {each["leaseReleased"] for each in reply.body["results"]} == {True}
    assert [each["index"] for each in reply.body["results"]] == list(range(100))


async def test_the_same_message_twice_is_a_bad_request(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1)
    message = await pop_one(shared, queue)

    reply = await shared.post("/ack/batch", {"acknowledgments": [says(message), says(message)]})

    assert (reply.status, reply.code, reply.body["applied"]) == (400, "bad_request", False)
    assert (await settle(shared, message))["noop"] is False


async def test_the_number_of_acknowledgments_per_call_is_limited(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_MAX_ITEMS": "2"}) as server:
        acks = [{"transactionId": f"t{n}"} for n in range(3)]

        reply = await server.post("/ack/batch", {"acknowledgments": acks})

        assert (reply.status, reply.code) == (413, "too_many_items")


async def test_an_old_lease_is_lost_and_changes_nothing(dsn: str, clock: Clock) -> None:
    async with Server(dsn) as server:
        await push(server, "q", 1)
        old = await pop_one(server, "q", leaseSeconds=10)
        await clock.advance(seconds=20)
        new = await pop_one(server, "q", wait=True, timeout=10_000)
        for status in ("completed", "failed", "retry", "dlq"):
            reply = await ack(server, old, status=status)

            assert (reply.status, reply.code, reply.body["applied"]) == (409, "lease_lost", False)
            assert not reply.body.get("settled")
        assert (await settle(server, new))["leaseReleased"] is True


async def test_a_lost_lease_shows_whether_the_message_is_settled(dsn: str, clock: Clock) -> None:
    async with Server(dsn) as server:
        await push(server, "q", 1)
        await push(server, "q", 2, partition="other")
        old = await pop(server, "q", leaseSeconds=10, partitions=2, batch=2)
        await clock.advance(seconds=20)
        new = await pop(server, "q", partitions=2, batch=2, wait=True, timeout=10_000)
        done = next(each for each in new if each["partition"] == "other")
        await settle(server, done)
        mine, theirs = sorted(old, key=lambda each: each["partition"] == "other")

        open_ = await ack(server, mine)
        single = await ack(server, theirs)
        batch = await server.post("/ack/batch", {"acknowledgments": [says(mine), says(theirs)]})

        assert (open_.code, "settled" in open_.body) == ("lease_lost", False)
        assert (single.status, single.code) == (409, "lease_lost")
        assert (single.body["settled"], single.body["applied"]) == (True, False)
        assert [each["code"] for each in batch.body["results"]] == ["lease_lost"] * 2
        assert [each.get("settled") for each in batch.body["results"]] == [None, True]


async def test_a_late_ack_counts_if_the_message_was_not_redelivered(dsn: str, clock: Clock) -> None:
    async with Server(dsn) as server:
        await push(server, "q", 1)
        message = await pop_one(server, "q", leaseSeconds=10)
        await clock.advance(seconds=20)

        assert (await settle(server, message))["success"] is True
        assert await pop(server, "q") == []


@pytest.mark.parametrize("lease", ["", "nonsense", "0.1.zz", f"0.{2**70}.{'0' * 32}", "ä"])
async def test_an_unknown_lease_is_lost(shared: Server, lease: str) -> None:
    queue = a_queue()
    await push(shared, queue, 1)
    message = await pop_one(shared, queue)

    reply = await ack(shared, {**message, "leaseId": lease})

    assert (reply.status, reply.code) == (409, "lease_lost")


async def test_without_a_lease_the_message_must_be_leased(shared: Server) -> None:
    queue = a_queue()
    (pushed,) = await push(shared, queue, 1)
    await _settle_twice(shared, queue, pushed)


async def test_an_explicit_transaction_id_is_known_after_its_ack(shared: Server) -> None:
    queue = a_queue()
    (pushed,) = await push(shared, queue, 1, transactionId=queue)
    await _settle_twice(shared, queue, pushed)


async def _settle_twice(server: Server, queue: str, pushed: dict[str, Any]) -> None:
    body = {name: pushed[name] for name in ("transactionId", "partitionId")}
    early = await server.post("/ack", body)
    assert (early.status, early.code) == (404, "message_not_found")

    await pop_one(server, queue)
    first = await server.post("/ack", body)
    again = await server.post("/ack", body)
    other = await server.post("/ack", {**body, "status": "failed"})

    assert (first.status, first.body["noop"]) == (200, False)
    assert (again.status, again.code) == (200, None)
    assert (again.body["noop"], again.body["success"]) == (True, True)
    assert (other.status, other.code, other.body["applied"]) == (409, "already_settled", False)


async def test_a_transaction_id_is_resolved_among_leased_messages(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, transactionId=queue, partition="a")
    await pop_one(shared, queue)

    reply = await shared.post("/ack", {"transactionId": queue})

    assert (reply.status, reply.body["leaseReleased"]) == (200, True)


async def test_a_transaction_id_is_known_after_its_ack(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, transactionId=queue, partition="a")
    await settle(shared, await pop_one(shared, queue))

    again = await shared.post("/ack", {"transactionId": queue})
    other = await shared.post("/ack", {"transactionId": queue, "status": "failed"})
    never = await shared.post("/ack", {"transactionId": f"{queue}-never"})

    assert (again.status, again.body.get("noop")) == (200, True)
    assert (other.status, other.code) == (409, "already_settled")
    assert (never.status, never.code) == (404, "message_not_found")


async def test_two_matches_are_ambiguous(shared: Server) -> None:
    queue = a_queue()
    for name in ("a", "b"):
        await push(shared, queue, name, transactionId=queue, partition=name)
    messages = await pop(shared, queue, batch=2, partitions=2)

    reply = await shared.post("/ack", {"transactionId": queue})

    assert (reply.status, reply.code, reply.body["applied"]) == (409, "ambiguous_message", False)
    for message in messages:
        named = {"transactionId": queue, "partitionId": message["partitionId"]}
        assert (await shared.post("/ack", named)).status == 200


async def test_an_ack_applies_to_its_group_only(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, transactionId=queue)
    await pop_one(shared, queue, consumerGroup="g")

    other = await shared.post("/ack", {"transactionId": queue, "consumerGroup": "h"})
    own = await shared.post("/ack", {"transactionId": queue, "consumerGroup": "g"})

    assert (other.status, other.code) == (404, "message_not_found")
    assert own.status == 200


async def test_a_server_can_require_leases(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_REQUIRE_LEASE": "true"}) as server:
        await push(server, "q", 1)
        message = await pop_one(server, "q")

        reply = await server.post("/ack", {"transactionId": message["transactionId"]})

        assert (reply.status, reply.code) == (400, "bad_request")
        assert (await ack(server, message)).status == 200


async def test_an_expired_lease_counts_as_an_attempt(dsn: str, clock: Clock) -> None:
    async with Server(dsn) as server:
        await configure(server, "q", retryLimit=1, leaseTime=10)
        await push(server, "q", 1)
        for attempt in (1, 2):
            message = await pop_one(server, "q", wait=True, timeout=10_000)
            assert message["attempt"] == attempt
            await clock.advance(seconds=400)

        assert await pop(server, "q") == []
