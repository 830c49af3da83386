"""Run pipelines in this process, without Spark and Java."""

# pyright: basic
from contextlib import AbstractContextManager
from typing import Any

from queen.pipelines.kinds import Job
from queen.pipelines.report import Report
from queen.pipelines.runs import report_of
from queen.pipelines.tasks import LOCAL


class LocalRunner:
    """Runs pipelines whose tasks are threads of this process."""

    def reporting(self, job: Job, config: Any, name: str) -> AbstractContextManager[Report]:  # noqa: ANN401 - its Config
        """Report one run."""
        return report_of(job, config, name)

    def run(self, job: Job, config: Any, report: Report) -> Any:  # noqa: ANN401 - its own
        """Run a pipeline. Returns its result."""
        return job.run(LOCAL, config, report=report)
