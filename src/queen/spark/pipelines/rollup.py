"""
The history of queues by minute, hour and day, for longer than counters and samples are kept.

Completed minutes are computed from the log (pushes), the counters of all processes (outcomes and
durations) and samples (backlog). Hours are merged from minutes, and days from hours. A run starts a
little before the end of the previous one, and a row is replaced only by one that is based on as
much data or more (``queen.roll_up``). So a run can be repeated, killed, or run concurrently.

Tasks read ranges of time or of transactions through psycopg. PostgreSQL aggregates the log, so
tasks get one row per minute, queue, group and process, never one per message. Tasks also write, a
thousand rows per transaction. Rows contain how much data they are based on, so their order does
not matter.
"""

# pyright: basic

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, Final

import msgspec
import psycopg
import pyarrow as pa
from msgspec import Meta
from pyspark.sql import DataFrame, SparkSession, functions as F

from queen import sql
from queen.arrow.database import Connection, call, connect
from queen.arrow.replicas import caught_up, check_replica, connect_to_read
from queen.redacted import redacted
from queen.telemetry import COUNTED

MINUTE: Final = 60
HOUR: Final = 3_600
DAY: Final = 86_400

_LOGGED: Final = ("pushed", "bytes")
_COUNTED: Final = ("counted", *COUNTED[1:])
"""``counted`` is the number of pushes that processes counted, in case the log was truncated."""
_SAMPLED: Final = ("samples", "depth_sum")
_SUMS: Final = (*_LOGGED, *_COUNTED, *_SAMPLED)
_HISTOGRAMS: Final = ("wait", "processing")
_TYPES: Final = {
    "at": ("bigint", pa.int64()),
    "queue_id": ("bigint", pa.int64()),
    "group_id": ("bigint", pa.int64()),
    "group": ("string", pa.string()),
    **dict.fromkeys(_SUMS, ("bigint", pa.int64())),
    **{f"{name}_bins": ("array<smallint>", pa.list_(pa.int16())) for name in _HISTOGRAMS},
    **{f"{name}_counts": ("array<bigint>", pa.list_(pa.int64())) for name in _HISTOGRAMS},
    "depth_max": ("bigint", pa.int64()),
    "depth_last": ("bigint", pa.int64()),
    "oldest_age_seconds": ("double", pa.float64()),
    "xid": ("bigint", pa.int64()),
}
_KEY: Final = ("at", "queue_id", "group_id", "group")
_BINS: Final = tuple(f"{name}_{part}" for name in _HISTOGRAMS for part in ("bins", "counts"))
_LOG: Final = ("at", "queue_id", *_LOGGED)
_COUNTERS: Final = (*_KEY, *_COUNTED, *_BINS)
_SAMPLES: Final = (*_KEY, *_SAMPLED, "depth_max", "depth_last", "oldest_age_seconds")
_ROLLUPS: Final = tuple(name for name in _TYPES if name != "counted")

_ROWS_PER_BATCH: Final = 5_000
_ROWS_PER_WRITE: Final = 1_000
_ROWS_PER_STEP: Final = 10_000
_READ_SECONDS: Final = {MINUTE: 6 * HOUR, HOUR: 4 * DAY, DAY: 90 * DAY}
"""The largest time range per statement, by grain."""

Range = tuple[datetime, datetime]


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of a run."""

    dsn: Annotated[str, Meta(description="URL of the database. Default: DATABASE_URL.")]
    read_dsn: Annotated[
        str | None,
        Meta(description="URL of a replica to read the log. If it is behind, dsn is read."),
    ] = None
    since: Annotated[
        Annotated[datetime, Meta(tz=True)] | None,
        Meta(description="Recompute the history from here on."),
    ] = None
    tasks: Annotated[
        int,
        Meta(ge=1, description="Number of concurrent tasks, each with its own connection."),
    ] = 8
    minute_days: Annotated[int, Meta(ge=2, description="Retention of minutes.")] = 7
    hour_days: Annotated[int, Meta(ge=2, description="Retention of hours.")] = 90
    day_days: Annotated[
        Annotated[int, Meta(ge=2)] | None,
        Meta(description="Retention of days. Default: forever."),
    ] = None

    def __repr__(self) -> str:
        return redacted(self)


class Rolled(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a run."""

    start_at: datetime
    end_at: datetime
    """Everything stored before this time is in the history."""
    late: int
    """Earlier minutes that were recomputed, because a process stored its counters late."""
    minutes: int
    """Rows written, by grain."""
    hours: int
    days: int
    rows: int
    """All rows written."""
    forgotten: int
    batch_millis: int

    def __str__(self) -> str:
        return f"updated {self.rows:,} rows of the history"


