"""One process migrates a database to this release, forward only, completely or not at all."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from uuid import uuid4

import asyncpg
import pytest

from queen import errors, sql
from queen.store import migrations
from queen.store.migrations import ahead, migrate, pending
from tests.support.postgres import Server
from tools.write_schema import dump

EVERYTHING = [*sql.MIGRATIONS, "functions"]
SOURCE = Path(__file__).parents[3] / "src"
TASKS = 16
PROCESSES = 4
PROCESS = """
import asyncio, json, sys
from queen.store.migrations import migrate
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps(asyncio.run(migrate(sys.argv[1]))), flush=True)
"""
REFUSE_DDL = """
create function public.refuse () returns event_trigger language plpgsql as $$
begin
  raise exception 'DDL was sent: %', tg_tag;
end
$$;
create event trigger no_ddl on ddl_command_start execute function public.refuse();
"""


@pytest.fixture
def empty_dsn(postgres: Server) -> str:
    """A database without Queen's schema."""
    return postgres.create_database(f"test_{uuid4().hex}")


async def query(dsn: str, statement: str) -> list[asyncpg.Record]:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetch(statement)
    finally:
        await connection.close()


@pytest.fixture
def processes(empty_dsn: str) -> Iterator[list["subprocess.Popen[bytes]"]]:
    """Processes that have imported their modules, and migrate on command."""
    with ExitStack() as stack:
        processes: list[subprocess.Popen[bytes]] = []
        for _ in range(PROCESSES):
            process = subprocess.Popen(
                [sys.executable, "-c", PROCESS, empty_dsn],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": str(SOURCE)},
            )
            stack.callback(process.communicate)
            stack.callback(process.kill)
            processes.append(process)
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        yield processes


async def let_go(process: "subprocess.Popen[bytes]") -> list[str]:
    out, err = await asyncio.to_thread(process.communicate, b"go\n", 30)
    assert process.returncode == 0, err.decode()
    return json.loads(out)


async def test_twenty_servers_start_together_and_one_migrates(
    dsn: str, empty_dsn: str, processes: list["subprocess.Popen[bytes]"]
) -> None:
    applied = await asyncio.gather(
        *(let_go(process) for process in processes), *(migrate(empty_dsn) for _ in range(TASKS))
    )

    assert sorted(applied) == [[]] * 19 + [EVERYTHING]
    assert dump(empty_dsn) == dump(dsn)


