"""A database of an earlier release works on after the upgrade: keys, leases and file buffers."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from benchmarks.against import checkout
from tests.support.postgres import Postgres
from tests.support.server import Server, until

EARLIER = "2924e9e"
KEY = "ab" * 32
QUEUES = ("orders", "secrets")
MESSAGES = 50
BUFFERED = 20


def items(queue: str, first: int, count: int) -> dict[str, Any]:
    return {
        "items": [
            {
                "queue": queue,
                "partition": f"p{n % 5}",
                "payload": {"n": n},
                "transactionId": f"{queue}-{n}",
            }
            for n in range(first, first + count)
        ]
    }


async def push(server: Server, queue: str, first: int, count: int) -> list[dict[str, Any]]:
    reply = await server.post("/push", items(queue, first, count))
    assert reply.status in (201, 202), reply
    return reply.body["messages"]


async def pop(server: Server, queue: str, **more: object) -> list[dict[str, Any]]:
    body = {"batch": 1_000, "partitions": 100, "consumerGroup": "g", "subscriptionMode": "all"}
    reply = await server.post(f"/pop/queue/{queue}", body | more)
    assert reply.status in (200, 204), reply
    return reply.body["messages"] if reply.status == 200 else []


async def fill(old: Server, postgres: Postgres) -> tuple[list[dict[str, Any]], list[str]]:
    """Leave leases, a dead letter and a file buffer. Returns leased messages and ids of pushes."""
    ids: list[str] = []
    for queue in QUEUES:
        options = {"encryptionEnabled": queue == "secrets", "dedupWindowSeconds": 3_600}
        wanted = {"queue": queue, "options": options}
        assert (await old.post("/configure", wanted)).status == 200
        ids += [each["id"] for each in await push(old, queue, 0, MESSAGES)]
    leased: list[dict[str, Any]] = []
    for queue in QUEUES:
        leased += await pop(old, queue, partitions=2, leaseSeconds=600)
    last = leased.pop()
    dead = {
        "transactionId": last["transactionId"],
        "partitionId": last["partitionId"],
        "leaseId": last["leaseId"],
        "status": "dlq",
        "consumerGroup": "g",
    }
    assert (await old.post("/ack", dead)).status == 200
    await asyncio.to_thread(postgres.stop)
    for queue in QUEUES:
        results = await push(old, queue, MESSAGES, BUFFERED)
        assert {each["status"] for each in results} == {"buffered"}
    old.kill()
    await asyncio.to_thread(postgres.start)
    return leased, ids


async def until_stored(server: Server) -> None:
    """Wait until the file buffers are empty."""

    async def is_stored() -> bool:
        return not (await server.get("/status/buffers")).body["buffering"]

    await until(is_stored, seconds=60)


async def drain(server: Server, queue: str) -> list[dict[str, Any]]:
    """All messages until the last buffered one, acknowledged."""
    found: list[dict[str, Any]] = []

    async def is_complete() -> bool:
        for message in await pop(server, queue, autoAck=True):
            found.append(message)
        return {each["data"]["n"] for each in found} >= {*range(MESSAGES, MESSAGES + BUFFERED)}

    await until(is_complete, seconds=60)
    return found


def check_order(messages: list[dict[str, Any]]) -> None:
    by_partition: dict[str, list[int]] = {}
    for each in messages:
        by_partition.setdefault(each["partition"], []).append(each["data"]["n"])
    assert all(given == sorted(set(given)) for given in by_partition.values()), by_partition


@pytest.mark.nightly
@pytest.mark.timeout(300)
async def test_the_database_of_an_earlier_release_works_on(tmp_path: Path) -> None:
    environment = {"QUEEN_ENCRYPTION_KEY": KEY, "FILE_BUFFER_DIR": str(tmp_path / "buffer")}
    with Postgres() as postgres, checkout(EARLIER) as tree:
        dsn = postgres.create_database("queen")
        earlier = environment | {"PYTHONPATH": str(tree / "src")}
        migrate = [sys.executable, "-m", "queen", "migrate", "up"]
        await asyncio.to_thread(
            subprocess.run, migrate, check=True, env=earlier | {"DATABASE_URL": dsn}
        )
        async with Server(dsn, earlier) as old:
            leased, ids = await fill(old, postgres)
        await asyncio.to_thread(
            subprocess.run,
            migrate,
            check=True,
            env={"PYTHONPATH": str(Path(__file__).parents[3] / "src"), "DATABASE_URL": dsn},
        )
        async with Server(dsn, environment) as server:
            await until_stored(server)
            # Pushes from before the upgrade are known, under the ids that their clients have.
            again = [each for queue in QUEUES for each in await push(server, queue, 0, MESSAGES)]
            assert [each["id"] for each in again] == ids
            assert {each["status"] for each in again} == {"duplicate"}
            # Leases from before the upgrade are current.
            acks = [
                {
                    "transactionId": each["transactionId"],
                    "partitionId": each["partitionId"],
                    "leaseId": each["leaseId"],
                    "status": "completed",
                    "consumerGroup": "g",
                }
                for each in leased
            ]
            settled = await server.post("/ack/batch", {"acknowledgments": acks})
            assert settled.status == 200, settled
            assert settled.body["success"] is True, settled.body
            rest = {queue: await drain(server, queue) for queue in QUEUES}
            (letter,) = (await server.get("/dlq", queue="secrets", reveal="true")).body["messages"]
            # Queues of the new release are in slot 0 too.
            (new,) = await push(server, "new", 0, 1)
            assert new["partitionId"].startswith("0.")
        connection = await asyncpg.connect(dsn)
        slots = await connection.fetch("select distinct slot from queen.queues")
        await connection.close()
    assert [row["slot"] for row in slots] == [0]
    assert letter["data"]["n"] == letter["offset"] * 5 + int(letter["partition"][1:])
    for queue in QUEUES:
        check_order(rest[queue])
        numbers = [each["data"]["n"] for each in (*leased, *rest[queue]) if each["queue"] == queue]
        missing = {*range(MESSAGES + BUFFERED)} - {*numbers}
        assert missing == ({letter["data"]["n"]} if queue == letter["queue"] else set())
        assert len(numbers) == len({*numbers})
