"""Flush on idle: a few units share the next flush, and many units start a second one."""

import asyncio

import pytest

from queen.engine.runtime.batcher import Batcher


class Unit:
    def __init__(self, key: int, size_bytes: int = 10) -> None:
        self.keys = (key,)
        self.size_bytes = size_bytes

    def fail(self, error: BaseException) -> None:
        raise error


class Slow:
    """A flush that ends on request."""

    def __init__(self) -> None:
        self.flushes: list[list[Unit]] = []
        self.goes_on = asyncio.Event()

    async def flush(self, units: list[Unit]) -> None:
        self.flushes.append(units)
        await self.goes_on.wait()

    def batcher(self) -> Batcher[Unit]:
        return Batcher[Unit](
            self.flush,
            max_flushes=2,
            max_units=1_000,
            max_bytes=10**6,
            max_queued=1_000,
            max_queued_bytes=10**6,
        )


async def turns() -> None:
    """Run everything in the event loop that is ready."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_single_unit_is_flushed_immediately() -> None:
    slow = Slow()
    slow.batcher().submit(Unit(1))
    await turns()

    assert [len(each) for each in slow.flushes] == [1]
    slow.goes_on.set()


async def test_a_few_units_wait_for_the_running_flush_and_share_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("queen.engine.runtime.batcher._PATIENCE_SECONDS", 60.0)
    slow = Slow()
    batcher = slow.batcher()
    batcher.submit(Unit(1))
    await turns()
    for key in range(2, 7):
        batcher.submit(Unit(key))
    await turns()

    assert [len(each) for each in slow.flushes] == [1]
    slow.goes_on.set()
    await turns()
    assert [len(each) for each in slow.flushes] == [1, 5]
    await batcher.close()


@pytest.mark.parametrize(("units", "size_bytes"), [(40, 10), (3, 40_000)])
async def test_many_units_start_a_second_flush(units: int, size_bytes: int) -> None:
    slow = Slow()
    batcher = slow.batcher()
    batcher.submit(Unit(1))
    await turns()
    for key in range(2, 2 + units):
        batcher.submit(Unit(key, size_bytes))
    await turns()

    assert [len(each) for each in slow.flushes] == [1, units]
    slow.goes_on.set()
    await batcher.close()


async def test_a_slow_flush_delays_no_other_key() -> None:
    slow = Slow()
    batcher = slow.batcher()
    batcher.submit(Unit(1))
    await turns()
    batcher.submit(Unit(2))

    async with asyncio.timeout(8):
        while len(slow.flushes) < 2:  # noqa: ASYNC110 - a timer changes it
            await asyncio.sleep(0.001)

    assert [unit.keys for unit in slow.flushes[1]] == [(2,)]
    slow.goes_on.set()
    await batcher.close()
