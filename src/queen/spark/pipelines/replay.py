"""
Messages of a lake, or of another queue, back into a queue, exactly once.

A replay is cut into pieces of time before it begins, and the pieces are written down. Each becomes
one batch of the sink under the name of the replay: one that is repeated is published once. Inside a
partition times never fall as offsets rise, so pieces of time in order keep the order.
"""

# pyright: basic
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Annotated, Any, Final, Literal

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from queen import errors
from queen.spark import register
from queen.spark.database import Connection, call, connect
from queen.spark.lakes import open_lake
from queen.spark.lakes.places import normal
from queen.spark.reader import find_queue

TRANSACTION_HEADER: Final = "queen-transaction-id"
"""A message that is replayed is a new one; this says which it was."""
_PIECE_SECONDS: Final = 10
"""Of a rate: how much of it is one piece."""


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is replayed, and where to."""

    dsn: str
    name: str
    """Of the replay: one that was begun is gone on with, one that is over is not done twice."""
    to_queue: str = msgspec.field(name="to")
    location: str | None = None
    """The lake that it comes from, as the archive has it …"""
    format: Literal["iceberg", "delta", "parquet"] = "iceberg"
    archive: str | None = None
    """… and the archive's name, if it is not the queue's."""
    from_queue: str | None = msgspec.field(default=None, name="from")
    """The queue that was archived; without a location it is read itself."""
    where: str | None = None
    """An expression of SQL over the columns of the source."""
    start_at: datetime | None = None
    end_at: datetime | None = None
    partitions: tuple[str, ...] = ()
    rate: Annotated[float, msgspec.Meta(gt=0)] | None = None
    """Messages a second, on average."""
    max_messages: Annotated[int, msgspec.Meta(ge=1)] = 500_000
    """Of a piece, about: it is one transaction."""
    tasks: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 8

    def __post_init__(self) -> None:
        if self.from_queue is None and (self.location is None or self.archive is None):
            raise ValueError("from: the queue that is read, or was archived")


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a replay is."""

    state: Literal["running", "idle"] = "running"
    batch_id: int
    batches: int
    batch_millis: int = 0
    rows_per_second: float = 0
    rows: int = 0
    """Of this run."""


def run(
    spark: SparkSession, config: Config, *, report: Callable[[Progress], object] | None = None
) -> Progress:
    """Replay what is left of it; how far it came."""
    register(spark)
    read = _source(spark, config)
    with connect(config.dsn) as connection:
        plan = _plan(connection, config, read)
    done = _published(config)["version"]
    bounds = plan["bounds"]
    say = report or (lambda _: None)
    progress = Progress(batch_id=-1 if done is None else done, batches=len(bounds) - 1)
    pace = _Pace(config.rate)
    for number, (start, end) in enumerate(pairwise(bounds)):
        if number <= progress.batch_id:
            continue
        began_at = time.monotonic()
        rows = _write(wanted(read(start, end), config), config, number)
        seconds = time.monotonic() - began_at
        progress = Progress(
            batch_id=number,
            batches=len(bounds) - 1,
            batch_millis=int(seconds * 1000),
            rows_per_second=rows / seconds,
            rows=progress.rows + rows,
        )
        say(progress)
        pace.wait(rows)
    progress = msgspec.structs.replace(progress, state="idle")
    say(progress)
    return progress


def wanted(messages: DataFrame, config: Config) -> DataFrame:
    """Of the source what was asked for: a pure transformation."""
    messages = _between(messages, config.start_at, config.end_at)
    if config.partitions:
        messages = messages.where(F.col("partition").isin(*config.partitions))
    return messages if config.where is None else messages.where(config.where)


def cut(counts: Iterable[tuple[datetime, int]], most: int) -> tuple[list[datetime], int]:
    """Bounds of pieces of about so many messages, of counts by the second, and how many in all."""
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


