"""A driver that archives with injected faults in its tasks, and stops at each step."""

# pyright: basic
import sys
from pathlib import Path

import msgspec

from queen.spark.pipelines import archive
from tests.spark.driver import say, step
from tests.spark.drivers import session
from tests.spark.faults import Faults, faulty_run_tasks


def main(master: str, text: str, faults: str) -> None:
    spark = session(master, "archive")
    archive.run_tasks = faulty_run_tasks(archive.run_tasks, Faults(Path(faults)))
    step("started")
    config = msgspec.json.decode(text, type=archive.Config)
    progress = archive.run(spark, config, report=lambda progress: step(progress.step))
    say(rows=progress.rows, batch=progress.batch_id)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
