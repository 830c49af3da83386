"""
Transform the messages of a queue by one SQL statement, into another queue, exactly once.

Each batch of messages is a view, and the rows that the statement returns become messages. The
source stores the bounds of all batches, and the sink the number of the last one. So a query that
lost its checkpoint repeats the same batches, and publishes each of them only once.
"""

# pyright: basic
from contextlib import nullcontext
from typing import Annotated, Final

import msgspec
from msgspec import Meta
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.streaming.query import StreamingQuery

from queen.arrow.database import Connection
from queen.arrow.planning import find_queue
from queen.arrow.replicas import check_replica
from queen.pipelines.report import Report
from queen.redacted import redacted
from queen.spark import register
from queen.spark.pipelines.fields import as_json, as_partition, column, explained, fields_of
from queen.spark.pipelines.queries import check_declaration, declare, settings, with_settings
from queen.spark.runner.listener import listening

VIEW: Final = "messages"
"""The view that the statement reads."""
_OWN: Final = ("headers", "traceId")
"""Columns of the result that become those of the message."""

Text = Annotated[str, Meta(min_length=1)]


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The queues, and the statement."""

    name: Annotated[Text, Meta(description="Name under which its progress is stored.")]
    from_queue: Annotated[Text, Meta(description="Queue to read.")] = msgspec.field(name="from")
    to_queue: Annotated[Text, Meta(description="Queue for the results.")] = msgspec.field(name="to")
    sql: Annotated[
        Text,
        Meta(
            description="A SELECT over the view `messages`. Its columns become the payload, "
            "except partition, headers and traceId."
        ),
    ]
    schema: Annotated[
        Text | None,
        Meta(
            description="Payload fields as DDL. "
            "A field with the name of a column hides that column."
        ),
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

    def __repr__(self) -> str:
        return redacted(self)


def check(connection: Connection, config: Config) -> None:
    """Check that both queues exist."""
    for queue in (config.from_queue, config.to_queue):
        find_queue(connection, queue)
    check_replica(connection, config.read_dsn)
    check_declaration(connection, "transform", config.name, config)


def transformed(spark: SparkSession, messages: DataFrame, config: Config) -> DataFrame:
    """Return the rows of the statement as messages. Raises InvalidOption."""
    with explained("transform", config.name):
        fields_of(messages, config.schema).createOrReplaceTempView(VIEW)
        results = spark.sql(config.sql)
        own = [name for name in _OWN if name in results.columns]
        names = [name for name in results.columns if name not in ("partition", *own)]
        has_payload = names == ["payload"] and dict(results.dtypes)["payload"] == "string"
        partition = column("partition") if "partition" in results.columns else F.lit(None)
        payload = column("payload") if has_payload else as_json(names)
        return results.select(as_partition(partition), payload, *map(column, own))


def start(spark: SparkSession, config: Config) -> StreamingQuery:
    """Start the query without waiting for it. Raises InvalidOption before it reads."""
    register(spark)
    remembered = {"txnAppId": f"transform:{config.name}"}
    if config.dsn is not None:
        remembered["dsn"] = config.dsn
    source = {**remembered, "queue": config.from_queue}
    if config.read_dsn is not None:
        source["readDsn"] = config.read_dsn
    if config.max_messages_per_trigger is not None:
        source["maxMessagesPerTrigger"] = str(config.max_messages_per_trigger)
    messages = spark.readStream.format("queen").options(**source).load()
    writer = transformed(spark, messages, config).writeStream.format("queen").outputMode("append")
    writer = writer.options(**remembered, queue=config.to_queue).queryName(config.name)
    writer = writer.option("checkpointLocation", config.checkpoint)
    declare("transform", config)
    with explained("transform", config.name), with_settings(spark, settings(spark)):
        if config.once:
            return writer.trigger(availableNow=True).start()
        return writer.trigger(processingTime=config.every).start()


def run(spark: SparkSession, config: Config, *, report: Report | None = None) -> None:
    """Transform until the query ends or fails."""
    with nullcontext() if report is None else listening(spark, report):
        query = start(spark, config)
        try:
            query.awaitTermination()
        finally:
            query.stop()
