"""
Measure whether push, pop and ack slow down as a database grows: a small and a large one in one run.

Both are databases of one PostgreSQL and take turns every few messages, so that other load on the
machine affects both alike. A result is the median over rounds of the ratio of p99, large to small.
The last line is one JSON object.
"""

import argparse
import asyncio
import gc
import json
import random
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import asyncpg
import uvloop

from benchmarks.load import SETTINGS, machine
from queen.engine.engine import Engine
from queen.settings import Settings
from queen.store.migrations import migrate
from queen.wire.messages import PopRequest, PushItem
from tests.support.postgres import Postgres

VERBS = ("push", "pop", "ack")
TARGET = 2.0
QUEUE = "orders"
GROUP = "active"
WARM_UP = 300
"""Calls before a measurement, to warm up connections, plans and caches."""
BLOCK = 50
"""Messages in a row for one database before the other gets its turn."""
_BUILD_CALLERS = 4


@dataclass
class Subject:
    """A database with its own engine, and the number of partitions to push to."""

    name: str
    dsn: str
    engine: Engine
    partitions: int = 100
    rng: random.Random = field(default_factory=lambda: random.Random(11))

    async def run(self, iterations: int, callers: int) -> dict[str, list[float]]:
        """Push, pop and ack single messages. Returns their latencies in milliseconds."""
        latencies: dict[str, list[float]] = {verb: [] for verb in VERBS}
        left = iterations
        request = PopRequest(queue=QUEUE, consumer_group=GROUP)

        async def call() -> None:
            nonlocal left
            while left > 0:
                left -= 1
                partition = f"p{self.rng.randrange(self.partitions)}"
                item = PushItem(queue=QUEUE, partition=partition, payload=b'{"total":12}')
                started = time.perf_counter()
                await self.engine.push([item])
                pushed = time.perf_counter()
                deliveries = await self.engine.pop(request)
                popped = time.perf_counter()
                latencies["push"].append((pushed - started) * 1e3)
                latencies["pop"].append((popped - pushed) * 1e3)
                for delivery in deliveries:
                    started = time.perf_counter()
                    await self.engine.ack(delivery.lease_id or "")
                    latencies["ack"].append((time.perf_counter() - started) * 1e3)

        await asyncio.gather(*(call() for _ in range(callers)))
        return latencies


class Bench:
    """One PostgreSQL, and two databases for each case."""

    def __init__(self, postgres: Postgres, arguments: argparse.Namespace) -> None:
        self.postgres = postgres
        self.scale: float = arguments.scale
        self.rounds: int = arguments.rounds
        self.iterations: int = arguments.iterations
        self.built: dict[str, float] = {}
        self.started = time.perf_counter()

    def say(self, text: str) -> None:
        print(f"[{time.perf_counter() - self.started:6.1f} s] {text}", flush=True)

    async def subject(self, name: str, *, partitions: int) -> Subject:
        dsn = await asyncio.to_thread(self.postgres.create_database, name)
        await migrate(dsn)
        engine = await Engine.open(dsn, connections=10)
        await engine.queues.configure(QUEUE)
        return Subject(name, dsn, engine, partitions)

    async def build(self, what: str, calls: Sequence[Callable[[], Awaitable[object]]]) -> None:
        """Run the calls, a few at a time, and print the duration."""
        started = time.perf_counter()
        waiting = iter(calls)
        done = 0

        async def work() -> None:
            nonlocal done
            for call in waiting:
                await call()
                done += 1
                if done * 4 // len(calls) > (done - 1) * 4 // len(calls):
                    self.say(f"{what}: {done:,} of {len(calls):,} calls")

        await asyncio.gather(*(work() for _ in range(_BUILD_CALLERS)))
        self.built[what] = round(time.perf_counter() - started, 1)

    async def settle(self, *subjects: Subject) -> None:
        """Vacuum and analyze, so that no vacuum starts during a measurement."""
        for subject in subjects:
            connection = await asyncpg.connect(subject.dsn)
            try:
                await connection.execute("vacuum (analyze)")
                await connection.execute("checkpoint")
            finally:
                await connection.close()
        for subject in subjects:
            await subject.run(WARM_UP, 1)
        gc.collect()
        gc.freeze()

    async def compare(
        self, small: Subject, large: Subject, *, seconds: float = 0.0, callers: int = 1
    ) -> "Comparison":
        """Measure both in turns for at least this many seconds, and close them."""
        comparison = Comparison(callers=callers)
        deadline = time.perf_counter() + seconds
        number = 0
        while number < self.rounds or time.perf_counter() < deadline:
            number += 1
            found = await take_turns(small, large, self.iterations, callers)
            comparison.add(found[small.name], found[large.name])
            shown = ", ".join(f"{verb} {comparison.ratios[verb][-1]:.2f}" for verb in VERBS)
            self.say(f"{large.name}, round {number}: p99 {shown} times that of {small.name}")
        for each in (small, large):
            await each.engine.close()
        return comparison


