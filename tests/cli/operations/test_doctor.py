"""`queen doctor` and `queen health`: findings with advice, and exit codes for scripts."""

import asyncio
import os
import time
from collections.abc import Iterator
from urllib.parse import urlsplit
from uuid import uuid4

import asyncpg
import pytest

from queen.cli.doctor import findings
from queen.cli.doctor.findings import CRITICAL, OK, WARNING
from queen.store.migrations import make_roles, migrate
from tests.cli.shell import Ended, Shell
from tests.support.callers import KEYS
from tests.support.postgres import Postgres, Server as Database
from tests.support.server import Server


def _by_check(ended: Ended) -> dict[str, dict[str, str]]:
    return {each["check"]: each for each in ended.json}


async def test_a_healthy_server_has_no_findings(shell: Shell) -> None:
    ended = await shell.run("doctor", "-o", "json")

    assert (ended.code, ended.err) == (0, "10 ok\n")
    found = _by_check(ended)
    assert found["migrations"]["found"] == "the database is at this release"
    assert found["processes"]["found"].startswith("1 alive")
    assert "clock of the server" in found


async def test_a_healthy_database_has_no_findings(
    dsn: str, postgres: Database, shell: Shell
) -> None:
    await make_roles(dsn)
    user = f"user_{uuid4().hex[:12]}"
    postgres.execute(f"create role {user} login in role queen_app")
    dsn = dsn.replace("//postgres@", f"//{user}@")
    ended = await shell.run("doctor", "--dsn", dsn, "-o", "json", QUEEN_BASE_URL="")

    assert ended.code == 0
    found = _by_check(ended)
    assert {"version", "fsync", "autovacuum", "oldest snapshot", "wraparound"} <= set(found)
    assert "server" not in found
    same = await shell.run("doctor", "-o", "json", QUEEN_BASE_URL="", DATABASE_URL=dsn)
    assert set(_by_check(same)) == set(found)


async def test_a_transaction_of_another_database_is_named(
    dsn: str, postgres: Database, shell: Shell
) -> None:
    other = f"other_{uuid4().hex[:8]}"
    connection = await asyncpg.connect(postgres.create_database(other))
    await connection.execute("begin; create table t ()")

    through_server = await shell.run("doctor", "-o", "json")
    direct = await shell.run("doctor", "--dsn", dsn, "-o", "json", QUEEN_BASE_URL="")
    await connection.close()

    named = f"held back by pid {connection.get_server_pid()} of database {other} since "
    for ended in (through_server, direct):
        assert _by_check(ended)["transaction horizon"]["found"].startswith(named)
    postgres.drop_database(other)


def test_an_old_transaction_at_the_horizon_gets_advice() -> None:
    old = {"pid": 7, "age_seconds": 700.0}
    assert findings.horizon(old, "pid 7 of database x").status == WARNING
    assert "pg_terminate_backend(7)" in (findings.horizon(old, "pid 7").advice or "")
    assert findings.horizon({**old, "age_seconds": 4000.0}, "pid 7").status == CRITICAL
    prepared = findings.horizon({"pid": None, "age_seconds": 700.0}, "prepared transaction x")
    assert "roll it back" in (prepared.advice or "")
    hidden = findings.horizon({"pid": 7, "age_seconds": None}, "pid 7 of database x")
    assert (hidden.status, hidden.found) == (OK, "held back by pid 7 of database x")
    assert findings.horizon(None, None).status == OK


@pytest.fixture(scope="module")
def hurt() -> Iterator[Database]:
    """A server with bad settings."""
    told = {"autovacuum": "off", "max_wal_size": "64MB", "shared_buffers": "16MB"}
    with Postgres(told) as postgres:
        yield postgres


