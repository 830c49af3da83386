"""Progress of a pipeline: one updated line on a terminal, else one line per batch."""

import sys
import time
from typing import TYPE_CHECKING, Any, Self

from queen.cli.support.output import say

if TYPE_CHECKING:
    from queen.pipelines.report import Report


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

    def __exit__(self, *_: object) -> None:
        self._report.watch = None
        if self._live is not None:
            self._live.stop()

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
        report, figures, lag = self._report, self._report.figures, self._report.lag
        millis = figures.batch_millis
        metrics = (
            ("batch {}", figures.batch_id),
            ("{:,.1f} s", None if millis is None else millis / 1000),
            ("{:,} rows", figures.rows),
            ("{:,.0f} rows/s", figures.rows_per_second or None),
            ("lag {:,}", lag.messages),
            ("oldest {:,.0f} s", lag.seconds),
        )
        parts = [text.format(value) for text, value in metrics if value is not None]
        state = figures.state
        if held := figures.held_back_by or report.held_back_by:
            state = "waiting" if state == "idle" else state
            parts.append(f"held back by {held}")
        return f"{report.name}: {', '.join([state, *parts])}"


class Outcome:
    """Print one sentence about a run when the block ends, unless the run failed."""

    def __init__(self) -> None:
        self.report: Report | None = None
        self.done: Any = None
        """The result of the pipeline, whose text is a sentence. None if it has none."""
        self.has_ended = False
        """Whether the pipeline ended by itself."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.report is not None and self.report.figures.state != "failed":
            say(self.text(self.report))

    def text(self, report: "Report") -> str:
        """The sentence. The report must be closed, because the last one has the lag at the end."""
        rows, late, lag = report.figures.rows, report.detail.get("dropped"), report.lag.messages
        parts = [
            "" if self.has_ended else "stopped",
            f"processed {rows or 0:,} messages" if self.done is None else str(self.done),
            f"dropped {late:,} late messages" if late else "",
            f"lag {lag:,}" if lag is not None else "",
        ]
        return f"{report.name}: {', '.join(filter(None, parts))}"