def check(connection: Connection, config: Config) -> None:
    """Check that the database has Queen's schema."""
    call(connection, "queues_of_pipelines", [])
    check_replica(connection, config.read_dsn)


def run(
    spark: SparkSession, config: Config, *, report: Callable[[Rolled], object] | None = None
) -> Rolled:
    """Update the history to the last completed minute."""
    began = time.monotonic()
    with connect(config.dsn) as connection:
        check_replica(connection, config.read_dsn)
        (plan,) = call(connection, "plan_rollup", config.since)
        start, end = (int(plan[name].timestamp()) for name in ("start_at", "end_at"))
        touched = {int(minute.timestamp()) for minute in plan["late"]} | {
            *range(start, end, MINUTE)
        }
        rows = {MINUTE: _write(config, MINUTE, _minutes(spark, config, plan))}
        for grain, of in ((HOUR, MINUTE), (DAY, HOUR)):
            arguments = [(of, *each) for each in ranges(touched, grain)]
            frame = _frame(spark, config, "rollups", _ROLLUPS, arguments).withColumn(
                "counted", F.lit(0)
            )
            rows[grain] = _write(config, grain, merged(frame, grain))
        call(connection, "mark_rollup", plan["planned_at"], plan["end_xid"])
        forgotten = _forget(connection, config)
    done = Rolled(
        start_at=plan["start_at"],
        end_at=plan["end_at"],
        late=len(plan["late"]),
        minutes=rows[MINUTE],
        hours=rows[HOUR],
        days=rows[DAY],
        rows=sum(rows.values()),
        forgotten=forgotten,
        batch_millis=round((time.monotonic() - began) * 1000),
    )
    if report is not None:
        report(done)
    return done


def ranges(minutes: Iterable[int], grain: int) -> list[Range]:
    """Return the periods of a grain that contain these minutes, in ranges that never overlap."""
    most = _READ_SECONDS[grain]
    found: list[list[int]] = []
    for start in sorted({minute - minute % grain for minute in minutes}):
        if found and found[-1][1] == start and start - found[-1][0] < most:
            found[-1][1] = start + grain
        else:
            found.append([start, start + grain])
    return [(datetime.fromtimestamp(a, UTC), datetime.fromtimestamp(b, UTC)) for a, b in found]


def merged(frame: DataFrame, grain: int) -> DataFrame:
    """Merge rows of a finer grain to one per queue, group and period."""
    column = F.col
    # In one pass: a separate aggregation of bins with a join would read the database twice.
    sums = frame.groupBy(
        (column("at") - column("at") % grain).alias("period"), "queue_id", "group_id"
    ).agg(
        F.max("group").alias("group"),
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in _SUMS),
        *(F.max(name).alias(name) for name in ("depth_max", "oldest_age_seconds", "xid")),
        F.max_by("depth_last", F.when(column("depth_last").isNotNull(), column("at"))).alias(
            "depth_last"
        ),
        *(
            F.flatten(F.collect_list(F.arrays_zip(f"{name}_bins", f"{name}_counts"))).alias(name)
            for name in _HISTOGRAMS
        ),
    )
    return sums.select(
        column("period").alias("at"),
        "queue_id",
        "group_id",
        "group",
        F.greatest("pushed", "counted").alias("pushed"),
        *(name for name in _SUMS if name not in ("pushed", "counted")),
        *(part for name in _HISTOGRAMS for part in _bins(name)),
        "depth_max",
        "depth_last",
        "oldest_age_seconds",
        "xid",
    )


def _bins(name: str) -> Iterator[Any]:
    """Return the columns of a histogram, from a list of its bins with repetitions."""
    pairs = F.col(name)
    bins = F.array_sort(F.array_distinct(pairs[f"{name}_bins"]))

    def count(bin_: Any) -> Any:  # noqa: ANN401 - a column of Spark or of Spark Connect
        return F.aggregate(
            F.filter(pairs, lambda pair: pair[f"{name}_bins"] == bin_),
            F.lit(0).cast("bigint"),
            lambda sum_, pair: sum_ + pair[f"{name}_counts"],
        )

    yield bins.alias(f"{name}_bins")
    yield F.transform(bins, count).alias(f"{name}_counts")


