"""`queen backup-check`: check a database before a backup and after a restore."""

import asyncio
import subprocess
from collections.abc import Iterator
from uuid import uuid4

import asyncpg
import pytest

from queen import errors
from queen.cli.doctor import backup_findings
from queen.cli.doctor.findings import CRITICAL, OK, WARNING
from queen.engine.engine import Engine
from queen.settings import Settings
from tests.cli.shell import Ended, Shell
from tests.engine.helpers import pop, pop_one, push, values
from tests.support.postgres import Postgres, Server as PostgresServer, bindir

KEY = "0123456789abcdef" * 4


def statuses(ended: Ended) -> dict[str, str]:
    return {each["check"]: each["status"] for each in ended.json if each["status"] != OK}


async def copied(dsn: str, server: PostgresServer) -> str:
    """The database after a dump and a restore into another server."""
    target = await asyncio.to_thread(server.create_database, f"copy_{uuid4().hex}")
    dump = [str(bindir() / "pg_dump"), "--no-owner", dsn]
    text = await asyncio.to_thread(subprocess.check_output, dump)
    load = [str(bindir() / "psql"), "-q", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null", target]
    await asyncio.to_thread(subprocess.run, load, input=text, check=True)
    return target


@pytest.fixture
def elsewhere() -> Iterator[Postgres]:
    """Another server, which has run few transactions."""
    with Postgres(in_memory=True) as postgres:
        yield postgres


async def test_a_dump_in_another_server_is_complete_after_repair(
    dsn: str, shell: Shell, elsewhere: Postgres
) -> None:
    async with await Engine.open(dsn) as engine:
        for number in range(5):
            await push(engine, "orders", number)
        held = await pop_one(engine, "orders", batch=2)
    connection = await asyncpg.connect(dsn)
    # As if it had run for years.
    await connection.execute(
        "update queen.segments set xid = (xid::text::bigint + 9000000)::text::xid8"
    )
    await connection.close()

    copy = await copied(dsn, elsewhere)
    looked = await shell.run("backup-check", "--dsn", copy, "--restored", "-o", "json")
    assert looked.code == 2, looked
    assert statuses(looked) == {"transaction numbers": CRITICAL, "leases": WARNING}
    assert (await shell.run("backup-check", "--dsn", copy, "--repair")).code == 2

    repaired = await shell.run("backup-check", "--dsn", copy, "--repair", "--yes", "-o", "json")
    assert (repaired.code, statuses(repaired)) == (0, {}), repaired
    assert "1 leases are void. Transactions are renumbered." in repaired.err

    connection = await asyncpg.connect(copy)
    order = await connection.fetch("select base_offset from queen.segments order by xid")
    assert [row["base_offset"] for row in order] == [0, 1, 2, 3, 4]
    await connection.close()
    async with await Engine.open(copy) as engine:
        with pytest.raises(errors.LeaseLost):
            await engine.ack(held.lease_id or "")
        await push(engine, "orders", 5)
        assert values(await pop(engine, "orders", batch=10)) == [0, 1]


async def test_damage_is_found(dsn: str, shell: Shell) -> None:
    async with await Engine.open(dsn) as engine:
        for number in range(6):
            await push(engine, "orders", number)
        await pop_one(engine, "orders")
    connection = await asyncpg.connect(dsn)
    await connection.execute("delete from queen.segments where base_offset = 2")
    await connection.execute("update queen.segments set body = body || 'x' where base_offset = 3")
    await connection.execute("update queen.consumers set claimed = 99")
    await connection.execute("alter sequence queen.delivery_ids restart with 1")
    await connection.execute("update queen.deliveries set id = 1000")
    await connection.close()

    ended = await shell.run("backup-check", "--dsn", dsn, "--restored", "-o", "json")

    assert ended.code == 2
    found = {(each["check"], each["found"]) for each in ended.json if each["status"] == CRITICAL}
    assert found == {
        ("log", "1 segments don't follow the previous one"),
        ("log", "1 segments are torn"),
        ("positions", "1 groups are positioned after the end of a partition"),
        ("sequences", "those of deliveries return numbers that are in use"),
    }


async def test_a_missing_encryption_key_is_reported(dsn: str, shell: Shell) -> None:
    async with await Engine.open(dsn, settings=Settings(encryption_key=KEY)) as engine:
        await engine.queues.configure("orders", {"encrypted": True})
        await push(engine, "orders", 1)

    without = await shell.run("backup-check", "--dsn", dsn, "--restored", "-o", "json")
    assert statuses(without) == {"master keys": CRITICAL}
    with_key = await shell.run(
        *("backup-check", "--dsn", dsn, "--restored", "-o", "json"), QUEEN_ENCRYPTION_KEY=KEY
    )
    assert with_key.code == 0


async def test_a_server_without_archiving_causes_a_warning(dsn: str, shell: Shell) -> None:
    ended = await shell.run("backup-check", "--dsn", dsn, "-o", "json")
    assert ended.code == 1
    assert "archiving" in statuses(ended)
    assert (await shell.run("backup-check", DATABASE_URL="")).code == 2


_WELL = {
    "archive_mode": "on",
    "data_checksums": "on",
    "is_failing": False,
    "failed_count": 0,
    "archived_count": 7,
    "archived_seconds": 12.0,
    "archive_timeout": "1min",
    "standbys": 0,
    "idle_slot_bytes": None,
}


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({}, {"archiving": OK, "checksums": OK}),
        ({"archive_mode": "off"}, {"archiving": WARNING, "checksums": OK}),
        ({"is_failing": True}, {"archiving": CRITICAL, "checksums": OK}),
        ({"archived_seconds": None}, {"archiving": WARNING, "checksums": OK}),
        ({"archive_timeout": "0"}, {"archiving": WARNING, "checksums": OK}),
        ({"data_checksums": "off"}, {"archiving": OK, "checksums": WARNING}),
        (
            {"idle_slot_bytes": 2**32},
            {"archiving": OK, "checksums": OK, "replication slots": WARNING},
        ),
    ],
    ids=str,
)
def test_the_requirements_of_a_restore_are_checked(
    changed: dict[str, object], status: dict[str, str]
) -> None:
    found = backup_findings.archiving({**_WELL, **changed})
    assert {each.check: each.status for each in found} == status
