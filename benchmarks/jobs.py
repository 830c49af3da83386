"""
Run no-op jobs end to end, and compare with other job runners on the same PostgreSQL in one run.

Bulk: jobs are added by `add_bulk`, then run by worker processes until the last one is acked. One by
one: each job is added by its own call, while a worker runs in the same process. With `--peers
DIRECTORY`, the scripts in that directory measure other runners, in turns with Queen. The last line
is one JSON object.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import asyncpg
import uvloop

from benchmarks.http import cpu_seconds
from benchmarks.load import SETTINGS, machine, payloads
from queen import Queen
from queen.jobs import Job, QueueManager, Worker
from queen.store.migrations import migrate
from tests.support.postgres import Postgres
from tests.support.server import Server

RUNNERS: Final = ("pgqueuer", "procrastinate")
PEERS: Final = (*RUNNERS, "pgmq")
BULK: Final = 1_000
"""Jobs per call, for Queen and for the others."""
CALLERS: Final = 16
"""Concurrent callers that add one by one, and consumers, for Queen and for the others."""
BULK_CLIENTS: Final = 4
"""Concurrent calls that add the bulk. For the others, also consuming connections."""


def noop_app(queen: Queen, queue: str, begun: Callable[[], None]) -> QueueManager:
    """Create an application. The first job calls ``begun``."""
    jobs = QueueManager(queen)
    is_first = True

    async def noop(job: Job[dict[str, Any]]) -> None:
        nonlocal is_first
        if is_first:
            is_first = False
            begun()

    jobs.register_processor(queue, noop, name="noop")
    return jobs


async def work(url: str, concurrency: int) -> None:
    """
    Run workers in this process: a line with a queue starts its jobs, an empty line stops them.

    Prints when the first job has started, the number of completed jobs, and at the end that the
    server has all acknowledgments.
    """
    loop = asyncio.get_running_loop()
    told = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(told), sys.stdin)
    async with Queen(url) as queen:
        while queue := (await told.readline()).decode().strip():
            jobs = noop_app(queen, queue, partial(print, "begun", flush=True))
            worker = await jobs.start_workers(concurrency=concurrency)
            end = asyncio.create_task(told.readline())
            done = 0
            while not end.done():
                if worker.stats.completed != done:
                    done = worker.stats.completed
                    print(done, flush=True)
                await asyncio.sleep(0.005)
            await jobs.shutdown()
            print("settled", flush=True)


class WorkerProcesses:
    """Processes that only run jobs, as those of `queen worker`."""

    def __init__(self, url: str, arguments: argparse.Namespace) -> None:
        self._command = [sys.executable, "-m", "benchmarks.jobs", "--work", url]
        self._command += ["--concurrency", str(arguments.concurrency)]
        self._count: int = arguments.processes
        self._processes: list[asyncio.subprocess.Process] = []

    async def __aenter__(self) -> Self:
        pipe = asyncio.subprocess.PIPE
        self._processes = [
            await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe)
            for _ in range(self._count)
        ]
        return self

    async def __aexit__(self, *exception: object) -> None:
        for each in self._processes:
            assert each.stdin is not None
            each.stdin.close()
            await each.wait()

    async def run(self, queue: str, count: int) -> float:
        """Run this many jobs until all are acked. Returns the seconds since the first started."""
        left = asyncio.Event()
        done = dict.fromkeys(self._processes, 0)
        begun: list[float] = []

        async def watch(process: asyncio.subprocess.Process) -> None:
            assert process.stdout is not None
            while (said := (await process.stdout.readline()).strip()) != b"settled":
                if said == b"begun":
                    begun.append(time.perf_counter())
                    continue
                done[process] = int(said)
                if sum(done.values()) >= count:
                    left.set()

        watching = [asyncio.create_task(watch(each)) for each in self._processes]
        self._tell(queue)
        done_all = asyncio.create_task(left.wait())
        await asyncio.wait([done_all, *watching], return_when=asyncio.FIRST_COMPLETED)
        if not left.is_set():
            raise RuntimeError("a worker process ended")
        self._tell("")
        await asyncio.gather(*watching)
        assert sum(done.values()) == count, done
        return time.perf_counter() - begun[0]

    def _tell(self, line: str) -> None:
        for each in self._processes:
            assert each.stdin is not None
            each.stdin.write(line.encode() + b"\n")


class Bench:
    """One server and one application. Each point has its own queue."""

    def __init__(
        self,
        server: Server,
        queen: Queen,
        processes: WorkerProcesses,
        arguments: argparse.Namespace,
    ) -> None:
        self.server = server
        self._processes = processes
        self._queen = queen
        self._jobs: int = arguments.jobs
        self._seconds: float = arguments.seconds
        self._concurrency: int = arguments.concurrency
        self._data = [json.loads(each) for each in payloads(BULK, seed=7)]
        self._some = [{"name": "noop", "data": each} for each in self._data]
        self._number = 0
        self.begun: dict[int, float] = {}
        self.done = 0

    def app(self) -> tuple[QueueManager, str]:
        self._number += 1
        jobs, queue = QueueManager(self._queen), f"bench{self._number}"
        self.begun, self.done = {}, 0

        async def noop(job: Job[dict[str, Any]]) -> None:
            self.done += 1

        async def timed(job: Job[int]) -> None:
            self.begun[job.data] = time.perf_counter()

        jobs.register_processor(queue, noop, name="noop")
        jobs.register_processor(queue, timed, name="timed")
        return jobs, queue

    async def settled(self, worker: Worker, count: int) -> None:
        """Wait until every job is completed and acknowledged."""
        while worker.stats.completed < count:  # noqa: ASYNC110 - of other tasks
            await asyncio.sleep(0.002)

    async def bulk(self) -> float:
        """
        Add jobs in consecutive calls, then run them. Returns the sum of both times.

        As for the others, the second time starts with the first job that runs, so starting a
        worker is not included. It ends when the last job is acked.
        """
        self._number += 1
        queue = f"bench{self._number}"
        jobs = QueueManager(self._queen)
        await jobs.configure((queue,))
        calls = iter(range(0, self._jobs, BULK))

        async def add() -> None:
            for first in calls:
                await jobs.add_bulk(queue, self._some[: self._jobs - first])

        began = time.perf_counter()
        await asyncio.gather(*(add() for _ in range(BULK_CLIENTS)))
        added = time.perf_counter() - began
        running = await self._processes.run(queue, self._jobs)
        print(f"  added {self._jobs / added:,.0f}/s, run {self._jobs / running:,.0f}/s", flush=True)
        return self._jobs / (added + running)

    async def single(self) -> float:
        """Add jobs one per call and run them immediately. Returns jobs per second."""
        jobs, queue = self.app()
        worker = await jobs.start_workers(concurrency=self._concurrency)
        deadline = time.perf_counter() + self._seconds
        added = 0

        async def add(caller: int) -> None:
            nonlocal added
            while time.perf_counter() < deadline:
                await jobs.add_job(queue, "noop", self._data[caller])
                added += 1

        began = time.perf_counter()
        await asyncio.gather(*(add(caller) for caller in range(CALLERS)))
        await self.settled(worker, added)
        seconds = time.perf_counter() - began
        await jobs.shutdown()
        assert self.done == added
        return added / seconds

    async def starts(self, rate: float = 50.0) -> tuple[float, float]:
        """In an open loop, measure p50 and p99 in ms from when a job was due until it runs."""
        jobs, queue = self.app()
        await jobs.start_workers(concurrency=self._concurrency)
        await jobs.add_job(queue, "noop", {})
        count = round(rate * max(self._seconds, 5.0))
        began = time.perf_counter() + 0.1
        tasks: list[asyncio.Task[Any]] = []
        for number in range(count):
            await asyncio.sleep(max(0.0, began + number / rate - time.perf_counter()))
            tasks.append(asyncio.create_task(jobs.add_job(queue, "timed", number)))
        await asyncio.gather(*tasks)
        async with asyncio.timeout(30):
            while len(self.begun) < count:  # noqa: ASYNC110 - of the worker
                await asyncio.sleep(0.002)
        await jobs.shutdown()
        waits = sorted((self.begun[n] - began - n / rate) * 1000 for n in range(count))
        return waits[count // 2], waits[int(count * 0.99)]


def peers(
    arguments: argparse.Namespace, dsn: str, round_: int, *, batch: int, clients: int, phases: str
) -> dict[str, dict[str, float]]:
    """Run the scripts of other runners for one point. Returns rates by peer and phase."""
    if not arguments.peers:
        return {}
    turn = round_ % len(PEERS)
    command = [arguments.peers_python or sys.executable, "run.py", "--dsn", dsn, "--rounds", "1"]
    command += ["--seconds", str(arguments.seconds), "--batches", str(batch), "--phases", phases]
    command += ["--clients", str(clients)]
    command += ["--peers", ",".join((*PEERS[turn:], *PEERS[:turn]))]
    answer = subprocess.run(
        command, cwd=arguments.peers, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    found: dict[str, dict[str, float]] = {}
    for line in answer.stdout.splitlines():
        said: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
        if "rate" in said:
            found.setdefault(said["peer"], {})[said["phase"]] = said["rate"]
            print(
                f"  {said['peer']} {said['phase']} in {batch}: {said['rate']:,.0f}/s, its process "
                f"at {said['client_cpu']:.2f} of a core",
                flush=True,
            )
        elif "error" in said:
            print(f"  {said['peer']}: {said['error'][-200:]}", flush=True)
    return found


def end_to_end(rates: dict[str, float]) -> float | None:
    """Return the rate of pushing at one rate and then draining at another."""
    if "push" not in rates or "drain" not in rates or not rates["drain"]:
        return None
    return 1 / (1 / rates["push"] + 1 / rates["drain"])


class Figures:
    """The results of all rounds."""

    def __init__(self) -> None:
        self.bulk: dict[str, list[float]] = {}
        self.single: dict[str, list[float]] = {}
        self.starts: list[tuple[float, float]] = []

    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "bulk_vs_best_runner": _ratio(self.bulk),
            "single_vs_best_runner": _ratio(self.single),
            "start_p50_ms": round(statistics.median(p50 for p50, _ in self.starts), 2),
            "start_p99_ms": round(statistics.median(p99 for _, p99 in self.starts), 2),
        }
        for name, cells in (("bulk", self.bulk), ("single", self.single)):
            found[name] = {
                peer: [round(statistics.median(of)), round(min(of)), round(max(of))]
                for peer, of in cells.items()
            }
        return found


def _ratio(rates: dict[str, list[float]]) -> float | None:
    """Return the median of Queen divided by the best median of the runners."""
    best = [statistics.median(rates[name]) for name in RUNNERS if rates.get(name)]
    return round(statistics.median(rates["queen"]) / max(best), 2) if best else None


async def rounds(bench: Bench, arguments: argparse.Namespace, dsn: str) -> Figures:
    figures = Figures()
    for round_ in range(arguments.rounds):
        load = os.getloadavg()[0]
        ours, servers = time.process_time(), cpu_seconds(bench.server.pid)
        bulk, single = await bench.bulk(), await bench.single()
        starts = await bench.starts()
        ours, servers = time.process_time() - ours, cpu_seconds(bench.server.pid) - servers
        figures.bulk.setdefault("queen", []).append(bulk)
        figures.single.setdefault("queen", []).append(single)
        figures.starts.append(starts)
        print(
            f"round {round_ + 1}: bulk {bulk:,.0f}/s, one by one {single:,.0f}/s, starts after "
            f"{starts[0]:.1f} ms (p99 {starts[1]:.1f}); load {load:.1f}, seconds of CPU: "
            f"worker {ours:.1f}, server {servers:.1f}",
            flush=True,
        )
        others = partial(peers, arguments, dsn, round_)
        of_bulk = await asyncio.to_thread(
            others, batch=BULK, clients=BULK_CLIENTS, phases="push,drain"
        )
        of_single = await asyncio.to_thread(others, batch=1, clients=CALLERS, phases="mixed")
        for name in PEERS:
            if rate := end_to_end(of_bulk.get(name, {})):
                figures.bulk.setdefault(name, []).append(rate)
            if rate := of_single.get(name, {}).get("mixed"):
                figures.single.setdefault(name, []).append(rate)
    return figures


async def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    with Postgres(SETTINGS) as postgres:
        dsn = postgres.create_database("bench")
        await migrate(dsn)
        admin = await asyncpg.connect(dsn)
        version = await admin.fetchval("show server_version")
        await admin.close()
        async with (
            Server(dsn, {"LOG_LEVEL": "warning"}) as server,
            Queen(server.base_url) as queen,
            WorkerProcesses(server.base_url, arguments) as processes,
        ):
            bench = Bench(server, queen, processes, arguments)
            figures = await rounds(bench, arguments, postgres.dsn("postgres"))
    return {
        **figures.result(),
        "configuration": {
            **machine(),
            "postgresql": version,
            "settings": SETTINGS,
            "rounds": arguments.rounds,
            "seconds": arguments.seconds,
            "jobs": arguments.jobs,
            "jobs_a_call": BULK,
            "callers_one_by_one": CALLERS,
            "clients_in_bulk": BULK_CLIENTS,
            "concurrency": arguments.concurrency,
            "servers": 1,
            "worker_processes": {"bulk": arguments.processes, "one by one": 1},
            "data_bytes": round(statistics.mean(map(len, payloads(1000, seed=7)))),
        },
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--jobs", type=int, default=100_000, help="number of jobs in the bulk")
    parser.add_argument("--concurrency", type=int, default=10)
    parser.add_argument("--processes", type=int, default=1, help="worker processes for the bulk")
    parser.add_argument("--work", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--peers", type=Path, help="directory with scripts that measure others")
    parser.add_argument("--peers-python", help="Python with the packages of those scripts")
    given = parser.parse_args(arguments)
    if given.work is not None:
        uvloop.run(work(given.work, given.concurrency))
        return
    if given.peers is None:
        print("peers: skipped, use --peers with a directory of scripts", flush=True)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(measure(given))
    for name, value in result["configuration"].items():
        print(f"{name}: {value}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