def _minutes(spark: SparkSession, config: Config, plan: dict[str, Any]) -> DataFrame:
    """Compute the minutes of the plan from the log, counters and samples."""
    start, end = plan["start_at"], plan["end_at"]
    first, last = plan["start_xid"], plan["end_xid"]
    window = ranges(range(int(start.timestamp()), int(end.timestamp()), MINUTE), MINUTE)
    # Pushes of late minutes were already read, because the log is read without gaps.
    late = ranges((int(minute.timestamp()) for minute in plan["late"]), MINUTE)
    read = partial(_frame, spark, config)
    pushes = [(*each, start, end) for each in _split(first, last, config.tasks)]
    log = read("rollup_log", _LOG, pushes, last).withColumn("group_id", F.lit(0).cast("bigint"))
    outcomes = [*((*each, first) for each in window), *((*each, last) for each in late)]
    counters = read("rollup_counters", _COUNTERS, outcomes)
    samples = read("rollup_samples", _SAMPLES, [*window, *late])
    together = counters.unionByName(log, allowMissingColumns=True).unionByName(
        samples, allowMissingColumns=True
    )
    return merged(together.withColumn("xid", F.lit(last).cast("bigint")), MINUTE)


def _split(start: int, end: int, tasks: int) -> list[tuple[int, int]]:
    """Split transactions into ranges of about equal size."""
    bounds = [start + (end - start) * n // tasks for n in range(tasks + 1)]
    return [(a, b) for a, b in pairwise(bounds) if a < b]


def _frame(
    spark: SparkSession,
    config: Config,
    name: str,
    columns: Sequence[str],
    arguments: Sequence[tuple[object, ...]],
    xid: int | None = None,
) -> DataFrame:
    """
    Run a named statement in tasks, once for each of these arguments.

    If it needs only data of lower transactions than ``xid``, a replica that has them runs it.
    Counters and samples have no transaction, and the history was just written.
    """
    schema = ", ".join(f"`{column}` {_TYPES[column][0]}" for column in columns)
    tasks = max(1, min(config.tasks, len(arguments)))
    read_dsn = None if xid is None else caught_up(config.read_dsn, xid)
    source = (config.dsn, read_dsn, xid)
    return spark.range(0, len(arguments), 1, tasks).mapInArrow(
        partial(_read, source, name, columns, arguments), schema
    )


def _read(
    source: tuple[str, str | None, int | None],
    name: str,
    columns: Sequence[str],
    arguments: Sequence[tuple[object, ...]],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Read rows in a task, with a few thousand in memory at a time."""
    schema = pa.schema([(column, _TYPES[column][1]) for column in columns])
    with connect_to_read(*source) as connection:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                with (
                    connection.transaction(),
                    psycopg.RawServerCursor(connection, "rows") as cursor,
                ):
                    cursor.execute(sql.CALLS[name].removesuffix(";").encode(), arguments[number])
                    while rows := cursor.fetchmany(_ROWS_PER_BATCH):
                        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _write(config: Config, grain: int, frame: DataFrame) -> int:
    """Store the rows of a grain. Returns how many were written."""
    written = frame.mapInArrow(partial(_store, config.dsn, grain), "written bigint")
    (row,) = written.agg(F.sum("written").alias("written")).collect()
    return row["written"] or 0


def _store(dsn: str, grain: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write rows to the database in a task. A repetition has no effect."""
    with connect(dsn) as connection:
        for batch in batches:
            written = 0
            for start in range(0, batch.num_rows, _ROWS_PER_WRITE):
                rows = batch.slice(start, _ROWS_PER_WRITE).to_pylist()
                for row in rows:
                    row["grain_seconds"] = grain
                    row["at"] = datetime.fromtimestamp(row["at"], UTC)
                (answer,) = call(connection, "roll_up", msgspec.json.encode(rows).decode())
                written += answer["written"]
            yield pa.RecordBatch.from_pydict({"written": [written]})


def _forget(connection: Connection, config: Config) -> int:
    """Delete rows older than the configured retention, in steps."""
    removed = 0
    for grain, days in (
        (MINUTE, config.minute_days),
        (HOUR, config.hour_days),
        (DAY, config.day_days),
    ):
        while days is not None:
            (step,) = call(connection, "forget_rollups", grain, days * float(DAY), _ROWS_PER_STEP)
            removed += step["removed"]
            if step["removed"] < _ROWS_PER_STEP:
                break
    return removed
