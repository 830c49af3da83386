"""
Measure CPU time, statements, WAL and wake-ups per message, on any machine.

Open loops push, pop and acknowledge single messages at a fixed rate. Saturated runs send as much as
the server takes. CPU time comes from the scheduler. Floors, the least that Python and PostgreSQL
need for the same, are measured in turns with them, and with `--against REF` so is another commit.
If other processes or the host take more than a tenth of the CPU time, the run is repeated. The last
line is one JSON object. Costs are per message. A ratio is taken in each round, and its median is
printed.
"""

import argparse
import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import uvloop

from benchmarks.against import HERE as TREE, checkout as worktree
from benchmarks.cost.checkouts import CostBench, Run, checkout
from benchmarks.cost.floors import FloorBench, floor_bench
from benchmarks.cost.report import BATCHES, BEFORE, HERE, MIXED, Report, shown
from benchmarks.http import GENERATORS, EngineBench
from benchmarks.load import SETTINGS, machine
from queen.engine.engine import Engine
from queen.settings import Settings
from queen.store.migrations import migrate
from tests.support.postgres import Postgres

RATES: Final = (300, 1_000, 3_000)
SUFFIXES: Final = {"" if name == "http" else f"_{name}": name for name in GENERATORS}
"""Plain HTTP has no suffix."""
HIGHEST: Final = "max_rate"
FLOORS: Final = "floors"
OPEN: Final = {f"open_{rate}{suffix}": (rate, suffix) for suffix in SUFFIXES for rate in RATES}
PARTS: Final = (*OPEN, *(f"push_{batch}" for batch in BATCHES), MIXED, FLOORS, HIGHEST)


class CostRounds:
    """The parts of the benchmark, in rounds."""

    def __init__(
        self, benches: dict[str, CostBench], floors: FloorBench, engine: str, parts: list[str]
    ) -> None:
        self.report = Report()
        self._benches = benches
        self._floors = floors
        self._engine = engine
        self._parts = parts

    async def round(self, number: int, seconds: float) -> None:
        """Measure every part once. The order of the checkouts alternates."""
        for bench in self._benches.values():
            await bench.checkpoint()
        names = list(self._benches)
        for part in self._parts:
            for name in names if number % 2 == 0 else reversed(names):
                run = await self._run(part, name)
                if run is not None:
                    self.report.add(part, name, run)
                    print(f"round {number + 1} {part} {name}: {shown(run)}", flush=True)
            await self._engine_rate(part, number, seconds)
        if FLOORS in self._parts:
            for rate in RATES:
                if f"open_{rate}" in self._parts or not OPEN.keys() & set(self._parts):
                    floors = await self._floors.floors(rate)
                    self.report.floors.setdefault(rate, []).append(floors)
                    print(f"round {number + 1} floors at {rate}/s: {floors}", flush=True)

    async def highest(self) -> None:
        """Find the highest rate of this checkout, once per transport."""
        for suffix, transport in SUFFIXES.items():
            found = await self._benches[HERE].highest_rate(transport)
            self.report.highest[suffix] = found

    async def _run(self, part: str, name: str) -> Run | None:
        bench = self._benches[name]
        if part in OPEN:
            rate, suffix = OPEN[part]
            # The other checkout may not have this transport.
            is_comparable = name == HERE or not suffix
            return await bench.open_run(rate, SUFFIXES[suffix]) if is_comparable else None
        if part == MIXED:
            return await bench.run(bench.mixed)
        if part.startswith("push_"):
            return await bench.run(lambda: bench.push(int(part.removeprefix("push_"))))
        return None

    async def _engine_rate(self, part: str, number: int, seconds: float) -> None:
        """Measure the same without HTTP. No engine is open while a server is measured."""
        if part in OPEN or part in (FLOORS, HIGHEST):
            return
        async with await Engine.open(self._engine, settings=Settings(), connections=10) as engine:
            bench = EngineBench(engine, seconds, prefix=f"round{number}-")
            if part == MIXED:
                rate = await bench.mixed()
            else:
                rate = await bench.push(int(part.removeprefix("push_")))
        self.report.engine.setdefault(part, []).append(rate)
        print(f"round {number + 1} {part} engine: {rate:,.0f} msg/s", flush=True)


@asynccontextmanager
async def prepared(arguments: argparse.Namespace, other: Path | None) -> AsyncGenerator[CostRounds]:
    """Start everything that the parts need."""
    trees = {HERE: TREE} if other is None else {HERE: TREE, BEFORE: other}
    seconds: float = arguments.seconds
    async with AsyncExitStack() as stack:
        postgres = stack.enter_context(Postgres(SETTINGS))
        engine = postgres.create_database("engine")
        await migrate(engine)
        benches = {
            name: await stack.enter_async_context(checkout(tree, seconds, arguments.attempts))
            for name, tree in trees.items()
        }
        floors = await stack.enter_async_context(
            floor_bench(postgres.create_database("floors"), min(3.0, seconds))
        )
        yield CostRounds(benches, floors, engine, arguments.only)


async def measure(arguments: argparse.Namespace, other: Path | None) -> dict[str, Any]:
    async with prepared(arguments, other) as rounds:
        for number in range(arguments.rounds):
            await rounds.round(number, arguments.seconds)
        if HIGHEST in arguments.only:
            await rounds.highest()
    return {
        **rounds.report.result(RATES, SUFFIXES),
        "details": rounds.report.details(),
        "configuration": {
            **machine(),
            "settings": SETTINGS,
            "rounds": arguments.rounds,
            "seconds": arguments.seconds,
            "against": arguments.against,
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.cost", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="length of one run")
    parser.add_argument("--against", metavar="REF", help="commit to compare with")
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=list(PARTS), help="parts, default all"
    )
    parser.add_argument("--attempts", type=int, default=3, help="most runs to find a quiet one")
    arguments = parser.parse_args()
    against: str | None = arguments.against
    with (
        worktree(against) if against else nullcontext() as other,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        result = runner.run(measure(arguments, other))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
