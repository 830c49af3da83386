"""T6: limits of spread queues hold while slots move under load, and are used almost completely."""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from uuid import uuid4

import pytest

from queen.store.cluster.joining import join
from tests.cluster.moves import Members, finish
from tests.cluster.places import NAMES, slot_of
from tests.cluster.reports import report
from tests.cluster.spread.claims import (
    LEASE_SECONDS,
    by_queue,
    claimed,
    lease_seconds,
    most_in_window,
    most_leases,
    read,
    record,
)
from tests.cluster.spread.limits import PARTITIONS
from tests.support.postgres import Postgres
from tests.support.server import Server

RATE, LEASES = 100, 10
WORK_SECONDS: Final = 0.5
"""How long a consumer keeps a message of the queue with a concurrency limit."""
EVERY = [name for names in PARTITIONS.values() for name in names]


class Form(NamedTuple):
    """How long the load lasts before and during the measurement."""

    warm_up_seconds: float
    seconds: float
    least: float
    """How much of the limits is used. A short form has few windows on a busy machine."""


_FULL: Final = Form(5, float(os.environ.get("QUEEN_LIMIT_SECONDS", "120")), 0.9)
_SHORT: Final = Form(2, 4, 0.7)


@pytest.fixture
async def databases(apart: dict[str, Postgres]) -> dict[str, str]:
    queen = f"queen_{uuid4().hex}"
    found = {name: each.create_database(queen) for name, each in apart.items()}
    await join(found)
    await record(found.values())
    return found


@pytest.fixture
async def servers(databases: dict[str, str]) -> AsyncIterator[list[Server]]:
    async with Server(databases) as one, Server(databases) as two:
        yield [one, two]


class Consumers:
    """Consumers of both queues at all servers."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self._servers = servers
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, seconds: float) -> None:
        """Push messages for this time, and begin to consume them."""
        rate = {"max": RATE, "durationMillis": 1000, "per": "queue"}
        for queue, count, limit in (
            ("rated", RATE * seconds, {"rateLimit": rate}),
            ("leased", LEASES * seconds / WORK_SECONDS, {"concurrencyLimit": LEASES}),
        ):
            options = {"placement": "spread", "ordered": False, "leaseTime": LEASE_SECONDS, **limit}
            await self._post("/configure", {"queue": queue, "options": options})
            for first in range(0, int(count), 1000):
                items = [
                    {"queue": queue, "partition": EVERY[n % len(EVERY)], "payload": n}
                    for n in range(first, first + 1000)
                ]
                await self._post("/push", {"items": items})
        for server in self._servers:
            for _ in range(4):
                self._tasks.append(asyncio.create_task(self._consume(server, "rated", 10, 0)))
            for _ in range(LEASES):
                consuming = self._consume(server, "leased", 1, WORK_SECONDS)
                self._tasks.append(asyncio.create_task(consuming))

    async def stop(self) -> None:
        for each in self._tasks:
            each.cancel()
        for each in await asyncio.gather(*self._tasks, return_exceptions=True):
            assert isinstance(each, asyncio.CancelledError), each

    async def _post(self, path: str, body: Any) -> None:  # noqa: ANN401 - any JSON
        reply = await self._servers[0].post(path, body)
        assert reply.status in (200, 201), reply.body

    async def _consume(self, server: Server, queue: str, batch: int, seconds: float) -> None:
        query = {"batch": batch, "partitions": batch, "wait": "true", "timeout": 5000}
        while True:
            reply = await server.get(f"/pop/queue/{queue}", **query)
            assert reply.status in (200, 204), reply.body
            if reply.status == 200:
                await asyncio.sleep(seconds)  # The work of the consumer.
                says = [
                    {"id": each["id"], "leaseId": each["leaseId"]}
                    for each in reply.body["messages"]
                ]
                done = await server.post("/ack/batch", {"acknowledgments": says})
                assert done.status == 200, done.body


async def move_slots(databases: Mapping[str, str], chance: random.Random, moved: list[int]) -> None:
    """Move slots of partitions in use from one database to another, one after the other."""
    async with Members.connected(databases) as members:
        while True:
            slot = slot_of(chance.choice(EVERY))
            (source,) = await members.owners(slot)
            target = chance.choice([name for name in NAMES if name != source])
            await finish(members.move(slot, source, target))
            moved.append(slot)


@pytest.mark.parametrize(
    "form",
    [
        pytest.param(_FULL, marks=[pytest.mark.slow, pytest.mark.timeout(600)], id="full"),
        pytest.param(_SHORT, id="short"),
    ],
)
async def test_limits_hold_during_moves(
    databases: dict[str, str], servers: list[Server], form: Form
) -> None:
    consumers = Consumers(servers)
    await consumers.start(1.5 * (form.warm_up_seconds + form.seconds))
    moved: list[int] = []
    moving = asyncio.create_task(move_slots(databases, random.Random(6), moved))
    await asyncio.sleep(form.warm_up_seconds)
    begin = datetime.now(UTC)
    await asyncio.sleep(form.seconds)
    end = datetime.now(UTC)
    moving.cancel()
    await asyncio.wait([moving])
    assert moving.cancelled()
    await consumers.stop()

    claims = by_queue(await read(databases.values()))
    rated, leased = claims["rated"], claims["leased"]
    found = {
        "moves": len(moved),
        "seconds": round((end - begin).total_seconds(), 1),
        "rate": RATE,
        "most_in_window": most_in_window(rated, 1.0),
        "rate_used": round(claimed(rated, begin, end) / RATE / form.seconds, 3),
        "leases": LEASES,
        "most_leases": most_leases(leased),
        "leases_used": round(lease_seconds(leased, begin, end) / LEASES / form.seconds, 3),
    }
    report("T6", **found)
    assert found["most_in_window"] <= RATE
    assert found["most_leases"] <= LEASES
    assert min(found["rate_used"], found["leases_used"]) >= form.least
    assert moved
