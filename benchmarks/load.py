"""Shared by benchmarks: messages, closed loops of callers, and a temporary PostgreSQL."""

import asyncio
import os
import platform
import random
import time
from collections.abc import Awaitable, Callable

import asyncpg

SETTINGS = {
    "shared_buffers": "1GB",
    "max_wal_size": "16GB",
    "checkpoint_timeout": "30min",
    "max_connections": "100",
    "synchronous_commit": "on",
}
_WAL_FILES = 16


def payloads(count: int, seed: int) -> list[bytes]:
    """Return orders of about 200 bytes, a third of each random."""
    rng = random.Random(seed)
    return [
        b'{"order":%d,"customer":"c-%05d","total":%d.%02d,"currency":"EUR","items":[{"sku":"%08x","n":%d},'
        b'{"sku":"%08x","n":%d}],"reference":"%032x","status":"new","at":"2026-11-15T10:%02d:%02dZ"}'
        % (
            rng.randrange(10**7),
            rng.randrange(10**5),
            rng.randrange(1000),
            rng.randrange(100),
            rng.getrandbits(32),
            rng.randrange(1, 9),
            rng.getrandbits(32),
            rng.randrange(1, 9),
            rng.getrandbits(128),
            rng.randrange(60),
            rng.randrange(60),
        )
        for _ in range(count)
    ]


async def closed_loop(
    callers: int, seconds: float, call: Callable[[int, int], Awaitable[int]]
) -> float:
    """Return messages per second of callers that start a call when the last has returned."""
    done = 0
    started = time.perf_counter()
    deadline = started + seconds

    async def run(caller: int) -> None:
        nonlocal done
        turn = 0
        while time.perf_counter() < deadline:
            # Not `done += await …`, which reads before the await and writes after it.
            count = await call(caller, turn)
            done += count
            turn += 1

    await asyncio.gather(*(run(caller) for caller in range(callers)))
    return done / (time.perf_counter() - started)


async def recycle_wal(connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """
    Leave WAL files for reuse, as every checkpoint of a running server does.

    In a new cluster, all commits wait for 30 to 60 ms whenever PostgreSQL creates the next file.
    """
    for _ in range(_WAL_FILES):
        await connection.execute("select pg_logical_emit_message(false, '', '')")
        await connection.execute("select pg_switch_wal()")
    await connection.execute("checkpoint")


def machine() -> dict[str, object]:
    """Describe the machine of the measurement."""
    load = os.getloadavg()
    return {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "system": platform.platform(terse=True),
        "load_before": round(load[0], 2),
    }
