"""Slots move while transactions push to other databases."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.cluster.across.chain import Chain, collected, judge
from tests.cluster.moves import Members, finish
from tests.cluster.places import ONE, TWO, slot_of
from tests.cluster.stops import FAIL
from tests.support.server import Server, until


@pytest.fixture
async def server(databases: dict[str, str]) -> AsyncIterator[Server]:
    async with Server(databases) as server:
        yield server


@pytest.fixture
async def members(databases: dict[str, str]) -> AsyncIterator[Members]:
    async with Members.connected(databases) as members:
        yield members


async def execute(members: Members, name: str, statement: str) -> None:
    await members.connections[name].execute(statement)


async def transfer(server: Server, value: int) -> Any:  # noqa: ANN401
    """Push a message to ONE, and move it to TWO. Returns the result of the second push."""
    pushed = await server.post("/push", {"items": [{"queue": ONE, "payload": value}]})
    assert pushed.status == 201, pushed.body
    (message,) = (await server.get(f"/pop/queue/{ONE}", wait="true")).body["messages"]
    ack = {"type": "ack", "id": message["id"], "leaseId": message["leaseId"]}
    push = {"type": "push", "items": [{"queue": TWO, "partition": "p0", "payload": value}]}
    body = {"operations": [ack, push], "acrossShards": "outbox"}
    reply = await server.post("/transaction", body)
    assert reply.status == 200, reply.body
    return reply.body["results"][1]["messages"][0]


async def move(members: Members, queue: str, source: str, target: str) -> None:
    async with asyncio.timeout(30):
        await finish(members.move(slot_of(queue), source, target))


async def test_messages_of_transactions_arrive_before_their_slot_moves(
    server: Server, members: Members
) -> None:
    """Otherwise the next transaction could overtake them, in the other database."""
    await transfer(server, 0)
    assert await collected(server, TWO, 1, 30) == {"p0": [0]}
    await execute(members, "two", FAIL.format(what="insert", table="segments"))
    await transfer(server, 6)
    slot = members.move(slot_of(ONE), "main", "three")
    waits = [(await slot.step()).waits_for for _ in range(10)]
    assert "on their way to other databases" in (waits[-1] or "")
    assert await members.owners(slot_of(ONE)) == ["main"]

    await execute(members, "two", "drop trigger fail on queen.segments")
    async with asyncio.timeout(30):
        await finish(slot)
    await transfer(server, 12)

    assert await collected(server, TWO, 2, 30) == {"p0": [6, 12]}
    assert await members.owners(slot_of(ONE)) == ["three"]


async def test_a_slot_is_kept_if_messages_do_not_arrive_during_its_hand_over(
    server: Server, members: Members
) -> None:
    number = slot_of(ONE)
    await transfer(server, 0)
    assert await collected(server, TWO, 1, 30) == {"p0": [0]}
    slot = members.move(number, "main", "three")
    await slot.step()
    await execute(members, "two", FAIL.format(what="insert", table="segments"))
    await transfer(server, 6)
    leave = "select queen.leave_slot($1::smallint, 'three', gen_random_uuid())"
    await members.value("main", leave, number)  # Another process did so, and died.

    with pytest.raises(TimeoutError):
        await slot.step()

    assert await members.owners(number) == ["main"]
    await execute(members, "two", "drop trigger fail on queen.segments")
    async with asyncio.timeout(30):
        await finish(slot)
    await transfer(server, 12)
    assert await collected(server, TWO, 2, 30) == {"p0": [6, 12]}


async def test_pushes_follow_earlier_ones_that_are_still_on_their_way(
    server: Server, members: Members
) -> None:
    """Also if their queue is in the database of the transaction now."""
    await transfer(server, 0)
    await execute(members, "main", FAIL.format(what="delete", table="forwards"))
    await transfer(server, 6)
    await move(members, TWO, "two", "main")

    behind = await transfer(server, 12)
    await execute(members, "main", "drop trigger fail on queen.forwards")

    assert behind["offset"] is None
    assert await collected(server, TWO, 3, 30) == {"p0": [0, 6, 12]}

    async def is_sent() -> bool:
        return await members.value("main", "select count(*) from queen.forwards") == 0

    await until(is_sent)
    assert (await transfer(server, 18))["offset"] == 3


async def test_messages_are_moved_once_and_in_order_while_slots_move(
    server: Server, members: Members
) -> None:
    chain = Chain([server], ONE, TWO)
    await chain.fill(900)
    chain.start()
    paths = [(ONE, "main", "three"), (TWO, "two", "main"), (ONE, "three", "two")]
    for number, path in enumerate([*paths, (TWO, "main", "three"), (ONE, "two", "main")], 1):
        await chain.until_sent(number * 140)
        await move(members, *path)
    found = await collected(server, TWO, 900, 60)
    await chain.stop()

    assert judge(found, 900) == {"lost": 0, "duplicated": 0, "reordered": 0}


async def push_only(server: Server, value: int) -> Any:  # noqa: ANN401
    """Push to TWO in a transaction without acknowledgments. Returns the result."""
    push = {"type": "push", "items": [{"queue": TWO, "partition": "p0", "payload": value}]}
    reply = await server.post("/transaction", {"operations": [push], "acrossShards": "outbox"})
    assert reply.status == 200, reply.body
    return reply.body["results"][0]["messages"][0]


async def test_pushes_that_follow_earlier_ones_keep_their_order_when_their_queue_moves(
    server: Server, members: Members
) -> None:
    await transfer(server, 0)
    await execute(members, "main", FAIL.format(what="delete", table="forwards"))
    await transfer(server, 6)
    await move(members, TWO, "two", "main")
    assert (await push_only(server, 12))["offset"] is None
    slot = members.move(slot_of(TWO), "main", "three")

    steps = [await slot.step() for _ in range(10)]
    await push_only(server, 18)
    await execute(members, "main", "drop trigger fail on queen.forwards")

    assert "are on their way" in (steps[-1].waits_for or "")
    assert await collected(server, TWO, 4, 30) == {"p0": [0, 6, 12, 18]}
    async with asyncio.timeout(30):
        await finish(slot)
    assert await members.owners(slot_of(TWO)) == ["three"]
