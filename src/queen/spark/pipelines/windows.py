"""
Messages of a queue summed up in windows of time, from queue to queue, exactly once.

A window is closed by the messages behind it, not by the clock: its result is written when a later
message has moved the watermark past its end. So a query that lost its checkpoint makes the same
batches again, and a batch that was published is not published twice.
"""

# pyright: basic
from collections.abc import Callable, Mapping
from typing import Annotated, Final, Literal

import msgspec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from queen import errors
from queen.spark import register

Text = Annotated[str, msgspec.Meta(min_length=1)]
_BOUNDS: Final = ("start", "end")
_NO_EMPTY_BATCHES: Final = "spark.sql.streaming.noDataMicroBatches.enabled"


class Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of three: ``tumbling``, ``sliding`` with ``every``, ``session`` by its gap."""

    tumbling: Text | None = None
    sliding: Text | None = None
    every: Text | None = None
    session: Text | None = None

    def __post_init__(self) -> None:
        given = [each for each in (self.tumbling, self.sliding, self.session) if each is not None]
        if len(given) != 1 or (self.sliding is None) is not (self.every is None):
            raise ValueError("window: one of tumbling, sliding with every, or session")

    def column(self, time: str) -> Column:
        if self.session is not None:
            return F.session_window(time, self.session)
        if self.sliding is not None:
            return F.window(time, self.sliding, self.every)
        assert self.tumbling is not None
        return F.window(time, self.tumbling)


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A window as it is declared, in Python or in YAML."""

    name: Text
    """What its progress is remembered by."""
    from_queue: Text = msgspec.field(name="from")
    to_queue: Text = msgspec.field(name="to")
    window: Shape
    aggregate: dict[str, Text]
    """A field of the result each, as an expression of SQL."""
    schema: Text | None = None
    """The fields of payloads, as DDL."""
    time: Text = "createdAt"
    """The field that says when a message happened."""
    watermark: Text = "1 minute"
    """How late a message may come and still count; later ones are dropped, and said to be."""
    by: tuple[str, ...] = ()
    where: Text | None = None
    mode: Literal["append", "update"] = "append"
    """``append``: each result once, when it is final; ``update``: whenever it changes."""
    partition: Text | None = None
    """The field that names the partition of a result; the first of ``by`` if not given."""
    checkpoint: Text
    dsn: Text | None = None
    every: Text = "10 seconds"
    """How often a batch is made."""
    once: bool = False
    """End when all that is there has been read."""
    max_messages_per_trigger: int | None = None

    def __post_init__(self) -> None:
        if not self.aggregate:
            raise ValueError("aggregate: nothing is summed up")
        if self.window.session is not None and self.mode == "update":
            raise ValueError("mode: a session has no result before it ends: append")
        taken = {*self.by, *_BOUNDS} & {*self.aggregate}
        if taken or set(self.by) & set(_BOUNDS):
            raise ValueError("aggregate and by: a name is there twice; start and end are taken")


def load(text: str | bytes) -> Config:
    """A declaration in YAML. Raises InvalidOption, which says what is wrong with it."""
    try:
        return msgspec.yaml.decode(text, type=Config)
    except (msgspec.DecodeError, ValueError) as error:
        raise errors.InvalidOption(f"the window is not understood: {error}") from error


def summed(messages: DataFrame, config: Config) -> DataFrame:
    """The results of a window: a pure transformation, of a stream as of a batch."""
    fields = messages
    if config.schema is not None:
        parsed = F.from_json("payload", config.schema).alias("parsed")
        kept = ("partition", "offset", "createdAt")
        fields = messages.select(*kept, parsed).select(*kept, "parsed.*")
    if config.where is not None:
        fields = fields.where(config.where)
    late = fields.withWatermark(config.time, config.watermark)
    keys = [F.col(name) for name in config.by]
    sums = [F.expr(text).alias(name) for name, text in config.aggregate.items()]
    results = late.groupBy(config.window.column(config.time).alias("window"), *keys).agg(*sums)
    return results.select(
        F.col("window.start").alias("start"),
        F.col("window.end").alias("end"),
        *config.by,
        *config.aggregate,
    )


def as_messages(results: DataFrame, config: Config) -> DataFrame:
    """Results as messages: JSON, and the partition that each belongs to."""
    name = config.partition or (config.by[0] if config.by else None)
    partition = F.lit(None) if name is None else F.col(name)
    return results.select(
        partition.cast("string").alias("partition"),
        F.to_json(F.struct(*results.columns), {"timestampFormat": _INSTANT}).alias("payload"),
    )


_INSTANT: Final = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"


def start(spark: SparkSession, config: Config) -> StreamingQuery:
    """Begin, and do not wait."""
    register(spark)
    spark.conf.set(_NO_EMPTY_BATCHES, "false")
    remembered = {"txnAppId": f"window:{config.name}"}
    if config.dsn is not None:
        remembered["dsn"] = config.dsn
    source: Mapping[str, str] = {**remembered, "queue": config.from_queue}
    if config.max_messages_per_trigger is not None:
        source = {**source, "maxMessagesPerTrigger": str(config.max_messages_per_trigger)}
    messages = spark.readStream.format("queen").options(**source).load()
    writer = (
        as_messages(summed(messages, config), config)
        .writeStream.format("queen")
        .options(**remembered, queue=config.to_queue, checkpointLocation=config.checkpoint)
        .outputMode(config.mode)
        .queryName(config.name)
    )
    if config.once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=config.every).start()


def run(
    spark: SparkSession, config: Config, *, report: Callable[[StreamingQuery], None] | None = None
) -> None:
    """Sum up until the query ends or fails."""
    query = start(spark, config)
    if report is not None:
        report(query)
    query.awaitTermination()
