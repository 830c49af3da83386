"""A transaction is rejected before it sends what another database could not store."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.cluster.across.test_transactions import is_leased, leased, push, transact
from tests.cluster.moves import Members, run
from tests.cluster.places import THREE, TWO, slot_of
from tests.support.server import Server


@pytest.fixture
async def server(databases: dict[str, str]) -> AsyncIterator[Server]:
    async with Server(databases) as server:
        yield server


async def test_the_options_of_a_queue_that_has_moved_count(
    server: Server, databases: dict[str, str]
) -> None:
    """This server does not know yet that the queue has moved, and the former owner lacks it."""
    await server.post("/configure", {"queue": THREE, "options": {"maxSize": 5}})
    async with Server(databases) as late:
        ack = await leased(late, TWO)
        async with Members.connected(databases) as members:
            await run(members.move(slot_of(THREE), "three", "main"))

        reply = await transact(late, ack, push(THREE))

        assert (reply.status, reply.code) == (422, "cross_shard")
        assert "maxSize" in reply.body["detail"]
        assert await is_leased(late, ack)


async def test_a_time_that_is_too_far_ahead_is_rejected(server: Server) -> None:
    await server.post("/push", {"items": [{"queue": THREE, "payload": 0}]})
    ack = await leased(server, TWO)
    late = (datetime.now(UTC) + timedelta(days=800)).isoformat()

    reply = await transact(server, ack, push(THREE, 1, availableAt=late))

    assert (reply.status, reply.code) == (422, "invalid_item")
    assert reply.body["failedIndex"] == 1
    assert await is_leased(server, ack)


@pytest.mark.parametrize("name", ["a\0b", "", "x" * 2_000])
async def test_an_invalid_name_is_rejected(server: Server, name: str) -> None:
    ack = await leased(server, TWO)

    reply = await transact(server, ack, push(name))

    assert reply.status in (400, 422), reply.body
    assert reply.code in ("invalid_name", "bad_request", "invalid_request")
    assert await is_leased(server, ack)
