"""Readers of several databases return each message once and in order, wherever slots are."""

# pyright: basic

import asyncio
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, pairwise
from typing import Any, Final

import asyncpg
import pytest
from pyspark.sql.types import StructType

from queen import errors
from queen.arrow.databases import Databases
from queen.cluster.cluster import Cluster
from queen.spark.format.options import source_options
from queen.spark.format.stream_reader import QueueStreamReader
from tests.cluster.moves import Members, finish, run
from tests.cluster.places import ONE, slot_of
from tests.cluster.user import item
from tests.spark.moves.reader import FEW, Reader, rows

SLOT = slot_of(ONE)
_STATEMENTS = 40
"""More than the plan of a batch has."""


async def push(cluster: Cluster, *values: int, partition: str = "a") -> None:
    for pushed in await cluster.push([item(each, ONE, partition=partition) for each in values]):
        assert pushed.code is None


async def move(members: Members, *places: str) -> None:
    for source, target in pairwise(places):
        await run(members.move(SLOT, source, target))


def of(*values: int, partition: str = "a") -> list[tuple[str, int, int]]:
    """Messages whose offsets are their payloads."""
    return [(partition, each, each) for each in values]


async def test_a_stream_reads_each_message_once_over_moves(
    cluster: Cluster, members: Members, reader: Reader
) -> None:
    await push(cluster, 0, 1)
    assert reader.read() == of(0, 1)
    await push(cluster, 2)
    await move(members, "main", "two")
    await push(cluster, 3)
    assert reader.read() == of(2, 3)
    await push(cluster, 4)
    await move(members, "two", "main", "three", "main", "two")
    await push(cluster, 5)
    assert reader.read() == of(4, 5)
    assert reader.read() == []


@pytest.mark.parametrize("start", ["earliest", "latest", "2020-01-01T00:00:00"])
async def test_a_stream_that_starts_after_moves(
    cluster: Cluster, members: Members, databases: dict[str, str], start: str
) -> None:
    is_time = start[0] == "2"
    reader = Reader(databases, **{"startingTimestamp" if is_time else "startingOffset": start})
    for value, place in enumerate(["main", "two", "main", "three"]):
        await push(cluster, value)
        await move(members, *[each for each in (place, ["two", "main", "three", "two"][value])])
    reader.start()
    assert reader.read() == ([] if start == "latest" else of(0, 1, 2, 3))
    await push(cluster, 4)
    await move(members, "two", "main")

    assert reader.read() == of(4)


async def test_a_planned_batch_is_read_where_its_slot_is(
    cluster: Cluster, members: Members, reader: Reader
) -> None:
    """The slot moves after the plan, after its tasks are made, and before the batch is repeated."""
    await push(cluster, 0, 1)
    stream, start = reader.stream(), reader.start()
    end = stream.latestOffset(start, FEW)
    await push(cluster, 2)
    await move(members, "main", "two")
    parts = stream.partitions(start, end)
    await move(members, "two", "main", "three")
    assert [row for part in parts for row in rows(stream, part)] == of(0, 1)
    await move(members, "three", "two")
    stream.stop()

    again = reader.stream()
    # Spark asks for a new first offset, because the first batch was not committed.
    assert reader.between(again, again.initialOffset(), end) == of(0, 1)
    again.stop()


