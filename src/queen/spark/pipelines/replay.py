"""
Copy messages of a lake, or of another queue, to a queue, exactly once.

A replay is first split into time ranges, which are stored. Each becomes one batch of the sink under
the name of the replay, so a repeated batch is published once. In a partition, timestamps never
decrease, so ordered time ranges keep the order of messages. The last range ends where everything
stored before is readable, so no message is added to a range later.
"""

# pyright: basic
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta
from pyspark.sql import DataFrame, SparkSession, functions as F

from queen import errors
from queen.arrow.columns import COLUMNS
from queen.arrow.database import Connection, call, connect
from queen.arrow.planning import find_queue, horizon
from queen.arrow.replicas import check_replica
from queen.lake import CatalogOptions, StorageOptions, open_lake
from queen.lake.reading import TimeRange
from queen.lake.storage import NO_OPTIONS, normal
from queen.lake.typed_columns import DATA, MISFIT
from queen.pipelines.report import counted
from queen.redacted import redacted
from queen.spark import register
from queen.spark.format.lake_files import frame

TRANSACTION_HEADER: Final = "queen-transaction-id"
"""Header with the original id, because a replayed message gets a new one."""
_PIECE_SECONDS: Final = 10
"""Seconds of a rate limit per batch."""
_OPEN_SECONDS: Final = 60.0
"""Maximum wait for transactions that began before the replay."""
_FILTERS: Final = ("where", "start_at", "end_at", "partitions")


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The messages to replay, and the target queue."""

    dsn: Annotated[str, Meta(description="URL of the database. Default: DATABASE_URL.")]
    read_dsn: Annotated[
        str | None,
        Meta(description="URL of a replica to read `from`. If it is behind, dsn is read."),
    ] = None
    name: Annotated[
        str,
        Meta(
            description="Name of the replay. "
            "An unfinished replay is continued, and a finished one is not repeated."
        ),
    ]
    to_queue: Annotated[str, Meta(description="Queue that receives the messages.")] = msgspec.field(
        name="to"
    )
    location: Annotated[
        str | None, Meta(description="Location of the lake, as in the archive.")
    ] = None
    format: Annotated[
        Literal["iceberg", "delta", "parquet"], Meta(description="Format of the lake.")
    ] = "iceberg"
    archive: Annotated[
        str | None, Meta(description="Name of the archive. Default: the name of the queue.")
    ] = None
    from_queue: Annotated[
        str | None,
        Meta(description="The archived queue. Without a location, the queue itself is read."),
    ] = msgspec.field(default=None, name="from")
    where: Annotated[
        str | None,
        Meta(
            description="A SQL expression over the columns of the source, "
            'such as "misfit is not null".'
        ),
    ] = None
    start_at: Annotated[
        datetime | None, Meta(description="Start time. UTC if it has no time zone.")
    ] = None
    end_at: Annotated[datetime | None, Meta(description="End time, exclusive.")] = None
    partitions: Annotated[
        tuple[str, ...],
        Meta(description="Names of the partitions to replay. Default: all."),
    ] = ()
    rate: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="Messages per second, on average."),
    ] = None
    max_messages: Annotated[
        int,
        Meta(ge=1, description="Messages per batch, approximately. A batch is one transaction."),
    ] = 500_000
    tasks: Annotated[int, Meta(ge=1, le=10_000, description="Number of tasks per batch.")] = 8
    storage: Annotated[StorageOptions, Meta(description="Object store, as in the archive.")] = (
        NO_OPTIONS
    )
    catalog: Annotated[
        CatalogOptions | None, Meta(description="Iceberg catalog, as in the archive.")
    ] = None

    def __repr__(self) -> str:
        return redacted(self)

    def __post_init__(self) -> None:
        if self.from_queue is None and (self.location is None or self.archive is None):
            raise ValueError("from: set the queue to read, or the archived queue")


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a replay."""

    state: Literal["running", "idle"] = "running"
    batch_id: int
    batches: int
    batch_millis: int = 0
    rows_per_second: float = 0
    rows: int = 0
    """In this run."""

    def __str__(self) -> str:
        messages = counted(self.rows, "message")
        return f"replayed {messages} in {counted(self.batches, 'batch', 'batches')}"


def check(connection: Connection, config: Config) -> None:
    """Check that the target exists, and the source if it is a queue."""
    find_queue(connection, config.to_queue)
    if config.location is None and config.from_queue is not None:
        find_queue(connection, config.from_queue)
    check_replica(connection, config.read_dsn)


