"""A PostgreSQL that is too old is rejected before Queen changes it."""

from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from queen.cli.doctor import findings
from queen.store.connection.primary import OLDEST_POSTGRES
from tests.cli.commands import queen
from tests.support.gate import Gate
from tests.support.postgres import Server as PostgresServer
from tests.support.server import Server

TOO_OLD = r"this is PostgreSQL 14\.\d+, and Queen needs PostgreSQL 15 or newer"


@pytest.fixture
def empty(postgres: PostgresServer) -> str:
    return postgres.create_database(f"test_{uuid4().hex}")


@pytest.mark.parametrize("migrates", ["true", "false"])
async def test_a_server_does_not_start_on_an_old_postgresql(
    empty: str, tmp_path: Path, migrates: str
) -> None:
    async with Gate.open(empty, tmp_path) as gate:
        gate.report_version(OLDEST_POSTGRES - 1)
        server = Server(gate.dsn, {"QUEEN_AUTO_MIGRATE": migrates})
        try:
            with pytest.raises(RuntimeError, match=TOO_OLD):
                await server.start()
        finally:
            await server.close()
    connection = await asyncpg.connect(empty)
    try:
        assert await connection.fetchval("select to_regnamespace('queen') is null")
    finally:
        await connection.close()


async def test_commands_reject_an_old_postgresql(dsn: str, tmp_path: Path) -> None:
    async with Gate.open(dsn, tmp_path) as gate:
        assert (await queen("migrate", "check", dsn=gate.dsn)).code == 0
        gate.report_version(OLDEST_POSTGRES - 1)
        ended = await queen("migrate", "up", dsn=gate.dsn)
        assert ended.code == 1
        assert ended.err.startswith("queen: this is PostgreSQL 14.")
        doctor = await queen("doctor", "-o", "json", dsn=gate.dsn)
    assert doctor.code == 2
    assert doctor.json[0]["check"] == "migrations"
    assert "Queen needs PostgreSQL 15 or newer" in doctor.json[0]["found"]


def test_the_doctor_requires_the_same_version() -> None:
    assert findings.version(OLDEST_POSTGRES * 10_000, "15.0").status == findings.OK
    assert findings.version(OLDEST_POSTGRES * 10_000 - 1, "14.99").status == findings.CRITICAL