class Comparison:
    """The rounds of one case."""

    def __init__(self, *, callers: int) -> None:
        self.callers = callers
        self.ratios: dict[str, list[float]] = {verb: [] for verb in VERBS}
        self._p50s: dict[tuple[str, str], list[float]] = {}
        self._p99s: dict[tuple[str, str], list[float]] = {}

    def add(self, small: dict[str, list[float]], large: dict[str, list[float]]) -> None:
        for size, latencies in (("small", small), ("large", large)):
            for verb in VERBS:
                self._p50s.setdefault((size, verb), []).append(quantile(latencies[verb], 0.5))
                self._p99s.setdefault((size, verb), []).append(quantile(latencies[verb], 0.99))
        for verb in VERBS:
            ratio = self._p99s["large", verb][-1] / self._p99s["small", verb][-1]
            self.ratios[verb].append(ratio)

    @property
    def worst(self) -> float:
        return max(statistics.median(ratios) for ratios in self.ratios.values())

    def figures(self) -> dict[str, Any]:
        return {
            "callers": self.callers,
            **{
                verb: {
                    "ratio": round(statistics.median(self.ratios[verb]), 2),
                    "ratios": [round(ratio, 2) for ratio in self.ratios[verb]],
                    # Effects that grow with time show here first.
                    "ratio_of_last_rounds": round(statistics.median(self.ratios[verb][-5:]), 2),
                    **{
                        f"{size}_{name}_ms": round(statistics.median(values[size, verb]), 3)
                        for size in ("small", "large")
                        for name, values in (("p50", self._p50s), ("p99", self._p99s))
                    },
                }
                for verb in VERBS
            },
        }

    def show(self, name: str) -> None:
        print(f"\n{name:10}{'small p50':>11}{'p99':>9}{'large p50':>12}{'p99':>9}{'ratio':>8}  ms")
        for verb, figures in self.figures().items():
            if verb in VERBS:
                print(
                    f"{verb:10}{figures['small_p50_ms']:>11}{figures['small_p99_ms']:>9}"
                    f"{figures['large_p50_ms']:>12}{figures['large_p99_ms']:>9}"
                    f"{figures['ratio']:>8}"
                )
        print(flush=True)


async def take_turns(
    small: Subject, large: Subject, iterations: int, callers: int
) -> dict[str, dict[str, list[float]]]:
    """Return latencies of both, by name and verb, block by block."""
    found = {each.name: {verb: list[float]() for verb in VERBS} for each in (small, large)}
    for block in range(max(1, iterations // BLOCK)):
        for each in (small, large) if block % 2 else (large, small):
            for verb, latencies in (await each.run(BLOCK, callers)).items():
                found[each.name][verb] += latencies
    return found


def quantile(values: list[float], at: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * at))]


async def subscribe(subject: Subject, group: str = GROUP, *, mode: str | None = None) -> None:
    """Create a group, with a position in every partition."""
    row = await subject.engine.store.groups.subscribe(QUEUE, group, mode=mode, start_at=None)
    assert row is not None
    while not await subject.engine.store.groups.fill(row["group_id"], 5_000):
        pass


async def partitions_1m(bench: Bench) -> Comparison:
    """Compare a million partitions, each with an old message, with a thousand."""
    counts = {"partitions_1k": 1_000, "partitions_1m": max(2_000, round(1_000_000 * bench.scale))}
    subjects: list[Subject] = []
    for name, count in counts.items():
        subject = await bench.subject(name, partitions=count)
        subjects.append(subject)

        def push(start: int, subject: Subject = subject) -> Callable[[], Awaitable[object]]:
            def call() -> Awaitable[object]:
                names = range(start, min(start + 5_000, subject.partitions))
                return subject.engine.push(
                    [
                        PushItem(queue=QUEUE, partition=f"p{number}", payload=b"0")
                        for number in names
                    ]
                )

            return call

        await bench.build(f"{name}: partitions", [push(n) for n in range(0, count, 5_000)])
        await bench.build(f"{name}: group", [lambda s=subject: subscribe(s, mode="new")])
    await bench.settle(*subjects)
    return await bench.compare(*subjects)