async def test_a_second_run_applies_no_migration_and_sends_no_ddl(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(REFUSE_DDL)
    await connection.close()
    book = "select name, checksum, applied_at, xmin::text from queen.migrations order by name"
    before = await query(dsn, book)

    assert await pending(dsn) == []
    assert await migrate(dsn) == []

    assert await query(dsn, book) == before


async def test_the_check_for_ddl_detects_a_first_run(empty_dsn: str) -> None:
    connection = await asyncpg.connect(empty_dsn)
    await connection.execute(REFUSE_DDL)
    await connection.close()

    assert await pending(empty_dsn) == EVERYTHING
    with pytest.raises(asyncpg.RaiseError, match="DDL was sent: CREATE SCHEMA"):
        await migrate(empty_dsn)


async def test_a_migration_that_changed_after_it_was_applied_is_rejected(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dump(dsn)
    name = next(iter(sql.MIGRATIONS))
    changed = MappingProxyType({**sql.MIGRATIONS, name: sql.MIGRATIONS[name] + "\n-- changed\n"})
    monkeypatch.setattr(sql, "MIGRATIONS", changed)

    with pytest.raises(errors.DatabaseUnsafe, match=name):
        await migrate(dsn)
    with pytest.raises(errors.DatabaseUnsafe, match=name):
        await pending(dsn)

    assert dump(dsn) == before


async def test_changed_functions_are_applied_again(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = sql.FUNCTIONS["now"].replace("clock_timestamp()", "timestamptz ''2030-01-01''")
    added = "create function queen.added () returns integer language sql as 'select 1';"
    monkeypatch.setattr(
        sql, "FUNCTIONS", MappingProxyType({**sql.FUNCTIONS, "now": changed, "added": added})
    )

    assert await pending(dsn) == ["functions"]
    assert await migrate(dsn) == ["functions"]
    assert await migrate(dsn) == []

    (row,) = await query(
        dsn,
        """
        select
          queen.now() = '2030-01-01' as is_changed,
          has_function_privilege('public', 'queen.added()', 'execute') as is_open
        """,
    )
    assert (row["is_changed"], row["is_open"]) == (True, False)


async def test_a_new_migration_is_applied_and_the_functions_again(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = {"9999_notes": "create table queen.notes (id bigint primary key);"}
    monkeypatch.setattr(sql, "MIGRATIONS", MappingProxyType({**sql.MIGRATIONS, **added}))

    assert await migrate(dsn) == ["9999_notes", "functions"]
    assert await migrate(dsn) == []
    assert await query(dsn, "select id from queen.notes") == []


async def test_a_failed_run_leaves_no_changes(
    empty_dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = {
        "zz_broken": "create function queen.broken () returns nothing_known language sql as '';"
    }
    monkeypatch.setattr(sql, "FUNCTIONS", MappingProxyType({**sql.FUNCTIONS, **broken}))
    with pytest.raises(asyncpg.PostgresError):
        await migrate(empty_dsn)
    (row,) = await query(empty_dsn, "select to_regnamespace('queen') is null as is_gone")
    assert row["is_gone"]

    monkeypatch.undo()
    assert await migrate(empty_dsn) == EVERYTHING


async def test_functions_of_a_later_release_stay_unchanged(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of the last release that starts during an upgrade does not overwrite them."""
    later = sql.FUNCTIONS["now"].replace("$$", "$$ -- later", 1).replace("'", "' /* later */", 1)
    with monkeypatch.context() as patched:
        patched.setattr(sql, "FUNCTIONS", MappingProxyType({**sql.FUNCTIONS, "now": later}))
        patched.setattr(migrations, "version", {"queenmq": "99.1.0"}.__getitem__)
        assert await migrate(dsn) == ["functions"]

    assert await pending(dsn) == []
    assert await migrate(dsn) == []

    (row,) = await query(dsn, "select prosrc from pg_proc where oid = 'queen.now()'::regprocedure")
    assert "later" in row["prosrc"]


async def test_a_later_migration_is_accepted_unless_it_breaks_this_release(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = {"9998_notes": "create table queen.notes (id bigint primary key);"}
    with monkeypatch.context() as patched:
        patched.setattr(sql, "MIGRATIONS", MappingProxyType({**sql.MIGRATIONS, **added}))
        await migrate(dsn)

    assert await migrate(dsn) == []
    assert await ahead(dsn) == ["9998_notes"]

    added["9999_gone"] = "--! breaking\nalter table queen.notes drop column id;"
    with monkeypatch.context() as patched:
        patched.setattr(sql, "MIGRATIONS", MappingProxyType({**sql.MIGRATIONS, **added}))
        await migrate(dsn)
        assert await migrate(dsn) == []

    with pytest.raises(errors.DatabaseUnsafe, match="9999_gone"):
        await migrate(dsn)


async def test_a_migration_that_waits_for_a_table_does_not_block_others(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = {"9999_more": "alter table queen.queues add column more text;"}
    monkeypatch.setattr(sql, "MIGRATIONS", MappingProxyType({**sql.MIGRATIONS, **added}))
    reader = await asyncpg.connect(dsn)
    transaction = reader.transaction()
    await transaction.start()
    await reader.fetch("select id from queen.queues")

    migrating = asyncio.create_task(migrate(dsn))
    waits = "select 1 from pg_locks where mode = 'AccessExclusiveLock' and not granted"
    async with asyncio.timeout(10):
        while not await query(dsn, waits):  # noqa: ASYNC110 - the condition is in the database
            await asyncio.sleep(0.01)
        # Queued behind the migration, which releases its lock request.
        await query(dsn, "select id from queen.queues")
    assert not migrating.done()
    await transaction.rollback()
    await reader.close()

    assert await migrating == ["9999_more", "functions"]


async def test_a_wait_for_another_migration_is_bounded_and_names_the_holder(
    dsn: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "_STEP_SECONDS", 0.1)
    holder = await asyncpg.connect(dsn, server_settings={"application_name": "stopped"})
    await holder.execute("begin; select pg_advisory_xact_lock(hashtext('queen.migrations'))")
    named = f"pid {holder.get_server_pid()}, application stopped, state idle in transaction"

    async with asyncio.timeout(30):
        with pytest.raises(errors.DatabaseUnavailable, match=named):
            await migrate(dsn, wait_seconds=0.5)

    assert any(named in line for line in caplog.messages)
    await holder.close()


async def test_a_process_that_waited_for_another_migration_continues_after_it(
    dsn: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "_STEP_SECONDS", 0.1)
    holder = await asyncpg.connect(dsn)
    await holder.execute("begin; select pg_advisory_xact_lock(hashtext('queen.migrations'))")
    waiting = asyncio.create_task(migrate(dsn))
    async with asyncio.timeout(30):
        while not caplog.messages:  # noqa: ASYNC110 - a log file sends no events
            await asyncio.sleep(0.02)

    await holder.close()

    assert await waiting == []


async def test_an_unreachable_database_is_unavailable(postgres: Server) -> None:
    with pytest.raises(errors.DatabaseUnavailable):
        await migrate(postgres.dsn("there_is_no_such_database"))


async def test_a_script_run_by_hand_keeps_the_privileges_of_the_roles(dsn: str) -> None:
    await migrations.make_roles(dsn)
    connection = await asyncpg.connect(dsn)
    try:
        # A migration that changes a function's parameters drops it, and its privileges with it.
        await connection.execute("drop function queen.wants_more")
        await connection.execute("delete from queen.migrations where name = 'functions'")
        await connection.execute(await migrations.script(dsn))
        denied = await connection.fetch(
            """
            select p.proname
            from pg_proc p
            where p.pronamespace = 'queen'::regnamespace and p.proname = 'wants_more'
              and not has_function_privilege('queen_app', p.oid, 'execute')
            """
        )
    finally:
        await connection.close()

    assert denied == []
    assert await pending(dsn) == []
