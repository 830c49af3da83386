"""Progress of a pipeline: one updated line on a terminal, else one line per batch."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from queen.cli.support.output import say

if TYPE_CHECKING:
    from queen.spark.pipelines.report import Report


class Progress:
    """Show the progress of a pipeline while the block runs."""

    def __init__(self, report: "Report") -> None:
        self._report = report
        self._began = time.monotonic()
        self._live: Any = None
        self._last = ""

    def __enter__(self) -> Self:
        if not sys.stderr.isatty():
            self._report.watch = self._print_line
            return self
        from rich.console import Console
        from rich.live import Live

        self._live = Live(self, console=Console(stderr=True), refresh_per_second=4, transient=True)
        self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._report.watch = None
        if self._live is not None:
            self._live.stop()
            say(self.text)

    def _print_line(self) -> None:
        """Print a line, but only one while the pipeline is idle."""
        state = self._report.figures.state
        if not state == self._last == "idle":
            say(self.text)
        self._last = state

    def __rich__(self) -> str:
        seconds = int(time.monotonic() - self._began)
        return f"[{seconds // 60}:{seconds % 60:02}] ".replace("[", "\\[") + self.text

    @property
    def text(self) -> str:
        """The name of the pipeline and the metrics that it has."""
        report, figures = self._report, self._report.figures
        parts = [figures.state]
        if figures.batch_id is not None:
            parts.append(f"batch {figures.batch_id}")
        if figures.batch_millis is not None:
            parts.append(f"{figures.batch_millis / 1000:,.1f} s")
        if figures.rows is not None:
            parts.append(f"{figures.rows:,} rows")
        if figures.rows_per_second is not None:
            parts.append(f"{figures.rows_per_second:,.0f} rows/s")
        if report.lag_messages is not None:
            parts.append(f"lag {report.lag_messages:,}")
        if report.lag_seconds is not None:
            parts.append(f"oldest {report.lag_seconds:,.0f} s")
        return f"{report.name}: {', '.join(parts)}"
