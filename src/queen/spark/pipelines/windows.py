"""
Aggregate a queue over time windows into another queue, exactly once.

Messages close a window, not the clock: when a later message has moved the watermark past the end
of a window, the next batch writes its result. The source stores the bounds of all batches,
including an empty one after the last message, and Spark adds none. So a query that lost its
checkpoint repeats the same batches, and publishes each of them only once.
"""

# pyright: basic
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from queen import errors
from queen.arrow.database import Connection
from queen.arrow.planning import find_queue
from queen.arrow.replicas import check_replica
from queen.pipelines.report import Report
from queen.redacted import redacted
from queen.spark import register
from queen.spark.pipelines.fields import as_json, as_partition, column, explained, fields_of
from queen.spark.pipelines.queries import check_declaration, declare, settings, with_settings
from queen.spark.runner.listener import listening

Text = Annotated[str, Meta(min_length=1)]
_BOUNDS: Final = ("start", "end")


class Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The window: ``tumbling``, ``sliding`` with ``every``, or ``session`` with its gap."""

    tumbling: Text | None = None
    sliding: Text | None = None
    every: Text | None = None
    session: Text | None = None

    def __post_init__(self) -> None:
        given = [each for each in (self.tumbling, self.sliding, self.session) if each is not None]
        if len(given) != 1 or (self.sliding is None) is not (self.every is None):
            raise ValueError("window: set one of tumbling, sliding with every, or session")

    def column(self, time: Column) -> Column:
        if self.session is not None:
            return F.session_window(time, self.session)
        if self.sliding is not None:
            return F.window(time, self.sliding, self.every)
        assert self.tumbling is not None
        return F.window(time, self.tumbling)


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The declaration of a window, in Python or YAML."""

    name: Annotated[Text, Meta(description="Name under which its progress is stored.")]
    from_queue: Annotated[Text, Meta(description="Queue to read.")] = msgspec.field(name="from")
    to_queue: Annotated[Text, Meta(description="Queue for the results.")] = msgspec.field(name="to")
    window: Annotated[
        Shape,
        Meta(
            description="One of {tumbling: 1 minute}, {sliding: 1 hour, every: 1 minute}, "
            "{session: 30 seconds}."
        ),
    ]
    aggregate: Annotated[
        dict[str, Text],
        Meta(description="SQL expressions by the name of the result field."),
    ]
    schema: Annotated[
        Text | None,
        Meta(
            description="Payload fields as DDL. "
            "A field with the name of a column hides that column."
        ),
    ] = None
    time: Annotated[
        Text,
        Meta(description="Field with the event time. Messages without it are ignored."),
    ] = "createdAt"
    watermark: Annotated[
        Text,
        Meta(
            description="How late a message may arrive and still count. "
            "Later messages are dropped and counted."
        ),
    ] = "1 minute"
    by: Annotated[tuple[Text, ...], Meta(description="Fields to group by.")] = ()
    where: Annotated[
        Text | None,
        Meta(description="A SQL expression. Messages for which it is not true are ignored."),
    ] = None
    mode: Annotated[
        Literal["append", "update"],
        Meta(
            description="`append` writes each result once, when it is final. "
            "`update` writes every change."
        ),
    ] = "append"
    partition: Annotated[
        Text | None,
        Meta(description="Field with the partition of a result. Default: the first of `by`."),
    ] = None
    checkpoint: Annotated[Text, Meta(description="Directory or URI for the state of the stream.")]
    dsn: Annotated[Text | None, Meta(description="URL of the database. Default: DATABASE_URL.")] = (
        None
    )
    read_dsn: Annotated[
        Text | None,
        Meta(description="URL of a replica to read from. Messages are read once it has them."),
    ] = None
    every: Annotated[Text, Meta(description="Time between batches.")] = "10 seconds"
    once: Annotated[bool, Meta(description="End when all existing messages are read.")] = False
    max_messages_per_trigger: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="Messages per batch, approximately. Default: 1000000."),
    ] = None
    tasks: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | None,
        Meta(
            description="Tasks per batch, each with a part of the state. The checkpoint keeps the "
            "number of the first run. Default: the session's cores, at most 64."
        ),
    ] = None

    def __repr__(self) -> str:
        return redacted(self)

    def __post_init__(self) -> None:
        if not self.aggregate:
            raise ValueError("aggregate: set at least one expression")
        if self.window.session is not None and self.mode == "update":
            raise ValueError("mode: use append, because a session has no result before it ends")
        if self.window.session is not None and not self.by:
            raise ValueError("by: name a field, because a session needs a key")
        names = [*_BOUNDS, *self.by, *self.aggregate]
        if len({name.lower() for name in names}) < len(names):
            raise ValueError("aggregate and by: names must be unique, and not start or end")
        if self.partition is not None and self.partition not in names:
            raise ValueError(f"partition: the result has no field {self.partition}")


