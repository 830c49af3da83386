"""
Two servers on one database, one of which is killed under load: clients of the other notice nothing.
"""

import asyncio
import contextlib
import json
import random
from pathlib import Path
from typing import Any

import pytest

from queen.store.migrations import migrate
from tests.support.postgres import Postgres
from tests.support.server import Server
from tests.system.checker.checker import Checker
from tests.system.checker.history import read_files
from tests.system.load import Consume, Consumer, Produce, Producer
from tests.system.outages.test_kills import (
    GROUPS,
    LEASE_SECONDS,
    MODULE,
    QUEUES,
    configure,
    drain,
    dumped,
    under_load,
)
from tests.system.processes import Worker, start

EXPECTED = {"lease_lost", "sequence_stale"}
"""Errors of a healthy server's clients: expired leases and deliberately repeated numbers."""


@pytest.mark.nightly
async def test_a_killed_server_loses_no_message_and_the_other_continues(tmp_path: Path) -> None:
    await run(tmp_path, kills=2, between=100, minimum={"messages": 300, "redelivered": 5})


@pytest.mark.slow
async def test_ten_kills_of_a_server_lose_no_message(tmp_path: Path) -> None:
    await run(
        tmp_path,
        kills=10,
        between=1_000,
        minimum={"messages": 8_000, "redelivered": 100, "unknown": 10, "unknown_retried_ok": 5},
    )


async def run(folder: Path, *, kills: int, between: int, minimum: dict[str, int]) -> None:
    """Kill one server repeatedly, drain, and check the history."""
    seed = random.SystemRandom().randrange(10**9)
    rng = random.Random(seed)
    print(f"seed {seed}", flush=True)
    with Postgres() as postgres:
        dsn = postgres.create_database("queen")
        await migrate(dsn)
        await configure(dsn)
        async with contextlib.AsyncExitStack() as stack:
            killed = await stack.enter_async_context(Server(dsn))
            other = await stack.enter_async_context(Server(dsn))
            producers: list[Worker] = []
            consumers: list[Worker] = []
            for name, server in (("killed", killed), ("other", other)):
                consumers.append(await stack.enter_async_context(consume(name, server, folder)))
                producers.append(await stack.enter_async_context(produce(name, server, folder)))
            for worker in (*consumers, *producers):
                await worker.expect("ready")
            for _ in range(kills):
                await under_load(dsn, between)
                # At a random point of the load.
                await asyncio.sleep(rng.uniform(0.0, 0.3))
                killed.kill()
                await under_load(dsn, between // 2)
                await killed.start()
            await under_load(dsn, between)
            for worker in producers:
                worker.tell("stop")
            said = [await worker.finish(seconds=30) for worker in producers]
            for worker in consumers:
                worker.tell("drain")
            await drain(dsn)
            for worker in consumers:
                worker.tell("stop")
            said += [await worker.finish(seconds=30) for worker in consumers]
        state = await dumped(dsn)
    checker = _judge(folder, state)
    violations = checker.check()
    print(json.dumps({"seed": seed, **dict(sorted(checker.counts.items()))}), flush=True)
    for violation in violations[:20]:
        print(violation, flush=True)
    assert violations == []
    assert [each for worker in said for each in worker["unexpected"]] == []
    assert _heard(folder, "other") <= EXPECTED
    # Below these minimums, the check proves nothing.
    short = {name: checker.counts[name] for name, n in minimum.items() if checker.counts[name] < n}
    assert short == {}, f"invalid: below the minimum of {minimum}"
    assert _heard(folder, "killed") - EXPECTED


def _judge(folder: Path, state: dict[str, Any]) -> Checker:
    return Checker(read_files(sorted(folder.glob("*.jsonl"))), state)


def consume(
    name: str, server: Server, folder: Path
) -> contextlib.AbstractAsyncContextManager[Worker]:
    task = Consume(
        dsn=server.base_url,
        history=str(folder / f"consume-{name}.jsonl"),
        lease_seconds=LEASE_SECONDS,
        consumers=[
            Consumer(f"c-{name}-{queue}-{group}-{number}", queue, group)
            for queue, groups in GROUPS.items()
            for group in groups
            for number in range(2)
        ],
    )
    return start(task, module=MODULE)


def produce(
    name: str, server: Server, folder: Path
) -> contextlib.AbstractAsyncContextManager[Worker]:
    task = Produce(
        dsn=server.base_url,
        history=str(folder / f"produce-{name}.jsonl"),
        pace_seconds=0.02,
        producers=[
            Producer(f"p-{name}-{queue}-{identity}", queue, 6, identity)
            for queue in QUEUES
            for identity in ("sequence", "transaction", "none")
        ],
    )
    return start(task, module=MODULE)


def _heard(folder: Path, name: str) -> set[str]:
    """The codes of all errors that the clients of one server received."""
    lines = read_files([folder / f"consume-{name}.jsonl", folder / f"produce-{name}.jsonl"])
    return {
        str(line.get("code")) for line in lines if line["e"] == "ret" and line["outcome"] != "ok"
    }
