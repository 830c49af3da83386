"""A rate limit bounds the messages in any window of its period, per group, and keeps the order."""

import random

import asyncpg
import pytest

from queen.engine.engine import Engine
from tests.engine.helpers import ack, ack_all, drain, item, pop, pop_one, push, settle, values
from tests.support.clock import Clock


def limit(most: int, ms: int, per: str) -> dict[str, object]:
    return {"rate_max": most, "rate_ms": ms, "rate_per": per}


async def take(
    engine: Engine, clock: Clock, *, steps: int, step: float, batch: int, partitions: int
) -> list[tuple[float, str, int]]:
    """Pop repeatedly, and return (seconds since the start, partition, value) of each message."""
    taken: list[tuple[float, str, int]] = []
    start = await clock.now()
    for _ in range(steps):
        at = (await clock.now() - start).total_seconds()
        deliveries = await pop(engine, "orders", batch=batch, partitions=partitions)
        await ack_all(engine, deliveries)
        taken += [(at, each.partition, n) for each in deliveries for n in values(each)]
        await clock.advance(seconds=step)
    return taken


def busiest(times: list[float], period: float) -> int:
    """The largest number of messages in any window of the period."""
    return max(sum(start <= time < start + period for time in times) for start in times)


@pytest.mark.parametrize("ordered", [True, False])
async def test_a_queue_delivers_no_more_than_its_rate_in_any_window(
    engine: Engine, clock: Clock, ordered: bool
) -> None:
    await engine.queues.configure("orders", limit(4, 10_000, "queue") | {"ordered": ordered})
    for partition in ("one", "two"):
        await push(engine, "orders", *range(12), partition=partition)

    taken = await take(engine, clock, steps=60, step=1.3, batch=3, partitions=2)

    times = [at for at, _, _ in taken]
    assert busiest(times, 10) == 4
    assert len(taken) == 24
    for partition in ("one", "two"):
        assert [n for _, name, n in taken if name == partition] == list(range(12))


@pytest.mark.parametrize("ordered", [True, False])
async def test_a_partition_delivers_no_more_than_its_rate_in_any_window(
    engine: Engine, clock: Clock, ordered: bool
) -> None:
    await engine.queues.configure("orders", limit(2, 5_000, "partition") | {"ordered": ordered})
    for partition in ("one", "two"):
        await push(engine, "orders", *range(8), partition=partition)

    taken = await take(engine, clock, steps=45, step=0.7, batch=10, partitions=10)

    for partition in ("one", "two"):
        mine = [(at, n) for at, name, n in taken if name == partition]
        assert [n for _, n in mine] == list(range(8))
        assert busiest([at for at, _ in mine], 5) == 2


async def test_messages_of_every_priority_count_for_their_partition(
    engine: Engine, clock: Clock
) -> None:
    options = limit(2, 5_000, "partition") | {"ordered": False, "retry_delay_ms": 0}
    await engine.queues.configure("orders", options)
    items = [item("orders", n, partition="one", priority=n % 3) for n in range(9)]
    await engine.push([*items, item("orders", 9, partition="two", priority=1)])
    first = await pop_one(engine, "orders", partition="one")
    await settle(engine, first, status="failed")  # A redelivery counts again.

    taken = await take(engine, clock, steps=60, step=0.7, batch=10, partitions=10)

    assert sorted(n for _, _, n in taken) == list(range(10))
    times = [0.0] + [at for at, name, _ in taken if name == "one"]
    assert busiest(times, 5) == 2
    assert ("two", 9) in [each[1:] for each in taken if each[0] < 1]


async def test_a_pop_takes_the_rest_of_the_rate_and_the_next_period_allows_more(
    engine: Engine, clock: Clock
) -> None:
    await engine.queues.configure("orders", limit(3, 60_000, "queue"))
    await push(engine, "orders", *range(7))

    assert await drain(engine, "orders", batch=100) == [0, 1, 2]
    await clock.advance(seconds=59)
    assert await pop(engine, "orders") == []
    await clock.advance(seconds=60 / 16 + 1)
    assert await drain(engine, "orders", batch=100) == [3, 4, 5]


async def test_other_partitions_continue_when_one_has_used_its_rate(engine: Engine) -> None:
    await engine.queues.configure("orders", limit(1, 60_000, "partition"))
    await engine.push([item("orders", f"{p} {n}", partition=p) for p in "ab" for n in range(2)])

    assert sorted(await drain(engine, "orders")) == ["a 0", "b 0"]
    await push(engine, "orders", "c 0", partition="c")
    assert await drain(engine, "orders") == ["c 0"]


