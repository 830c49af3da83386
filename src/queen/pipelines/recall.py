"""
Bring archived messages back to the log, so that consumer groups can read them again.

Messages return to their offsets, at the start of their partitions. They are first read from the
lake into a table that no reader sees. Then each partition gets all of its messages in one
transaction, so no group ever sees a log with a gap. A recall that fails is run again: partitions
that have their messages are left as they are.
"""

# pyright: basic, reportAttributeAccessIssue=false
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID, uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Meta

from queen import errors, sql
from queen.arrow.database import Connection, call, connect
from queen.arrow.planning import find_queue
from queen.arrow.recalling import COLUMNS, Recaller
from queen.arrow.sealing import SegmentSealer, sealed
from queen.lake import CatalogOptions, DataFile, StorageOptions, open_lake
from queen.lake.lake import Snapshot
from queen.lake.ledger import Ledger, archive_of
from queen.lake.reading import TimeRange
from queen.lake.storage import NO_OPTIONS, reaching
from queen.pipelines.report import counted
from queen.pipelines.tasks import Engine
from queen.redacted import redacted

_ROWS: Final = 65_536
_DAY: Final = 86_400
_PARTITIONS: Final = 100
"""Most partitions per transaction."""
_MESSAGES: Final = 200_000
"""Most messages per transaction. A partition is never divided."""
_THREADS: Final = os.cpu_count() or 1
_READING_SECONDS: Final = 3_600
"""How long retention waits for a recall that stopped while it was reading."""
_FORGOTTEN: Final = (_DAY, 10_000)
"""Seconds after which the segments of a recall that never ended are deleted, and how many."""
_TYPES: Final = (
    "uuid", "int8", "int8", "int4", "timestamptz", "timestamptz", "bytea", "bytea", "bytea",
)  # fmt: skip


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The messages to bring back."""

    dsn: Annotated[str, Meta(description="URL of the database. Default: DATABASE_URL.")]
    queue: Annotated[str, Meta(description="Queue whose archived messages return.")]
    archive: Annotated[
        str | None, Meta(description="Name of the archive. Default: the archive of the queue.")
    ] = None
    start_at: Annotated[
        datetime | None,
        Meta(description="Recall messages from this time on. UTC if it has no time zone."),
    ] = None
    partitions: Annotated[
        tuple[str, ...], Meta(description="Names of the partitions. Default: all.")
    ] = ()
    keep_seconds: Annotated[
        float,
        Meta(gt=0, description="Seconds for which retention keeps the recalled messages."),
    ] = 7 * _DAY
    storage: Annotated[StorageOptions, Meta(description="Object store, as in the archive.")] = (
        NO_OPTIONS
    )
    catalog: Annotated[
        CatalogOptions | None, Meta(description="Iceberg catalog, as in the archive.")
    ] = None

    def __repr__(self) -> str:
        return redacted(self)


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a recall."""

    state: Literal["running", "idle"] = "running"
    queue_ids: tuple[int, ...]
    read: int = 0
    """Messages that were read from the lake."""
    rows: int = 0
    """Messages that are back in the log."""
    homeless: int = 0
    """Messages of partitions that no longer exist. They were left out."""

    def __str__(self) -> str:
        text = f"recalled {counted(self.rows, 'message')}"
        if self.homeless:
            left_out = counted(self.homeless, "message")
            text += f"; {left_out} of partitions that no longer exist can only be replayed"
        return text


Report = Callable[[Progress], object]


def check(connection: Connection, config: Config) -> None:
    """Check that the queue has an archive, and that it can deliver old messages."""
    queue = find_queue(connection, config.queue)
    _find_archive(connection, config, queue)
    if queue["max_wait_seconds"]:
        raise errors.InvalidOption(
            f"queue {config.queue} has the option maxWaitTimeSeconds, which would dead-letter"
            " recalled messages at once: replay them to another queue with queen pipeline replay"
        )


def _find_archive(connection: Connection, config: Config, queue: dict[str, Any]) -> dict[str, Any]:
    """Return the archive to read. Raises NotFound."""
    found = archive_of(connection, config.queue, queue["id"], config.archive)
    if found is None:
        raise errors.NotFound(f"queue {config.queue} has no archive")
    return found


def run(engine: Engine, config: Config, *, report: Report | None = None) -> Progress:
    """Bring messages back. Returns the counts. Its tasks are always threads of this process."""
    del engine
    with Ledger(config.dsn) as ledger:
        ledger.ask(check, config)
        queue = ledger.ask(find_queue, config.queue)
        archive = ledger.ask(_find_archive, config, queue)
        hold = (config.queue, f"recall:{archive['name']}")
        # First of all: from now on, retention does not move the start of the log.
        ledger.call("hold_recalled", *hold, _READING_SECONDS)
        with (
            reaching(archive["location"]),
            open_lake(
                config.dsn,
                name=archive["name"],
                format=archive["format"],
                location=archive["location"],
                storage=config.storage,
                catalog=config.catalog,
            ) as lake,
        ):
            table = lake.snapshot()
        ledger.call("forget_recalled", *_FORGOTTEN)
        return _Recall(config, queue, ledger, hold, report or (lambda _: None)).run(table)


