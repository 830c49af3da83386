"""A driver that computes rollups with injected faults in its tasks."""

# pyright: basic

import sys
from pathlib import Path

import msgspec

from queen.spark.pipelines import rollup
from tests.spark.driver import say, step
from tests.spark.drivers import session
from tests.spark.faults import Faults, faulty_read, faulty_store


def main(master: str, text: str, folder: str) -> None:
    spark = session(master, "rollup")
    faults = Faults(Path(folder))
    rollup._read = faulty_read(rollup._read, faults)
    rollup._store = faulty_store(rollup._store, faults)
    step("started")
    rolled = rollup.run(spark, msgspec.json.decode(text, type=rollup.Config))
    say(minutes=rolled.minutes, hours=rolled.hours, days=rolled.days)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
