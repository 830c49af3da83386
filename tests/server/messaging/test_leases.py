"""Leases over HTTP: extend and release."""

from datetime import datetime

import pytest

from tests.support.calls import a_queue, ack, data, pop, pop_one, push, settle
from tests.support.clock import Clock
from tests.support.server import Server

LOST = f"0.999999.{'0' * 32}"


async def test_a_lease_is_extended(dsn: str, clock: Clock) -> None:
    async with Server(dsn) as server:
        await push(server, "q", 1)
        message = await pop_one(server, "q", leaseSeconds=10)

        reply = await server.post(f"/lease/{message['leaseId']}/extend", {"seconds": 100})

        assert reply.status == 200
        assert (reply.body["leaseId"], reply.body["success"]) == (message["leaseId"], True)
        until = datetime.fromisoformat(reply.body["expiresAt"])
        before = datetime.fromisoformat(message["leaseExpiresAt"])
        assert 89 < (until - before).total_seconds() < 99
        await clock.advance(seconds=50)
        assert await pop(server, "q") == []
        assert (await ack(server, message)).status == 200


async def test_the_default_extension_is_the_queues_lease_time(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1)
    message = await pop_one(shared, queue, leaseSeconds=1)

    bodies: list[dict[str, object] | None] = [{}, None]
    for body in bodies:
        reply = await shared.post(f"/lease/{message['leaseId']}/extend", body)
        assert reply.status == 200
        until = datetime.fromisoformat(reply.body["expiresAt"])
        before = datetime.fromisoformat(message["leaseExpiresAt"])
        assert 290 < (until - before).total_seconds() < 330


async def test_an_extension_never_shortens_a_lease(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1)
    message = await pop_one(shared, queue, leaseSeconds=1000)

    reply = await shared.post(f"/lease/{message['leaseId']}/extend", {"seconds": 1})

    until = datetime.fromisoformat(reply.body["expiresAt"])
    before = datetime.fromisoformat(message["leaseExpiresAt"])
    assert abs((until - before).total_seconds()) < 0.01


@pytest.mark.parametrize("lease", [LOST, "nonsense", "%20", "a%2Fb"])
async def test_an_unknown_lease_is_lost(shared: Server, lease: str) -> None:
    for verb in ("ack", "extend", "release"):
        reply = await shared.post(f"/lease/{lease}/{verb}", {})
        assert (reply.status, reply.code, reply.body["applied"]) == (409, "lease_lost", False)


@pytest.mark.parametrize(
    "body", [{"seconds": 0}, {"seconds": 43_201}, {"seconds": "1"}, {"second": 1}]
)
async def test_a_malformed_extension_is_rejected(shared: Server, body: dict[str, object]) -> None:
    several = {"leaseIds": [LOST], **body}
    for path, sent in ((f"/lease/{LOST}/extend", body), ("/lease/extend", several)):
        reply = await shared.post(path, sent)
        assert (reply.status, reply.code) == (400, "bad_request")


async def test_several_leases_are_extended_with_a_result_each(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, partition="a")
    await push(shared, queue, 2, partition="b")
    leases = [each["leaseId"] for each in await pop(shared, queue, batch=2, partitions=2)]

    reply = await shared.post("/lease/extend", {"leaseIds": [leases[0], LOST, leases[1]]})

    assert reply.status == 200
    results = reply.body["results"]
    assert [each["leaseId"] for each in results] == [leases[0], LOST, leases[1]]
    assert [each["success"] for each in results] == [True, False, True]
    assert results[1]["code"] == "lease_lost"
    assert results[0]["expiresAt"]


async def test_the_number_of_leases_per_call_is_limited(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_MAX_ITEMS": "2"}) as server:
        reply = await server.post("/lease/extend", {"leaseIds": [LOST] * 3})
        empty = await server.post("/lease/extend", {"leaseIds": []})

        assert (reply.status, reply.code) == (413, "too_many_items")
        assert (empty.status, empty.code) == (400, "bad_request")


async def test_an_ack_of_a_lease_settles_its_remaining_messages(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, 2, 3, 4)
    one, *_ = await pop(shared, queue, batch=3)
    await settle(shared, one)

    reply = await shared.post(f"/lease/{one['leaseId']}/ack")

    assert (reply.status, reply.body) == (
        200,
        {"leaseId": one["leaseId"], "settled": 2, "success": True},
    )
    assert data(await pop(shared, queue, batch=3)) == [4]
    assert (await shared.post(f"/lease/{one['leaseId']}/ack")).code == "lease_lost"


async def test_a_release_returns_unsettled_messages_without_counting(shared: Server) -> None:
    queue = a_queue()
    await push(shared, queue, 1, 2, 3)
    one, *_ = messages = await pop(shared, queue, batch=3)
    await settle(shared, one)

    reply = await shared.post(f"/lease/{one['leaseId']}/release")

    assert (reply.status, reply.body["success"]) == (200, True)
    again = await pop(shared, queue, batch=3)
    assert data(again) == [2, 3]
    assert {each["attempt"] for each in again} == {1}
    assert (await ack(shared, messages[1])).code == "lease_lost"
    assert (await shared.post(f"/lease/{one['leaseId']}/release")).code == "lease_lost"