async def backlog_10m(bench: Bench) -> Comparison:
    """Compare ten million unread messages with ten thousand."""
    batch = 1_000
    sizes = {"backlog_10k": (10, 10), "backlog_10m": (100, max(100, round(10_000 * bench.scale)))}
    subjects: list[Subject] = []
    for name, (partitions, pushes) in sizes.items():
        subject = await bench.subject(name, partitions=partitions)
        subjects.append(subject)
        await subscribe(subject)

        def push(number: int, subject: Subject = subject) -> Callable[[], Awaitable[object]]:
            partition = f"p{number % subject.partitions}"

            def call() -> Awaitable[object]:
                return subject.engine.push(
                    [
                        PushItem(queue=QUEUE, partition=partition, payload=b'{"n":%d}' % n)
                        for n in range(number * batch, (number + 1) * batch)
                    ]
                )

            return call

        await bench.build(f"{name}: backlog", [push(number) for number in range(pushes)])
    await bench.settle(*subjects)
    return await bench.compare(*subjects)


async def groups_100(bench: Bench) -> Comparison:
    """Compare a hundred groups, of which one reads and the others lag, with one group."""
    subjects: list[Subject] = []
    for name, others in (("groups_1", 0), ("groups_100", max(3, round(99 * min(bench.scale, 1))))):
        subject = await bench.subject(name, partitions=100)
        subjects.append(subject)
        await subscribe(subject)
        for number in range(others):
            await subscribe(subject, f"idle{number}")
        # The others lag from the first message of a partition on.
        for number in range(subject.partitions):
            item = PushItem(queue=QUEUE, partition=f"p{number}", payload=b"0")
            await subject.engine.push([item])
        request = PopRequest(queue=QUEUE, consumer_group=GROUP, batch=1_000, partitions=100)
        while deliveries := await subject.engine.pop(request):
            for delivery in deliveries:
                await subject.engine.ack(delivery.lease_id or "")
    await bench.settle(*subjects)
    return await bench.compare(*subjects)


async def held_snapshot(bench: Bench) -> Comparison:
    """
    Compare a database under load, with a snapshot held for a minute, with one without.

    A snapshot keeps dead rows only in its own database, so both are measured in turns.
    """
    seconds = max(6.0, 60.0 * min(bench.scale, 1.0))
    callers = 4
    subjects = [await bench.subject(name, partitions=2_000) for name in ("free", "held_snapshot")]
    for subject in subjects:
        await subscribe(subject)
        for start in range(0, subject.partitions, 1_000):
            await subject.engine.push(
                [
                    PushItem(queue=QUEUE, partition=f"p{number}", payload=b"0")
                    for number in range(start, start + 1_000)
                ]
            )
        request = PopRequest(queue=QUEUE, consumer_group=GROUP, batch=1_000, partitions=1_000)
        while deliveries := await subject.engine.pop(request):
            await asyncio.gather(*(subject.engine.ack(d.lease_id or "") for d in deliveries))
    await bench.settle(*subjects)
    holder = await asyncpg.connect(subjects[1].dsn)
    try:
        async with holder.transaction(isolation="repeatable_read", readonly=True):
            await holder.fetch("select count(*) from queen.partitions")
            # The rounds create the load.
            started = time.perf_counter()
            comparison = await bench.compare(*subjects, seconds=seconds, callers=callers)
            bench.built["held_snapshot: seconds held"] = round(time.perf_counter() - started, 1)
    finally:
        await holder.close()
    return comparison


CASES = {case.__name__: case for case in (partitions_1m, backlog_10m, groups_100, held_snapshot)}


async def measure(arguments: argparse.Namespace) -> dict[str, object]:
    before = machine()
    names: list[str] = arguments.only or [*CASES]
    comparisons: dict[str, Comparison] = {}
    with Postgres(SETTINGS) as postgres:
        bench = Bench(postgres, arguments)
        admin = await asyncpg.connect(postgres.dsn())
        version = await admin.fetchval("show server_version")
        await admin.close()
        for name in names:
            bench.say(f"{name}: {(CASES[name].__doc__ or '').strip().splitlines()[0]}")
            comparisons[name] = await CASES[name](bench)
            comparisons[name].show(name)
        seconds = time.perf_counter() - bench.started
    result: dict[str, object] = {
        name: round(comparison.worst, 2) for name, comparison in comparisons.items()
    }
    print(f"{'figure':28}{'ratio':>8}{'target':>8}")
    for name, ratio in result.items():
        print(f"{name:28}{ratio!s:>8}{TARGET:>8}")
    settings = Settings()
    return {
        **result,
        "cases": {name: comparison.figures() for name, comparison in comparisons.items()},
        "built_seconds": bench.built,
        "seconds": round(seconds),
        "configuration": {
            **before,
            "postgresql": version,
            "settings": SETTINGS,
            "rounds": arguments.rounds,
            "iterations": arguments.iterations,
            "scale": arguments.scale,
            "catalogue_entries": settings.catalogue_entries,
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--iterations", type=int, default=1_000, help="messages per round and database"
    )
    parser.add_argument("--scale", type=float, default=1.0, help="below 1 for a smoke test")
    parser.add_argument("--only", nargs="*", choices=[*CASES])
    arguments = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(measure(arguments))
    sys.stdout.flush()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