def run(
    spark: SparkSession, config: Config, *, report: Callable[[Progress], object] | None = None
) -> Progress:
    """Replay the remaining messages. Returns the progress."""
    register(spark)
    with connect(config.dsn) as connection:
        find_queue(connection, config.to_queue)
        source = _described(connection, config)
        plan = _find(connection, config, source)
        # In this order, so that the listed files contain everything in the lake at that time.
        until = _until(connection, config) if plan is None else None
        read = _source(spark, config)
        plan = plan or _plan(connection, config, source, read, until)
    done = _published(config)["version"]
    pieces = list(enumerate(pairwise(plan["bounds"])))
    report_progress = report or (lambda _: None)
    progress = Progress(batch_id=-1 if done is None else done, batches=len(pieces))
    first_at = time.monotonic()
    for number, (start, end) in pieces[progress.batch_id + 1 :]:
        if config.rate is not None:
            until = first_at + progress.rows / config.rate
            time.sleep(max(0.0, until - time.monotonic()))
        began_at = time.monotonic()
        rows = _write(wanted(read(start, end, COLUMNS), config), config, number)
        seconds = time.monotonic() - began_at
        progress = Progress(
            batch_id=number,
            batches=len(pieces),
            batch_millis=int(seconds * 1000),
            rows_per_second=rows / seconds,
            rows=progress.rows + rows,
        )
        report_progress(progress)
    _check(config, plan["messages"])
    progress = msgspec.structs.replace(progress, state="idle")
    report_progress(progress)
    return progress


def wanted(messages: DataFrame, config: Config) -> DataFrame:
    """Filter the source: a pure transformation."""
    messages = _between(messages, _instant(config.start_at), _instant(config.end_at))
    if config.partitions:
        messages = messages.where(F.col("partition").isin(*config.partitions))
    return messages if config.where is None else messages.where(config.where)


def cut(counts: Iterable[tuple[datetime, int]], most: int) -> tuple[list[datetime], int]:
    """Split counts per second into ranges of about ``most`` messages. Also returns the total."""
    bounds: list[datetime] = []
    gathered = total = 0
    last: datetime | None = None
    for second, count in counts:
        if not bounds or gathered + count > most:
            bounds.append(second)
            gathered = 0
        gathered += count
        total += count
        last = second
    return ([*bounds, last + timedelta(seconds=1)] if last else []), total


Read = Callable[[datetime | None, datetime | None, Sequence[str]], DataFrame]


def _described(connection: Connection, config: Config) -> str:
    """Describe the source. A replay with another source or filter needs another name."""
    if config.location is not None:
        text = f"the {config.format} lake {normal(config.location)}"
    else:
        queue = find_queue(connection, config.from_queue or "")
        text = f"queue {config.from_queue} ({queue['id']})"
    filters = {name: value for name in _FILTERS if (value := getattr(config, name))}
    return f"{text} {msgspec.json.encode(filters).decode()}" if filters else text


def _source(spark: SparkSession, config: Config) -> Read:
    """Return the function that reads the messages of a time range."""
    if config.location is None:
        return lambda start, end, columns: _queue(spark, config, start, end, columns)
    place = normal(config.location)
    archive = config.archive or config.from_queue or ""
    with open_lake(
        config.dsn,
        name=archive,
        format=config.format,
        location=place,
        storage=config.storage,
        catalog=config.catalog,
    ) as lake:
        table = lake.snapshot()
    text = (config.where or "").casefold()
    typed = [name for name in (DATA, MISFIT) if name in text and name in table.schema.names]
    return lambda start, end, columns: frame(
        spark, table, TimeRange(start, end), [*columns, *typed]
    )


def _queue(
    spark: SparkSession,
    config: Config,
    start: datetime | None,
    end: datetime | None,
    columns: Sequence[str],
) -> DataFrame:
    """Read a queue. Bounds are passed as options, so that it is not read completely."""
    options = {"dsn": config.dsn, "queue": config.from_queue or "", "columns": ",".join(columns)}
    if config.read_dsn is not None:
        options["readDsn"] = config.read_dsn
    if start is not None:
        options["startingTimestamp"] = start.isoformat()
    if end is not None:
        options["endingTimestamp"] = end.isoformat()
    if config.partitions:
        options["partitions"] = msgspec.json.encode(config.partitions).decode()
    return spark.read.format("queen").options(**options).load()


def _between(messages: DataFrame, start: datetime | None, end: datetime | None) -> DataFrame:
    if start is not None:
        messages = messages.where(F.col("createdAt") >= F.lit(start))
    return messages if end is None else messages.where(F.col("createdAt") < F.lit(end))


def _instant(given: datetime | None) -> datetime | None:
    return given.replace(tzinfo=UTC) if given is not None and given.tzinfo is None else given


