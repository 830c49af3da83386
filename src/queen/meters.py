"""Metrics in memory: counters, gauges and histograms, merged and rendered for Prometheus."""

import math
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping
from typing import Final

import msgspec

from queen.telemetry import FOR_ALL, JOBS_RUNNING, METRICS, WORKERS, Metric

_LOG2: Final = math.log2
_LOWEST: Final = 52
"""Bin number n ends at 2^((n - 52) / 4) seconds: bin 0 at 0.12 ms, bin 127 at five days."""
_LAST: Final = 127

Labels = tuple[str, ...]


def upper(bin_: int) -> float:
    """Return the largest value of a bin."""
    return 2.0 ** ((bin_ - _LOWEST) / 4)


class Histogram:
    """
    Counts in bins, four per octave.

    Two histograms can be added, and percentiles are accurate to 20 %.
    """

    __slots__ = ("bins", "total")

    def __init__(self, bins: dict[int, int] | None = None, total: float = 0.0) -> None:
        self.bins: dict[int, int] = defaultdict(int, bins or {})
        self.total = total

    def observe(self, value: float, count: int = 1) -> None:
        """Count a value ``count`` times."""
        bin_ = math.ceil(4 * _LOG2(value)) + _LOWEST if value > 0.000123 else 0
        if bin_ > _LAST:
            bin_ = _LAST
        self.bins[bin_] += count
        self.total += value * count

    @property
    def count(self) -> int:
        return sum(self.bins.values())

    def add(self, bins: Mapping[int, int], total: float = 0.0) -> None:
        for bin_, count in bins.items():
            self.bins[bin_] += count
        self.total += total

    def percentile(self, share: float) -> float | None:
        """Return the upper end of the bin that holds this percentile; None without values."""
        wanted = self.count * share
        if not wanted:
            return None
        seen = 0
        for bin_ in sorted(self.bins):
            seen += self.bins[bin_]
            if seen >= wanted:
                return upper(bin_)
        return upper(max(self.bins))


class Value(msgspec.Struct, frozen=True, array_like=True):
    """A counter or gauge."""

    name: str
    labels: Labels
    value: float


class Bins(msgspec.Struct, frozen=True, array_like=True):
    """A histogram."""

    name: str
    labels: Labels
    bins: dict[int, int]
    total: float


class Heard(msgspec.Struct, frozen=True, array_like=True):
    """A job worker, the time of its last report, and the number of jobs it runs per queue."""

    worker: str
    at: float
    running: dict[str, int]


class Snapshot(msgspec.Struct, kw_only=True):
    """The metrics of one process, or of several together."""

    values: list[Value] = msgspec.field(default_factory=list[Value])
    histograms: list[Bins] = msgspec.field(default_factory=list[Bins])
    recent: float = 0.0
    """Messages pushed per second, over the recent window."""
    heard: list[Heard] = msgspec.field(default_factory=list[Heard])
    """Job workers. A worker may report to a different process each time."""

    def add(self, metric: Metric, value: float, *labels: str) -> None:
        self.values.append(Value(metric.name, labels, value))

    def add_histogram(self, metric: Metric, histogram: Histogram, *labels: str) -> None:
        self.histograms.append(Bins(metric.name, labels, dict(histogram.bins), histogram.total))

    def of(self, metric: Metric, *labels: str) -> float:
        """Sum a metric over all labels that begin with these."""
        return sum(
            each.value
            for each in self.values
            if each.name == metric.name and each.labels[: len(labels)] == labels
        )

    def count_heard(self) -> None:
        """Add the gauges of job workers, after everything is merged."""
        workers: dict[str, int] = {}
        running: dict[str, int] = {}
        for each in self.heard:
            for queue, count in each.running.items():
                workers[queue] = workers.get(queue, 0) + 1
                running[queue] = running.get(queue, 0) + count
        for queue, count in workers.items():
            self.add(WORKERS, count, queue)
            self.add(JOBS_RUNNING, running[queue], queue)
        self.heard = []

    def owners(self, label: str) -> set[str]:
        """Return the queues or pipelines in this snapshot, depending on the label."""
        return {
            each.labels[_BY_NAME[each.name].labels.index(label)]
            for each in (*self.values, *self.histograms)
            if _BY_NAME[each.name].owner == label
        }

    def seen_by(self, visible: Mapping[str, Container[str]]) -> "Snapshot":
        """Keep the metrics of these queues and pipelines, and those that every caller may see."""

        def is_seen(each: Value | Bins) -> bool:
            metric = _BY_NAME[each.name]
            if metric.owner is None:
                return metric in FOR_ALL
            return each.labels[metric.labels.index(metric.owner)] in visible[metric.owner]

        return Snapshot(
            values=[each for each in self.values if is_seen(each)],
            histograms=[each for each in self.histograms if is_seen(each)],
        )

    def lasting(self) -> "Snapshot":
        """Keep counters and histograms, and drop gauges, because the process has ended."""
        return Snapshot(
            values=[each for each in self.values if _BY_NAME[each.name].kind == "counter"],
            histograms=self.histograms,
        )


