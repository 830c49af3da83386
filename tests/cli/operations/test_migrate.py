"""`queen migrate`: upgrade a database by hand."""

import asyncio
import re
import subprocess
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from queen import sql
from tests.cli.commands import queen
from tests.support.postgres import Server, bindir
from tools.write_schema import dump


@pytest.fixture
def empty(postgres: Server) -> str:
    return postgres.create_database(f"test_{uuid4().hex}")


async def test_a_database_is_migrated_and_the_result_is_printed(dsn: str, empty: str) -> None:
    assert "pending" in (await queen("migrate", "status", dsn=empty)).out
    behind = await queen("migrate", "check", dsn=empty)
    assert behind.code == 1
    assert "queen migrate up" in behind.err
    assert "applied 0001_engine" in (await queen("migrate", "up", dsn=empty)).out
    assert (await queen("migrate", "up", dsn=empty)).err == "nothing to apply\n"
    assert (await queen("migrate", "check", dsn=empty)).code == 0
    assert "pending" not in (await queen("migrate", "status", dsn=empty)).out
    assert dump(empty) == dump(dsn)


async def test_the_printed_sql_has_the_same_effect(dsn: str, empty: str, tmp_path: Path) -> None:
    printed = await queen("migrate", "sql", dsn=empty)
    file = tmp_path / "up.sql"
    file.write_text(printed.out)
    await asyncio.to_thread(
        subprocess.run,
        [bindir() / "psql", "--no-psqlrc", "-q", "-v", "ON_ERROR_STOP=1", "-f", file, empty],
        check=True,
        capture_output=True,
    )
    assert (await queen("migrate", "check", dsn=empty)).code == 0
    assert dump(empty) == dump(dsn)
    assert (await queen("migrate", "sql", dsn=empty)).out == ""


async def test_roles_are_created_in_a_migrated_database(dsn: str, empty: str) -> None:
    early = await queen("migrate", "roles", dsn=empty)
    assert (early.code, "queen migrate up" in early.err) == (5, True)
    created = await queen("migrate", "roles", dsn=dsn)
    assert (created.code, created.err) == (0, f"created {', '.join(sql.ROLE_NAMES)}\n")


async def test_every_role_is_created_and_described(dsn: str) -> None:
    await queen("migrate", "roles", dsn=dsn)
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch("select rolname from pg_roles where rolname ~ '^queen_'")
    finally:
        await connection.close()
    shown = (await queen("migrate", "roles", "--help", dsn=dsn)).out
    page = (Path(__file__).parents[3] / "docs" / "security" / "secure.md").read_text("utf-8")

    assert len(sql.ROLE_NAMES) == 6
    assert {row["rolname"] for row in rows} >= set(sql.ROLE_NAMES)
    assert set(re.findall(r"\bqueen_\w+", shown)) == set(sql.ROLE_NAMES)
    assert set(re.findall(r"^\| `(queen_\w+)` \|", page, flags=re.MULTILINE)) == set(sql.ROLE_NAMES)


async def test_an_unavailable_database_is_reported_in_one_sentence(postgres: Server) -> None:
    for command in ("up", "status", "sql", "check", "roles"):
        ended = await queen("migrate", command, dsn=postgres.dsn("none"))
        assert ended.code == 5
        assert ended.err.startswith("queen: ")
        assert len(ended.err.splitlines()) == 1
