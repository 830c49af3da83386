"""One statement reads the options of queues for all concurrent requests."""

import asyncio
import time
from collections.abc import Sequence

import asyncpg
import pytest

from queen import errors
from queen.engine.caches.catalogue import Catalogue, Partition
from queen.engine.engine import Engine
from queen.settings import Settings
from queen.store.connection.database import Record
from tests.engine.helpers import delete_queue, item, listening, push, until


class Slow:
    """Delays the results of reads of options until they are released, and counts the reads."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self._named = engine.store.queues.named
        self.reads: list[list[str]] = []
        self.go = asyncio.Event()
        monkeypatch.setattr(engine.store.queues, "named", self.named)

    async def named(self, names: Sequence[str]) -> list[Record]:
        rows = await self._named(names)
        self.reads.append(sorted(names))
        await self.go.wait()
        return rows


@pytest.fixture
def slow(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Slow:
    return Slow(engine, monkeypatch)


async def test_a_thousand_pushes_share_one_read_of_expired_options(
    engine: Engine, slow: Slow
) -> None:
    slow.go.set()
    await push(engine, "orders", 0)
    slow.go.clear()
    slow.reads.clear()
    engine.catalogue.forget_options()

    pushes = [asyncio.create_task(engine.push([item("orders", n)])) for n in range(1_000)]
    await until_reading(slow)
    slow.go.set()
    await asyncio.gather(*pushes)

    assert slow.reads == [["orders"]]


async def test_options_that_change_during_their_first_read_are_known_in_an_outage(
    engine: Engine, slow: Slow
) -> None:
    await engine.queues.configure("secrets", {"encrypted": True})
    engine.catalogue.forget()
    reading = asyncio.create_task(engine.catalogue.queues({"secrets"}))
    await until_reading(slow)

    engine.catalogue.forget()  # As a listener that has just connected does.
    slow.go.set()
    await reading

    assert engine.catalogue.remembered({"secrets"})["secrets"].is_encrypted
    assert engine.catalogue.known("secrets") is None


async def test_options_in_use_are_read_again_before_they_expire(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The refresh begins in the last fifth of the lifetime, which doesn't end during the test.
    async with await Engine.open(dsn, settings=Settings(catalogue_seconds=10_000)) as engine:
        await listening(engine)  # A listener that has just connected drops all options.
        slow = Slow(engine, monkeypatch)
        slow.go.set()
        await configure(engine, {})
        before = await engine.catalogue.queue("orders")
        await configure(engine, {"retry_limit": 7})
        slow.reads.clear()
        expires, _ = engine.catalogue._queues["orders"] = (  # pyright: ignore[reportPrivateUsage]
            asyncio.get_running_loop().time() + 1_000,
            before,
        )

        assert engine.catalogue.known("orders") is before

        async def is_refreshed() -> bool:
            queue = engine.catalogue.known("orders")
            return queue is not None and queue.retry_limit == 7

        await until(is_refreshed)
        assert slow.reads == [["orders"]]
        assert engine.catalogue._queues["orders"][0] > expires  # pyright: ignore[reportPrivateUsage]


async def configure(engine: Engine, options: dict[str, int]) -> None:
    """Change options without a notification, whose arrival would drop the cached ones."""
    await engine.store.queues.configure(
        "orders", namespace=None, task=None, options=options, is_replaced=False, version=None
    )


async def test_a_read_that_began_before_a_change_is_neither_cached_nor_shared(
    engine: Engine, slow: Slow
) -> None:
    await engine.queues.configure("orders", {"retry_limit": 1})
    early = asyncio.create_task(engine.catalogue.queue("orders"))
    await until_reading(slow)
    await engine.queues.configure("orders", {"retry_limit": 2})
    late = asyncio.create_task(engine.catalogue.queue("orders"))
    await until_reading(slow, 2)
    slow.go.set()

    assert (await late).retry_limit == 2
    await early
    known = engine.catalogue.known("orders")
    assert known is not None
    assert known.retry_limit == 2


async def test_a_queue_created_during_a_shared_read_is_found(engine: Engine, slow: Slow) -> None:
    early = asyncio.create_task(engine.catalogue.queues(["orders"]))
    await until_reading(slow)
    await engine.store.queues.partition_ids([("orders", "Default", 0)])
    late = asyncio.create_task(engine.catalogue.queues(["orders"]))
    await asyncio.sleep(0)
    slow.go.set()

    assert await early == {}
    assert list(await late) == ["orders"]


async def test_one_queue_with_unreadable_options_hides_no_other(engine: Engine, dsn: str) -> None:
    await engine.queues.configure("orders", {})
    await engine.queues.configure("broken", {})
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        "update queen.queues set schema = '{\"type\": 5}' where name = 'broken'"
    )
    await connection.close()
    engine.catalogue.forget_options()

    both = asyncio.create_task(engine.catalogue.queues(["broken", "orders"]))
    await asyncio.sleep(0)
    alone = await engine.catalogue.queues(["orders"])

    assert list(alone) == ["orders"]
    with pytest.raises(errors.RequestError):
        await both


async def test_cached_options_are_returned_immediately(engine: Engine, slow: Slow) -> None:
    await engine.queues.configure("orders", {})
    slow.go.set()
    queue = await engine.catalogue.queue("orders")
    slow.go.clear()
    engine.catalogue._queues["orders"] = (0.0, queue)  # pyright: ignore[reportPrivateUsage]

    async with asyncio.timeout(5):
        assert await engine.catalogue.latest(["orders"]) == {"orders": queue}
    slow.go.set()


def cost_of_forgetting(engine: Engine, count: int) -> float:
    """CPU seconds to forget 50 of `count` partitions."""
    catalogue = Catalogue(engine.store, engine.settings)
    for number in range(count):
        name = ("orders", str(number), 0)
        catalogue._partitions[name] = Partition(1, number)  # pyright: ignore[reportPrivateUsage]
        catalogue._partition_names[number] = name  # pyright: ignore[reportPrivateUsage]
    began = time.thread_time()
    for number in range(50):
        catalogue.forget_partitions([number])
    spent = time.thread_time() - began
    assert catalogue.partition(("orders", "49", 0)) is None
    assert catalogue.partition(("orders", "50", 0)) is not None
    return spent


async def test_forgetting_a_partition_costs_the_same_for_any_number_of_partitions(
    engine: Engine,
) -> None:
    few = min(cost_of_forgetting(engine, 1_000) for _ in range(5))
    many = min(cost_of_forgetting(engine, 100_000) for _ in range(3))

    assert many < 20 * max(few, 1e-5)


async def test_a_partition_that_was_recreated_under_its_name_is_kept(engine: Engine) -> None:
    await push(engine, "orders", 1)
    name = ("orders", "Default", 0)
    old = engine.catalogue.partition(name)
    assert old is not None
    await delete_queue(engine, "orders")
    engine.catalogue.forget_partitions([old.partition_id])
    await push(engine, "orders", 2)
    new = engine.catalogue.partition(name)

    engine.catalogue.forget_partitions([old.partition_id])

    assert engine.catalogue.partition(name) == new is not None


async def until_reading(slow: Slow, count: int = 1) -> None:
    async def is_reading() -> bool:
        return len(slow.reads) >= count

    await until(is_reading)