def _until(connection: Connection, config: Config) -> datetime:
    """
    Return the time up to which the source is complete.

    A later message of a partition must not be replayed without an earlier one. Messages stored from
    now on have the current time or later. This waits for messages that are being stored.
    """
    (fence,) = call(connection, "fence")
    give_up_at = time.monotonic() + _OPEN_SECONDS
    while horizon(connection) <= fence["xid"]:
        if time.monotonic() > give_up_at:
            raise errors.DatabaseUnavailable(
                f"a transaction has been open for more than {_OPEN_SECONDS:g} s, and its messages"
                " would be missing in the replay: end it, and run the replay again"
            )
        time.sleep(0.02)
    until = fence["at"]
    if config.location is not None:
        (row,) = call(connection, "unarchived_since", config.archive or config.from_queue)
        until = min(until, row["at"] or until)
    return until


def _find(connection: Connection, config: Config, source: str) -> dict[str, Any] | None:
    """Return a replay that was started. Raises InvalidOption if it differs from this one."""
    for plan in call(connection, "find_replay", config.name):
        return _checked(plan, config, source)
    return None


def _plan(
    connection: Connection, config: Config, source: str, read: Read, until: datetime | None
) -> dict[str, Any]:
    """Split the replay and store the ranges. Of two concurrent runs, the first one decides."""
    most = config.max_messages
    if config.rate is not None:
        most = max(1, min(most, int(config.rate * _PIECE_SECONDS)))
    ends = [each for each in (_instant(config.end_at), until) if each is not None]
    columns = COLUMNS if config.where is not None else ("partition", "createdAt")
    there = read(_instant(config.start_at), min(ends, default=None), columns)
    bounds, total = cut(_seconds(wanted(_between(there, None, until), config)), most)
    if not bounds:
        return {"bounds": [], "messages": 0}  # Not stored, because messages may arrive later.
    if until is not None:
        bounds[-1] = min(bounds[-1], until)
    answer = call(connection, "plan_replay", config.name, source, config.to_queue, bounds, total)
    return _checked(answer[0], config, source)


def _checked(plan: dict[str, Any], config: Config, source: str) -> dict[str, Any]:
    if (plan["source"], plan["target"]) != (source, config.to_queue):
        raise errors.InvalidOption(
            f"the replay {config.name} was from {plan['source']} to {plan['target']}: choose"
            " another name"
        )
    return plan


def _seconds(messages: DataFrame) -> Iterable[tuple[datetime, int]]:
    """Return the number of messages per second, in order."""
    second = F.unix_seconds(F.date_trunc("second", "createdAt")).alias("second")
    counts = messages.groupBy(second).count().orderBy("second")
    for row in counts.toLocalIterator():
        yield datetime.fromtimestamp(row["second"], UTC), row["count"]


def _write(messages: DataFrame, config: Config, number: int) -> int:
    """Write one range as one batch of the sink. Returns its number of messages."""
    before = _published(config)["messages"]
    writer = as_messages(messages, config.tasks).write.format("queen").mode("append")
    writer = writer.options(dsn=config.dsn, queue=config.to_queue)
    writer.options(txnAppId=_app_id(config), txnVersion=str(number)).save()
    return _published(config)["messages"] - before


def _check(config: Config, planned: int) -> None:
    """Raise DataLost if not all planned messages were replayed."""
    if (written := _published(config)["messages"]) != planned:
        raise errors.DataLost(
            f"the replay {config.name} planned {planned} messages and wrote {written}: some were"
            " deleted from the source meanwhile, or `where` is not deterministic"
        )


def _published(config: Config) -> dict[str, Any]:
    with connect(config.dsn) as connection:
        queue_id = find_queue(connection, config.to_queue)["id"]
        return call(connection, "published", _app_id(config), queue_id, None)[0]


def as_messages(messages: DataFrame, tasks: int) -> DataFrame:
    """Return rows for the sink, each partition in its order."""
    given = F.from_json(F.coalesce("headers", F.lit("{}")), "map<string,string>")
    others = F.map_filter(given, lambda name, _: name != TRANSACTION_HEADER)
    # If a message was already replayed, keep its first id.
    first = F.coalesce(given[TRANSACTION_HEADER], F.col("transactionId"))
    which = F.create_map(F.lit(TRANSACTION_HEADER), first)
    headers = F.to_json(F.map_concat(others, which)).alias("headers")
    # Offsets of a recreated partition start at 0 again, so sort by time first.
    order = ("partition", "createdAt", "offset")
    ordered = messages.repartition(tasks, "partition").sortWithinPartitions(*order)
    return ordered.select("partition", "payload", headers, "traceId")


def _app_id(config: Config) -> str:
    return f"replay:{config.name}"
