"""A driver that replays with injected faults in the sink, and stops after each piece."""

# pyright: basic

import sys
from pathlib import Path

import msgspec

from queen.spark.pipelines import replay
from tests.spark.driver import say, step
from tests.spark.drivers import session
from tests.spark.faults import faulty_queen


def main(master: str, text: str, faults: str) -> None:
    spark = session(master, "replay")
    replay.register = lambda spark: spark.dataSource.register(faulty_queen(Path(faults)))
    step("started")
    config = msgspec.json.decode(text, type=replay.Config)
    progress = replay.run(spark, config, report=lambda each: step(f"piece-{each.batch_id}"))
    say(rows=progress.rows, pieces=progress.batches)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