class _Pace:
    """Keeps a rate on average."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._began_at = time.monotonic()
        self._rows = 0

    def wait(self, rows: int) -> None:
        self._rows += rows
        if self._rate is not None:
            until = self._began_at + self._rows / self._rate
            time.sleep(max(0.0, until - time.monotonic()))


Read = Callable[[datetime | None, datetime | None], DataFrame]


def _source(spark: SparkSession, config: Config) -> Read:
    """What reads the messages of a time."""
    if config.location is None:
        return lambda start, end: _queue(spark, config, start, end)
    place = normal(config.location)
    archive = config.archive or config.from_queue or ""
    with open_lake(config.dsn, name=archive, format=config.format, location=place) as lake:
        files = [file.path for file in lake.files()]
    if not files:
        raise errors.InvalidOption(f"there is nothing in the lake {config.location}")
    table = spark.read.parquet(*files)
    return lambda start, end: _between(table, start, end)


def _queue(
    spark: SparkSession, config: Config, start: datetime | None, end: datetime | None
) -> DataFrame:
    """Of a queue: bounds that are options keep it from reading all of it."""
    options = {"dsn": config.dsn, "queue": config.from_queue or ""}
    if (first := start or config.start_at) is not None:
        options["startingTimestamp"] = first.isoformat()
    if (last := end or config.end_at) is not None:
        options["endingTimestamp"] = last.isoformat()
    return spark.read.format("queen").options(**options).load()


def _between(messages: DataFrame, start: datetime | None, end: datetime | None) -> DataFrame:
    if start is not None:
        messages = messages.where(F.col("createdAt") >= F.lit(start))
    return messages if end is None else messages.where(F.col("createdAt") < F.lit(end))


def _plan(connection: Connection, config: Config, read: Read) -> dict[str, Any]:
    """How the replay is cut: as it was when it was begun."""
    source = config.location or f"queue {config.from_queue}"
    rows = call(connection, "find_replay", config.name)
    if not rows:
        most = config.max_messages
        if config.rate is not None:
            most = max(1, min(most, int(config.rate * _PIECE_SECONDS)))
        bounds, total = cut(_seconds(wanted(read(None, None), config)), most)
        rows = call(connection, "plan_replay", config.name, source, config.to_queue, bounds, total)
    (plan,) = rows
    if (plan["source"], plan["target"]) != (source, config.to_queue):
        raise errors.InvalidOption(
            f"the replay {config.name} went from {plan['source']} to {plan['target']}: give this"
            " one another name"
        )
    return plan


def _seconds(messages: DataFrame) -> Iterable[tuple[datetime, int]]:
    """How many messages each second has, in order."""
    second = F.unix_seconds(F.date_trunc("second", "createdAt")).alias("second")
    counts = messages.groupBy(second).count().orderBy("second")
    for row in counts.toLocalIterator():
        yield datetime.fromtimestamp(row["second"], UTC), row["count"]


def _write(messages: DataFrame, config: Config, number: int) -> int:
    """One piece as one batch of the sink; how many messages it had."""
    before = _published(config)["messages"]
    writer = as_messages(messages, config.tasks).write.format("queen").mode("append")
    writer = writer.options(dsn=config.dsn, queue=config.to_queue)
    writer.options(txnAppId=_app_id(config), txnVersion=str(number)).save()
    return _published(config)["messages"] - before


def _published(config: Config) -> dict[str, Any]:
    with connect(config.dsn) as connection:
        queue_id = find_queue(connection, config.to_queue)["id"]
        return call(connection, "published", _app_id(config), queue_id)[0]


def as_messages(messages: DataFrame, tasks: int) -> DataFrame:
    """What the sink is to write of messages, each partition in its order."""
    given = F.from_json(F.coalesce("headers", F.lit("{}")), "map<string,string>")
    others = F.map_filter(given, lambda name, _: name != TRANSACTION_HEADER)
    which = F.create_map(F.lit(TRANSACTION_HEADER), F.col("transactionId"))
    headers = F.to_json(F.map_concat(others, which)).alias("headers")
    ordered = messages.repartition(tasks, "partition").sortWithinPartitions("partition", "offset")
    return ordered.select("partition", "payload", headers, "traceId")


def _app_id(config: Config) -> str:
    return f"replay:{config.name}"
