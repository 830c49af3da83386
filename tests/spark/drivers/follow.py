"""A driver that writes each batch of a queue of several databases to a file."""

# pyright: basic

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.query import StreamingQuery

from queen import spark as queen_spark
from tests.spark.copying import finish
from tests.spark.driver import say, step
from tests.spark.drivers import session


def main(master: str, given: str) -> None:
    spark = session(master, "follow")
    queen_spark.register(spark)
    config = json.loads(given)
    folder = Path(config["folder"])
    step("started")

    def write(batch: DataFrame, number: int) -> None:
        rows: list[Row] = batch.select("partition", "offset", "payload").collect()
        # Only the order within a partition is always the same.
        rows.sort(key=lambda row: row["partition"])
        text = json.dumps([[row["partition"], row["offset"], row["payload"]] for row in rows])
        path = folder / f"{number}.json"
        if path.exists():
            step(f"repeated {number}")
            # A sink that skips a batch which it has written would lose or repeat messages.
            assert path.read_text() == text, f"batch {number} has other messages"
            return
        made = folder / f"{number}.tmp"
        made.write_text(text)
        made.rename(path)
        step("written")

    def start(*, is_endless: bool) -> StreamingQuery:
        rows = spark.readStream.format("queen").options(**config["options"]).load()
        writer = rows.writeStream.foreachBatch(write)
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        return (writer if is_endless else writer.trigger(availableNow=True)).start()

    failure = finish(start(is_endless=config["isEndless"]))
    say(failure=failure)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
