"""
Compare the message API over HTTP with the engine, in the same run on the same PostgreSQL.

The server has one worker, and the load runs in its own process. With `--peers DIRECTORY`, the
scripts in that directory measure other queues. The last line is one JSON object.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import uvloop

from benchmarks.engine import Ours
from benchmarks.http_load import Mixed, Open, Push
from benchmarks.load import SETTINGS, machine, payloads, recycle_wal
from queen.engine.engine import Engine
from queen.settings import Settings
from queen.store.migrations import migrate
from queen.wire.messages import PopRequest, PushItem
from tests.support.postgres import Postgres
from tests.support.server import Server

CONNECTIONS = {1: 256, 100: 32, 1000: 8}
MIXED = 100
SAFE_P99_MS = 100.0
GENERATORS = {"http": "benchmarks.http_load", "stream": "benchmarks.stream_load"}
"""The program that creates the load of a transport: takes a task, prints one JSON object."""
RATIOS = {
    "push_1": "engine_1",
    "push_100": "engine_100",
    "push_1000": "engine_1000",
    "mixed_100": "engine_mixed",
}
"""Over HTTP, and with the engine only."""


class EngineBench:
    """One engine, without HTTP. Each point has its own queue."""

    def __init__(self, engine: Engine, seconds: float, prefix: str = "engine") -> None:
        self._engine = engine
        self._ours = Ours(engine)
        self._seconds = seconds
        self._prefix = prefix
        self._number = 0

    async def push(self, batch: int) -> float:
        return await self._ours.push(self._seconds, batch, CONNECTIONS[batch])

    async def mixed(self) -> float:
        """Return the lower rate of pushing and consuming."""
        self._number += 1
        queue, engine = f"{self._prefix}{self._number}", self._engine
        await engine.queues.configure(queue)
        deadline = time.perf_counter() + self._seconds
        messages = payloads(MIXED, seed=7)
        built = [
            [PushItem(queue=queue, partition=f"p{n}", payload=each) for each in messages]
            for n in range(100)
        ]
        pushed = consumed = 0

        async def produce(number: int) -> None:
            nonlocal pushed
            while time.perf_counter() < deadline:
                await engine.push(built[number % 100])
                number += 16
                pushed += MIXED

        async def consume() -> None:
            nonlocal consumed
            request = PopRequest(queue=queue, batch=MIXED, wait=True, timeout_seconds=0.5)
            while time.perf_counter() < deadline:
                for delivery in await engine.pop(request):
                    count = len(delivery.payloads())
                    await engine.ack(delivery.lease_id or "")
                    consumed += count if time.perf_counter() < deadline else 0

        await asyncio.gather(*(produce(n) for n in range(16)), *(consume() for _ in range(16)))
        return min(pushed, consumed) / self._seconds


class Bench:
    """One server, called over HTTP. Each point has its own queue."""

    def __init__(self, server: Server, seconds: float, open_seconds: float) -> None:
        self._server = server
        self._seconds = seconds
        self._open_seconds = open_seconds
        self._number = 0

    def queue(self) -> str:
        self._number += 1
        return f"http{self._number}"

    async def load(self, task: Push | Mixed | Open, transport: str = "http") -> dict[str, Any]:
        """Run the load in its own process. Returns its last line, and the server's CPU time."""
        before = cpu_seconds(self._server.pid)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            GENERATORS[transport],
            msgspec.json.encode(task).decode(),
            stdout=subprocess.PIPE,
        )
        out, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"the load ended with exit code {process.returncode}")
        said: dict[str, Any] = json.loads(out.splitlines()[-1])
        said["server_cpu"] = round((cpu_seconds(self._server.pid) - before) / task.seconds, 2)
        if said["failed"]:
            raise RuntimeError(f"{said['failed']} requests were rejected")
        return said

    async def push(self, batch: int) -> float:
        queue = self.queue()
        await self._server.post("/push", {"items": [{"queue": queue, "payload": 0}]})
        task = Push(
            port=self._server.port,
            queues=(queue,),
            batch=batch,
            connections=CONNECTIONS[batch],
            seconds=self._seconds,
        )
        said = await self.load(task)
        print(f"  push {batch}: {said}", flush=True)
        return said["rate"]

    async def mixed(self) -> float:
        """Return the lower rate of pushing and consuming."""
        task = Mixed(
            port=self._server.port,
            queue=self.queue(),
            batch=MIXED,
            pushing=16,
            consuming=16,
            seconds=self._seconds,
        )
        await self._server.post("/configure", {"queue": task.queue})
        said = await self.load(task)
        print(f"  mixed: {said}", flush=True)
        return min(said["pushed"], said["consumed"])

    async def open_loop(self, rate: float, transport: str = "http") -> dict[str, Any]:
        task = Open(
            port=self._server.port, queue=self.queue(), rate=rate, seconds=self._open_seconds
        )
        items: list[dict[str, Any]] = [
            {"queue": task.queue, "partition": f"p{n}", "payload": {}} for n in range(100)
        ]
        await self._server.post("/push", {"items": items})
        drain = {"batch": 100, "partitions": 100, "autoAck": True}
        await self._server.post(f"/pop/queue/{task.queue}", drain)
        return await self.load(task, transport)

    async def highest_rate(self, transport: str = "http") -> float:
        """Return the highest rate, in steps of a fifth, at which p99 stays under the bar."""
        best, rate = 0.0, 1_000.0
        while rate < 20_000:
            said = await self.open_loop(rate, transport)
            print(f"  open loop at {rate:,.0f}/s: {said}", flush=True)
            if said["p99_ms"] > SAFE_P99_MS or said["not_arrived"]:
                break
            best, rate = rate, rate * 1.2
        return best


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peers(arguments: argparse.Namespace, dsn: str) -> dict[str, Any]:
    """Run the scripts of other queues. Returns medians, one object per peer."""
    folder = Path(arguments.peers) if arguments.peers else None
    if folder is None or not (folder / "run.py").exists():
        print("peers: skipped, use --peers with a directory of scripts", flush=True)
        return {}
    command = [arguments.peers_python or sys.executable, "run.py", "--dsn", dsn]
    command += ["--rounds", str(arguments.rounds), "--seconds", str(arguments.seconds)]
    command += ["--batches", "1,100,1000", "--phases", "push,mixed"]
    out = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, dict[str, list[float]]] = {}
    for line in out.splitlines():
        said: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
        if "peer" in said and "rate" in said:
            cells = found.setdefault(said["peer"], {})
            cells.setdefault(f"{said['phase']}_{said['batch']}", []).append(said["rate"])
        elif "peer" in said and "error" in said:
            found.setdefault(said["peer"], {})
            print(f"peers: {said['peer']}: {said['error'][-200:]}", flush=True)
    return {
        name: {cell: round(statistics.median(rates)) for cell, rates in cells.items()}
        for name, cells in found.items()
    }


