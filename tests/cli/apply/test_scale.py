"""A thousand queues are applied in ten seconds."""

import resource
import time
from typing import Any, Final

import asyncpg
import psutil
import pytest

from tests.cli.apply.manifests import Manifests
from tests.support.server import Server

MOST_SECONDS: Final = 10.0
"""
CPU time of the command, the server and PostgreSQL together, per 1,000 queues.

On an idle machine, the command takes less time than that. The machine of a test is rarely idle.
"""
START_SECONDS: Final = 2.0
"""CPU time of a command without queues: mostly its imports."""


class CpuClock:
    """The CPU time of all processes that take part."""

    def __init__(self, server: Server, backend: int) -> None:
        self._server = psutil.Process(server.pid)
        self._postgres = psutil.Process(backend).parent()

    def seconds(self) -> float:
        commands = resource.getrusage(resource.RUSAGE_CHILDREN)
        total = commands.ru_utime + commands.ru_stime
        assert self._postgres is not None
        for process in (self._server, self._postgres, *self._postgres.children()):
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system
        return total


@pytest.mark.timeout(600)
@pytest.mark.parametrize("count", [50, pytest.param(1_000, marks=pytest.mark.nightly)])
async def test_many_queues_are_created_changed_and_deleted(
    dsn: str, server: Server, manifests: Manifests, count: int
) -> None:
    queues: dict[str, Any] = {
        f"q{number}": {"namespace": "shop", "leaseTime": 60, "schema": {"type": "object"}}
        for number in range(count)
    }
    connection = await asyncpg.connect(dsn)
    clock = CpuClock(server, await connection.fetchval("select pg_backend_pid()"))
    took: dict[str, tuple[float, float]] = {}

    async def apply(what: str, summary: str) -> None:
        manifests.write({"manager": "shop", "queues": queues})
        words = ("apply", "-f", str(manifests.file), "--prune", "--yes")
        began_at, began_with = time.monotonic(), clock.seconds()
        async with manifests.shell.started(*words) as process:
            _, error = await process.communicate()
        took[what] = time.monotonic() - began_at, clock.seconds() - began_with
        assert (process.returncode, summary in error.decode()) == (0, True), error

    try:
        await apply("create", f"{count} to create, 0 to change, 0 to delete, 0 unchanged")
        await apply("nothing", f"0 to create, 0 to change, 0 to delete, {count} unchanged")
        for queue in queues.values():
            queue["leaseTime"] = 90
        await apply("change", f"0 to create, {count} to change, 0 to delete, 0 unchanged")
        queues.clear()
        await apply("delete", f"0 to create, 0 to change, {count} to delete, 0 unchanged")
    finally:
        await connection.close()

    for what, (seconds, cpu) in took.items():
        print(f"{what} {count} queues: {seconds:.1f} s, {cpu:.1f} s of CPU time")
    assert (await server.get("/configure")).body["queues"] == []
    most = START_SECONDS + MOST_SECONDS * count / 1_000
    assert max(cpu for _, cpu in took.values()) < most, took
