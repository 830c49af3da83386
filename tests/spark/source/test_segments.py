"""An executor decodes segments into the messages that were pushed."""

# pyright: basic
import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import asyncpg
import psycopg
import pytest

from queen import errors
from queen.arrow.columns import COLUMNS
from queen.arrow.database import connect, conninfo
from queen.arrow.planning import find_queue, horizon
from queen.arrow.ranges import Position, SegmentRange
from queen.arrow.reading import read_range
from queen.codec.ids import place_of
from queen.engine.engine import Engine
from queen.settings import Settings
from queen.wire.messages import PushItem
from tests.engine.helpers import push

KEY = "0123456789abcdef" * 4


def whole(dsn: str, queue: str = "orders") -> SegmentRange:
    with connect(dsn) as connection:
        row = find_queue(connection, queue)
        return SegmentRange(queue, row["id"], Position(), Position(horizon(connection)))


def rows(
    dsn: str, range_: SegmentRange | None = None, columns: Sequence[str] = COLUMNS
) -> list[dict[str, Any]]:
    batches = read_range(dsn, range_ or whole(dsn), columns)
    return [row for batch in batches for row in batch.to_pylist()]


async def read(dsn: str, range_: SegmentRange | None = None) -> list[dict[str, Any]]:
    """In a thread, because the reader is synchronous."""
    return await asyncio.to_thread(rows, dsn, range_)


async def test_a_message_has_all_fields_that_a_consumer_receives(engine: Engine, dsn: str) -> None:
    headers = {"x-a": "1", "grüße": "⚡"}
    items = [
        PushItem(queue="orders", partition="p", payload=b'{"a": 1}'),
        PushItem(queue="orders", partition="p", payload=b'"\xc3\xa4"', transaction_id="mine"),
        PushItem(queue="orders", partition="p", payload=b"[]", headers=headers, trace_id="t"),
    ]
    pushed = list(await engine.push(items))

    found = await read(dsn)

    assert [row["payload"] for row in found] == ['{"a": 1}', '"ä"', "[]"]
    assert [row["offset"] for row in found] == [0, 1, 2]
    assert [row["id"] for row in found] == [each.id for each in pushed]
    assert [row["transactionId"] for row in found] == [each.transaction_id for each in pushed]
    assert [row["headers"] for row in found][:2] == [None, None]
    assert found[2]["headers"] == '{"x-a":"1","grüße":"⚡"}'
    assert [row["traceId"] for row in found] == [None, None, "t"]
    assert {row["queue"] for row in found} == {"orders"}
    assert {row["partition"] for row in found} == {"p"}
    assert all(abs(row["createdAt"] - datetime.now(UTC)).total_seconds() < 60 for row in found)


async def test_many_segments_of_many_partitions_are_read_in_order(engine: Engine, dsn: str) -> None:
    for number in range(30):
        await push(engine, "orders", *range(number % 4 + 1), partition=f"p{number % 7}")

    found = await read(dsn)

    assert len(found) == sum(number % 4 + 1 for number in range(30))
    for partition in {row["partition"] for row in found}:
        offsets = [row["offset"] for row in found if row["partition"] == partition]
        assert offsets == list(range(len(offsets)))


async def test_a_reader_detects_a_lost_server_like_all_connections(
    engine: Engine, dsn: str
) -> None:
    await push(engine, "orders", 1)
    ask = "select count(*) from pg_stat_activity where application_name = 'queen-spark'"

    def open_while_it_reads() -> int:
        batches = read_range(dsn, whole(dsn))
        next(batches)
        with psycopg.connect(dsn) as connection:
            found = connection.execute(f"{ask} and datname = current_database()").fetchone()
        assert [*batches] == []
        return found[0] if found else 0

    assert await asyncio.to_thread(open_while_it_reads) == 1
    assert "tcp_user_timeout=9000" in conninfo(dsn)


