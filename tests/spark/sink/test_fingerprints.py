"""A batch is recognized by its messages, whatever tasks write them. These tests need no Spark."""

# pyright: basic

from collections.abc import Sequence
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from queen import errors
from queen.spark.format import sink
from queen.spark.format.options import SinkOptions
from tests.spark import filling
from tests.spark.conftest import KEY
from tests.spark.copying import messages, staged

Row = tuple[str, str, str | None]
"""Partition, payload and traceId."""
SCHEMA = pa.schema([(name, pa.string()) for name in ("partition", "payload", "traceId")])
ROWS: list[Row] = [("a", "1", None), ("a", "2", "x"), ("b", "1", None), ("b", "3", None)]


class Query:
    """A streaming query that writes batches as the tasks and the driver of Spark do."""

    def __init__(self, dsn: str, monkeypatch: pytest.MonkeyPatch, name: str = "query") -> None:
        self._options = SinkOptions(dsn=dsn, queue="b", txn_app_id="app", txn_version=None)
        self._name = name
        self._task = 0
        monkeypatch.setattr(sink.TaskContext, "get", lambda: self)

    def partitionId(self) -> int:
        return self._task

    def getLocalProperty(self, name: str) -> str:
        assert name == "sql.streaming.queryId"
        return self._name

    def write(self, version: int, *tasks: Sequence[Row]) -> None:
        """Write one batch, whose rows several tasks have."""
        written: list[Any] = []
        for self._task, rows in enumerate(tasks):
            batch = pa.RecordBatch.from_pylist(
                [dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA
            )
            written.append(sink._stage(self._options, iter([batch]), "app", version))
        sink._publish(self._options, written, version)


@pytest.fixture(params=[False, True], ids=["plain", "encrypted"])
def query(dsn: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Query:
    monkeypatch.setenv("QUEEN_ENCRYPTION_KEY", KEY)
    filling.make(dsn, "b", encrypted=request.param)
    return Query(dsn, monkeypatch)


def test_a_repeated_batch_may_have_other_tasks_and_another_order(dsn: str, query: Query) -> None:
    query.write(4, ROWS)

    query.write(4, ROWS[2:], ROWS[:2])
    query.write(4, *([row] for row in reversed(ROWS)))

    assert (messages(dsn, "b"), staged(dsn)) == (len(ROWS), 0)


@pytest.mark.parametrize(
    "rows",
    [
        ROWS[:3],
        [*ROWS, ("b", "4", None)],
        [*ROWS[:3], ("b", "4", None)],
        [*ROWS[:3], ("a", "3", None)],
        [*ROWS[:3], ("b", "3", "y")],
        [("a", "1", "x"), ("a", "2", None), *ROWS[2:]],
    ],
    ids=["fewer", "more", "payload", "partition", "trace", "exchanged"],
)
def test_a_batch_with_other_messages_stops_the_query(
    dsn: str, query: Query, rows: list[Row]
) -> None:
    query.write(4, ROWS)

    with pytest.raises(errors.DataLost, match="batch 4 of app before, with other messages"):
        query.write(4, rows)

    assert (messages(dsn, "b"), staged(dsn)) == (len(ROWS), 0)


def test_an_earlier_batch_stops_the_query(dsn: str, query: Query) -> None:
    query.write(3, ROWS)
    query.write(4, ROWS)

    with pytest.raises(errors.DataLost, match="batch 3 of app before, and later ones up to 4"):
        query.write(3, ROWS)
    with psycopg.connect(dsn) as connection:  # As for a window, whose batches are the same.
        connection.execute(
            "insert into queen.streams (app_id, queue_id, start_xid, since_xid, began_at)"
            " select 'app', id, '3', '3', now() from queen.queues"
        )
    query.write(3, ROWS)

    assert (messages(dsn, "b"), staged(dsn)) == (2 * len(ROWS), 0)


def test_an_earlier_release_stored_no_fingerprint(dsn: str, query: Query) -> None:
    query.write(4, ROWS)
    with psycopg.connect(dsn) as connection:
        connection.execute("update queen.publications set fingerprint = null")

    query.write(4, ROWS[:1])

    assert messages(dsn, "b") == len(ROWS)