async def test_bad_settings_are_reported_with_advice(hurt: Database, shell: Shell) -> None:
    dsn = hurt.create_database(f"test_{uuid4().hex}")

    ended = await shell.run("doctor", "--dsn", dsn, "-o", "json", QUEEN_BASE_URL="")

    assert ended.code == 2
    found = _by_check(ended)
    hurting = {name: each["status"] for name, each in found.items() if each["status"] != OK}
    assert hurting == {
        "autovacuum": CRITICAL,
        "migrations": CRITICAL,
        "max_wal_size": WARNING,
        "shared_buffers": WARNING,
        "database user": WARNING,
    }
    assert found["max_wal_size"]["found"] == "64 MiB"
    assert found["migrations"]["advice"] == "run `queen migrate up`"
    assert ended.json[0]["status"] == CRITICAL
    await migrate(dsn)
    hurt.execute("alter system set autovacuum = on")
    hurt.execute("select pg_reload_conf()")

    async def is_warning() -> bool:
        return (await shell.run("doctor", "--dsn", dsn, QUEEN_BASE_URL="")).code == 1

    async with asyncio.timeout(20):
        while not await is_warning():
            pass


async def test_a_database_that_may_lose_messages_is_critical(shell: Shell) -> None:
    with Postgres({"fsync": "off"}) as postgres:
        ended = await shell.run("doctor", "--dsn", postgres.dsn(), QUEEN_BASE_URL="")
    assert ended.code == 2
    assert "fsync" in ended.out


async def test_an_unavailable_server_or_database_is_critical(
    shell: Shell, server: Server, postgres: Database
) -> None:
    gone = await shell.run("doctor", "--dsn", postgres.dsn("none"), "-o", "json", QUEEN_BASE_URL="")
    assert (gone.code, gone.json[0]["check"]) == (2, "database")
    server.kill()
    gone = await shell.run("doctor", "-o", "json")
    assert (gone.code, gone.json[0]["check"]) == (2, "server")


async def test_without_a_key_the_report_is_limited(dsn: str, shell: Shell) -> None:
    async with Server(dsn, KEYS) as server:
        ended = await shell.run("doctor", "-o", "json", QUEEN_BASE_URL=server.base_url)
    assert ended.code == 2
    assert ended.json[0]["status"] == CRITICAL


def test_statistics_become_findings() -> None:
    table = {"name": "consumers", "live_rows": 10, "dead_rows": 200_000, "total_bytes": 1}
    assert [each.status for each in findings.tables([table])] == [WARNING]
    assert findings.tables([{**table, "dead_rows": 20_000_000}])[0].status == CRITICAL
    assert findings.tables([{**table, "dead_rows": 10}])[0].status == OK


def test_a_large_audit_log_is_a_warning() -> None:
    audit = {"name": "audit", "live_rows": 5, "total_bytes": 10**6}
    assert [each.status for each in findings.audit_log([audit])] == [OK]
    large = {**audit, "total_bytes": 11 * 10**9}
    (found,) = findings.audit_log([large, {**large, "name": "segments"}])
    assert (found.status, "QUEEN_AUDIT_RETENTION_HOURS" in str(found.advice)) == (WARNING, True)
    old = {"age_seconds": 700.0, "pid": 7, "application_name": "psql", "state": "idle"}
    assert findings.transaction(old).status == WARNING
    assert "pg_terminate_backend(7)" in (findings.transaction(old).advice or "")
    assert findings.transaction({**old, "age_seconds": 4000.0}).status == CRITICAL
    assert findings.transaction(None).status == OK
    held = {"kind": "replication slot", "name": "old", "xmin_age": 2_000_000}
    assert findings.snapshots([held]).status == WARNING
    assert findings.snapshots([{**held, "xmin_age": 60_000_000}]).status == CRITICAL
    assert findings.frozen(700_000_000).status == WARNING
    assert findings.frozen(1_600_000_000).status == CRITICAL
    assert findings.clock("database", -3.0).status == WARNING
    assert findings.clock("database", 90.0).status == CRITICAL
    assert findings.clock("database", 0.2).status == OK
    assert findings.connections(95, 100).status == WARNING
    assert findings.version(140_005, "14.5").status == CRITICAL
    assert findings.releases("0.1.0", ["0.1.0", "0.2.0"]).status == WARNING
    assert findings.maintenance(["pushes"]).status == WARNING
    assert findings.instances(0, 0).status == WARNING


async def test_health_waits_for_a_server_that_starts(shell: Shell, server: Server) -> None:
    assert (await shell.run("health", "-o", "json")).json["ready"] is True
    server.kill()
    began = time.monotonic()
    assert (await shell.run("health")).code == 2
    assert time.monotonic() - began < 10

    async with shell.started("health", "--wait", "40s") as process:
        await server.start()
        out, _ = await process.communicate()

    assert process.returncode == 0
    assert b"healthy" in out


