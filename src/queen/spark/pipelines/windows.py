"""
Messages of a queue summed up in windows of time, from queue to queue, exactly once.

A window is closed by the messages behind it, not by the clock: its result is written when a later
message has moved the watermark past its end, in the batch after. Batches are those of the source,
which writes them down, an empty one after the last among them; Spark makes none of its own. So a
query that lost its checkpoint makes the same batches again, and publishes none of them twice.
"""

# pyright: basic
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Annotated, Final, Literal

import msgspec
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from queen import errors
from queen.redacted import redacted
from queen.spark import register
from queen.spark.pipelines.listener import listening
from queen.spark.pipelines.report import Report

Text = Annotated[str, msgspec.Meta(min_length=1)]
_BOUNDS: Final = ("start", "end")
_KEPT: Final = ("partition", "offset", "createdAt")
"""Of a message, beside the fields of its payload."""
_EMPTY_BATCHES: Final = "spark.sql.streaming.noDataMicroBatches.enabled"
_JSON: Final = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "ignoreNullFields": "false"}


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

    def column(self, time: Column) -> Column:
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
    """The fields of payloads, as DDL; one that is called as a column hides the column."""
    time: Text = "createdAt"
    """The field that says when a message happened; without it a message does not count."""
    watermark: Text = "1 minute"
    """How late a message may come and still count; later ones are dropped, and said to be."""
    by: tuple[Text, ...] = ()
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
    max_messages_per_trigger: Annotated[int, msgspec.Meta(ge=1)] | None = None

    def __repr__(self) -> str:
        return redacted(self)

    def __post_init__(self) -> None:
        if not self.aggregate:
            raise ValueError("aggregate: nothing is summed up")
        if self.window.session is not None and self.mode == "update":
            raise ValueError("mode: a session has no result before it ends: append")
        if self.window.session is not None and not self.by:
            raise ValueError("by: a session is that of something: name a field")
        names = [*_BOUNDS, *self.by, *self.aggregate]
        if len({name.lower() for name in names}) < len(names):
            raise ValueError("aggregate and by: a name is there twice; start and end are taken")
        if self.partition is not None and self.partition not in names:
            raise ValueError(f"partition: no field of a result is called {self.partition}")


def load(text: str | bytes) -> Config:
    """A declaration in YAML. Raises InvalidOption, which says what is wrong with it."""
    try:
        return msgspec.yaml.decode(text, type=Config)
    except (msgspec.DecodeError, ValueError) as error:
        raise errors.InvalidOption(f"the window is not understood: {error}") from error


def summed(messages: DataFrame, config: Config) -> DataFrame:
    """
    The results of a window: a pure transformation, of a stream as of a batch.

    Raises InvalidOption for what the messages don't have, or Spark doesn't understand.
    """
    with _explained(config):
        fields = _fields(messages, config)
        for option, names in (("by", config.by), ("time", (config.time,))):
            for name in names:
                if name not in fields.columns:
                    there = ", ".join(fields.columns)
                    raise errors.InvalidOption(f"{option}: there is no {name}; there are {there}")
        if config.where is not None:
            fields = fields.where(config.where)
        window = config.window.column(_column(config.time)).alias("window")
        sums = [F.expr(text).alias(name) for name, text in config.aggregate.items()]
        return (
            fields.withWatermark(config.time, config.watermark)
            .groupBy(window, *map(_column, config.by))
            .agg(*sums)
            .select(
                *(F.col(f"window.{bound}").alias(bound) for bound in _BOUNDS),
                *map(_column, (*config.by, *config.aggregate)),
            )
        )


def as_messages(results: DataFrame, config: Config) -> DataFrame:
    """Results as messages: JSON, and the partition that each belongs to."""
    name = config.partition or (config.by[0] if config.by else None)
    partition = F.lit(None) if name is None else _column(name)
    return results.select(
        # There is no partition without a name: what has none goes where others without one go.
        F.nullif(partition.cast("string"), F.lit("")).alias("partition"),
        F.to_json(F.struct(*map(_column, results.columns)), _JSON).alias("payload"),
    )


def start(spark: SparkSession, config: Config) -> StreamingQuery:
    """Begin, and do not wait. Raises InvalidOption before anything is read."""
    register(spark)
    remembered = {"txnAppId": f"window:{config.name}"}
    if config.dsn is not None:
        remembered["dsn"] = config.dsn
    source = {**remembered, "queue": config.from_queue, "trailingBatch": "true"}
    if config.max_messages_per_trigger is not None:
        source["maxMessagesPerTrigger"] = str(config.max_messages_per_trigger)
    messages = spark.readStream.format("queen").options(**source).load()
    results = as_messages(summed(messages, config), config)
    writer = _writer(results, config, {**remembered, "queue": config.to_queue})
    writer = writer.option("checkpointLocation", config.checkpoint).queryName(config.name)
    with _explained(config), _without_empty_batches(spark):
        if config.once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=config.every).start()


def run(spark: SparkSession, config: Config, *, report: Report | None = None) -> None:
    """Sum up until the query ends or fails."""
    with nullcontext() if report is None else listening(spark, report):
        query = start(spark, config)
        try:
            query.awaitTermination()
        finally:
            query.stop()


def _writer(results: DataFrame, config: Config, options: Mapping[str, str]) -> DataStreamWriter:
    """To the queue, a batch of results as one write with its number."""
    if config.mode == "append":
        return results.writeStream.format("queen").options(**options).outputMode("append")

    # Spark has no mode update for sinks in Python; a write of a batch is as good, by its version.
    def write(changed: DataFrame, batch: int) -> None:
        register(changed.sparkSession)
        writer = changed.write.format("queen").mode("append")
        writer.options(**options, txnVersion=str(batch)).save()

    return results.writeStream.foreachBatch(write).outputMode("update")


def _fields(messages: DataFrame, config: Config) -> DataFrame:
    """What expressions can name."""
    if config.schema is None:
        return messages
    parsed = messages.select(*_KEPT, F.from_json("payload", config.schema).alias("parsed"))
    hidden = {name.lower() for name in parsed.select("parsed.*").columns}
    return parsed.select(*(name for name in _KEPT if name.lower() not in hidden), "parsed.*")


def _column(name: str) -> Column:
    """A column by its name, whatever is in it."""
    return F.col(f"`{name.replace('`', '``')}`")


@contextmanager
def _explained(config: Config) -> Iterator[None]:
    """What Spark says of a declaration, as a sentence and an error of ours."""
    try:
        yield
    except (AnalysisException, IllegalArgumentException) as error:
        if "queen.errors." in str(error):
            raise  # The source's or the sink's own.
        said = str(error).strip().partition("\n")[0].partition(" SQLSTATE:")[0]
        raise errors.InvalidOption(f"the window {config.name} is not understood: {said}") from error


@contextmanager
def _without_empty_batches(spark: SparkSession) -> Iterator[None]:
    """For a query that starts meanwhile, and takes the settings of its session with it."""
    before = spark.conf.get(_EMPTY_BATCHES)
    spark.conf.set(_EMPTY_BATCHES, "false")
    try:
        yield
    finally:
        spark.conf.set(_EMPTY_BATCHES, before or "true")
