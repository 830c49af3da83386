"""Pushes that wait on disk follow their slot: each is stored once, in order."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from queen import errors
from queen.cluster.cluster import Cluster
from queen.codec.slots import hashed
from queen.engine.buffer.file_buffer import FileBuffer
from queen.engine.engine import Engine
from queen.settings import Settings
from queen.wire.messages import PopRequest
from tests.cluster.moving import Move, move
from tests.cluster.places import ONE, named
from tests.engine.helpers import item, values
from tests.support.server import until

OTHER = named("main", 2)[1]
"""Another queue of the first database, in another slot."""


@pytest.fixture
async def cluster(databases: dict[str, str], tmp_path: Path) -> AsyncIterator[Cluster]:
    """Databases with file buffers. Both queues exist in the first one."""
    settings = Settings(file_buffer_dir=str(tmp_path / "buffer"), file_buffer_flush_ms=10)
    async with AsyncExitStack() as stack:
        engines: dict[str, Engine] = {}
        for name, dsn in databases.items():
            buffer = FileBuffer.open(settings, name if engines else None)
            assert buffer is not None
            engine = await Engine.open(dsn, settings=settings, buffer=buffer)
            engines[name] = await stack.enter_async_context(engine)
        cluster = Cluster(engines)
        await cluster.start()
        await cluster.push([item(ONE, 0), item(OTHER, 0)])
        yield cluster


@pytest.fixture
def moving(databases: dict[str, str]) -> Move:
    return move(databases, ONE, "main", "two")


async def buffer(cluster: Cluster, *items: Any, **options: Any) -> None:  # noqa: ANN401
    result = await cluster.push(items, **options)
    assert result.is_buffered


def hold(cluster: Cluster, *, is_held: bool = True) -> None:
    """Keep pushes for the first database on disk."""
    cluster.engines["main"].hold_pushes(is_held)


async def drained(cluster: Cluster, *databases: str) -> None:
    """Wait until the buffers are empty."""

    async def are_empty() -> bool:
        return all(
            not cluster.engines[name].push_fallback.is_buffering for name in databases or ("main",)
        )

    await until(are_empty)


async def popped(cluster: Cluster, queue: str) -> list[Any]:
    found = await cluster.pop(PopRequest(queue=queue, batch=100, partitions=10, auto_ack=True))
    return values(found.deliveries)


async def test_buffered_pushes_are_stored_at_the_new_database(
    cluster: Cluster, moving: Move
) -> None:
    hold(cluster)
    for n in range(1, 6):
        await buffer(cluster, item(ONE, n))
        await buffer(cluster, item(OTHER, n))
    await moving.run()

    hold(cluster, is_held=False)
    await drained(cluster)

    assert await popped(cluster, ONE) == [0, 1, 2, 3, 4, 5]
    assert await popped(cluster, OTHER) == [0, 1, 2, 3, 4, 5]
    assert await moving.count("main") == 0


async def test_a_record_for_several_databases_is_divided(cluster: Cluster, moving: Move) -> None:
    hold(cluster)
    for n in range(1, 4):
        await buffer(cluster, item(ONE, n), item(OTHER, n), item(ONE, n + 10))
        await buffer(cluster, item(ONE, n + 20), item(OTHER, n + 20), producer_id="p", sequence=n)
    await moving.run()

    hold(cluster, is_held=False)
    await drained(cluster)

    assert await popped(cluster, ONE) == [0, 1, 11, 21, 2, 12, 22, 3, 13, 23]
    assert await popped(cluster, OTHER) == [0, 1, 21, 2, 22, 3, 23]


@pytest.mark.parametrize("back", [False, True])
async def test_a_replay_that_was_interrupted_stores_nothing_twice(
    databases: dict[str, str],
    cluster: Cluster,
    moving: Move,
    monkeypatch: pytest.MonkeyPatch,
    *,
    back: bool,
) -> None:
    """The part of the new database is stored, and the progress in the file is not."""
    hold(cluster)
    for n in range(1, 4):
        await buffer(cluster, item(ONE, n), item(OTHER, n))
    await moving.run()
    await cluster.owners.load()
    stored = await moving.count("two")
    replayer = cluster.engines["main"].replayer
    assert replayer is not None
    failures = 0

    async def fail(*_: object) -> None:
        nonlocal failures
        failures += 1
        raise errors.OutcomeUnknown

    with monkeypatch.context() as patch:
        patch.setattr(replayer.writer, "store", fail)
        hold(cluster, is_held=False)
        await until(_is(lambda: failures > 2))
        assert await moving.count("two") > stored
        if back:
            await move(databases, ONE, "two", "main").run()
            await cluster.owners.load()
    await drained(cluster)

    assert await popped(cluster, ONE) == [0, 1, 2, 3]
    assert await popped(cluster, OTHER) == [0, 1, 2, 3]


async def test_a_numbered_request_is_stored_once(cluster: Cluster, moving: Move) -> None:
    """The producer repeats its request at the new database before and after the replay."""
    hold(cluster)
    await buffer(cluster, item(ONE, 1), producer_id="p", sequence=1)
    await buffer(cluster, item(ONE, 2), producer_id="p", sequence=2)
    await moving.run()
    hold(cluster, is_held=False)
    await drained(cluster)

    again = await cluster.push([item(ONE, 2)], producer_id="p", sequence=2)

    assert again.is_replayed
    assert await popped(cluster, ONE) == [0, 1, 2]


async def test_a_request_that_was_stored_before_it_was_buffered_is_not_divided(
    cluster: Cluster, moving: Move
) -> None:
    items = [item(ONE, 1), item(OTHER, 1)]
    await cluster.push(items, producer_id="p", sequence=1)
    hold(cluster)
    await buffer(cluster, *items, producer_id="p", sequence=1)
    await moving.run()
    hold(cluster, is_held=False)
    await drained(cluster)

    assert await popped(cluster, ONE) == [0, 1]
    assert await popped(cluster, OTHER) == [0, 1]


async def test_new_pushes_stay_behind_buffered_ones(cluster: Cluster, moving: Move) -> None:
    hold(cluster)
    await buffer(cluster, item(ONE, 1))
    await moving.run()
    await cluster.owners.load()

    await buffer(cluster, item(ONE, 2))
    await buffer(cluster, item(ONE, 3), producer_id="p", sequence=1)
    hold(cluster, is_held=False)
    await drained(cluster)
    await cluster.push([item(ONE, 4)])

    assert await popped(cluster, ONE) == [0, 1, 2, 3, 4]


async def test_the_replay_waits_while_a_slot_is_leaving(cluster: Cluster, moving: Move) -> None:
    hold(cluster)
    await buffer(cluster, item(ONE, 1), item(OTHER, 1))
    await moving.leave()
    hold(cluster, is_held=False)
    await until(_is(lambda: cluster.owners.is_leaving(hashed(ONE))))
    await moving.arrive()
    await moving.close()
    await drained(cluster)

    assert await popped(cluster, ONE) == [0, 1]
    assert await popped(cluster, OTHER) == [0, 1]


def _is(condition: Callable[[], bool]) -> Any:  # noqa: ANN401
    async def check() -> bool:
        return condition()

    return check
