"""A driver that copies one or more queues, one after the other, each with a stream."""

# pyright: basic

import sys
import time

import msgspec

from tests.spark.copying import Copy, begin, finish
from tests.spark.driver import say, step
from tests.spark.drivers import session


def main(master: str, *copies: str) -> None:
    spark = session(master, "copy")
    step("started")
    for each in copies:
        copy = msgspec.json.decode(each, type=Copy)
        began = time.monotonic()
        query = begin(spark, copy)
        if copy.is_endless:
            step("running")
            query.stop()
        failure = finish(query)
        say(failure=failure, seconds=time.monotonic() - began)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