async def test_each_group_has_its_own_rate(engine: Engine) -> None:
    await engine.queues.configure("orders", limit(2, 60_000, "queue"))
    await push(engine, "orders", *range(5))

    assert await drain(engine, "orders", group="g") == [0, 1]
    assert await drain(engine, "orders", group="h") == [0, 1]
    assert await drain(engine, "orders", group="g") == []


async def test_auto_acked_messages_count(engine: Engine) -> None:
    await engine.queues.configure("orders", limit(2, 60_000, "queue"))
    await push(engine, "orders", *range(5))

    assert await drain(engine, "orders", auto_ack=True) == [0, 1]


@pytest.mark.parametrize("per", ["queue", "partition"])
async def test_a_redelivery_counts_too(engine: Engine, clock: Clock, per: str) -> None:
    await engine.queues.configure("orders", limit(1, 60_000, per) | {"retry_delay_ms": 0})
    await push(engine, "orders", "a")
    await settle(engine, await pop_one(engine, "orders"), status="failed")

    assert await pop(engine, "orders") == []
    await clock.advance(seconds=60 + 60 / 16)
    again = await pop_one(engine, "orders")

    assert (values(again), again.attempt) == (["a"], 2)


async def test_configure_can_remove_a_rate(engine: Engine, clock: Clock) -> None:
    await engine.queues.configure("orders", limit(1, 3_600_000, "queue"))
    await push(engine, "orders", *range(4), partition="one")
    await push(engine, "orders", *range(4), partition="two")
    await ack(engine, await pop_one(engine, "orders"))
    assert await pop(engine, "orders") == []

    await engine.queues.configure("orders", {"rate_max": None, "rate_ms": None, "rate_per": None})

    assert len(await drain(engine, "orders")) == 7


@pytest.mark.parametrize("per", ["queue", "partition"])
async def test_a_low_rate_is_used_completely(engine: Engine, clock: Clock, per: str) -> None:
    await engine.queues.configure("orders", limit(2, 10_000, per))
    await push(engine, "orders", *range(6))
    for expected in ([0, 1], [2, 3], [4, 5]):
        assert await drain(engine, "orders") == expected
        await clock.advance(seconds=9.999)
        assert await drain(engine, "orders") == []
        await clock.advance(seconds=0.002)


@pytest.mark.parametrize("per", ["queue", "partition"])
@pytest.mark.parametrize(("before", "after"), [(1_000, 10_000), (10_000, 1_000)])
async def test_another_period_counts_earlier_claims(
    engine: Engine, clock: Clock, per: str, before: int, after: int
) -> None:
    await engine.queues.configure("orders", limit(1, before, per))
    await push(engine, "orders", *range(3))
    assert await drain(engine, "orders") == [0]

    await engine.queues.configure("orders", limit(1, after, per))

    assert await drain(engine, "orders") == []
    await clock.advance(seconds=after / 1_000 + 0.001)
    assert await drain(engine, "orders") == [1]


@pytest.mark.parametrize(
    ("most", "of_it"), [(5, 1.0), pytest.param(300, 64 / 65, marks=pytest.mark.nightly)]
)
async def test_the_claim_history_is_exact_nearly_fully_used_and_short(
    dsn: str, most: int, of_it: float
) -> None:
    """Ten periods with claims of one to three messages, whenever the rate allows it."""
    rng = random.Random(most)
    step_ms, period_ms = 2, 1_000
    connection = await asyncpg.connect(dsn)
    recent: list[int] = []
    claims: list[tuple[float, int]] = []
    longest = 0
    try:
        for at in range(0, 10 * period_ms, step_ms):
            now = f"to_timestamp({1_800_000_000 + at / 1_000})"
            wanted = rng.randint(1, 3)
            row = await connection.fetchrow(
                f"select least(a.count, {wanted}) as count,"
                f" queen.spend($1, {period_ms}, {now}, least(a.count, {wanted})) as recent"
                f" from queen.allowance($1, {most}, {period_ms}, {now}) a (count)",
                recent,
            )
            assert row is not None
            if row["count"] > 0:
                claims.append((at / 1_000, row["count"]))
                recent = row["recent"]
                longest = max(longest, len(recent) // 2)
    finally:
        await connection.close()
    times = [time for time, count in claims for _ in range(count)]
    assert busiest(times, period_ms / 1_000) <= most
    assert len(times) >= 10 * most * of_it * (1 - 2 * step_ms / period_ms) - 1
    assert longest <= 64 + 66
