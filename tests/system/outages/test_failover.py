"""The primary is killed under load and its standby promoted: confirmed calls are not lost."""

import asyncio
import contextlib
import json
import random
from pathlib import Path
from typing import Any

import pytest

from queen.store.migrations import migrate
from tests.support.pair import Pair
from tests.support.server import Server
from tests.system.checker.checker import Checker
from tests.system.checker.history import Op, read_files
from tests.system.load import History, instant
from tests.system.outages.test_http_kills import consume, produce
from tests.system.outages.test_kills import configure, drain, dumped, under_load
from tests.system.processes import Worker

MOST_SECONDS = 30
"""The longest time from the kill until each verb succeeds again."""


@pytest.mark.nightly
@pytest.mark.timeout(120)
async def test_failovers_lose_no_message_and_redeliver_no_acked_message(tmp_path: Path) -> None:
    await run(
        tmp_path,
        failovers=2,
        between=150,
        minimum={"messages": 600, "acknowledged": 500, "unknown": 1, "ack_ok": 50},
    )


@pytest.mark.slow
@pytest.mark.timeout(1_500)
async def test_twenty_failovers_lose_no_message_and_redeliver_no_acked_message(
    tmp_path: Path,
) -> None:
    await run(
        tmp_path,
        failovers=20,
        between=1_000,
        minimum={
            "messages": 20_000,
            "acknowledged": 20_000,
            "redelivered": 100,
            "unknown": 50,
            "unknown_retried_ok": 10,
            "ack_ok": 2_000,
        },
    )


async def run(folder: Path, *, failovers: int, between: int, minimum: dict[str, int]) -> None:
    """Fail over repeatedly under load, drain, and check the history."""
    seed = random.SystemRandom().randrange(10**9)
    rng = random.Random(seed)
    print(f"seed {seed}", flush=True)
    faults = History(folder / "faults.jsonl")
    killed_at: list[int] = []
    with Pair() as pair:
        pair.primary.create_database("queen")
        await migrate(pair.dsn("queen"))
        await configure(pair.dsn("queen"))
        async with contextlib.AsyncExitStack() as stack:
            workers: list[tuple[Worker, Worker]] = []
            for name in ("one", "other"):
                server = await stack.enter_async_context(Server(pair.dsn("queen")))
                workers.append(
                    (
                        await stack.enter_async_context(consume(name, server, folder)),
                        await stack.enter_async_context(produce(name, server, folder)),
                    )
                )
            for worker in (each for of_one in workers for each in of_one):
                await worker.expect("ready")
            for number in range(failovers):
                await under_load(pair.primary.dsn("queen"), between)
                # At a random point of the load.
                await asyncio.sleep(rng.uniform(0.0, 0.3))
                faults.fault(f"F{number}", "begin")
                await asyncio.to_thread(pair.primary.kill)
                killed_at.append(instant())
                await asyncio.to_thread(pair.promote)
                # The new primary confirms no commit before it has a standby, which is the strictest
                # setting.
                await asyncio.to_thread(pair.rebuild)
                faults.fault(f"F{number}", "end")
                if failovers > 5:
                    print(f"failover {number + 1} of {failovers}", flush=True)
            await under_load(pair.primary.dsn("queen"), between)
            said = await finished(pair.primary.dsn("queen"), workers)
        dump = await dumped(pair.primary.dsn("queen"))
    faults.close()
    checker = judged(folder, dump)
    violations = checker.check()
    back = {verb: service_back(checker, verb, killed_at) for verb in ("push", "pop", "ack")}
    slowest = {verb: max(seconds) for verb, seconds in back.items()}
    print(json.dumps({"seed": seed, **dict(sorted(checker.counts.items())), "back": back}))
    for violation in violations[:20]:
        print(violation, flush=True)
    assert violations == []
    assert [each for worker in said for each in worker] == []
    assert max(slowest.values()) < MOST_SECONDS, f"away for too long: {back}"
    # Below these minimums, the check proves nothing.
    short = {name: checker.counts[name] for name, n in minimum.items() if checker.counts[name] < n}
    assert checker.counts["kills"] == failovers
    assert short == {}, f"invalid: below the minimum of {minimum}"


def judged(folder: Path, dump: dict[str, Any]) -> Checker:
    return Checker(read_files(sorted(folder.glob("*.jsonl"))), dump)


async def finished(dsn: str, workers: list[tuple[Worker, Worker]]) -> list[list[str]]:
    """End the producers, drain the consumers, and return the unexpected errors of each."""
    said: list[list[str]] = []
    for _, producers in workers:
        producers.tell("stop")
    for _, producers in workers:
        said.append((await producers.finish(seconds=30))["unexpected"])
    for consumers, _ in workers:
        consumers.tell("drain")
    await drain(dsn)
    for consumers, _ in workers:
        consumers.tell("stop")
    for consumers, _ in workers:
        said.append((await consumers.finish(seconds=30))["unexpected"])
    return said


def service_back(checker: Checker, verb: str, killed_at: list[int]) -> list[float]:
    """Per kill: seconds until a later call succeeded with a non-empty result."""
    found: list[float] = []
    for at in killed_at:
        answers = [op.ret for op in checker.ops if op.inv > at and _has_served(op, verb)]
        found.append(round((min(answers) - at) / 1e9, 2))
    return found


def _has_served(op: Op, verb: str) -> bool:
    return op.name == verb and op.is_ok and (verb != "pop" or bool(op.result["deliveries"]))
