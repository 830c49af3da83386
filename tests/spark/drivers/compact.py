"""A driver that compacts with injected faults in its tasks."""

# pyright: basic
import sys
from pathlib import Path

import msgspec

from queen.pipelines import compact
from tests.spark.driver import say, step
from tests.spark.drivers import session
from tests.spark.faults import Faults, faulty_run_tasks


def main(master: str, text: str, faults: str) -> None:
    spark = session(master, "compact")
    compact.run_tasks = faulty_run_tasks(compact.run_tasks, Faults(Path(faults)))
    step("started")
    progress = compact.run(spark, msgspec.json.decode(text, type=compact.Config))
    say(replaced=progress.replaced, made=progress.made, rows=progress.rows)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