async def test_health_reports_a_lost_database_by_its_exit_code(shell: Shell) -> None:
    with Postgres(in_memory=True) as postgres:
        dsn = postgres.create_database("queen")
        await migrate(dsn)
        async with Server(dsn) as server:
            postgres.kill()
            ended = await shell.run("health", "-o", "json", QUEEN_BASE_URL=server.base_url)
    assert (ended.code, ended.json["status"]) == (2, "unhealthy")


async def test_settings_of_this_environment_are_shown(shell: Shell) -> None:
    told = {"PG_PASSWORD": "hunter2", "PORT": "7000"}
    shown = await shell.run("config", "show", **told)
    assert "PORT=7000  # environment" in shown.lines
    assert "PG_PASSWORD=****  # environment" in shown.lines
    assert "hunter2" not in shown.out
    assert "PG_HOST" not in shown.out
    every = await shell.run("config", "show", "--effective", "-o", "json", **told)
    assert {"name": "PG_HOST", "value": "localhost", "source": "default"} in every.json
    assert os.environ.get("PORT") is None


async def test_errors_are_listed_and_a_typo_gets_a_hint(shell: Shell) -> None:
    codes = (await shell.run("errors", "-o", "name")).lines
    assert "lease_lost" in codes
    assert codes == sorted(codes)
    ended = await shell.run("errors", "lease_lots")
    assert ended.code == 3
    assert ended.err == "queen: error code lease_lots does not exist; did you mean lease_lost?\n"
    assert (await shell.run("errors", "lease_lost", "-o", "json")).json["status"] == 409


def test_a_table_much_larger_than_its_rows_is_bloated() -> None:
    mib = 2**20
    rows = [
        {"name": "segments", "heap_bytes": 500 * mib, "needed_bytes": 400.0 * mib},
        {"name": "consumers", "heap_bytes": 500 * mib, "needed_bytes": 20.0 * mib},
        {"name": "small", "heap_bytes": mib, "needed_bytes": 1.0},
        {"name": "unknown", "heap_bytes": 500 * mib, "needed_bytes": None},
    ]
    (found,) = findings.bloat(rows)
    assert (found.status, found.found) == (
        WARNING,
        "consumers takes 500 MiB, its rows need about 20 MiB",
    )
    assert [each.status for each in findings.bloat(rows[:1])] == [OK]


def test_a_broken_or_mostly_empty_index_is_reported() -> None:
    mib = 2**20
    rows = [
        {"name": "good", "bytes": 300 * mib, "rows": 10_000_000, "is_valid": True},
        {"name": "broken", "bytes": 8192, "rows": 0, "is_valid": False},
        {"name": "roomy", "bytes": 300 * mib, "rows": 10_000, "is_valid": True},
    ]
    found = {each.found.split()[0]: each for each in findings.indexes(rows)}
    assert {name: each.status for name, each in found.items()} == {
        "broken": CRITICAL,
        "roomy": WARNING,
    }
    assert found["roomy"].advice == "REINDEX INDEX CONCURRENTLY queen.roomy"


async def test_a_table_without_its_vacuum_settings_is_reported(
    dsn: str, shell: Shell, postgres: Database
) -> None:
    name = urlsplit(dsn).path[1:]
    postgres.execute("alter table queen.consumers set (autovacuum_enabled = off)", name)
    postgres.execute("alter table queen.outbox reset (autovacuum_vacuum_scale_factor)", name)

    ended = await shell.run("doctor", "--dsn", dsn, "-o", "json", QUEEN_BASE_URL="")

    assert ended.code == 2
    hurting = [each for each in ended.json if each["check"] == "autovacuum of tables"]
    assert [(each["status"], each["found"]) for each in hurting] == [
        (CRITICAL, "off for consumers"),
        (WARNING, "outbox lacks autovacuum_vacuum_scale_factor"),
    ]
    for each in hurting:
        postgres.execute(each["advice"], name)
    ended = await shell.run("doctor", "--dsn", dsn, "-o", "json", QUEEN_BASE_URL="")
    assert _by_check(ended)["autovacuum of tables"]["status"] == OK
