"""A driver that archives with injected faults in its tasks, and stops at each step."""

# pyright: basic
import sys
from pathlib import Path

import msgspec

from queen.pipelines import archive
from queen.pipelines.tasks import LOCAL, LocalEngine
from tests.spark.driver import say, step
from tests.spark.drivers import session
from tests.spark.faults import Faults, faulty_run_tasks


def main(master: str, text: str, faults: str) -> None:
    """``master``: of Spark, or empty for the engine local."""
    engine = session(master, "archive") if master else LOCAL
    archive.run_tasks = faulty_run_tasks(archive.run_tasks, Faults(Path(faults)))
    step("started")
    config = msgspec.json.decode(text, type=archive.Config)
    progress = archive.run(engine, config, report=lambda progress: step(progress.step))
    say(rows=progress.rows, batch=progress.batch_id)
    if not isinstance(engine, LocalEngine):
        engine.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
