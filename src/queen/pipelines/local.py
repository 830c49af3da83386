"""Run pipelines in this process, without Spark and Java."""

# pyright: basic
from contextlib import AbstractContextManager
from typing import Any

from queen.pipelines.kinds import Job
from queen.pipelines.report import Report
from queen.pipelines.runs import report_of
from queen.pipelines.tasks import LOCAL, LocalEngine


class LocalRunner:
    """Runs pipelines whose tasks are threads of this process."""

    ui_url: str | None = None

    def engine(self, *, has_query: bool) -> LocalEngine:
        """Return the engine of a run."""
        del has_query
        return LOCAL

    def stop(self) -> None:
        """Let running tasks end."""

    def reporting(self, job: Job, config: Any, name: str) -> AbstractContextManager[Report]:  # noqa: ANN401 - its Config
        """Report one run."""
        return report_of(job, config, name)

    def run(self, job: Job, config: Any, report: Report) -> Any:  # noqa: ANN401 - its own
        """Run a pipeline. Returns its result."""
        return job.run(LOCAL, config, report=report)
