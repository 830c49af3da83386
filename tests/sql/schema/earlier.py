"""Databases with the schema of an earlier release."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

import asyncpg
import pytest

from queen import sql
from queen.store.migrations import migrate
from tests.support.postgres import Server

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


@asynccontextmanager
async def earlier(
    postgres: Server, *, before: str, functions: Mapping[str, str | None]
) -> AsyncGenerator["Connection"]:
    """
    A connection to a database without the migrations from ``before`` on.

    ``functions``: files of functions as they were, or None if they did not exist.
    """
    name = f"test_{uuid4().hex}"
    dsn = postgres.create_database(name)
    with pytest.MonkeyPatch.context() as patch:
        migrations = {n: t for n, t in sql.MIGRATIONS.items() if n < before}
        former = {n: t for n, t in {**sql.FUNCTIONS, **functions}.items() if t is not None}
        patch.setattr(sql, "MIGRATIONS", migrations)
        patch.setattr(sql, "FUNCTIONS", former)
        await migrate(dsn)
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()
        postgres.drop_database(name)
