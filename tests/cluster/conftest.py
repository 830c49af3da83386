"""Three databases as one queue."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from uuid import uuid4

import pytest

from queen.cluster.cluster import Cluster
from queen.engine.engine import Engine
from queen.store.cluster.joining import join
from tests.cluster.places import NAMES
from tests.support.postgres import Server


@pytest.fixture
def empty(postgres: Server) -> Iterator[dict[str, str]]:
    """Three empty databases, by name."""
    created = {name: f"test_{uuid4().hex}" for name in NAMES}
    yield {name: postgres.create_database(database) for name, database in created.items()}
    for database in created.values():
        postgres.drop_database(database)


@pytest.fixture
async def databases(empty: dict[str, str]) -> dict[str, str]:
    """Three databases that have joined."""
    await join(empty)
    return empty


@pytest.fixture
async def cluster(databases: dict[str, str]) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack:
        engines = {
            name: await stack.enter_async_context(await Engine.open(dsn))
            for name, dsn in databases.items()
        }
        cluster = Cluster(engines)
        await cluster.start()
        yield cluster
