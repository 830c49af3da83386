"""A caller tries to fill or block the audit log with repeated calls."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import asyncpg
import msgspec
import pytest

from queen.wire.access import AuditRecord
from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Server, until

CALLS: Final = 600
AT_ONCE: Final = 20
MOST_ROWS: Final = 40
"""The maximum number of records that one caller can cause within a minute."""


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn, KEYS) as server:
        yield server


async def records(dsn: str, actor: str) -> list[AuditRecord]:
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch(
            "select record from queen.audit where actor = $1 order by id", actor
        )
    finally:
        await connection.close()
    return [msgspec.json.decode(row["record"], type=AuditRecord) for row in rows]


async def repeat(caller: Caller, paths: list[str]) -> set[int]:
    """Request each path, several at a time, and return the statuses."""
    waiting = iter(paths)

    async def ask() -> set[int]:
        return {(await caller.get(path)).status for path in waiting}

    answered = await asyncio.gather(*(ask() for _ in range(AT_ONCE)))
    return {status for statuses in answered for status in statuses}


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("/messages?queue=acme.bills", id="the same read"),
        pytest.param("/messages/00000000-0004-{:04x}-8000-000000000000", id="other messages"),
        pytest.param("/jobs/zeta.payroll/{}", id="rejected reads"),
    ],
)
async def test_repeated_reads_leave_a_bounded_number_of_records(
    dsn: str, server: Server, path: str
) -> None:
    scopes = [{"queue": "acme.*"}]
    reader = Caller(server, await make_key(dsn, name="ro", role="read-only", scopes=scopes))
    await repeat(reader, [path.format(number) for number in range(CALLS)])
    assert 0 < len(await records(dsn, "key:ro")) <= MOST_ROWS

    await server.stop()  # Write the records that are only counted so far.
    told = await records(dsn, "key:ro")
    assert len(told) <= MOST_ROWS
    assert sum(each.count for each in told) == CALLS


async def test_repeated_rejected_changes_leave_a_bounded_number_of_records(
    dsn: str, server: Server
) -> None:
    scopes = [{"queue": "acme.*"}]
    writer = Caller(server, await make_key(dsn, name="rw", role="read-write", scopes=scopes))
    for number in range(CALLS // 10):
        reply = await writer.post("/configure", {"queue": f"zeta.{number}"})
        assert reply.status == 403
    assert len(await records(dsn, "key:rw")) <= MOST_ROWS
    await server.stop()
    assert sum(each.count for each in await records(dsn, "key:rw")) == CALLS // 10


async def test_each_concurrent_change_has_its_record(dsn: str, server: Server) -> None:
    admin = Caller(server, await make_key(dsn, name="ops"))
    names = [f"q{number}" for number in range(200)]

    async def configure(name: str) -> None:
        reply = await admin.post("/configure", {"queue": name, "options": {"leaseTime": 60}})
        assert reply.status == 200

    await asyncio.gather(*map(configure, names))
    told = await records(dsn, "key:ops")
    assert sorted(each.queue or "" for each in told) == sorted(names)
    assert {each.count for each in told} == {1}
    assert {each.status for each in told} == {200}


async def test_changes_that_wait_for_the_log_share_its_lock(dsn: str, server: Server) -> None:
    """While one append waits for the end of the chain, the next one collects later records."""
    admin = Caller(server, await make_key(dsn, name="ops"))
    blocker, watcher = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    try:
        async with blocker.transaction():
            await blocker.execute("select from queen.audit_end for update")
            changes = [
                asyncio.create_task(admin.post("/configure", {"queue": f"q{number}"}))
                for number in range(15)
            ]

            async def are_done() -> bool:
                return await watcher.fetchval("select count(*) from queen.queues") == 15

            await until(are_done, seconds=30)
            waiting = await watcher.fetchval(
                "select count(*) from pg_locks where not granted and pid <> pg_backend_pid()"
            )
            # Only one connection of the pool waits, so other calls continue.
            assert waiting <= 1
            assert (await admin.get("/auth/me")).status == 200
        assert {(await each).status for each in changes} == {200}
        moments = await watcher.fetchval("select count(distinct at) from queen.audit")
        assert moments <= 5
    finally:
        await blocker.close()
        await watcher.close()
