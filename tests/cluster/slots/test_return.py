"""A slot that leaves a database and comes back: the caches of its servers hold nothing old."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import asyncpg
import pytest

from queen import errors
from queen.engine.engine import Engine
from queen.settings import Settings
from tests.cluster.moves import Members, run
from tests.cluster.places import ONE
from tests.engine.helpers import (
    PATIENT,
    delete_group,
    drain,
    item,
    lease,
    listening,
    pop_one,
    push,
    until,
    values,
)
from tests.support.clock import Clock

ROWS = Settings(dedup_memory_bytes=0)
"""Its keys are rows."""


@pytest.fixture
async def main(databases: dict[str, str]) -> AsyncIterator[Engine]:
    async with await Engine.open(databases["main"], settings=PATIENT) as engine:
        await listening(engine)
        yield engine


@pytest.fixture(params=["blocks", "rows"])
async def two(databases: dict[str, str], request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    """The second database, whose server stores keys in either form."""
    settings = ROWS if request.param == "rows" else PATIENT
    async with await Engine.open(databases["two"], settings=settings) as engine:
        yield engine


async def push_ids(engine: Engine, ids: Sequence[int]) -> list[tuple[str, int | None]]:
    found = await engine.push([item(ONE, n, transaction_id=f"id {n}") for n in ids])
    return [(each.status, each.offset) for each in found]


async def move(main: Engine, two: Engine, source: str, target: str) -> None:
    databases = {"main": main.store.database.dsn, "two": two.store.database.dsn}
    async with Members.connected(databases) as members:
        find = "select slot from queen.queues where name = $1"
        slot = await members.value(source, find, ONE)
        await run(members.move(slot, source, target))


async def leave(main: Engine, two: Engine) -> None:
    await move(main, two, "main", "two")
    with pytest.raises(errors.SlotMoved):
        await push(main, ONE, 0)


async def come_back(main: Engine, two: Engine) -> None:
    await move(main, two, "two", "main")


async def test_keys_of_the_other_database_are_known(main: Engine, two: Engine) -> None:
    await push_ids(main, [1, 2, 3])
    assert await push_ids(main, [3, 4]) == [("duplicate", 2), ("queued", 3)]
    await leave(main, two)
    assert await push_ids(two, [4, 5]) == [("duplicate", 3), ("queued", 4)]
    assert await push_ids(two, [6]) == [("queued", 5)]
    await come_back(main, two)

    assert await push_ids(main, [1, 4, 5, 6, 7]) == [
        ("duplicate", 0),
        ("duplicate", 3),
        ("duplicate", 4),
        ("duplicate", 5),
        ("queued", 6),
    ]
    assert await drain(main, ONE) == [1, 2, 3, 4, 5, 6, 7]


async def test_keys_that_the_other_database_forgot_are_new(main: Engine, two: Engine) -> None:
    """A window in memory never makes a message a duplicate by itself."""
    await push_ids(main, [1, 2, 3])
    assert (await push_ids(main, [3]))[0][0] == "duplicate"
    await leave(main, two)
    for table in ("dedup_blocks", "dedup"):
        await execute(two, f"truncate queen.{table}")
    await come_back(main, two)

    assert await push_ids(main, [1, 2]) == [("queued", 3), ("queued", 4)]


async def test_leases_and_partitions_stay_valid(main: Engine, two: Engine) -> None:
    await push(main, ONE, 1, 2)
    delivery = await pop_one(main, ONE, batch=2)
    await leave(main, two)
    await push(two, ONE, 3)
    await come_back(main, two)

    await push(main, ONE, 4)
    assert await main.ack(lease(delivery)) == 2
    assert values(await pop_one(main, ONE, batch=10)) == [3, 4]


async def test_options_of_the_other_database_apply(main: Engine, two: Engine) -> None:
    await push(main, ONE, 1)
    await leave(main, two)
    await two.queues.configure(ONE, {"max_payload_bytes": 10})
    await come_back(main, two)

    async def is_rejected() -> bool:
        (found,) = await push(main, ONE, "x" * 100)
        return found.code == "payload_too_large"

    await until(is_rejected)


async def test_groups_of_the_other_database_are_found(main: Engine, two: Engine) -> None:
    await push(main, ONE, 1)
    assert await drain(main, ONE) == [1]
    await leave(main, two)
    await delete_group(two, ONE, None)
    await come_back(main, two)

    assert await drain(main, ONE) == [1]


async def test_a_message_of_a_database_with_a_slow_clock_is_found(
    main: Engine, two: Engine
) -> None:
    await push(main, ONE, 0, partition="first")
    assert await drain(main, ONE) == [0]
    async with AsyncExitStack() as stack:
        clock = await stack.enter_async_context(await Clock.install(two.store.database.dsn))
        await clock.set(datetime(2020, 1, 1, tzinfo=UTC))
        await leave(main, two)
        await push(two, ONE, 1, partition="second")
        await come_back(main, two)

    async def is_found() -> bool:
        return await drain(main, ONE) == [1]

    await until(is_found, seconds=2)


async def execute(engine: Engine, statement: str) -> None:
    connection = await asyncpg.connect(engine.store.database.dsn)
    await connection.execute(statement)
    await connection.close()
