"""Producer IDs are unique per scope, also during a rolling upgrade."""

import asyncio
from collections.abc import AsyncIterator
from types import MappingProxyType
from uuid import uuid4

import asyncpg
import pytest

from queen import sql
from queen.codec import segment
from queen.engine.engine import Engine
from queen.errors import SequenceStale
from queen.store.messages import Push
from queen.store.migrations import migrate
from tests.engine.helpers import drain, item, push, until
from tests.support.postgres import Server

BEFORE = "0018"
"""The first migration that the last release does not have."""
LATER = ("push", "producers", "combine")
"""Function files that need this migration or a later one."""


@pytest.fixture
async def upgraded(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Engine]:
    """An engine on a database in which the last release stored sequences."""
    dsn = postgres.create_database(f"test_{uuid4().hex}")
    with monkeypatch.context() as patched:
        older = {name: text for name, text in sql.MIGRATIONS.items() if name < BEFORE}
        kept = {name: text for name, text in sql.FUNCTIONS.items() if name not in LATER}
        patched.setattr(sql, "MIGRATIONS", MappingProxyType(older))
        patched.setattr(sql, "FUNCTIONS", MappingProxyType(kept))
        await migrate(dsn)
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        "insert into queen.producers (producer_id, sequence, at)"
        " select id, sequence, now() from (values ('billing-1', 5), ('raced', 3), ('raced', -1),"
        " ('__buffer:0a', 9)) p (id, sequence)"
    )
    await connection.close()
    await migrate(dsn)
    async with await Engine.open(dsn) as engine:
        yield engine


async def send(engine: Engine, sequence: int, scope: str = "acme") -> bool:
    """Push with a sequence number, and return whether it was a replay."""
    sent = [item("orders", f"{scope} {sequence}")]
    result = await engine.push(sent, producer_id="billing-1", sequence=sequence, scope=scope)
    return result.is_replayed


async def send_as_before(engine: Engine, sequence: int) -> list[tuple[str, str | None]]:
    """Push as a server of the last release does: without scope and digest."""
    name = ("orders", "Default", 0)
    partitions = await engine.catalogue.partitions([name])
    body, ends = segment.encode([b'"before %d"' % sequence])
    sent = Push(
        partition_ids=[partitions[name].partition_id],
        counts=[1],
        bodies=[body],
        ends=[ends],
        extras=[None],
        ttls=[None],
        producers=["billing-1"],
        sequences=[sequence],
    )
    rows = await engine.store.messages.push(sent)
    return [(row["kind"], row["code"]) for row in rows]


STORED = [("stored", None)]
REPLAYED = [("producer", None)]
STALE = [("producer", "QN009")]


async def test_a_sequence_continues_after_the_upgrade(upgraded: Engine) -> None:
    assert [await send(upgraded, n) for n in (6, 7)] == [False, False]

    assert await drain(upgraded, "orders") == ["acme 6", "acme 7"]


async def test_a_repeat_across_the_upgrade_is_replayed_and_a_lower_number_is_stale(
    upgraded: Engine,
) -> None:
    await push(upgraded, "orders", "first")

    assert await send(upgraded, 5)
    with pytest.raises(SequenceStale):
        await send(upgraded, 4)

    assert await drain(upgraded, "orders") == ["first"]


async def test_the_upgrade_keeps_one_row_per_producer_and_the_marks_of_buffers(
    upgraded: Engine,
) -> None:
    rows = await upgraded.store.messages.last_request("raced", "acme")
    mark = await upgraded.store.messages.last_request("__buffer:0a", "")

    assert rows is not None
    assert mark is not None
    assert (rows["sequence"], mark["sequence"]) == (3, 9)
    await upgraded.push([item("orders", 1)], producer_id="raced", sequence=4)


async def test_requests_may_alternate_between_servers_of_both_releases(upgraded: Engine) -> None:
    assert await send_as_before(upgraded, 6) == STORED
    assert await send(upgraded, 6)
    assert not await send(upgraded, 7)
    assert await send_as_before(upgraded, 7) == REPLAYED
    assert await send_as_before(upgraded, 6) == STALE
    assert await send_as_before(upgraded, 8) == STORED
    assert await send(upgraded, 8)
    with pytest.raises(SequenceStale):
        await send(upgraded, 7)
    assert not await send(upgraded, 9)

    assert await drain(upgraded, "orders") == ["before 6", "acme 7", "before 8", "acme 9"]


async def test_first_requests_at_servers_of_both_releases_wait_for_each_other(
    engine: Engine, dsn: str
) -> None:
    await push(engine, "orders", "first")
    connection = await asyncpg.connect(dsn)
    old = connection.transaction()
    await old.start()
    arguments = "array['billing-1'], array[1]::bigint[], queen.now()"
    await connection.execute(f"select queen.check_producers({arguments})")
    await connection.execute(f"select queen.record_producers({arguments})")
    waiting = (
        "select exists (select from pg_locks where locktype = 'advisory' and not granted"
        " and database = (select oid from pg_database where datname = current_database()))"
    )

    repeat = asyncio.create_task(send(engine, 1))
    await until(lambda: connection.fetchval(waiting))
    await old.commit()
    await connection.close()

    assert await repeat
    assert await drain(engine, "orders") == ["first"]


async def test_scopes_count_independently(engine: Engine) -> None:
    assert [await send(engine, 3, scope) for scope in ("acme", "zeta")] == [False, False]
    assert not await send(engine, 2**63 - 1, "zeta")
    assert not await send(engine, 4, "acme")
    assert await send(engine, 4, "acme")


async def test_a_flush_with_one_producer_id_in_many_scopes_is_stored(engine: Engine) -> None:
    for sequence in range(3):
        sent = await asyncio.gather(*(send(engine, sequence, f"s{n}") for n in range(20)))
        assert not any(sent)


async def test_the_stored_state_of_a_request_is_small(engine: Engine) -> None:
    await engine.push([item("orders", n) for n in range(5_000)], producer_id="p", sequence=1)

    row = await engine.store.messages.last_request("p", "*")

    assert row is not None
    assert (len(row["digest"]), len(row["outcome"]) < 30, len(row["bases"])) == (16, True, 1)
