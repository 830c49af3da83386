"""Each input has one output in another database, although servers and databases are killed."""

import asyncio
import contextlib
import os
import random
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple
from uuid import uuid4

import asyncpg
import pytest

from queen.store.cluster.joining import join
from tests.cluster.across.chain import Chain, collected, expected, judge
from tests.cluster.places import ONE, TWO
from tests.cluster.reports import report
from tests.cluster.stops import STOPS, TERMINATE, WAIT, WAITERS
from tests.support.postgres import Postgres
from tests.support.server import Reply, Server, until

Databases = dict[str, str]


async def leased(server: Server) -> dict[str, Any]:
    """A transaction that acknowledges a message of ONE and pushes to TWO."""
    reply = await server.post("/push", {"items": [{"queue": ONE, "payload": 1}]})
    assert reply.status == 201, reply.body
    (message,) = (await server.get(f"/pop/queue/{ONE}")).body["messages"]
    ack = {"type": "ack", "id": message["id"], "leaseId": message["leaseId"]}
    items = [{"queue": TWO, "payload": n, "partition": "p0"} for n in (0, 6)]
    return {"operations": [ack, {"type": "push", "items": items}], "acrossShards": "outbox"}


@pytest.mark.parametrize("is_committed", [False, True], ids=["lost", "committed"])
@pytest.mark.parametrize("stop", STOPS)
async def test_a_transaction_is_applied_once_if_the_server_is_killed_before_a_step(
    databases: Databases, connect: Callable[[str], Awaitable[Any]], stop: str, is_committed: bool
) -> None:
    """The statement at which it was killed is lost, or is committed after its end."""
    name, when = STOPS[stop]
    holder = await connect(name)
    await holder.execute(WAIT.format(when=when))
    async with Server(databases) as server:
        body = await leased(server)
        await holder.execute("select pg_advisory_lock(7)")
        sending = asyncio.create_task(_send(server, body))

        async def is_stopped() -> bool:
            return await holder.fetchval(WAITERS) > 0

        await until(is_stopped, seconds=30)
        server.kill()
        await sending
        if not is_committed:
            await holder.fetchval(TERMINATE)
        await holder.execute("select pg_advisory_unlock(7)")
        await server.start()

        reply = await server.post("/transaction", body)
        assert (reply.status, reply.code) in ((200, None), (409, "lease_lost"))
        assert await collected(server, TWO, 2, 60) == {"p0": [0, 6]}


async def _send(server: Server, body: dict[str, Any]) -> Reply | None:
    with contextlib.suppress(OSError, Exception):
        return await server.post("/transaction", body)
    return None


class Form(NamedTuple):
    """How many messages and kills."""

    messages: int
    kills: int
    batch: int


_FULL: Final = Form(
    int(os.environ.get("QUEEN_MESSAGES", "100000")), int(os.environ.get("QUEEN_KILLS", "50")), 20
)


async def test_messages_are_moved_once_while_servers_are_killed(databases: Databases) -> None:
    async with Server(databases) as one, Server(databases) as two:
        chain = Chain([one, two], ONE, TWO)
        await chain.fill(1500)
        chain.start()
        for number in range(4):
            await chain.until_sent((number + 1) * 300)
            victim = (one, two)[number % 2]
            victim.kill()
            await victim.start()
        found = await collected(one, TWO, 1500, 60)
        await chain.stop()

    assert judge(found, 1500) == {"lost": 0, "duplicated": 0, "reordered": 0}


@pytest.mark.slow
@pytest.mark.timeout(7200)
async def test_messages_are_moved_once_while_anything_is_killed(apart: dict[str, Postgres]) -> None:
    name = f"queen_{uuid4().hex}"
    databases = {place: each.create_database(name) for place, each in apart.items()}
    await join(databases)
    chance = random.Random(_FULL.kills)
    async with Server(databases) as one, Server(databases) as two:
        chain = Chain([one, two], ONE, TWO, batch=_FULL.batch)
        await chain.fill(_FULL.messages)
        chain.start()
        victims = (one, apart["main"], two, apart["two"])
        for number in range(_FULL.kills):
            step = _FULL.messages // (_FULL.kills + 1)
            await chain.until_sent(number * step + chance.randrange(1, step + 1))
            await _kill(victims[number % len(victims)])
        found = await collected(one, TWO, _FULL.messages, 600)
        left = await asyncio.gather(*map(_waiting, databases.values()))
        await chain.stop()

    verdict = judge(found, _FULL.messages)
    report(
        "T7",
        messages=_FULL.messages,
        kills=_FULL.kills,
        unconfirmed=chain.unconfirmed,
        **verdict,
    )
    assert set(verdict.values()) == {0}
    assert left == [0, 0, 0]


async def _kill(victim: Server | Postgres) -> None:
    """Kill a part, and start it again."""
    victim.kill()
    if isinstance(victim, Server):
        await victim.start()
    else:
        await asyncio.to_thread(victim.start)


async def _waiting(dsn: str) -> int:
    """How many messages wait for another database."""
    connection = await asyncpg.connect(dsn)
    try:
        query = "select (select count(*) from queen.outbox) + (select count(*) from queen.forwards)"
        return await connection.fetchval(query)
    finally:
        await connection.close()


def test_the_judge_finds_each_fault() -> None:
    right = expected(12)
    assert judge(right, 12) == {"lost": 0, "duplicated": 0, "reordered": 0}

    assert judge({**right, "p0": [0]}, 12)["lost"] == 1
    assert judge({**right, "p0": [0, 6, 6]}, 12)["duplicated"] == 1
    assert judge({**right, "p0": [6, 0]}, 12)["reordered"] == 1
    assert judge({**right, "p0": [1], "p1": [0, 6, 7]}, 12)["reordered"] == 2
