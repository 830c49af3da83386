"""A driver that runs a window with injected faults in its source and sink."""

# pyright: basic

import sys
from pathlib import Path

import msgspec
from pyspark.errors import StreamingQueryException

from queen.spark.pipelines import windows
from tests.spark.driver import say, step
from tests.spark.drivers import session
from tests.spark.faults import faulty_queen


def main(master: str, text: str, faults: str) -> None:
    spark = session(master, "window")
    windows.register = lambda spark: spark.dataSource.register(faulty_queen(Path(faults)))
    step("started")
    failure = ""
    try:
        windows.run(spark, msgspec.json.decode(text, type=windows.Config))
    except StreamingQueryException as error:
        failure = str(error)
    say(failure=failure)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