class _Recall:
    """One run of a recall."""

    def __init__(
        self,
        config: Config,
        queue: dict[str, Any],
        ledger: Ledger,
        hold: tuple[str, str],
        report: Report,
    ) -> None:
        self._config = config
        start_at = config.start_at
        if start_at is not None and start_at.tzinfo is None:
            start_at = start_at.replace(tzinfo=UTC)
        self._during = TimeRange(start_at)
        self._queue = queue
        self._ledger = ledger
        self._hold = hold
        self._report = report
        self._id = uuid4()
        self._progress = Progress(queue_ids=(queue["id"],))
        self._counts: Counter[int] = Counter()

    def run(self, table: Snapshot) -> Progress:
        """Read the messages, then move them."""
        names = list(self._config.partitions) or None
        rows = self._ledger.call("recall_starts", self._queue["id"], names)
        starts = {row["id"]: row["start_offset"] or 0 for row in rows}
        files = table.files_in(self._during)
        try:
            self._read(table, files, starts)
            if self._progress.read:
                self._keep(self._config.keep_seconds)
                self._move(starts)
        finally:
            self._ledger.call("forget_recall", self._id)
        return self._report_progress(state="idle")

    def _read(self, table: Snapshot, files: Sequence[DataFile], starts: Mapping[int, int]) -> None:
        """Read messages of the lake into the table of recalled segments."""
        erased: defaultdict[int, list[int]] = defaultdict(list)
        for row in self._ledger.call("redacted_offsets", self._queue["id"]):
            erased[row["partition_id"]].append(row["offset"])
        with ThreadPoolExecutor(_THREADS) as pool:
            tasks = [pool.submit(self._read_file, table, each, starts, erased) for each in files]
            for task in as_completed(tasks):
                done = task.result()
                self._keep(_READING_SECONDS)
                self._counts += done.counts
                self._report_progress(
                    read=self._counts.total(), homeless=self._progress.homeless + done.homeless
                )

    def _read_file(
        self,
        table: Snapshot,
        file: DataFile,
        starts: Mapping[int, int],
        erased: Mapping[int, Sequence[int]],
    ) -> Recaller:
        """Read one file. Returns the counts of its messages."""
        recaller = Recaller(starts, erased)
        with connect(self._config.dsn) as connection:
            sealer = SegmentSealer(connection, self._queue)
            for batch in self._batches(table, file):
                _store(connection, sealer, self._id, recaller, batch)
        return recaller

    def _batches(self, table: Snapshot, file: DataFile) -> Iterator[pa.RecordBatch]:
        """Yield the wanted messages of a file."""
        names = self._config.partitions
        for batch in table.reader.read(file, COLUMNS, _ROWS, self._during):
            is_wanted = pc.is_in(batch.column("partition"), pa.array(names, pa.string()))
            yield batch.filter(is_wanted) if names else batch

    def _move(self, starts: Mapping[int, int]) -> None:
        """Move the segments to the log, some partitions at a time."""
        with ThreadPoolExecutor(_THREADS) as pool:
            tasks = [pool.submit(self._move_some, part, starts) for part in parts(self._counts)]
            for task in as_completed(tasks):
                self._report_progress(rows=self._progress.rows + task.result())

    def _move_some(self, partition_ids: Sequence[int], starts: Mapping[int, int]) -> int:
        """Move the segments of some partitions. Returns how many messages they have."""
        firsts = [starts[each] for each in partition_ids]
        counts = [self._counts[each] for each in partition_ids]
        with Ledger(self._config.dsn) as ledger:
            arguments = (self._id, self._queue["id"], list(partition_ids), firsts, counts)
            (row,) = ledger.call("recall", *arguments)
        if row["is_changed"]:
            raise errors.Conflict(
                f"messages of queue {self._config.queue} were erased, removed or recalled"
                " meanwhile, or PostgreSQL has crashed: run the recall again"
            )
        return row["messages"]

    def _keep(self, seconds: float) -> None:
        """Let retention keep recalled messages for at least ``seconds``."""
        self._ledger.call("hold_recalled", *self._hold, seconds)

    def _report_progress(self, **changes: Any) -> Progress:  # noqa: ANN401 - fields of Progress
        self._progress = msgspec.structs.replace(self._progress, **changes)
        self._report(self._progress)
        return self._progress


def parts(counts: Mapping[int, int]) -> list[list[int]]:
    """Divide partitions into transactions. Producers of a partition wait for its transaction."""
    made: list[list[int]] = [[]]
    messages = 0
    for partition_id, count in sorted(counts.items()):
        is_full = messages + count > _MESSAGES or len(made[-1]) >= _PARTITIONS
        if made[-1] and is_full:
            made.append([])
            messages = 0
        made[-1].append(partition_id)
        messages += count
    return [part for part in made if part]


def _store(
    connection: Connection,
    sealer: SegmentSealer,
    recall_id: UUID,
    recaller: Recaller,
    batch: pa.RecordBatch,
) -> None:
    """Store the segments of a batch."""
    segments = list(recaller.segments(batch))
    if not segments:
        return
    key = sealer.key(sum(each.count for each in segments))
    now = call(connection, "now")[0]["now"]
    with connection.cursor() as cursor, cursor.copy(sql.CALLS["read_recalled"].encode()) as copy:
        copy.set_types(_TYPES)
        for each in segments:
            place = (recall_id, each.partition_id, each.base_offset, each.count, each.created_at)
            stored = sealed(key, each.partition_id, each.body, each.ends, each.extras)
            copy.write_row((*place, now, *stored))
