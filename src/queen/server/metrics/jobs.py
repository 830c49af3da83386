"""Sum up the reports of job workers for `/metrics`."""

import time
from typing import Final

from queen import telemetry
from queen.bounded import BoundedDict
from queen.meters import Heard, Histogram, Snapshot
from queen.telemetry import OTHER
from queen.wire.job_queues import WorkerReport

_FORGET_SECONDS: Final = 15.0
"""A worker without a report for this time has ended: it sends one every five seconds."""

Pair = tuple[str, str]


class JobMetrics:
    """Counts of the workers that report to this process."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts: dict[Pair, list[int]] = {}
        self._durations: dict[Pair, Histogram] = {}
        self._heard: dict[str, Heard] = {}
        self._numbers = BoundedDict[str, int](most)
        """The number of each worker's last report."""

    def add_report(self, report: WorkerReport) -> None:
        running: dict[str, int] = dict.fromkeys(report.queues, 0)
        for job in report.jobs:
            running[job.queue] = running.get(job.queue, 0) + job.running
        if self._is_new(report):
            self._count(report)
        if report.worker in self._heard or len(self._heard) < self._most:
            self._heard[report.worker] = Heard(report.worker, time.time(), running)

    def _is_new(self, report: WorkerReport) -> bool:
        """Whether a report was not counted yet. Reports without a number are always new."""
        last = self._numbers.get(report.worker, 0)
        self._numbers[report.worker] = max(last, report.number)
        return report.number == 0 or report.number > last

    def _count(self, report: WorkerReport) -> None:
        for job in report.jobs:
            pair = self._pair(job.queue, job.name)
            counts = self._counts.setdefault(pair, [0, 0, 0])
            for at, count in enumerate((job.completed, job.failed, job.retried)):
                counts[at] += count
            self._durations.setdefault(pair, Histogram()).add(job.bins, job.seconds)

    def _pair(self, queue: str, name: str) -> Pair:
        pair = (queue, name)
        return pair if pair in self._counts or len(self._counts) < self._most else (OTHER, OTHER)

    def add_to(self, snapshot: Snapshot) -> None:
        metrics = (telemetry.JOBS_COMPLETED, telemetry.JOBS_FAILED, telemetry.JOBS_RETRIED)
        for pair, counts in self._counts.items():
            for metric, count in zip(metrics, counts, strict=True):
                snapshot.add(metric, count, *pair)
        for pair, histogram in self._durations.items():
            snapshot.add_histogram(telemetry.JOB_DURATION, histogram, *pair)
        since = time.time() - _FORGET_SECONDS
        self._heard = {id_: each for id_, each in self._heard.items() if each.at >= since}
        snapshot.heard.extend(self._heard.values())
