"""A worker with its queue, and a connection to the database."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from queen.engine.engine import Engine
from tests.engine.sources.workflows.worker import Worker


@pytest.fixture
async def worker(engine: Engine) -> Worker:
    await engine.queues.configure("work", {"ordered": False})
    return Worker(engine)


@pytest.fixture
async def connection(dsn: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(dsn)
    yield connection
    await connection.close()
