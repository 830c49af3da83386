"""A relay that is repeatedly killed: committed messages arrive once, in order."""

import asyncio
import json
import os
import random
import subprocess
import sys
from uuid import uuid4

import asyncpg
import pytest

from queen.store.relay import init
from tests.support.postgres import Server as PostgresServer
from tests.support.server import SOURCE, Server, until

APPLICATIONS = 4


class RelayProcess:
    """`queen relay` as a process."""

    def __init__(self, dsn: str, server: Server) -> None:
        self._environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(SOURCE),
            "QUEEN_BASE_URL": server.base_url,
            "QUEEN_RELAY_DSN": dsn,
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "queen", "relay"],
            env=self._environment,
            stderr=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(20)


async def apply(dsn: str, number: int, stop: asyncio.Event, committed: list[list[str]]) -> None:
    """One application: transactions of a few messages in order, a third rolled back."""
    chance = random.Random(number)
    connection = await asyncpg.connect(dsn)
    turn = 0
    while not stop.is_set():
        transaction = connection.transaction()
        await transaction.start()
        mine = [f"{number}.{turn}.{n}" for n in range(chance.randint(1, 5))]
        for each in mine:
            await connection.execute(
                "select queen.enqueue('orders', $1, partition => $2)",
                json.dumps(each),
                f"p{number}",
            )
        if chance.random() < 1 / 3:
            await transaction.rollback()
        else:
            await transaction.commit()
            committed[number] += mine
        turn += 1
        await asyncio.sleep(0.05)  # Sets the rate of the load. It waits for no condition.
    await connection.close()


async def relayed_while_it_dies(dsn: str, shop: str, kills: int) -> None:
    chance = random.Random(7)
    committed: list[list[str]] = [[] for _ in range(APPLICATIONS)]
    stop = asyncio.Event()
    watch = await asyncpg.connect(shop)

    async def left() -> int:
        return await watch.fetchval("select count(*) from queen.outbox")

    async with Server(dsn, {"LOG_LEVEL": "warning"}) as server:
        await server.post("/configure", {"queue": "orders"})
        relay = RelayProcess(shop, server)
        async with asyncio.TaskGroup() as group:
            for number in range(APPLICATIONS):
                group.create_task(apply(shop, number, stop, committed))
            for _ in range(kills):
                relay.start()
                sequence = await watch.fetchval(
                    "select coalesce(max(sequence), 0) from queen.relay"
                )
                bound = sequence + chance.randint(1, 6)

                async def has_begun(bound: int = bound) -> bool:
                    """True if the relay may be in the middle of a batch."""
                    last = await watch.fetchval(
                        "select coalesce(max(sequence), 0) from queen.relay"
                    )
                    return last >= bound

                await until(has_begun, seconds=30)
                await asyncio.sleep(chance.uniform(0, 0.01))  # At a random point of the batch.
                relay.kill()
            stop.set()
        relay.start()

        async def is_empty() -> bool:
            return await left() == 0

        await until(is_empty, seconds=30)
        relay.kill()
        got: dict[str, list[str]] = {}
        while True:
            wanted = {"batch": 10_000, "partitions": 100, "autoAck": True}
            reply = await server.post("/pop/queue/orders", wanted)
            if reply.status == 204:
                break
            for message in reply.body["messages"]:
                got.setdefault(message["partition"], []).append(message["data"])
    await watch.close()
    print(json.dumps({"committed": sum(map(len, committed)), "kills": kills}), flush=True)
    assert sum(map(len, committed)) > 100
    assert [got[f"p{number}"] for number in range(APPLICATIONS)] == committed


@pytest.fixture
async def shop(postgres: PostgresServer) -> str:
    dsn = await asyncio.to_thread(postgres.create_database, f"shop_{uuid4().hex}")
    await init(dsn)
    return dsn


@pytest.mark.nightly
async def test_committed_messages_arrive_once_while_the_relay_is_killed(
    dsn: str, shop: str
) -> None:
    await relayed_while_it_dies(dsn, shop, 6)


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_committed_messages_arrive_once_in_a_hundred_kills(dsn: str, shop: str) -> None:
    await relayed_while_it_dies(dsn, shop, 100)
