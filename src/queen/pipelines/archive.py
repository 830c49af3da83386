"""
Copy the log of a queue to a lake, exactly once.

A batch is first planned in the ledger. Tasks read its segments and write files that are not
referenced yet. One commit adds them to the lake, together with the batch number. Then the ledger
marks the batch as archived, and retention may delete its messages. After a crash, or if two
pipelines run concurrently, the next one repeats the planned batch unless the lake contains it.
"""

# pyright: basic
import logging
import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from queen import errors
from queen.arrow.database import Connection
from queen.arrow.holders import Holders, Wait, newest
from queen.arrow.json_schema import parse_schema
from queen.arrow.planning import find_queue, horizon, plan_batch, split_batch
from queen.arrow.ranges import Position, SegmentRange
from queen.arrow.reading import read_range
from queen.arrow.replicas import caught_up, check_replica
from queen.lake import Batch, CatalogOptions, DataFile, Lake, StorageOptions, open_lake
from queen.lake.day_files import SCHEMA, DayFiles
from queen.lake.ledger import Ledger, Plan
from queen.lake.storage import NO_OPTIONS, Storage, normal, reaching
from queen.lake.typed_columns import TypedColumns
from queen.pipelines.report import counted
from queen.pipelines.tasks import Engine, run_tasks
from queen.redacted import redacted

_LOG: Final = logging.getLogger("queen.pipelines")
_SHORT_SECONDS: Final = 0.1
_JOBS: Final = 3
"""Attempts per job, because only a Spark cluster retries tasks."""

