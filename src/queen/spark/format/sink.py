"""
Write a DataFrame to a queue, exactly once: tasks stage, the driver publishes.

Staged messages are invisible. The driver moves all of them to the log in one transaction, together
with the batch number. If a batch is repeated, by any tasks, its number is already there.

Spark repeats a batch after a crash, and then it is the last one and has the same messages. If its
checkpoint was replaced by an older copy, it plans later batches again under the same numbers, with
later messages. The sink stops such a query, because the numbers would hide the loss.
"""

# pyright: basic
import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from queen import errors
from queen.arrow.database import Connection, call, connect
from queen.arrow.planning import find_queue
from queen.arrow.pool import CONNECTIONS
from queen.arrow.staging import Staging, check_columns
from queen.spark.format.options import SinkOptions

_STAGED_BYTES: Final = 32 * 2**20
"""Bytes of rows that a task collects before it splits them into segments."""
_FORGOTTEN_SECONDS: Final = 7 * 86_400.0
_FORGOTTEN_AT_ONCE: Final = 1_000
_FULL_SECONDS: Final = 300.0
"""How long a batch waits for space in a queue that has a maxSize."""


@dataclass
class Written(WriterCommitMessage):
    """The ids of what one task has staged."""

    task: int
    write_id: UUID
    entries: int
    messages: int
    checksum: int
    app_id: str | None
    query_id: str | None


class QueueWriter(DataSourceArrowWriter):
    """Writes one DataFrame."""

    def __init__(self, options: SinkOptions, schema: StructType, *, overwrite: bool) -> None:
        if overwrite:
            raise errors.InvalidOption('a queue can\'t be overwritten: use .mode("append")')
        check_columns(schema)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return _stage(self._options, iterator, self._options.txn_app_id, self._options.txn_version)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _publish(self._options, messages, self._options.txn_version or 0)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        _drop(self._options, messages)


class QueueStreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream, each identified by the query and its number."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        check_columns(schema)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        app_id = self._options.txn_app_id or _property("sql.streaming.queryId")
        version = _property("streaming.sql.batchId")
        if app_id is None or version is None:
            raise errors.InvalidOption("not a task of a stream: its query is unknown")
        return _stage(self._options, iterator, app_id, int(version))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        _publish(self._options, messages, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        del batchId
        _drop(self._options, messages)


def _stage(
    options: SinkOptions,
    batches: Iterator[pa.RecordBatch],
    app_id: str | None,
    version: int | None,
) -> Written:
    """Stage a task's rows, unless the batch was already published."""
    context = TaskContext.get()
    assert context is not None
    task, write_id = context.partitionId(), uuid4()
    # Also set for batches that `foreachBatch` of a streaming query writes.
    query_id = _property("sql.streaming.queryId")
    rows = (batch for batch in batches if batch.num_rows)
    if (first := next(rows, None)) is None:
        # Most tasks of a window's batch have no rows, and need no connection.
        return Written(task, write_id, 0, 0, 0, app_id, query_id)
    with CONNECTIONS.borrow(options.dsn) as connection:
        queue = find_queue(connection, options.queue)
        staging = Staging(connection, queue, options.queue, write_id)
        if not _is_published(connection, queue["id"], app_id, version, query_id):
            try:
                _add_all(staging, chain([first], rows))
            except BaseException:
                # Clean up here: Spark reports only successful attempts to the driver.
                with contextlib.suppress(psycopg.Error):
                    call(connection, "unstage", [write_id])
                raise
    return Written(
        task=task,
        write_id=write_id,
        entries=staging.entries,
        messages=staging.messages,
        checksum=staging.checksum,
        app_id=app_id,
        query_id=query_id,
    )


def _property(name: str) -> str | None:
    """Return a property of the streaming query to which this task belongs."""
    context = TaskContext.get()
    assert context is not None
    return context.getLocalProperty(name)


def _add_all(staging: Staging, batches: Iterator[pa.RecordBatch]) -> None:
    waiting: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in batches:
        waiting.append(batch)
        size_bytes += batch.nbytes
        if size_bytes >= _STAGED_BYTES:
            staging.add(waiting)
            waiting, size_bytes = [], 0
    if waiting:
        staging.add(waiting)


def _is_published(
    connection: Connection,
    queue_id: int,
    app_id: str | None,
    version: int | None,
    query_id: str | None,
) -> bool:
    """
    Whether a batch was already published, and the number proves it.

    Raises InvalidOption if another query published one with this number, and DataLost if this
    query published a later one.
    """
    if app_id is None or version is None:
        return False
    (row,) = call(connection, "published", app_id, queue_id, query_id)
    if row["version"] is None or version > row["version"]:
        return False
    if query_id is None or row["is_planned"]:
        return True
    if row["is_foreign"]:
        raise _foreign(app_id, row["version"])
    if version < row["version"]:
        raise _changed(app_id, version, row["version"])
    return False  # The last batch, perhaps: publishing compares its messages.


def _foreign(app_id: str | None, version: int | None) -> errors.InvalidOption:
    done = "" if version is None else f" up to {version}"
    return errors.InvalidOption(
        f"txnAppId: another streaming query, or this one with another checkpoint, has published"
        f" the batches{done} of {app_id}. Its batches have the same numbers and other messages, so"
        " they would be skipped: use another txnAppId"
    )


def _changed(app_id: str | None, version: int, last: int | None = None) -> errors.DataLost:
    done = "with other messages" if last is None else f"and later ones up to {last}"
    return errors.DataLost(
        f"this streaming query has published batch {version} of {app_id} before, {done}. It runs"
        " with an older copy of its checkpoint, or its query returns other rows each time, so it"
        " would skip messages: set another option txnAppId on the sink, which publishes everything"
        " after the checkpoint, or start with a new checkpoint"
    )


def _publish(
    options: SinkOptions, messages: Sequence[WriterCommitMessage | None], version: int
) -> None:
    """Move the staged segments to the log, in the order of the DataFrame."""
    written = sorted(_written(messages), key=lambda each: each.task)
    written = [each for each in written if each.entries]
    if not written:
        return
    with connect(options.dsn) as connection:
        queue = find_queue(connection, options.queue)
        if queue["max_size"]:
            _wait_for_room(connection, options, queue, sum(each.messages for each in written))
        ids, entries = [each.write_id for each in written], [each.entries for each in written]
        app_id, query_id = written[0].app_id, written[0].query_id
        batch = (app_id, queue["id"], version, ids, entries, query_id)
        fingerprint = None if query_id is None else _fingerprint(written)
        row = _published(connection, *batch, fingerprint)
        if row["outcome"] == "foreign":
            raise _foreign(app_id, None)
        if row["outcome"] == "changed":
            raise _changed(app_id, version)
        if row["outcome"] == "lost":
            raise errors.DatabaseUnavailable(
                "PostgreSQL lost the staged rows, as it does in a crash. The batch was not"
                " published: run it again"
            )
        call(connection, "notify", str(queue["id"]))
        call(connection, "forget_staged", _FORGOTTEN_SECONDS, _FORGOTTEN_AT_ONCE)


def _fingerprint(written: Sequence[Written]) -> str:
    """Identify the messages of a batch, whatever tasks wrote them and in which order."""
    checksum = sum(each.checksum for each in written) % 2**64
    return f"{sum(each.messages for each in written)}-{checksum:016x}"


def _published(connection: Connection, *arguments: object) -> dict[str, Any]:
    """Publish. Raises PartitionNotFound and EncryptionUnavailable if the batch was not stored."""
    try:
        (row,) = call(connection, "publish", *arguments)
        return row
    except psycopg.Error as error:
        ours = errors.of_sqlstate(error.sqlstate or "")
        if ours not in (errors.PartitionNotFound, errors.EncryptionUnavailable):
            raise
        raise ours(
            f"{error.diag.message_primary}: after tasks had staged it, the queue was encrypted, or"
            " the queue or a partition was deleted. The batch can be run again"
        ) from error


def _wait_for_room(
    connection: Connection, options: SinkOptions, queue: dict[str, int], messages: int
) -> None:
    """Wait until consumers have made space. Raises QueueFull after a timeout."""
    most = queue["max_size"]
    if messages > most:
        raise errors.QueueFull(
            f"a batch has {messages} messages and queue {options.queue} holds {most}: make batches"
            " smaller by option maxMessagesPerTrigger of the source"
        )
    until = time.monotonic() + _FULL_SECONDS
    while call(connection, "backlog", queue["id"], most + 1)[0]["messages"] + messages > most:
        if time.monotonic() > until:
            raise errors.QueueFull(f"queue {options.queue} has been full for {_FULL_SECONDS:g} s")
        time.sleep(0.5)


def _drop(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    ids = [each.write_id for each in _written(messages) if each.entries]
    if not ids:
        return
    with connect(options.dsn) as connection:
        call(connection, "unstage", ids)


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    return [each for each in messages if isinstance(each, Written)]
