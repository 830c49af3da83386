"""Confirmed data is on the synchronous standby too, including data of an earlier call."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from queen.store.connection.database import Database
from queen.store.connection.options import Connecting
from queen.store.migrations import migrate
from tests.support.pair import Pair
from tests.support.server import Reply, Server, until

WAITING = """
select pid from pg_stat_activity
where datname = current_database() and application_name = 'queen' and wait_event = 'SyncRep'
  and query ~ $1
"""


class Paused:
    """A server whose standby is paused, and the calls that wait for it."""

    def __init__(self, pair: Pair, server: Server) -> None:
        self.pair = pair
        self.server = server

    async def waiting(self, function: str) -> int:
        """The PID of the backend whose call waits for the standby."""
        connection = await asyncpg.connect(self.pair.primary.dsn("queen"))
        try:
            async with asyncio.timeout(5):
                while (pid := await connection.fetchval(WAITING, function)) is None:  # noqa: ASYNC110 - the condition is in the database
                    await asyncio.sleep(0.02)
            return pid
        finally:
            await connection.close()

    async def forced(self, call: "asyncio.Task[Reply]", function: str) -> Reply:
        """Cancel a call's wait for the standby, and return the response."""
        pid = await self.waiting(function)
        connection = await asyncpg.connect(self.pair.primary.dsn("queen"))
        await connection.execute("select pg_cancel_backend($1)", pid)
        await connection.close()
        return await call

    def post(self, path: str, body: Any) -> "asyncio.Task[Reply]":  # noqa: ANN401 - JSON
        return asyncio.create_task(self.server.post(path, body))


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    with Pair() as pair:
        yield pair


@pytest.fixture
async def paused(pair: Pair) -> AsyncIterator[Paused]:
    """Create the queues. Tests pause the standby themselves."""
    await asyncio.to_thread(pair.primary.execute, "drop database if exists queen with (force)")
    await asyncio.to_thread(pair.primary.create_database, "queen")
    await migrate(pair.dsn("queen"))
    async with Server(pair.dsn("queen")) as server:
        reply = await server.post("/push", {"items": [{"queue": "orders", "payload": "first"}]})
        assert reply.status == 201
        try:
            yield Paused(pair, server)
        finally:
            pair.standby.resume()


@pytest.mark.parametrize("by", ["transactionId", "producerId"])
async def test_a_repeated_push_returns_when_the_standby_has_the_first(
    paused: Paused, by: str
) -> None:
    item = {"queue": "orders", "payload": 1}
    body: dict[str, Any] = {"items": [item], "producerId": "p", "sequence": 1}
    if by == "transactionId":
        body = {"items": [{**item, "transactionId": "t"}]}
    paused.pair.standby.pause()
    first = await paused.forced(paused.post("/push", body), "queen.push")
    assert (first.status, first.code) == (503, "outcome_unknown")

    again = paused.post("/push", body)
    await paused.waiting("queen.push")
    assert not again.done()
    paused.pair.standby.resume()

    reply = await again
    if by == "transactionId":
        assert [each["status"] for each in reply.body["messages"]] == ["duplicate"]
    else:
        assert reply.body["replayed"] is True


@pytest.mark.parametrize("has_lease", [False, True])
async def test_a_repeated_ack_returns_when_the_standby_has_the_first(
    paused: Paused, has_lease: bool
) -> None:
    popped = await paused.server.post("/pop/queue/orders", {"batch": 1})
    (message,) = popped.body["messages"]
    named = ("transactionId", "partitionId", *(("id", "leaseId") if has_lease else ()))
    body = {"status": "completed", **{name: message[name] for name in named}}
    paused.pair.standby.pause()
    first = await paused.forced(paused.post("/ack", body), "queen.n?ack")
    assert (first.status, first.code) == (503, "outcome_unknown")

    again = paused.post("/ack", body)
    await paused.waiting("pg_logical_emit_message")
    assert not again.done()
    paused.pair.standby.resume()

    reply = await again
    if has_lease:
        assert (reply.status, reply.body["settled"]) == (409, True)
    else:
        assert (reply.status, reply.body["noop"]) == (200, True)


async def test_a_connection_is_prepared_without_a_standby(paused: Paused) -> None:
    paused.pair.standby.pause()

    async with asyncio.timeout(8):
        database = await Database.open(paused.pair.dsn("queen"), Connecting(is_warmed=True))
        await database.fetch("now")

    await database.close()


async def test_without_a_response_from_the_standby_a_server_confirms_no_push(
    paused: Paused,
) -> None:
    """The response is late, and its outcome is unknown."""
    paused.pair.standby.pause()

    reply = await paused.post("/push", {"items": [{"queue": "orders", "payload": 2}]})

    assert (reply.status, reply.code) == (503, "outcome_unknown")
    paused.pair.standby.resume()

    async def is_taken() -> bool:
        pushed = {"items": [{"queue": "orders", "payload": 3}]}
        return (await paused.server.post("/push", pushed)).status == 201

    await until(is_taken, seconds=10)
