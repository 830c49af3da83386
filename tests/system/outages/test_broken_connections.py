"""Connections become silent or break, and processes pause: no partition is blocked for long."""

import asyncio
import contextlib
import json
import os
import random
import signal
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import asyncpg
import pytest

from queen.store.migrations import migrate
from tests.support.gate import Gate
from tests.support.postgres import Postgres
from tests.support.server import Server
from tests.system.checker.checker import Checker
from tests.system.load import History, instant
from tests.system.outages.test_failover import finished, judged
from tests.system.outages.test_http_kills import consume, produce
from tests.system.outages.test_kills import configure, dumped, under_load

MOST_SECONDS = 10.0
"""The longest time for which a partition may be blocked."""
RNG = random.SystemRandom()


@dataclass
class Scene:
    """Two servers under load, one of which reaches the database through a proxy."""

    dsn: str
    gate: Gate
    broken: Server
    times: int


Fault = Callable[[Scene], Awaitable[None]]


async def silence(scene: Scene) -> None:
    """Connections stay open, but no data passes in either direction."""
    for _ in range(scene.times):
        scene.gate.fall_silent()
        await answered(scene.broken)
        # Retries get through before the next fault.
        await under_load(scene.dsn, 500)


async def reset(scene: Scene) -> None:
    """All connections of a server break, once per second."""
    for number in range(scene.times):
        if number % 2:
            scene.gate.cut()
        else:
            connection = await asyncpg.connect(scene.dsn)
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name ~ '^broken' and datname = current_database()"
            )
            await connection.close()
        await asyncio.sleep(1)


async def pause_in_transaction(scene: Scene) -> None:
    """A server pauses between a statement and its commit while it holds locks."""
    for _ in range(scene.times):
        await stopped_in_transaction(scene)
        try:
            # Other processes use all partitions again while the server is still paused.
            await moves_everywhere(scene.dsn)
        finally:
            os.kill(scene.broken.pid, signal.SIGCONT)
        await answered(scene.broken)


async def pause_backends(scene: Scene) -> None:
    """All PostgreSQL processes of one server pause without holding a lock."""
    for _ in range(scene.times):
        stopped: set[int] = set()
        connection = await asyncpg.connect(scene.dsn)
        try:
            ends = asyncio.get_running_loop().time() + 0.5
            while asyncio.get_running_loop().time() < ends:
                stopped |= await stopped_idle(connection, stopped)
            assert len(stopped) > 2
            await answered(scene.broken)
        finally:
            resume(stopped)
            await connection.close()
        await under_load(scene.dsn, 500)


async def stopped_idle(
    connection: "asyncpg.Connection[asyncpg.Record]", known: set[int]
) -> set[int]:
    """Stop the processes that wait for their client. One that has started since may continue."""
    idle = (
        "select pid from pg_stat_activity where application_name ~ '^broken' and state = 'idle'"
        " and pid <> all ($1)"
    )
    pids = {row["pid"] for row in await connection.fetch(idle, [*known])}
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    surely: set[int] = set()
    try:
        # Unless one of them holds a lock that this query needs.
        async with asyncio.timeout(0.5):
            rows = await connection.fetch(idle, [*known])
        surely = pids & {row["pid"] for row in rows}
    except TimeoutError:
        pass
    finally:
        resume(pids - surely)
    return surely


def resume(pids: set[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


async def stopped_in_transaction(scene: Scene) -> None:
    """Stop the server while one of its connections is in a push."""
    within = (
        "select xact_start from pg_stat_activity where application_name = 'broken'"
        " and state = 'idle in transaction' and query ~ 'queen.push' limit 1"
    )
    connection = await asyncpg.connect(scene.dsn)
    try:
        async with asyncio.timeout(20):
            while True:
                if (since := await connection.fetchval(within)) is not None:
                    os.kill(scene.broken.pid, signal.SIGSTOP)
                    # Data that it had already sent has arrived by then.
                    await asyncio.sleep(0.1)
                    if await connection.fetchval(within) == since:
                        return
                    os.kill(scene.broken.pid, signal.SIGCONT)
    finally:
        await connection.close()


async def answered(server: Server) -> None:
    """Wait until a server stores again. The history shows how long that took."""
    async with asyncio.timeout(2 * MOST_SECONDS):
        while True:
            body = {"items": [{"queue": "probe", "payload": 1}]}
            if (await server.post("/push", body)).status == 201:
                return


async def moves_everywhere(dsn: str) -> None:
    """Wait until every partition has a newer message."""
    ends = (
        "select s.partition_id, max(s.base_offset) as base from queen.segments s"
        " join queen.queues q on q.id = s.queue_id where q.name <> 'probe' group by 1"
    )
    connection = await asyncpg.connect(dsn)
    try:
        before = {row["partition_id"]: row["base"] for row in await connection.fetch(ends)}
        async with asyncio.timeout(MOST_SECONDS):
            while True:
                now = {row["partition_id"]: row["base"] for row in await connection.fetch(ends)}
                if all(now[id_] > base for id_, base in before.items()):
                    return
                await asyncio.sleep(0.05)
    finally:
        await connection.close()


SHORT: dict[Fault, int] = {reset: 5}
NIGHTLY: dict[Fault, int] = {silence: 1, pause_in_transaction: 1, pause_backends: 1}
LONG: dict[Fault, int] = {silence: 20, reset: 60, pause_in_transaction: 10, pause_backends: 10}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("fault", "times"),
    [
        *(pytest.param(*each, id=each[0].__name__) for each in SHORT.items()),
        *(
            pytest.param(*each, id=each[0].__name__, marks=pytest.mark.nightly)
            for each in NIGHTLY.items()
        ),
    ],
)
async def test_no_partition_is_blocked_and_no_message_is_lost(
    tmp_path: Path, fault: Fault, times: int
) -> None:
    await run(tmp_path, fault, times, {"messages": 300, "ack_ok": 20})


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("fault", "times"), LONG.items(), ids=[each.__name__ for each in LONG])
async def test_no_partition_is_blocked_and_no_message_is_lost_for_long(
    tmp_path: Path, fault: Fault, times: int
) -> None:
    await run(tmp_path, fault, times, {"messages": 3_000, "ack_ok": 300, "unknown": 5})