Step = Literal["planned", "written", "committed", "archived", "idle", "held_back"]
"""``held_back``: newer messages wait until an older transaction has ended."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The queue to archive, and the lake."""

    dsn: Annotated[str, Meta(description="URL of the database. Default: DATABASE_URL.")]
    read_dsn: Annotated[
        str | None,
        Meta(description="URL of a replica for bulk reads. If it is behind, dsn is read."),
    ] = None
    queue: Annotated[str, Meta(description="Queue to archive.")]
    location: Annotated[
        str,
        Meta(
            description="A directory, or a URI such as s3://bucket/orders. "
            "It becomes the table's location."
        ),
    ]
    format: Annotated[
        Literal["iceberg", "delta", "parquet"], Meta(description="Format of the lake.")
    ] = "iceberg"
    name: Annotated[
        str, Meta(description="Name of the archive. Default: the name of the queue.")
    ] = ""
    tasks: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | None,
        Meta(description="Number of tasks per batch. Default: by its size."),
    ] = None
    max_messages: Annotated[int, Meta(ge=1, description="Messages per batch, approximately.")] = (
        5_000_000
    )
    max_bytes: Annotated[int, Meta(ge=1, description="Payload bytes per batch, approximately.")] = (
        4 * 2**30
    )
    interval_seconds: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds between polls for new messages. "
            "0 ends after the messages that exist at the start.",
        ),
    ] = 0
    commit_seconds: Annotated[
        float,
        Meta(
            ge=0,
            description="Seconds between commits of a run with interval_seconds, "
            "so that files are not too small.",
        ),
    ] = 60
    commit_bytes: Annotated[
        int,
        Meta(ge=1, description="Payload bytes that are committed without waiting."),
    ] = 128 * 2**20
    max_snapshots: Annotated[
        int,
        Meta(
            ge=2,
            description="Snapshots that an Iceberg table keeps. Each commit expires older ones.",
        ),
    ] = 100
    typed: Annotated[
        bool,
        Meta(
            description="Whether the properties of the queue's JSON Schema become fields of a "
            "column `data`. Needs format iceberg or delta."
        ),
    ] = False
    storage: Annotated[
        StorageOptions,
        Meta(
            description="Object store: endpoint, region, credentials (a file). "
            "Default: environment or role."
        ),
    ] = NO_OPTIONS
    catalog: Annotated[
        CatalogOptions | None,
        Meta(
            description="Iceberg catalog: uri and token_env. "
            "Default: the catalog in Queen's database."
        ),
    ] = None

    def __repr__(self) -> str:
        return redacted(self)


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of an archive after each step."""

    step: Step
    state: Literal["running", "idle"] = "running"
    queue_ids: tuple[int, ...]
    position: int
    batch_id: int
    batch_millis: int = 0
    rows_per_second: float = 0
    rows: int = 0
    """In this run."""
    files: int = 0
    bytes: int = 0
    missed: int = 0
    """Messages that were removed before they could be archived, in all runs."""
    misfits: int = 0
    """Messages of this run that don't fit the queue's schema. They count in ``rows``."""
    held_back_by: str | None = None
    """The open transaction that newer messages wait for."""

    def __str__(self) -> str:
        misfits = f", {counted(self.misfits, 'misfit')}" if self.misfits else ""
        return f"archived {counted(self.rows, 'message')} in {counted(self.files, 'file')}{misfits}"


Report = Callable[[Progress], object]


def check(connection: Connection, config: Config) -> None:
    """Check that the queue exists, and has a schema if the table is typed."""
    queue = find_queue(connection, config.queue)
    check_replica(connection, config.read_dsn)
    if config.typed:
        _check_format(config)
        parse_schema(queue["schema"], config.queue)


def _check_format(config: Config) -> None:
    if config.typed and config.format == "parquet":
        raise errors.InvalidOption(
            "typed needs format iceberg or delta, because plain Parquet has no table schema"
        )


def run(engine: Engine, config: Config, *, report: Report | None = None) -> Progress:
    """Archive existing messages, or poll for new ones forever. Returns the progress."""
    _check_format(config)
    location = normal(config.location)
    name = config.name or config.queue
    lake_of = (name, config.queue, config.format, location)
    with Ledger(config.dsn) as ledger:
        ledger.check(*lake_of)
        ledger.ask(check_replica, config.read_dsn)
        # Before the archive exists in the ledger: a wrong location leaves nothing behind.
        Storage(location, config.storage).check()
        with open_lake(
            config.dsn,
            name=name,
            format=config.format,
            location=location,
            make=True,
            storage=config.storage,
            catalog=config.catalog,
            max_snapshots=config.max_snapshots,
        ) as lake:
            queue_id = ledger.open(*lake_of)
            archive = _Archive(engine, config, queue_id, ledger, lake, report or (lambda _: None))
            try:
                return archive.run()
            except BaseException:
                # Without a batch in the lake, retention must not wait for this archive.
                ledger.release_first(name)
                raise


def exceeds(connection: Connection, queue_id: int, start_xid: int, until: int, most: int) -> bool:
    """Whether a range of transactions stored more payload bytes than this."""
    full = plan_batch(connection, queue_id, Position(start_xid), until, None, most)
    return full is not None and (plan_batch(connection, queue_id, full.position, until) is not None)


class _Archive:
    """One run of an archive."""

    def __init__(
        self,
        engine: Engine,
        config: Config,
        queue_id: int,
        ledger: Ledger,
        lake: Lake,
        report: Report,
    ) -> None:
        self._engine = engine
        self._config = config
        self._queue_id = queue_id
        self._ledger = ledger
        self._lake = lake
        self._report = report
        self._position = self._batch = self._missed = 0
        self._rows = self._files = self._bytes = self._misfits = 0
        self._batch_millis, self._rows_per_second = 0, 0.0
        self._holders = Holders()
        self._held_back_by: str | None = None
        self._began_at = time.monotonic()
        self._commit_at = 0.0
        """Monotonic time of the next commit, unless many bytes are waiting."""

    def run(self) -> Progress:
        """Archive batches until all messages that exist now are archived, or forever."""
        interval_seconds = self._config.interval_seconds
        end_xid = None if interval_seconds else self._ledger.ask(newest)
        while True:
            if self.advance(end_xid):
                continue
            wait = self._find_wait(end_xid)
            if wait is not None and not wait.is_long and not interval_seconds:
                time.sleep(_SHORT_SECONDS)
                continue
            if not self._batch:
                # The lake works and there is nothing to archive yet: keep what is pushed next.
                self._ledger.hold(self._lake.name)
            self._held_back_by = wait.by if wait is not None and wait.is_long else None
            progress = self.report_step("idle" if self._held_back_by is None else "held_back")
            if not interval_seconds:
                return progress
            time.sleep(interval_seconds)

    def advance(self, end_xid: int | None) -> bool:
        """Archive the next batch. Returns False if there is none before ``end_xid``."""
        self._began_at = time.monotonic()
        plan = self._plan(end_xid)
        if plan is None:
            return False
        self._held_back_by = None
        self.report_step("planned")
        try:
            batch = self._archive_batch(plan)
        except errors.LakeDiverged:
            if self._ledger.find(self._lake.name)["batch"] < plan.batch:
                raise
            return True  # Another driver has committed this batch and the next one.
        gaps = None
        if batch.missed:
            gaps = self._ledger.missed(self._lake.name, plan.start_xid, plan.end_xid).gaps
        self._ledger.archive(self._lake.name, batch, gaps)
        self._commit_at = time.monotonic() + self._config.commit_seconds
        self._position, self._batch = plan.end_xid, plan.batch
        self._rows += batch.messages
        self._files += batch.files
        self._bytes += batch.bytes
        self._misfits += batch.misfits
        self.report_step("archived", rows=batch.messages)
        return True

    def report_step(self, step: Step, *, rows: int = 0) -> Progress:
        if step not in ("idle", "held_back"):  # Else these are still those of the last batch.
            seconds = time.monotonic() - self._began_at
            self._batch_millis, self._rows_per_second = int(seconds * 1000), rows / seconds
        progress = Progress(
            step=step,
            state="idle" if step == "idle" else "running",
            queue_ids=(self._queue_id,),
            position=self._position,
            batch_id=self._batch,
            batch_millis=self._batch_millis,
            rows_per_second=self._rows_per_second,
            rows=self._rows,
            files=self._files,
            bytes=self._bytes,
            missed=self._missed,
            misfits=self._misfits,
            held_back_by=self._held_back_by,
        )
        self._report(progress)
        return progress

    def _plan(self, end_xid: int | None) -> Plan | None:
        """Return the batch that is already planned, or plan the next one."""
        archive = self._ledger.find(self._lake.name)
        if archive["queue_id"] != self._queue_id:
            raise errors.QueueNotFound(f"queue {self._config.queue} was deleted")
        self._position, self._batch = archive["xid"], archive["batch"]
        config = self._config
        lake = (config.format, self._lake.storage.location)
        if (archive["format"], archive["location"]) != lake:
            raise errors.InvalidOption(
                f"archive {self._lake.name} was moved to {archive['location']} by another process"
            )
        self._check_missed(archive)
        if archive["planned_batch"] is not None:
            # Planned by a run that failed, or by another driver. Its hold may be gone.
            plan = self._ledger.plan(self._lake.name, archive["end_xid"])
            if plan is None and self._ledger.find(self._lake.name)["batch"] > self._batch:
                return self._plan(end_xid)  # The other driver has archived it.
            return self._require_plan(plan)
        until = self._ledger.ask(horizon)
        if end_xid is not None:
            until = min(until, end_xid)
        if end_xid is None and not self._is_due(archive["xid"], until):
            return None
        scope = (self._queue_id, Position(archive["xid"]), until)
        limits = (config.max_messages, config.max_bytes)
        end = self._ledger.ask(
            lambda connection: plan_batch(connection, *scope, *limits, is_whole=True)
        )
        if end is None:
            return None
        return self._require_plan(self._ledger.plan(self._lake.name, end.position.horizon))

    def _require_plan(self, plan: Plan | None) -> Plan:
        if plan is None:
            raise errors.QueueNotFound(f"queue {self._config.queue} was deleted")
        return plan

    def _check_missed(self, archive: Mapping[str, Any]) -> None:
        """Warn about messages that were removed unarchived since the last time."""
        pending = self._ledger.missed(self._lake.name, archive["xid"]).messages
        missed = archive["missed_messages"] + pending
        if missed > self._missed:
            _LOG.warning(
                "archive %s: %d messages of queue %s were removed before they were archived: see"
                " queen pipeline archives ls",
                *(self._lake.name, missed, self._config.queue),
            )
        self._missed = missed

    def _find_wait(self, end_xid: int | None) -> Wait | None:
        """Return the transaction that messages wait for, if any."""
        ids = (self._queue_id,)
        return self._ledger.ask(
            lambda connection: self._holders.find(
                connection, self._position, queue_ids=ids, end_xid=end_xid
            )
        )

    def _is_due(self, start_xid: int, until: int) -> bool:
        """Whether enough time has passed since the last commit, or enough bytes are waiting."""
        if time.monotonic() >= self._commit_at:
            return True
        most = self._config.commit_bytes
        return self._ledger.ask(exceeds, self._queue_id, start_xid, until, most)

    def _archive_batch(self, plan: Plan) -> Batch:
        """Write a batch to the lake, unless it is there."""
        if there := self._lake.find(plan.batch, plan.token):
            return there
        files = self._write(plan)
        self.report_step("written")
        # After the tasks have read: later removals concern messages that the files have.
        missed = self._ledger.missed(self._lake.name, plan.start_xid, plan.end_xid)
        total = self._ledger.find(self._lake.name)["missed_messages"] + missed.messages
        batch = msgspec.structs.replace(
            Batch.of(plan.batch, plan.token, files), missed=missed.messages, missed_total=total
        )
        with reaching(self._lake.storage.location):
            batch = self._lake.commit(batch, files)
        self.report_step("committed")
        return batch

    def _write(self, plan: Plan) -> list[DataFile]:
        bounds = Position(plan.start_xid), Position(plan.end_xid)
        whole = SegmentRange(self._config.queue, self._queue_id, *bounds)
        ranges = self._ledger.ask(split_batch, whole, self._config.tasks)
        names = [f"{plan.batch:010d}-{number:05d}" for number in range(len(ranges))]
        dsn, folder, options = self._config.dsn, self._lake.folder, self._config.storage
        typed = self._typed_columns()
        schema = SCHEMA if typed is None else typed.schema
        read_dsn = caught_up(self._config.read_dsn, plan.end_xid)

        def write(number: int) -> list[DataFile]:
            parse = None if typed is None else typed.parser()
            name = names[number]
            # The compaction compresses better, once.
            quick = DayFiles(folder, name, options=options, schema=schema, is_quick=True)
            with reaching(folder), quick as files:
                for batch in read_range(dsn, ranges[number], read_dsn=read_dsn):
                    files.write(batch if parse is None else parse(batch))
            return files.closed

        for job in range(1, _JOBS + 1):
            try:
                return run_tasks(self._engine, len(ranges), write)
            except Exception:
                if job == _JOBS:
                    raise
                self._ledger.ask(horizon)  # Waits until PostgreSQL is available again.
                read_dsn = None  # A replica may cancel long reads.
        raise AssertionError

    def _typed_columns(self) -> TypedColumns | None:
        """Add columns for the current schema of the queue, which can change at any time."""
        if not self._config.typed:
            return None
        queue = self._ledger.ask(find_queue, self._config.queue)
        with reaching(self._lake.storage.location):
            return self._lake.evolve(parse_schema(queue["schema"], self._config.queue))