async def test_a_slot_may_move_before_any_statement_of_a_plan(
    cluster: Cluster, databases: dict[str, str], reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan is repeated, because it has seen a slot twice or not at all."""
    places = cycle(["main", "two", "three"])
    place, moves, calls = next(places), 0, 0
    call = Databases.call

    async def move_on(target: str) -> None:
        async with Members.connected(databases) as members:
            await run(members.move(SLOT, place, target))

    def interrupted(self: Databases, *given: Any) -> Any:  # noqa: ANN401
        nonlocal place, moves, calls
        calls += 1
        if calls == at:
            target = next(places)
            with ThreadPoolExecutor() as pool:
                pool.submit(asyncio.run, move_on(target)).result()
            place, moves = target, moves + 1
        return call(self, *given)

    monkeypatch.setattr(Databases, "call", interrupted)
    at = 0
    await push(cluster, 0)
    assert reader.read() == of(0)
    for at in range(1, _STATEMENTS + 1):
        await push(cluster, at)
        calls = 0
        assert reader.read() == of(at), f"a move before statement {at}"
    assert moves == _STATEMENTS


async def test_the_copy_of_a_move_that_does_not_end_is_not_read(
    cluster: Cluster, members: Members, reader: Reader
) -> None:
    await push(cluster, 0, 1)
    moving = members.move(SLOT, "main", "two")
    await moving.step()
    await members.value("main", "select queen.open_archive('x', $1, 'parquet', '/x')", ONE)
    assert (await moving.step()).waits_for
    assert await members.value("two", "select count(*) from queen.segments") == 1

    assert reader.all() == of(0, 1)
    assert reader.read() == of(0, 1)
    await members.value("main", "select queen.drop_archive('x')")
    await members.value("main", "select queen.forget_copy($1, 'two')", SLOT)
    await moving.abandon()
    await move(members, "main", "two", "three")
    assert reader.read() == []
    assert reader.all() == of(0, 1)


async def test_messages_after_a_move_wait_for_those_before(
    cluster: Cluster, members: Members, databases: dict[str, str], reader: Reader
) -> None:
    """A transaction is open in the former database, so its last messages are not readable yet."""
    await push(cluster, 0)
    assert reader.read() == of(0)
    other = await asyncpg.connect(databases["main"])
    transaction = other.transaction()
    await transaction.start()
    await other.execute("select pg_current_xact_id()")
    await push(cluster, 1)
    moving = members.move(SLOT, "main", "two")
    while await members.owners(SLOT) != ["two"]:
        await moving.step()
    await push(cluster, 2)
    assert reader.read() == []
    assert reader.all() == of(0)
    await transaction.rollback()
    await other.close()

    assert reader.read() == of(1, 2)


async def test_messages_of_a_transaction_older_than_the_move_are_read(
    cluster: Cluster, members: Members, databases: dict[str, str], reader: Reader
) -> None:
    """The transaction of the new owner has a lower number than those that copied the slot."""
    await push(cluster, 0)
    assert reader.read() == of(0)
    old = await asyncpg.connect(databases["two"])
    transaction = old.transaction()
    await transaction.start()
    await old.execute("select pg_current_xact_id()")
    await move(members, "main", "two")
    await push(cluster, 1)
    await old.execute("""
        update queen.segments set xid = pg_current_xact_id() where base_offset = 1
    """)
    assert reader.read() == []
    await transaction.commit()
    await old.close()

    assert reader.read() == of(1)


async def test_small_batches_keep_the_order_of_partitions(
    cluster: Cluster, members: Members, reader: Reader
) -> None:
    places = ["main", "two", "main", "three", "two", "main"]
    for number, (source, target) in enumerate(pairwise(places)):
        for value in range(5 * number, 5 * number + 5):
            for partition in ("a", "b"):
                await push(cluster, value, partition=partition)
        await move(members, source, target)

    batches = reader.batches(maxMessagesPerTrigger="9")

    assert len(batches) > 10
    for partition in ("a", "b"):
        found = [row for batch in batches for row in batch if row[0] == partition]
        assert found == of(*range(25), partition=partition)


async def test_a_database_that_a_slot_passed_without_messages_keeps_the_order(
    cluster: Cluster, members: Members, reader: Reader
) -> None:
    """Messages of the third database wait for those of the first one."""
    for value in range(20):
        await push(cluster, value)
    await move(members, "main", "two", "three")
    await push(cluster, 20, 21, 22)

    assert reader.read(maxMessagesPerTrigger="9") == of(*range(23))


async def test_a_stream_of_one_database_continues_with_several(
    cluster: Cluster, members: Members, databases: dict[str, str], reader: Reader
) -> None:
    await push(cluster, 0)
    given = {"dsn": databases["main"], "queue": ONE}
    single = QueueStreamReader(source_options(given, {}), StructType())
    start = single.initialOffset()
    reader.offset = single.latestOffset(start, FEW)
    single.stop()
    await push(cluster, 1)
    await move(members, "main", "two")
    await push(cluster, 2)

    assert reader.read() == of(1, 2)


async def test_a_stream_continues_after_a_database_was_removed(
    cluster: Cluster, members: Members, databases: dict[str, str], reader: Reader
) -> None:
    """Its messages are in the others, and some of them are not read yet."""
    await move(members, "main", "two")
    await push(cluster, 0)
    assert reader.read() == of(0)
    await push(cluster, 1)
    await move(members, "two", "main")
    await push(cluster, 2)
    await members.value("main", "select queen.remove_database('two', true)")
    others = Reader({name: databases[name] for name in ("main", "three")})
    others.offset = reader.offset

    assert others.read() == of(1, 2)
    assert others.all() == of(0, 1, 2)


async def test_messages_that_left_before_a_renumbering_are_read(
    cluster: Cluster, members: Members, reader: Reader
) -> None:
    """The restored server has lower numbers than the messages that another database has."""
    await push(cluster, 0)
    await move(members, "main", "two")
    await members.value("two", "update queen.segments set born_xid = '9000000000000'")
    await members.value("main", "insert into queen.renumberings (at) values (now())")
    await push(cluster, 1)
    await move(members, "two", "main")
    await push(cluster, 2)

    assert reader.read() == of(0, 1, 2)
    assert reader.all() == of(0, 1, 2)


async def test_messages_that_were_removed_after_a_move_are_missed(
    cluster: Cluster, members: Members, reader: Reader
) -> None:
    await push(cluster, 0)
    assert reader.read() == of(0)
    await push(cluster, 1)
    await move(members, "main", "two")
    await push(cluster, 2)
    await remove(members, "two", end=2)
    await move(members, "two", "three")

    with pytest.raises(errors.DataLost, match="deleted before this stream read"):
        reader.read()
    assert reader.read(failOnDataLoss="false") == of(2)


_NO_BIRTHS: Final = "queen.forgotten_removals has no births, and no statement of births reads it"


async def forget(members: Members, place: str) -> None:
    """Delete the records of removals, as retention does when they are old."""
    take = "select epoch from queen.take_duties(1, array['retention'], 60)"
    epoch = await members.value(place, take)
    assert await members.value(place, "select queen.forget_removals($1, -1, 100)", epoch) > 0


@pytest.mark.xfail(strict=True, reason=_NO_BIRTHS)
async def test_messages_whose_removal_was_forgotten_are_missed(
    cluster: Cluster, members: Members, reader: Reader
) -> None:
    await push(cluster, 0)
    assert reader.read() == of(0)
    await push(cluster, 0, partition="b")
    await remove(members, "main", end=1)
    await forget(members, "main")

    with pytest.raises(errors.DataLost, match="deleted before this stream read"):
        reader.read()


@pytest.mark.xfail(strict=True, raises=errors.DataLost, reason=_NO_BIRTHS)
async def test_a_stream_continues_after_the_record_of_its_last_message_was_forgotten(
    cluster: Cluster, members: Members, reader: Reader
) -> None:
    """No later message is born in the former database, so its position stays there."""
    await push(cluster, 0)
    assert reader.read() == of(0)
    await move(members, "main", "two")
    await push(cluster, 1)
    assert reader.read() == of(1)
    await remove(members, "two", end=1)
    assert reader.read() == []
    await forget(members, "two")

    assert reader.read() == []


async def test_messages_that_were_removed_after_they_were_read_are_not_missed(
    cluster: Cluster, members: Members, reader: Reader
) -> None:
    await push(cluster, 0, 1)
    await move(members, "main", "two")
    assert reader.read() == of(0, 1)
    await remove(members, "two", end=2)
    await move(members, "two", "three")
    await push(cluster, 2)

    assert reader.read() == of(2)


async def remove(members: Members, place: str, *, end: int) -> None:
    """Remove the first messages of all partitions of a queue, as retention does."""
    await members.value(
        place,
        "select count(*) from queen.partitions p,"
        " lateral queen.cut(p.id, p.queue_id, $1, 100, 'age') where p.id >> 53 = $2",
        end,
        SLOT,
    )


async def test_a_redacted_message_is_not_read_again(
    cluster: Cluster, members: Members, reader: Reader
) -> None:
    await push(cluster, 0, 1)
    assert reader.read() == of(0, 1)
    await move(members, "main", "two")
    partition = await members.value("two", "select id from queen.partitions")
    await cluster.engines["two"].redact(partition, 0, by="test")
    await finish(members.move(SLOT, "two", "three"))

    assert reader.read() == []
    assert reader.all() == of(1)


async def test_a_new_name_of_a_queue_is_another_queue(
    cluster: Cluster, members: Members, reader: Reader
) -> None:
    await push(cluster, 0)
    assert reader.read() == of(0)
    await cluster.engines["main"].queues.delete(ONE)
    while not await cluster.engines["main"].queues.erase_step():
        pass
    await push(cluster, 1)

    with pytest.raises(errors.DataLost, match="deleted and recreated"):
        reader.read()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"databases": "main=x"}, "write NAME=URL"),
        ({"readDsn": "postgresql://x"}, "readDsn works with one database"),
        ({"startingOffset": "3"}, "starts at earliest"),
        ({"txnAppId": "x"}, "txnAppId works with one database"),
        ({"dsn": "postgresql://x"}, "either dsn or databases"),
    ],
)
def test_options_that_several_databases_do_not_have(options: dict[str, Any], message: str) -> None:
    reader = Reader({"main": "postgresql://a", "two": "postgresql://b"})
    with pytest.raises(errors.InvalidOption, match=message):
        reader.stream(**options)


async def test_all_databases_must_be_named(
    cluster: Cluster, databases: dict[str, str], reader: Reader
) -> None:
    some = Reader({name: databases[name] for name in ("main", "two")})
    with pytest.raises(errors.InvalidOption, match="three is missing"):
        some.start()
    wrong = Reader({**databases, "two": databases["three"], "three": databases["two"]})
    with pytest.raises(errors.InvalidOption, match="two"):
        wrong.start()
