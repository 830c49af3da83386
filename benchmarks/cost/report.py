"""The results as one JSON object: the median of all rounds, also for ratios within a round."""

import statistics
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from benchmarks.cost.checkouts import Run
from benchmarks.cost.floors import Floors

HERE: Final = "here"
BEFORE: Final = "before"
BATCHES: Final = (1, 100, 1000)
MIXED: Final = "mixed_100"

T = TypeVar("T")
Pairs = Iterable[tuple[float, float]]


class Report:
    """The runs of each point in this checkout and in the other one."""

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, list[Run]]] = {}
        self.engine: dict[str, list[float]] = {}
        self.floors: dict[int, list[Floors]] = {}
        self.highest: dict[str, float] = {}

    def add(self, point: str, checkout: str, run: Run) -> None:
        self.runs.setdefault(point, {}).setdefault(checkout, []).append(run)

    def open_loop(self, rate: int, suffix: str) -> dict[str, float | None]:
        """Return latency, costs and ratios of an open loop. The other checkout has no suffix."""
        name = f"open_{rate}"
        runs = self.runs.get(name + suffix, {}).get(HERE, [])
        if not runs:
            return {}
        before = self.runs.get(name, {}).get(BEFORE, [])
        floors = self.floors.get(rate, [])
        found = {
            **_costs(runs),
            "p50_ms": _median(runs, lambda run: run.load["p50_ms"]),
            "p99_ms": _median(runs, lambda run: run.load["p99_ms"]),
            "not_arrived": _median(runs, lambda run: run.load["not_arrived"]),
            "cpu_vs_before": _ratio(
                (run.cost.cpu_us, other.cost.cpu_us)
                for run, other in zip(runs, before, strict=False)
            ),
            "cpu_vs_floor": _ratio(
                (run.cost.cpu_us, floor.message_us)
                for run, floor in zip(runs, floors, strict=False)
            ),
        }
        return {f"{name}_{key}{suffix}": value for key, value in found.items()}

    def saturated(self, name: str) -> dict[str, float | None]:
        """Return rate, costs and ratios of a closed loop."""
        runs = self.runs.get(name, {}).get(HERE, [])
        if not runs:
            return {}
        before = self.runs[name].get(BEFORE, [])
        found = {
            "rate": _median(runs, lambda run: run.rate),
            **_costs(runs),
            "vs_engine": _ratio(
                (run.rate, rate) for run, rate in zip(runs, self.engine.get(name, []), strict=False)
            ),
            "rate_vs_before": _ratio(
                (run.rate, other.rate) for run, other in zip(runs, before, strict=False)
            ),
            "cpu_vs_before": _ratio(
                (run.cost.server_us, other.cost.server_us)
                for run, other in zip(runs, before, strict=False)
            ),
        }
        return {f"{name}_{key}": value for key, value in found.items()}

    def result(self, rates: Iterable[int], suffixes: Iterable[str]) -> dict[str, Any]:
        """Return everything that was measured."""
        found: dict[str, Any] = {}
        for suffix in suffixes:
            for rate in rates:
                found |= self.open_loop(rate, suffix)
            if suffix in self.highest:
                found[f"open_max_rate_p99_100ms{suffix}"] = self.highest[suffix]
        for name in (*(f"push_{batch}" for batch in BATCHES), MIXED):
            found |= self.saturated(name)
        for rate, floors in self.floors.items():
            for field in Floors._fields:
                found[f"floor_{rate}_{field}"] = _median(floors, lambda f, n=field: getattr(f, n))
        return {key: value for key, value in found.items() if value is not None}

    def details(self) -> dict[str, Any]:
        """Return the costs of both checkouts, medians per point."""
        return {
            point: {checkout: _costs(runs) for checkout, runs in checkouts.items()}
            for point, checkouts in self.runs.items()
        }


def shown(run: Run) -> str:
    """Return one line about a run."""
    cost = run.cost
    latency = ""
    if "p50_ms" in run.load:
        load = run.load
        latency = f"p50 {load['p50_ms']} p99 {load['p99_ms']} max {load['max_ms']} ms, "
        latency += f"{load['not_arrived']} not arrived, "
    verbs = " ".join(f"{verb} {count:.2f}" for verb, count in sorted(cost.statements.items()))
    return (
        f"{run.rate:,.0f} msg/s, {latency}steal {run.noise.steal:.1%} foreign "
        f"{run.noise.foreign:.1%}; per message: server {cost.server_us:.1f} postgres "
        f"{cost.postgres_us:.1f} sum {cost.cpu_us:.1f} load {run.load_us:.1f} us, wake-ups "
        f"{cost.server_wakeups:.2f} + {cost.postgres_wakeups:.2f}, WAL {cost.wal_bytes:.0f} B, "
        f"statements {verbs}"
    )


def _costs(runs: list[Run]) -> dict[str, float]:
    return {
        "cpu_us": _median(runs, lambda run: run.cost.cpu_us),
        "server_us": _median(runs, lambda run: run.cost.server_us),
        "postgres_us": _median(runs, lambda run: run.cost.postgres_us),
        "load_us": _median(runs, lambda run: run.load_us),
        "statements": _median(runs, lambda run: sum(run.cost.statements.values())),
        "wal_bytes": _median(runs, lambda run: run.cost.wal_bytes),
        "server_wakeups": _median(runs, lambda run: run.cost.server_wakeups),
        "postgres_wakeups": _median(runs, lambda run: run.cost.postgres_wakeups),
        "foreign": _median(runs, lambda run: run.noise.foreign),
        "steal": _median(runs, lambda run: run.noise.steal),
    }


def _median(values: list[T], figure: Callable[[T], float]) -> float:
    return round(statistics.median(map(figure, values)), 3)


def _ratio(pairs: Pairs) -> float | None:
    found = [above / below for above, below in pairs]
    return round(statistics.median(found), 3) if found else None
