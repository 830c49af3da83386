"""The SDK sends messages to a server that prefers their database, and changes nothing else."""

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from queen import Queen
from queen.client.transport.failover import Servers
from queen.client.transport.http import HttpTransport
from queen.client.transport.preferences import Preferences
from tests.cluster.places import ONE, THREE, TWO, named
from tests.support.server import Server, until

PREFERRED = {"first": ("main", "three"), "second": ("two",)}
QUEUES = {ONE: 0, THREE: 0, TWO: 1}
"""The number of the server that prefers the database of a queue."""


@pytest.fixture
async def servers(databases: dict[str, str]) -> AsyncIterator[list[Server]]:
    """Two servers, which prefer different databases."""
    first, second = (Server(databases) for _ in range(2))
    for server, names in zip((first, second), PREFERRED.values(), strict=True):
        server.environment["QUEEN_PREFERRED_DATABASES"] = ",".join(names)
        server.environment["QUEEN_ADVERTISED_URL"] = server.base_url
    async with first, second:
        body = {"queue": "events", "options": {"placement": "spread"}}
        assert (await first.post("/configure", body)).status == 200
        yield [first, second]


def connect(servers: Sequence[Server], **options: Any) -> Queen:  # noqa: ANN401
    return Queen([each.base_url for each in servers], retry_delay_millis=10, **options)


def preferences(queen: Queen) -> Preferences:
    transport = queen.transport
    assert isinstance(transport, HttpTransport)
    assert transport.preferences is not None
    return transport.preferences


async def learn(queen: Queen, *targets: tuple[str, str]) -> None:
    """Push to each partition once, and wait until the client has read the map."""
    preferences(queen).refresh()
    await until(lambda: is_active(queen))
    for queue, partition in targets:
        await queen.queue(queue).partition(partition).push([{"data": "first"}])


async def is_active(queen: Queen) -> bool:
    return preferences(queen).is_active


async def metric(server: Server, pattern: str) -> int:
    reply = await server.request("GET", "/metrics", headers={"Accept": "text/plain"})
    text = reply.body.decode() if isinstance(reply.body, bytes) else reply.body
    return sum(int(float(each)) for each in re.findall(rf"^{pattern} (\S+)$", text, re.MULTILINE))


async def pushed(servers: Sequence[Server]) -> list[int]:
    """The number of messages that each server has stored."""
    return [await metric(each, r"queen_messages_pushed_total(?:\{[^}]*\})?") for each in servers]


async def during(servers: Sequence[Server], work: Callable[[], Awaitable[None]]) -> list[int]:
    before = await pushed(servers)
    await work()
    return [after - b for after, b in zip(await pushed(servers), before, strict=True)]


async def everything(server: Server, queue: str) -> dict[str, list[Any]]:
    """All messages by partition, in the order of their delivery."""
    found: dict[str, list[Any]] = {}
    while (
        reply := await server.get(f"/pop/queue/{queue}", batch=1000, partitions=100, autoAck="true")
    ).status == 200:
        for each in reply.body["messages"]:
            found.setdefault(each["partition"], []).append(each["data"])
    return found


@pytest.mark.parametrize("stream", [True, False])
async def test_pushes_reach_the_server_that_prefers_their_database(
    servers: list[Server], stream: bool
) -> None:
    here, there = named("main", 3), named("two", 3)
    async with connect(servers, stream=stream) as queen:
        await learn(queen, *((queue, "Default") for queue in QUEUES), ("events", here[0]))
        for queue, at in QUEUES.items():

            async def push(queue: str = queue) -> None:
                for n in range(10):
                    await queen.queue(queue).partition(f"p{n}").push([{"data": n}])

            assert (await during(servers, push))[at] == 10
        for names, at in ((here, 0), (there, 1)):

            async def spread(names: Sequence[str] = names) -> None:
                for name in names:
                    await queen.queue("events").partition(name).push([{"data": name}])
                    buffered = queen.queue("events").partition(name).buffer()
                    await (await buffered.push([{"data": name}])).stored()

            assert (await during(servers, spread))[at] == 6


async def test_a_pinned_partition_is_learned(servers: list[Server]) -> None:
    (hot,) = named("main")
    async with connect(servers) as queen:
        pinned = await queen.admin.pin("events", hot, "two")
        assert pinned.operation is not None
        id_ = pinned.operation.id

        async def is_done() -> bool:
            return (await queen.admin.operation(id_)).state == "done"

        await until(is_done, seconds=20)
        await learn(queen, ("events", hot))

        async def push() -> None:
            await queen.queue("events").partition(hot).push([{"data": 1}])

        assert await during(servers, push) == [0, 1]


async def test_without_preferences_pushes_go_where_they_went_before(
    databases: dict[str, str],
) -> None:
    async with Server(databases) as first, Server(databases) as second:
        servers = [first, second]
        urls = [each.base_url for each in servers]
        ring = Servers(urls, "affinity", points=128, retry_after_seconds=5)
        async with connect(servers) as queen:
            queues = [queen.queue(name) for name in named("two", 10)]
            homes = [urls.index(ring.home(queue.key).url) for queue in queues]

            async def push() -> None:
                for queue in queues:
                    await queue.push([{"data": 1}])

            for _ in range(2):
                assert await during(servers, push) == [homes.count(0), homes.count(1)]
            reads = r'queen_http_request_seconds_count\{[^}]*"[^"]*/api/v1/cluster"[^}]*\}'
            assert sum([await metric(each, reads) for each in servers]) == 0
            assert not preferences(queen).is_active


async def test_messages_stay_in_order_while_preferences_change(servers: list[Server]) -> None:
    """The slot of the queue moves between the databases, and the client reads the map each time."""
    partitions = [f"p{n}" for n in range(3)]
    is_over = False
    counts = dict.fromkeys(partitions, 0)

    async with connect(servers) as queen:

        async def produce(partition: str) -> None:
            queue = queen.queue(ONE).partition(partition)
            for n in itertools.count():
                if is_over:
                    return
                items = [{"data": 2 * n}, {"data": 2 * n + 1}]
                if partition == "p0":
                    await (await queue.buffer(time_millis=1).push(items)).stored()
                else:
                    await queue.push(items)
                counts[partition] = 2 * n + 2

        async def moved(to: str) -> None:
            operation = await queen.admin.move_slots(to, queue=ONE)

            async def is_done() -> bool:
                return (await queen.admin.operation(operation.id)).state == "done"

            await until(is_done, seconds=30)
            preferences(queen).refresh()

        await learn(queen, *((ONE, each) for each in partitions))
        before = await pushed(servers)
        producing = [asyncio.create_task(produce(each)) for each in partitions]
        for to in ("two", "main", "two"):
            await moved(to)
        is_over = True
        await asyncio.gather(*producing)
        after = await pushed(servers)

    found = await everything(servers[0], ONE)
    assert found == {each: ["first", *range(counts[each])] for each in partitions}
    assert all(b < a for b, a in zip(before, after, strict=True))


async def test_pushes_fall_back_to_any_server(servers: list[Server]) -> None:
    async with connect(servers) as queen:
        await learn(queen, (TWO, "Default"))
        await queen.queue(TWO).push([{"data": 0}])
        servers[1].kill()
        for n in range(1, 10):
            await queen.queue(TWO).push([{"data": n}])

    assert await everything(servers[0], TWO) == {"Default": ["first", *range(10)]}
