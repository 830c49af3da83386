"""Moves that meet other moves, other processes and restored databases."""

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from queen.cluster.cluster import Cluster
from queen.store.cluster.moving import Member, SlotMove
from tests.cluster.moves import Members, run
from tests.cluster.places import ONE
from tests.cluster.user import item
from tests.engine.helpers import drain

OPEN = "select queen.open_archive('reader', $1, 'parquet', '/lake')"
"""An archive that reads a queue."""


@pytest.fixture
async def members(databases: dict[str, str]) -> AsyncIterator[Members]:
    async with Members.connected(databases) as members:
        yield members


async def push(cluster: Cluster, database: str, *values: int, **fields: float) -> None:
    items = [item(each, ONE, **fields) for each in values]
    for pushed in await cluster.engines[database].push(items):
        assert pushed.code is None


async def step_until_owned(members: Members, move: SlotMove, slot: int, owner: str) -> None:
    """Move up to the new owner, before the former one erases its rows."""
    while await members.owners(slot) != [owner]:
        await move.step()


async def test_a_process_that_still_erases_keeps_what_comes_back(
    cluster: Cluster, databases: dict[str, str], members: Members
) -> None:
    await push(cluster, "main", 1, 2, 3)
    slot = await members.slot(ONE)
    away = members.move(slot, "main", "two")
    await step_until_owned(members, away, slot, "two")
    async with Members.connected(databases) as others:
        back = others.move(slot, "two", "main")
        await back.step()  # begins
        await members.value("two", OPEN, ONE)
        assert (await back.step()).waits_for  # has copied the segments
        await away.step()  # erases the rows of the former owner
        await members.value("two", "select queen.drop_archive('reader')")
        await step_until_owned(members, back, slot, "main")

        assert (await away.step()).is_over
        assert await members.owners(slot) == ["main"]
        assert await drain(cluster.engines["main"], ONE) == [1, 2, 3]


async def test_an_archive_prevents_a_move(cluster: Cluster, members: Members) -> None:
    """It reads one database."""
    await push(cluster, "main", 1)
    slot = await members.slot(ONE)
    await members.value("main", OPEN, ONE)

    progress = await members.move(slot, "main", "two").step()

    assert progress.waits_for == f"archive reader reads queue {ONE}"


async def test_a_hold_moves_and_keeps_all_messages(cluster: Cluster, members: Members) -> None:
    await push(cluster, "main", 1)
    slot = await members.slot(ONE)
    await members.value("main", "select queen.hold($1, 'reader', '3')", ONE)

    await run(members.move(slot, "main", "two"))

    held = "select array_agg(name || ' ' || xid) from queen.holds"
    assert await members.value("two", held) == ["reader 0"]
    assert await members.value("main", held) is None


async def test_a_master_key_is_replaced_only_at_the_owner(
    cluster: Cluster, members: Members
) -> None:
    """Otherwise the owner needs the former master key, which may be removed after this."""
    await push(cluster, "main", 1)
    slot = await members.slot(ONE)
    await members.value(
        "main",
        "insert into queen.data_keys (queue_id, master_id, wrapped, created_at, uses)"
        " select id, 'old', '\\x00', queen.now(), 0 from queen.queues where name = $1",
        ONE,
    )
    key = await members.value("main", "select max(id) from queen.data_keys")
    move = members.move(slot, "main", "two")
    await step_until_owned(members, move, slot, "two")

    for database, count in ("main", 0), ("two", 1):
        keys = cluster.engines[database].store.data_keys
        assert await keys.rewrap([key], ["old"], ["new"], [b"\x01"]) == count


async def test_a_change_of_the_owner_is_on_disk_before_the_next_step(
    cluster: Cluster, databases: dict[str, str], members: Members
) -> None:
    """A server that crashes and forgets it would own the slot together with the other database."""
    await push(cluster, "main", 1)
    slot = await members.slot(ONE)
    for name in ("main", "two"):
        await members.connections[name].execute("""
            create table public.seen (state text, setting text);
            create function public.note () returns trigger language plpgsql as $$
            begin
              insert into public.seen values (new.state, current_setting('synchronous_commit'));
              return null;
            end $$;
            create trigger note after update on queen.slots for each row
              execute function public.note();
        """)
    async with Members.connected(databases) as careless:
        for name in ("main", "two"):
            await careless.connections[name].execute("set synchronous_commit = off")
        await run(careless.move(slot, "main", "two"))

    seen = "select setting from public.seen where state = $1"
    assert await members.value("main", seen, "leaving") == "on"
    assert await members.value("two", seen, "owned") == "on"


class Interrupted(SlotMove):
    """A move during which something happens before the next copy of rows."""

    event: Callable[[], Awaitable[object]] | None = None

    async def _copy_rows(self, copied: int, since: int) -> list[int]:
        if self.event is not None:
            event, self.event = self.event, None
            await event()
        return await super()._copy_rows(copied, since)


async def test_messages_that_are_recalled_during_a_copy_are_copied_once(
    cluster: Cluster, members: Members
) -> None:
    """A slot without stored messages has copied no transaction yet."""
    await push(cluster, "main", 1)
    slot = await members.slot(ONE)
    main = members.connections["main"]
    await main.execute("""
        create table public.lake as select * from queen.segments;
        update queen.segments set body = null, ends = null, extras = null
    """)

    async def recall() -> None:
        await main.execute("""
            insert into queen.recalled (
              recall_id, partition_id, base_offset, message_count, created_at, read_at, body, ends
            )
            select
              gen_random_uuid(), partition_id, base_offset, message_count, created_at, now(), body,
              ends
            from public.lake;
            select queen.recall(r.recall_id, l.queue_id, array[l.partition_id], array[1], array[1])
            from queen.recalled r, public.lake l
        """)

    move = Interrupted(
        slot, *(Member(name, members.connections[name]) for name in ("main", "two", "main"))
    )
    move.event = recall
    await run(move)

    assert await members.value("two", "select count(*) from queen.segments where xid = '0'") == 1


async def test_a_queue_that_is_replaced_during_a_copy_leaves_nothing(
    cluster: Cluster, members: Members
) -> None:
    """Rows without a queue are never erased, and belong to no slot."""
    main = cluster.engines["main"]
    await push(cluster, "main", 1)
    await push(cluster, "main", 2, delay_seconds=3600.0)
    await main.queues.configure(ONE, {"rate_max": 9, "rate_ms": 1000, "rate_per": "queue"})
    await drain(main, ONE)
    slot = await members.slot(ONE)
    move = members.move(slot, "main", "two")
    await move.step()
    await members.value("main", OPEN, ONE)
    while (await move.step()).waits_for is None:
        pass  # In the end all rows are copied, but the slot stays.
    await main.queues.delete(ONE)
    while not await main.queues.erase_step():
        pass
    await push(cluster, "main", 3)

    await run(move)

    two = members.connections["two"]
    for table in ("groups", "limits", "scheduled", "samples", "counters"):
        of = (
            "select 1 from queen.groups g where g.id = t.group_id"
            if table == "limits"
            else "select 1 from queen.queues q where q.id = t.queue_id"
        )
        query = f"select count(*) from queen.{table} t where not exists ({of})"
        assert await two.fetchval(query) == 0, table