class Figures:
    """The results of all rounds."""

    def __init__(self) -> None:
        self.rates: dict[str, list[float]] = {}
        self.opened: list[dict[str, Any]] = []
        self.highest: float | None = None

    def result(self) -> dict[str, Any]:
        """Return medians, and the medians of each round's ratio to the engine."""
        found: dict[str, Any] = {}
        for name, engine in RATIOS.items():
            if name in self.rates:
                found[name] = round(statistics.median(self.rates[name]))
            if name in self.rates and engine in self.rates:
                pairs = zip(self.rates[name], self.rates[engine], strict=True)
                found[f"{name}_vs_engine"] = round(statistics.median(a / b for a, b in pairs), 2)
        for figure in ("p50_ms", "p99_ms") if self.opened else ():
            each = [round_[figure] for round_ in self.opened]
            found[f"open_1000_{figure}"] = statistics.median(each)
        if self.highest is not None:
            found["open_max_rate_p99_100ms"] = self.highest
        return found

    def of_engine(self) -> dict[str, int]:
        names = RATIOS.values()
        return {name: round(statistics.median(self.rates[name])) for name in names if self.rates}


async def rounds(
    bench: Bench,
    engine: EngineBench,
    arguments: argparse.Namespace,
    admin: "asyncpg.Connection[asyncpg.Record]",
) -> Figures:
    """Run every point in rounds, first the engine, then HTTP."""
    figures = Figures()
    points: dict[str, Callable[[], Awaitable[float]]] = {}
    for batch in CONNECTIONS:
        points[f"engine_{batch}"] = lambda batch=batch: engine.push(batch)
        points[f"push_{batch}"] = lambda batch=batch: bench.push(batch)
    points["engine_mixed"] = engine.mixed
    points["mixed_100"] = bench.mixed
    for round_ in range(arguments.rounds):
        for name, point in points.items():
            await admin.execute("checkpoint")
            rate = await point()
            figures.rates.setdefault(name, []).append(rate)
            print(f"round {round_ + 1} {name}: {rate:,.0f} msg/s", flush=True)
        figures.opened.append(await bench.open_loop(1_000))
        print(f"round {round_ + 1} open loop at 1,000/s: {figures.opened[-1]}", flush=True)
    figures.highest = await bench.highest_rate()
    return figures


async def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    with Postgres(SETTINGS) as postgres:
        dsn = postgres.create_database("bench")
        await migrate(dsn)
        admin = await asyncpg.connect(dsn)
        version = await admin.fetchval("show server_version")
        await recycle_wal(admin)
        async with (
            Server(dsn, {"LOG_LEVEL": "warning"}) as server,
            await Engine.open(dsn, settings=Settings(), connections=10) as engine,
        ):
            seconds: float = arguments.seconds
            bench = Bench(server, seconds, open_seconds=max(10.0, seconds))
            figures = await rounds(bench, EngineBench(engine, seconds), arguments, admin)
        of_peers = await asyncio.to_thread(peers, arguments, postgres.dsn("postgres"))
        await admin.close()
    return {
        **figures.result(),
        **of_peers,
        "configuration": {
            **machine(),
            "postgresql": version,
            "settings": SETTINGS,
            "rounds": arguments.rounds,
            "seconds": arguments.seconds,
            "workers": 1,
            "connections": CONNECTIONS,
            "mixed_connections": [16, 16],
            "partitions": {"push": 16, "mixed": 100, "open": 100},
            "payload_bytes": round(statistics.mean(map(len, payloads(1000, seed=7)))),
            "engine": figures.of_engine(),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--peers", help="directory with scripts that measure other queues")
    parser.add_argument("--peers-python", help="Python with the packages of those scripts")
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(measure(arguments))
    configuration = result["configuration"]
    print("\n" + "\n".join(f"{name}: {value}" for name, value in configuration.items()))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