_BY_NAME: Final = {metric.name: metric for metric in METRICS}


def merged(snapshots: Iterable[Snapshot]) -> Snapshot:
    """Merge snapshots: add counters and histograms, and merge gauges by their ``merge``."""
    values: dict[tuple[str, Labels], float] = {}
    histograms: dict[tuple[str, Labels], Histogram] = {}
    recent = 0.0
    heard: dict[str, Heard] = {}
    for snapshot in snapshots:
        recent += snapshot.recent
        for worker in snapshot.heard:
            known = heard.get(worker.worker)
            if known is None or known.at < worker.at:
                heard[worker.worker] = worker
        for each in snapshot.values:
            key = (each.name, each.labels)
            if key not in values:
                values[key] = each.value
            elif _BY_NAME[each.name].merge == "max":
                values[key] = max(values[key], each.value)
            else:
                values[key] += each.value
        for each in snapshot.histograms:
            histogram = histograms.setdefault((each.name, each.labels), Histogram())
            histogram.add(each.bins, each.total)
    return Snapshot(
        values=[Value(*key, value) for key, value in values.items()],
        histograms=[Bins(*key, each.bins, each.total) for key, each in histograms.items()],
        recent=recent,
        heard=list(heard.values()),
    )


def render(snapshot: Snapshot, metrics: Iterable[Metric] = METRICS) -> bytes:
    """Prometheus text."""
    values: dict[str, list[Value]] = {}
    histograms: dict[str, list[Bins]] = {}
    for each in snapshot.values:
        values.setdefault(each.name, []).append(each)
    for each in snapshot.histograms:
        histograms.setdefault(each.name, []).append(each)
    lines: list[str] = []
    for metric in metrics:
        lines.append(f"# HELP {metric.name} {metric.help}")
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        for each in values.get(metric.name, ()):
            lines.append(f"{metric.name}{_labels(metric, each.labels)} {_number(each.value)}")
        for each in histograms.get(metric.name, ()):
            lines.extend(_buckets(metric, each))
    lines.append("")
    return "\n".join(lines).encode()


def _buckets(metric: Metric, histogram: Bins) -> Iterable[str]:
    step = 4 if metric.is_fine else 8
    ends = range(_LOWEST - 48, _LOWEST + (20 if metric.is_fine else 56) + 1, step)
    seen = 0
    left = sorted(histogram.bins.items())
    for end in ends:
        while left and left[0][0] <= end:
            seen += left.pop(0)[1]
        labels = _labels(metric, histogram.labels, le=_number(upper(end)))
        yield f"{metric.name}_bucket{labels} {seen}"
    count = sum(histogram.bins.values())
    yield f"{metric.name}_bucket{_labels(metric, histogram.labels, le='+Inf')} {count}"
    yield f"{metric.name}_sum{_labels(metric, histogram.labels)} {histogram.total!r}"
    yield f"{metric.name}_count{_labels(metric, histogram.labels)} {count}"


def _labels(metric: Metric, labels: Labels, *, le: str | None = None) -> str:
    pairs = [f'{name}="{_escaped(text)}"' for name, text in zip(metric.labels, labels, strict=True)]
    if le is not None:
        pairs.append(f'le="{le}"')
    return "{" + ",".join(pairs) + "}" if pairs else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)
