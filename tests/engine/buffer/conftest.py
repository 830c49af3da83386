"""An engine with a file buffer, on a PostgreSQL server that tests stop and start."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from queen.engine.engine import Engine
from queen.settings import Settings
from queen.store.migrations import migrate
from tests.support.postgres import Postgres


@pytest.fixture(scope="module")
def own() -> Iterator[Postgres]:
    """A PostgreSQL server that these tests stop and start."""
    with Postgres(in_memory=True) as postgres:
        yield postgres


@pytest.fixture
async def dsn(own: Postgres, request: pytest.FixtureRequest) -> str:
    if own.is_stopped:
        await asyncio.to_thread(own.start)
    name = f"t{abs(hash(request.node.name))}"
    dsn = own.create_database(name)
    await migrate(dsn)
    return dsn


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(file_buffer_dir=str(tmp_path / "buffer"), file_buffer_flush_ms=10)


@pytest.fixture
async def engine(dsn: str, settings: Settings) -> AsyncIterator[Engine]:
    async with await Engine.open(dsn, settings=settings) as engine:
        yield engine