@pytest.mark.parametrize("dsn", ["postgresql:/me:secret@host/db", "host=h passwrd=secret"])
def test_an_invalid_dsn_is_not_shown(dsn: str) -> None:
    with pytest.raises(errors.InvalidOption, match="dsn") as refused:
        connect(dsn)

    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None


async def test_only_the_requested_columns_are_built(engine: Engine, dsn: str) -> None:
    await push(engine, "orders", 1)

    (row,) = await asyncio.to_thread(rows, dsn, None, ("payload", "offset"))

    assert row == {"payload": "1", "offset": 0}


async def test_erased_messages_are_left_out(engine: Engine, dsn: str) -> None:
    pushed = await engine.push([PushItem(queue="orders", payload=b"%d" % n) for n in range(3)])
    place = place_of(pushed[1].id or "")
    assert place is not None
    await engine.redact(place.partition_id, place.offset, by="someone")

    assert [row["payload"] for row in await read(dsn)] == ["0", "2"]
    assert [row["offset"] for row in await read(dsn)] == [0, 2]


async def test_segments_emptied_by_retention_have_no_messages(engine: Engine, dsn: str) -> None:
    await push(engine, "orders", 1, 2)
    connection = await asyncpg.connect(dsn)
    await connection.execute("update queen.segments set body = null, ends = null, extras = null")
    await connection.close()

    assert await read(dsn) == []


async def test_bounds_may_lie_inside_a_segment(engine: Engine, dsn: str) -> None:
    await push(engine, "orders", 0, 1, 2, 3, partition="a")
    await push(engine, "orders", 10, 11, 12, partition="b")
    with connect(dsn) as connection:
        ids = {
            row["name"]: row["id"]
            for row in connection.execute(b"select id, name from queen.partitions").fetchall()
        }
    range_ = whole(dsn)

    by_partition = range_._replace(start_offsets={ids["a"]: 2}, end_offsets={ids["b"]: 1})
    of_all = range_._replace(start_offsets=1, end_offsets=3)
    of_one = range_._replace(partition_ids=(ids["b"],))

    assert [row["payload"] for row in await read(dsn, by_partition)] == ["2", "3", "10"]
    assert [row["payload"] for row in await read(dsn, of_all)] == ["1", "2", "11", "12"]
    assert [row["payload"] for row in await read(dsn, of_one)] == ["10", "11", "12"]


async def test_a_removal_during_the_read_is_reported(engine: Engine, dsn: str) -> None:
    await push(engine, "orders", 1)
    await push(engine, "orders", 2)
    range_ = whole(dsn)
    range_ = range_._replace(since_xid=range_.end.xid)
    assert len(await read(dsn, range_)) == 2
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        "select queen.cut(s.partition_id, s.queue_id, 1, 10, 'age') from queen.segments s limit 1"
    )
    await connection.close()

    with pytest.raises(errors.DataLost, match="failOnDataLoss"):
        await read(dsn, range_)


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEEN_ENCRYPTION_KEY", KEY)


async def sealed(dsn: str) -> None:
    async with await Engine.open(dsn, settings=Settings(encryption_key=KEY)) as engine:
        await engine.queues.configure("orders", {"encrypted": True})
        headers = {"h": "secret too"}
        items = [PushItem(queue="orders", payload=b'"canary"', headers=headers, trace_id="t")]
        await engine.push([*items, PushItem(queue="orders", payload=b"1")])


@pytest.mark.usefixtures("key")
async def test_an_encrypted_queue_is_read_with_the_key_of_the_environment(dsn: str) -> None:
    await sealed(dsn)

    found = await read(dsn)

    assert [row["payload"] for row in found] == ['"canary"', "1"]
    assert [row["headers"] for row in found] == ['{"h":"secret too"}', None]
    assert [row["traceId"] for row in found] == ["t", None]


async def test_an_encrypted_queue_is_not_read_without_the_key(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QUEEN_ENCRYPTION_KEY", raising=False)
    await sealed(dsn)

    with pytest.raises(errors.EncryptionUnavailable, match="master key default"):
        await read(dsn)
