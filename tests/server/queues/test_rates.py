"""Push and pop rates, and the time of a group's last pop, in lists."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.clock import Clock
from tests.support.server import Server, until
from tests.support.verbs import pop, push

FAST = {"QUEEN_COUNTERS_FLUSH_SECONDS": "0.1"}


@pytest.fixture
async def fast(dsn: str, clock: Clock) -> AsyncIterator[Server]:
    """The clock is fixed at the start of a minute: counts are divided by 60 seconds."""
    async with Server(dsn, FAST) as server:
        yield server


async def rates(server: Server, path: str, *names: str) -> list[Any]:
    """The push and pop rates of an object."""
    body: Any = (await server.get(path)).body
    for name in names:
        (body,) = body[name]
    return [each and round(each, 3) for each in (body["pushedPerSecond"], body["poppedPerSecond"])]


async def test_lists_show_push_and_pop_rates(fast: Server, clock: Clock) -> None:
    await fast.post("/configure", {"queue": "orders", "namespace": "shop", "task": "bill"})
    await push(fast, "orders", *range(12))
    assert len(await pop(fast, "orders", batch=6, consumerGroup="g")) == 6

    async def are_known() -> bool:
        return await rates(fast, "/resources/queues/orders") == [0.2, 0.1]

    await until(are_known)
    assert await rates(fast, "/resources/queues", "queues") == [0.2, 0.1]
    assert await rates(fast, "/resources/overview") == [0.2, 0.1]
    assert await rates(fast, "/resources/namespaces", "namespaces") == [0.2, 0.1]
    assert await rates(fast, "/resources/tasks", "tasks") == [0.2, 0.1]

    await clock.advance(seconds=180)
    assert await rates(fast, "/resources/queues/orders") == [0, 0]


async def test_the_rate_of_a_queue_without_counts_is_null(fast: Server) -> None:
    await fast.post("/configure", {"queue": "orders"})

    assert await rates(fast, "/resources/queues/orders") == [None, None]
    assert await rates(fast, "/resources/overview") == [None, None]


async def test_a_group_shows_the_time_of_its_last_delivery(fast: Server, clock: Clock) -> None:
    await push(fast, "orders", 1)
    await pop(fast, "orders", consumerGroup="g")
    await pop(fast, "orders", consumerGroup="g", subscriptionMode="all")

    async def last_pop_at() -> Any:  # noqa: ANN401 - JSON
        (group,) = (await fast.get("/consumer-groups")).body["consumerGroups"]
        (shown,) = (await fast.get("/resources/queues/orders")).body["groups"]
        return group["lastPopAt"] if group["lastPopAt"] == shown["lastPopAt"] else None

    async def is_known() -> bool:
        return await last_pop_at() is not None

    await until(is_known)
    known = await last_pop_at()
    assert known.startswith("2030-01-01T00:00:")
    await clock.advance(seconds=3_600)
    assert await last_pop_at() == known


async def test_a_group_without_deliveries_has_no_last_pop(fast: Server) -> None:
    await fast.post("/configure", {"queue": "orders"})
    await pop(fast, "orders", consumerGroup="g")

    (group,) = (await fast.get("/consumer-groups")).body["consumerGroups"]

    assert group["lastPopAt"] is None