def load(text: str | bytes) -> Config:
    """Parse a declaration in YAML. Raises InvalidOption."""
    try:
        return msgspec.yaml.decode(text, type=Config)
    except (msgspec.DecodeError, ValueError) as error:
        raise errors.InvalidOption(f"the window is invalid: {error}") from error


def summed(messages: DataFrame, config: Config) -> DataFrame:
    """
    Return the results of a window: a pure transformation, of a stream or a batch.

    Raises InvalidOption for missing columns, and for expressions that Spark rejects.
    """
    with explained("window", config.name):
        fields = fields_of(messages, config.schema)
        for option, names in (("by", config.by), ("time", (config.time,))):
            for name in names:
                if name not in fields.columns:
                    there = ", ".join(fields.columns)
                    raise errors.InvalidOption(
                        f"{option}: {name} does not exist; the columns are {there}"
                    )
        if config.where is not None:
            fields = fields.where(config.where)
        window = config.window.column(column(config.time)).alias("window")
        sums = [F.expr(text).alias(name) for name, text in config.aggregate.items()]
        return (
            fields.withWatermark(config.time, config.watermark)
            .groupBy(window, *map(column, config.by))
            .agg(*sums)
            .select(
                *(F.col(f"window.{bound}").alias(bound) for bound in _BOUNDS),
                *map(column, (*config.by, *config.aggregate)),
            )
        )


def as_messages(results: DataFrame, config: Config) -> DataFrame:
    """Convert results to messages: JSON, and the partition of each."""
    name = config.partition or (config.by[0] if config.by else None)
    partition = F.lit(None) if name is None else column(name)
    return results.select(as_partition(partition), as_json(results.columns))


def check(connection: Connection, config: Config) -> None:
    """Check that both queues exist."""
    for queue in (config.from_queue, config.to_queue):
        find_queue(connection, queue)
    check_replica(connection, config.read_dsn)
    check_declaration(connection, "window", config.name, config)


def start(spark: SparkSession, config: Config) -> StreamingQuery:
    """Start the query without waiting for it. Raises InvalidOption before it reads."""
    register(spark)
    remembered = {"txnAppId": f"window:{config.name}"}
    if config.dsn is not None:
        remembered["dsn"] = config.dsn
    source = {**remembered, "queue": config.from_queue, "trailingBatch": "true"}
    if config.read_dsn is not None:
        source["readDsn"] = config.read_dsn
    if config.max_messages_per_trigger is not None:
        source["maxMessagesPerTrigger"] = str(config.max_messages_per_trigger)
    messages = spark.readStream.format("queen").options(**source).load()
    results = as_messages(summed(messages, config), config)
    writer = _writer(results, config, {**remembered, "queue": config.to_queue})
    writer = writer.option("checkpointLocation", config.checkpoint).queryName(config.name)
    declare("window", config)
    chosen = settings(spark, config.tasks)
    with explained("window", config.name), with_settings(spark, chosen):
        if config.once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=config.every).start()


def run(spark: SparkSession, config: Config, *, report: Report | None = None) -> None:
    """Aggregate until the query ends or fails."""
    with nullcontext() if report is None else listening(spark, report):
        query = start(spark, config)
        try:
            query.awaitTermination()
        finally:
            query.stop()


def _writer(results: DataFrame, config: Config, options: Mapping[str, str]) -> DataStreamWriter:
    """Write each batch of results to the queue, with its number."""
    if config.mode == "append":
        return results.writeStream.format("queen").options(**options).outputMode("append")

    # Python sinks don't support mode update, but writing a batch with its number is equivalent.
    def write(changed: DataFrame, batch: int) -> None:
        register(changed.sparkSession)
        writer = changed.write.format("queen").mode("append")
        writer.options(**options, txnVersion=str(batch)).save()

    return results.writeStream.foreachBatch(write).outputMode("update")
