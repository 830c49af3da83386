"""`make bench-cost` measures every part, and compares with another checkout."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cost.checkouts import Run
from benchmarks.cost.meter import Cost, Noise
from benchmarks.cost.report import BEFORE, HERE, Report

ROOT = Path(__file__).parents[3]
COSTS = (
    *("cpu_us", "server_us", "postgres_us", "load_us", "statements", "wal_bytes"),
    *("server_wakeups", "postgres_wakeups"),
)
LATENCIES = ("p50_ms", "p99_ms", "cpu_vs_floor")
FLOORS = ("raw_us", "uvicorn_us", "select_us", "insert_us")
PARTS = ("open_300", "open_1000", "open_3000", "push_1", "push_100", "push_1000", "mixed_100")


async def measured(*arguments: str) -> dict[str, Any]:
    """Run the benchmark for a second per part, and return its last line."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.cost", "--rounds", "1", "--seconds", "1"),
        *arguments,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return json.loads(output.splitlines()[-1])


def unmeasured(found: dict[str, Any], parts: tuple[str, ...]) -> set[str]:
    """Return the keys of these parts that are missing or not positive."""
    expected: set[str] = set()
    for part in parts:
        kind, size, *transport = part.split("_")
        names = (*COSTS, *(LATENCIES if kind == "open" else ("rate", "vs_engine")))
        expected |= {"_".join((kind, size, name, *transport)) for name in names}
        if kind == "open":
            expected |= {f"floor_{size}_{name}" for name in FLOORS}
    return {name for name in expected if not found.get(name, 0) > 0}


@pytest.mark.nightly
@pytest.mark.timeout(600)
async def test_every_part_is_measured_and_compared_with_another_commit() -> None:
    found = await measured("--attempts", "1", "--against", "HEAD")

    assert unmeasured(found, (*PARTS, "open_1000_stream")) == set()
    assert {part for part in PARTS if not found[f"{part}_cpu_vs_before"] > 0} == set()
    assert "open_max_rate_p99_100ms" in found


def run_of(cpu_us: float) -> Run:
    cost = Cost(cpu_us / 2, cpu_us / 2, 1.0, 1.0, {"push": 0.5}, 100.0)
    load = {"p50_ms": 3.0, "p99_ms": 9.0, "max_ms": 10.0, "not_arrived": 0}
    return Run(rate=1_000.0, load=load, load_us=100.0, cost=cost, noise=Noise(0.0, 0.0))


def test_a_ratio_is_taken_in_each_round() -> None:
    report = Report()
    for here, before in ((400, 1_000), (1_500, 3_000), (900, 1_000)):
        report.add("open_1000", HERE, run_of(here))
        report.add("open_1000", BEFORE, run_of(before))

    assert report.result([1_000], [""])["open_1000_cpu_vs_before"] == 0.5


def test_another_transport_is_compared_with_http_of_the_other_checkout() -> None:
    report = Report()
    report.add("open_1000", BEFORE, run_of(1_000))
    report.add("open_1000", HERE, run_of(600))
    report.add("open_1000_stream", HERE, run_of(250))

    found = report.result([1_000], ["", "_stream"])

    assert (found["open_1000_cpu_vs_before"], found["open_1000_cpu_vs_before_stream"]) == (
        0.6,
        0.25,
    )
