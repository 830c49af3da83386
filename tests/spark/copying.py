"""A stream from one queue to another, in this process or in a separate driver."""

# pyright: basic

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import psycopg
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from queen import spark as queen_spark
from tests.spark import filling, oracle, processes
from tests.spark.cluster import Cluster
from tests.spark.driver import Driver
from tests.spark.faults import Faults, FaultySource
from tests.spark.place import Place

ARRIVE_SECONDS = 240
ANSWER_SECONDS = 280


class Copy(msgspec.Struct, frozen=True, kw_only=True):
    """From queue `a` to queue `b`."""

    dsn: str
    checkpoint: str
    faults: str | None = None
    """The directory of instructions, or None for the unchanged source and sink."""
    read: dict[str, str] = {}
    write: dict[str, str] = {}
    is_endless: bool = False

    def argument(self) -> str:
        """The argument on a driver's command line."""
        return msgspec.json.encode(self).decode()


def prepare(dsn: str, folder: Path, *, app_id: str | None = None, **read: str) -> Copy:
    """Two queues, and a copy with the faults of a directory."""
    filling.make(dsn, "a")
    filling.make(dsn, "b")
    faults = folder / "faults"
    faults.mkdir(parents=True)
    ours = {} if app_id is None else {"txnAppId": app_id}
    return Copy(
        dsn=dsn,
        checkpoint=str(folder / "checkpoint"),
        faults=str(faults),
        read={"maxMessagesPerTrigger": "400", "tasks": "1", **ours, **read},
        write=ours,
    )


def faults_of(copy: Copy) -> Faults:
    """The faults of a copy."""
    assert copy.faults is not None
    return Faults(Path(copy.faults))


def driver_of(place: Place, copy: Copy, **confs: str) -> Driver:
    """A separate driver, which waits in the step `started`."""
    return place.driver("copy", copy.argument(), settings=confs)


def begin(spark: SparkSession, copy: Copy) -> StreamingQuery:
    """Start the stream."""
    queen_spark.register(spark)
    spark.dataSource.register(FaultySource)
    name, ours = "queen", {"dsn": copy.dsn}
    if copy.faults is not None:
        name, ours = "queen_faulty", {**ours, "faults": copy.faults}
    rows = spark.readStream.format(name).options(**ours, queue="a", **copy.read).load()
    writer = rows.writeStream.format(name).options(**ours, queue="b", **copy.write)
    writer = writer.option("checkpointLocation", copy.checkpoint)
    if not copy.is_endless:
        writer = writer.trigger(availableNow=True)
    return writer.start()


def finish(query: StreamingQuery) -> str:
    """Wait until it has ended by itself, and return its error, or an empty string."""
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        return str(error)
    return ""


@contextmanager
def begun(place: Place, copy: Copy, **confs: str) -> Iterator[Callable[[], str]]:
    """
    Start the stream. The yielded function waits for its end. The block stops a stream without one.
    """
    if place.session is None:
        with driver_of(place, copy, **confs) as driver:
            driver.until("running" if copy.is_endless else "started")
            if not copy.is_endless:
                driver.go_on()
            yield lambda: _end(driver, copy)
        return
    query = begin(place.session, copy)

    def end() -> str:
        if copy.is_endless:
            query.stop()
        return finish(query)

    yield end


def _end(driver: Driver, copy: Copy) -> str:
    if copy.is_endless:
        driver.go_on()
    return driver.answer(ANSWER_SECONDS)["failure"]


def run(place: Place, copy: Copy) -> str:
    """Run it completely, and return its error, or an empty string."""
    with begun(place, copy) as end:
        return end()


def wait_until_held(faults: Faults, step: str, why: str = "") -> None:
    """Wait until a process has reached a step and waits there."""
    processes.wait(
        lambda: faults.is_held(step), ARRIVE_SECONDS, lambda: f"nobody came to {step}\n{why}"
    )


def kill_executor_at(cluster: Cluster, faults: Faults, step: str, driver: Driver) -> int:
    """SIGKILL the executor whose task is held at a step, with its children. Returns its PID."""
    wait_until_held(faults, step, driver.log)
    name, batch, task = step.split(".")
    (event, *_) = [each for each in faults.events(name, int(batch)) if each["task"] == int(task)]
    (found,) = [each for each in cluster.executors() if event["pid"] in processes.descendants(each)]
    processes.kill([found, *processes.descendants(found)])
    return found


def wait_until_arrived(dsn: str) -> None:
    """Wait until `b` has as many messages as `a`."""
    processes.wait(
        lambda: messages(dsn, "b") >= messages(dsn, "a"),
        ARRIVE_SECONDS,
        lambda: f"{messages(dsn, 'b')} of {messages(dsn, 'a')} messages have arrived",
    )


def assert_copied(dsn: str) -> int:
    """Check that `b` has the messages of `a`, and return their number."""
    return oracle.assert_same(oracle.digests(dsn, "a"), oracle.digests(dsn, "b"))


def messages(dsn: str, queue: str) -> int:
    return value(
        dsn,
        "select coalesce(sum(s.message_count), 0) from queen.segments s"
        " join queen.queues q on q.id = s.queue_id where q.name = %s",
        queue,
    )


def staged(dsn: str) -> int:
    """The number of segments that are staged and not published."""
    return value(dsn, "select count(*) from queen.staged")


def published(dsn: str) -> int:
    """The number of the last published batch."""
    return value(dsn, "select coalesce(max(version), -1) from queen.publications")


def value(dsn: str, statement: str, *arguments: object) -> int:
    """The single number that a statement returns."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute(statement.encode(), arguments).fetchone()
    assert row is not None
    return int(row[0])
