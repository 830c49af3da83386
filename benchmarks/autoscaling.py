"""
Run a burst of jobs with autoscaling, and draw docs/images/autoscaling.svg.

Usage::

    python -m benchmarks.autoscaling [--jobs 10000] [--most 8]
"""

import argparse
import asyncio
import json
import os
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.load import SETTINGS, machine
from queen.store.migrations import migrate
from tests.support.postgres import Postgres
from tests.support.server import SOURCE, Server

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "autoscaling.svg"
APP = "tests.jobs.application:jobs"
QUEUE = "work"
JOB_SECONDS = 0.05

Point = tuple[float, int, int]
"""Seconds since the burst, waiting jobs, workers."""


async def burst(url: str, count: int, most: int) -> list[Point]:
    """Scale the pool from its minimum to its maximum and back."""
    os.environ |= {"QUEEN_BASE_URL": url, "PYTHONPATH": f"{SOURCE}:{ROOT}"}
    from queen import Queen
    from queen.jobs import QueueManager, WorkerManager

    # Other programs use the machine, so its CPU load must not limit the pool.
    workers = WorkerManager(max_workers=most, cpu_threshold=1.0, memory_threshold=1.0)
    await workers.initialize_worker_pool(APP)
    workers.start_auto_scaling("1s")
    async with Queen(url) as queen:
        jobs = QueueManager(queen)
        await asyncio.sleep(3)  # Show the state before the burst.
        began = time.time()
        for start in range(0, count, 5_000):
            size = min(5_000, count - start)
            await jobs.add_bulk(QUEUE, [{"name": "pause", "data": JOB_SECONDS}] * size)
        async with asyncio.timeout(300):
            while workers.workers < most or workers.looks[-1].seen.backlog:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
            while workers.workers > 1:  # noqa: ASYNC110 - the manager's
                await asyncio.sleep(0.2)
        await asyncio.sleep(3)
    points = [(look.at - began, look.seen.backlog, look.seen.workers) for look in workers.looks]
    await workers.shutdown()
    return points


def draw(points: list[Point], title: str) -> None:
    mpl: Any = import_module("matplotlib")  # It has no type annotations.
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "queen"  # For a reproducible file.
    plt: Any = import_module("matplotlib.pyplot")
    seconds = [at for at, _, _ in points]
    figure, above = plt.subplots(figsize=(8, 3.6), layout="constrained")
    above.fill_between(seconds, [each for _, each, _ in points], color="#5A3FC0", alpha=0.25)
    above.set(xlabel="seconds since the burst", ylabel="jobs that wait", title=title)
    above.set_ylim(bottom=0)
    beside = above.twinx()
    beside.step(seconds, [each for _, _, each in points], where="post", color="#0B6E8F", lw=2)
    beside.set_ylabel("worker processes")
    beside.set_ylim(bottom=0)
    figure.savefig(PICTURE, metadata={"Date": None})


async def measure(arguments: argparse.Namespace) -> list[Point]:
    with Postgres(SETTINGS) as postgres:
        dsn = postgres.create_database("bench")
        await migrate(dsn)
        async with Server(dsn, {"LOG_LEVEL": "warning"}) as server:
            return await burst(server.base_url, arguments.jobs, arguments.most)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--most", type=int, default=8)
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        points = runner.run(measure(arguments))
    draw(points, f"{arguments.jobs:,} jobs of {JOB_SECONDS * 1000:.0f} ms, 10 at once a process")
    counts = [each for _, _, each in points]
    top = counts.index(max(counts))
    is_one_hill = counts[:top] == sorted(counts[:top]) and (
        counts[top:] == sorted(counts[top:], reverse=True)
    )
    print(json.dumps({**machine(), "points": points, "is_one_hill": is_one_hill}))


if __name__ == "__main__":
    main()
