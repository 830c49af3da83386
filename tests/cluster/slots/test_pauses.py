"""Calls on a slot wait only shortly while it is handed over, however many messages are leased."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

import pytest

from queen.cluster.cluster import Cluster
from queen.wire.messages import PopRequest, PushItem
from tests.cluster.conftest import joined, opened
from tests.cluster.moves import Members
from tests.cluster.places import ONE, home, slot_of
from tests.cluster.reports import report
from tests.support.postgres import Postgres

_PUSHED: Final = 10_000
"""Messages of a push."""
_ACKED: Final = 100
"""Leases that are acknowledged at the end, of all."""


class Shape(NamedTuple):
    """How many messages are leased, and how many of them are in one partition."""

    moves: int
    messages: int
    per_partition: int
    most_ms: float


_FULL: Final = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.fixture
async def databases(apart: dict[str, Postgres]) -> dict[str, str]:
    return await joined(apart)


@pytest.fixture
async def cluster(databases: dict[str, str]) -> AsyncIterator[Cluster]:
    async with opened(databases) as cluster:
        yield cluster


class Caller:
    """Pushes to the queue one message after the other, and notes the longest call of each move."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._longest = 0.0
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            began_at = time.monotonic()
            await self._cluster.push([PushItem(queue=ONE, partition="calls", payload=b"0")])
            self._longest = max(self._longest, time.monotonic() - began_at)

    def longest_ms(self) -> float:
        """The longest wait since the last call of this."""
        longest, self._longest = self._longest, 0.0
        return longest * 1000

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


@pytest.mark.parametrize(
    "shape",
    [
        pytest.param(Shape(20, 100_000, 1, 250), marks=_FULL, id="100000-partitions"),
        pytest.param(Shape(20, 100_000, 100, 250), marks=_FULL, id="1000-partitions"),
        # A busy machine must not fail it: only the long form judges the wait.
        pytest.param(Shape(2, 2_000, 10, 5_000), id="short"),
    ],
)
async def test_calls_wait_shortly_and_leases_stay(
    cluster: Cluster, databases: dict[str, str], shape: Shape
) -> None:
    leases = await _leased(cluster, shape)
    caller = Caller(cluster)
    pauses: list[float] = []
    waits: list[float] = []
    place = home(ONE)
    async with Members.connected(databases) as members:
        for number in range(shape.moves):
            target = [name for name in databases if name != place][number % 2]
            move = members.move(slot_of(ONE), place, target)
            caller.longest_ms()
            while not (progress := await move.step()).is_over:
                if progress.waited_seconds is not None:
                    pauses.append(progress.waited_seconds * 1000)
            waits.append(caller.longest_ms())
            place = target
    await caller.stop()

    step = max(1, len(leases) // _ACKED)
    settled = [await cluster.ack(each) for each in leases[::step]]
    report(
        "T2 pauses",
        open_messages=shape.messages,
        partitions=shape.messages // shape.per_partition,
        moves=len(pauses),
        pause_ms=_percentiles(pauses),
        longest_call_ms=_percentiles(waits),
        leases_acknowledged=len(settled),
    )
    assert settled == [shape.per_partition] * len(settled)
    assert len(pauses) == shape.moves
    assert _percentiles(pauses)["p99"] <= shape.most_ms


async def _leased(cluster: Cluster, shape: Shape) -> list[str]:
    """Push and lease all messages. Returns the leases."""
    names = [f"p{n // shape.per_partition}" for n in range(shape.messages)]
    for first in range(0, shape.messages, _PUSHED):
        await cluster.push(
            [PushItem(queue=ONE, partition=each, payload=b"1") for each in names[first:][:_PUSHED]]
        )
    leases: list[str] = []
    request = PopRequest(queue=ONE, batch=10_000, partitions=1_000, lease_seconds=3_600)
    while (popped := await cluster.pop(request)).deliveries:
        assert all(len(each) == shape.per_partition for each in popped.deliveries)
        leases += [str(each.lease) for each in popped.deliveries]
    assert len(leases) == shape.messages // shape.per_partition
    return leases


def _percentiles(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        f"p{percent}": round(ordered[min(len(ordered) - 1, len(ordered) * percent // 100)], 1)
        for percent in (50, 99)
    }