async def run(folder: Path, fault: Fault, times: int, minimum: dict[str, int]) -> None:
    with Postgres() as postgres:
        dsn = postgres.create_database("queen")
        await migrate(dsn)
        await configure(dsn)
        async with contextlib.AsyncExitStack() as stack:
            gate = await stack.enter_async_context(Gate.open(dsn, folder))
            # Each call is a transaction of several round trips, as behind PgBouncer.
            is_pooled = str(fault is pause_in_transaction)
            environment = {"APP_NAME": "broken", "QUEEN_DB_PGBOUNCER": is_pooled}
            broken = await stack.enter_async_context(Server(gate.dsn, environment))
            whole = await stack.enter_async_context(Server(dsn))
            workers = [
                (
                    await stack.enter_async_context(consume(name, server, folder)),
                    await stack.enter_async_context(produce(name, server, folder)),
                )
                for name, server in (("broken", broken), ("whole", whole))
            ]
            for worker in (each for of_one in workers for each in of_one):
                await worker.expect("ready")
            await under_load(dsn, 100)
            await asyncio.sleep(RNG.uniform(0.0, 0.2))
            faults = History(folder / "faults.jsonl")
            begun = instant()
            faults.fault("F", "begin", target="connection")
            await fault(Scene(dsn, gate, broken, times))
            faults.fault("F", "end", target="connection")
            ended = instant()
            faults.close()
            await under_load(dsn, 100)
            probes = {"batch": 10_000, "autoAck": True}
            while (await whole.post("/pop/queue/probe", probes)).status == 200:
                pass
            said = await finished(dsn, workers)
        dump = await dumped(dsn)
    # The probes of this test are not part of the history.
    dump["segments"] = [
        each for each in dump["segments"] if dump["partitions"][each[0]][0] != "probe"
    ]
    checker = judged(folder, dump)
    violations = checker.check()
    gaps = longest_waits(checker, begun, ended, is_standing=fault is pause_in_transaction)
    print(json.dumps({**dict(sorted(checker.counts.items())), "gaps": gaps}), flush=True)
    for violation in violations[:20]:
        print(violation, flush=True)
    assert violations == []
    assert [each for worker in said for each in worker] == []
    assert max(gaps.values()) < MOST_SECONDS
    # Below these minimums, the check proves nothing.
    short = {name: checker.counts[name] for name, n in minimum.items() if checker.counts[name] < n}
    assert short == {}, f"invalid: below the minimum of {minimum}"


def longest_waits(
    checker: Checker, begun: int, ended: int, *, is_standing: bool
) -> dict[str, float]:
    """
    The longest times until a push was stored, with its retries, and without a delivery.

    If the broken server is paused, only the calls of the other server count.
    """
    first: dict[str, float] = {}
    longest: defaultdict[str, float] = defaultdict(float)
    times: defaultdict[str, list[float]] = defaultdict(lambda: [begun, ended])
    for op in checker.ops:
        if op.name == "push" and begun < op.inv < ended:
            name = op.proc.split("-")[1]
            since = first.setdefault(op.args["items"][0]["key"], op.inv)
            if op.is_ok and not (is_standing and name == "broken"):
                longest[f"push {name}"] = max(longest[f"push {name}"], op.ret - since)
                # A deliberate repeat is another push.
                first.pop(op.args["items"][0]["key"])
        elif op.name == "pop" and op.is_ok and begun < op.ret < ended:
            for each in op.result["deliveries"]:
                times[f"{op.args['group']}/{each['partition_id']}"].append(op.ret)
    for moments in times.values():
        gap = max(b - a for a, b in pairwise(sorted(moments)))
        longest["pop"] = max(longest["pop"], gap)
    return {name: round(wait / 1e9, 2) for name, wait in longest.items()}
