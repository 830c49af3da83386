"""Run pipelines in this process, without Spark and Java."""

# pyright: basic
from contextlib import AbstractContextManager
from typing import Any, Final

from queen import errors
from queen.pipelines.kinds import Job
from queen.pipelines.report import Report
from queen.pipelines.runs import report_of
from queen.pipelines.tasks import LOCAL

KINDS: Final = ("archive", "compact")
"""Pipelines that do not need Spark."""


class LocalRunner:
    """Runs pipelines whose tasks are threads of this process."""

    def __init__(self, job: Job) -> None:
        if job.kind not in KINDS:
            raise errors.InvalidOption(
                f"a pipeline {job.kind} needs Spark: the engine local runs {' and '.join(KINDS)}"
            )

    def reporting(self, job: Job, config: Any, name: str) -> AbstractContextManager[Report]:  # noqa: ANN401 - its Config
        """Report one run."""
        return report_of(job, config, name)

    def run(self, job: Job, config: Any, report: Report) -> Any:  # noqa: ANN401 - its own
        """Run a pipeline. Returns its result."""
        return job.run(LOCAL, config, report=report)
