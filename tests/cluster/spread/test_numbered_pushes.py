"""Numbered pushes to spread queues are stored once, however many databases there are."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from queen import errors
from queen.cluster.cluster import Cluster
from queen.engine.engine import Engine
from queen.settings import Settings
from queen.store.cluster.joining import join
from queen.store.migrations import migrate
from queen.wire.messages import PushItem
from tests.cluster.places import named
from tests.cluster.spread.test_cluster import make, pop_all
from tests.engine.helpers import item
from tests.support.postgres import Postgres
from tests.support.server import until

NAMES = [*named("main", 3), *named("two", 3)]
QUEUE = "orders"


@asynccontextmanager
async def running(
    databases: dict[str, str], settings: Settings | None = None
) -> AsyncGenerator[Cluster]:
    """A server process with these databases."""
    engines = {name: await Engine.open(dsn, settings=settings) for name, dsn in databases.items()}
    cluster = Cluster(engines)
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.close()
        for engine in engines.values():
            await engine.close()


def items(*names: str) -> list[PushItem]:
    return [item(QUEUE, name, partition=name) for name in names or NAMES]


def offsets(result: Sequence[Any]) -> list[int | None]:
    return [each.offset for each in result]


async def test_a_repeat_after_a_database_joined_is_not_stored_again(empty: dict[str, str]) -> None:
    alone = {"main": empty["main"]}
    await migrate(empty["main"])
    async with running(alone) as cluster:
        await make(cluster, QUEUE)
        first = await cluster.push(items(), producer_id="p", sequence=1)
        again = await cluster.push(items(), producer_id="p", sequence=1)
        assert (first.is_replayed, again.is_replayed) == (False, True)
        assert offsets(again) == offsets(first) == [0] * len(NAMES)
    await join({name: empty[name] for name in ("main", "two")})

    async with running({name: empty[name] for name in ("main", "two")}) as cluster:
        repeat = await cluster.push(items(), producer_id="p", sequence=1)

        assert repeat.is_replayed
        assert [each.id for each in repeat] == [each.id for each in first]
        assert sorted(await pop_all(cluster, QUEUE)) == sorted(NAMES)
        with pytest.raises(errors.SequenceStale):
            await cluster.push(items(), producer_id="p", sequence=0)


async def test_a_repeat_at_a_server_that_buffers_pushes_is_not_stored_again(
    empty: dict[str, str], tmp_path: Path
) -> None:
    """A server that has just started does not know the queue yet."""
    alone = {"main": empty["main"]}
    await migrate(empty["main"])
    async with running(alone) as cluster:
        await make(cluster, QUEUE)
        await cluster.push(items(), producer_id="p", sequence=1)
    async with running(alone, Settings(file_buffer_dir=str(tmp_path))) as cluster:
        cluster.first.hold_pushes(True)
        repeat = await cluster.push(items(), producer_id="p", sequence=1)
        assert repeat.is_buffered
        cluster.first.hold_pushes(False)
        assert cluster.first.buffer is not None
        folder = cluster.first.buffer.folder
        await until(lambda: asyncio.sleep(0, not folder.messages))

        assert sorted(await pop_all(cluster, QUEUE)) == sorted(NAMES)


async def test_a_rejected_item_rejects_the_whole_request(cluster: Cluster) -> None:
    await make(cluster, QUEUE, max_payload_bytes=20)
    long = item(QUEUE, "x" * 100, partition=NAMES[-1])

    with pytest.raises(errors.PayloadTooLarge) as caught:
        await cluster.push([*items(*NAMES[:-1]), long], producer_id="p", sequence=1)

    assert caught.value.members["errors"][0].pointer == f"/items/{len(NAMES) - 1}"
    assert await pop_all(cluster, QUEUE) == []


async def test_a_repeat_stores_what_an_unavailable_database_lacked(
    apart: dict[str, Postgres],
) -> None:
    created = f"test_{uuid4().hex}"
    databases = {name: apart[name].create_database(created) for name in ("main", "two")}
    await join(databases)
    async with running(databases) as cluster:
        await make(cluster, QUEUE)
        await cluster.push(items(), producer_id="p", sequence=1)
        apart["two"].stop()
        with pytest.raises(errors.OutcomeUnknown, match="with the same sequence"):
            await cluster.push(items(), producer_id="p", sequence=2)
        apart["two"].start()

        async def is_stored() -> bool:
            with contextlib.suppress(errors.ServiceError, errors.OutcomeUnknown):
                result = await cluster.push(items(), producer_id="p", sequence=2)
                assert offsets(result) == [1] * len(NAMES)
                return True
            return False

        await until(is_stored, seconds=20)
        assert sorted(await pop_all(cluster, QUEUE)) == sorted(2 * NAMES)


@pytest.mark.xfail(strict=True, reason="without the queue's options, a push is not divided")
async def test_a_repeat_at_a_server_that_started_in_an_outage_is_not_stored_again(
    apart: dict[str, Postgres], tmp_path: Path
) -> None:
    dsn = apart["main"].create_database(f"test_{uuid4().hex}")
    await migrate(dsn)
    async with running({"main": dsn}) as cluster:
        await make(cluster, QUEUE)
        await cluster.push(items(), producer_id="p", sequence=1)
    apart["main"].stop()
    settings = Settings(file_buffer_dir=str(tmp_path))
    async with await Engine.open(dsn, settings=settings, is_away=True) as engine:
        cluster = Cluster({"main": engine})
        assert (await cluster.push(items(), producer_id="p", sequence=1)).is_buffered
        apart["main"].start()
        assert engine.buffer is not None
        folder = engine.buffer.folder
        await until(lambda: asyncio.sleep(0, not folder.messages), seconds=20)

        assert sorted(await pop_all(cluster, QUEUE)) == sorted(NAMES)
