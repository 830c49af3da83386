"""Repeated reads are counted until a window ends. Other calls are recorded immediately."""

import asyncio
import contextlib
import time

import asyncpg
import msgspec
import pytest

from queen import errors
from queen.server.audit_log import AuditLog
from queen.store.migrations import migrate
from queen.store.store import Store
from queen.wire.access import AuditRecord
from tests.support.postgres import Postgres
from tests.support.server import until

NULL = msgspec.Raw(b"null")


def record(path: str = "/api/v1/dlq/1", *, actor: str = "key:ro", status: int = 200) -> AuditRecord:
    return AuditRecord(
        actor=actor,
        action="GET /api/v1/dlq/{id}",
        permission="browse",
        queue="q",
        path=path,
        source="127.0.0.1",
        request_id="r",
        status=status,
        before=NULL,
        after=NULL,
    )


async def stored(store: Store) -> list[AuditRecord]:
    rows = await store.audit.list(before=2**62, limit=1_000)
    return [msgspec.json.decode(row["record"], type=AuditRecord) for row in rows][::-1]


async def test_repeated_reads_are_one_record_when_the_window_ends(store: Store) -> None:
    log = AuditLog(store.audit, window_seconds=0.2)
    for _ in range(5):
        await log.append_or_count(record())
    await log.append_or_count(record(status=404))

    async def is_counted() -> bool:
        return sum(each.count for each in await stored(store)) == 6

    await until(is_counted)
    # The window may have ended meanwhile. Then the next one starts with its own record.
    counted = [each for each in await stored(store) if not each.request_id]
    assert {(each.path, each.queue, each.status) for each in counted} == {
        ("/api/v1/dlq/{id}", None, 200)
    }
    await store.audit.check()
    await log.close()


async def test_each_caller_has_its_own_records(store: Store) -> None:
    log = AuditLog(store.audit)
    for number in range(100):
        await log.append_or_count(record(f"/api/v1/dlq/{number}", actor="key:loud"))
    await log.append_or_count(record(actor="key:quiet"))
    await log.close()
    records = await stored(store)
    assert [each.path for each in records if each.actor == "key:quiet"] == ["/api/v1/dlq/1"]
    assert len([each for each in records if each.actor == "key:loud"]) == 31
    assert sum(each.count for each in records if each.actor == "key:loud") == 100


async def test_a_record_rejected_by_the_database_fails_only_its_call(store: Store) -> None:
    log = AuditLog(store.audit)
    ended = await asyncio.gather(
        log.append(record("/1")),
        log.append(record(actor="key:\0")),
        log.append(record("/2")),
        return_exceptions=True,
    )
    assert [isinstance(each, Exception) for each in ended] == [False, True, False]
    assert [each.path for each in await stored(store)] == ["/1", "/2"]
    await log.close()


async def test_a_read_without_a_record_is_recorded_the_next_time(dsn: str, store: Store) -> None:
    log = AuditLog(store.audit)
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        "create function public.reject () returns trigger language plpgsql as"
        " $$ begin raise 'the disk is full' using errcode = '53100'; end $$;"
        "create trigger reject before insert on queen.audit execute function public.reject()"
    )
    with pytest.raises(errors.QueenError):
        await log.append_or_count(record())
    await connection.execute("drop trigger reject on queen.audit")
    await connection.close()
    await log.append_or_count(record())
    assert [each.request_id for each in await stored(store)] == ["r"]
    await log.close()


async def test_counts_survive_a_database_outage() -> None:
    with Postgres(in_memory=True) as own:
        dsn = own.create_database("counts")
        await migrate(dsn)
        store = await Store.open(dsn)
        log = AuditLog(store.audit, window_seconds=1)
        for _ in range(4):
            await log.append_or_count(record())
        await asyncio.to_thread(own.stop)
        over_at = time.monotonic() + 2  # The window ends during the outage.

        async def is_unavailable() -> bool:
            with contextlib.suppress(errors.QueenError):
                await store.database.fetch("audit_end")
            return store.database.is_away and time.monotonic() > over_at

        await until(is_unavailable, seconds=30)
        await asyncio.to_thread(own.start)

        async def is_complete() -> bool:
            with contextlib.suppress(errors.QueenError):
                return sum(each.count for each in await stored(store)) == 4
            return False

        await until(is_complete, seconds=30)
        await log.close()
        await store.close()
