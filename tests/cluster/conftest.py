"""Three databases as one queue."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from queen.cluster.cluster import Cluster
from queen.cluster.forwarding import connect_outboxes
from queen.engine.engine import Engine
from queen.store.cluster.joining import join
from tests.cluster.places import NAMES
from tests.support.postgres import Postgres, Server


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
    async with opened(databases) as cluster:
        connect_outboxes(cluster)
        yield cluster


@asynccontextmanager
async def opened(databases: Mapping[str, str]) -> AsyncGenerator[Cluster]:
    """The engines of databases that have joined."""
    async with AsyncExitStack() as stack:
        engines = {
            name: await stack.enter_async_context(await Engine.open(dsn))
            for name, dsn in databases.items()
        }
        cluster = Cluster(engines)
        await cluster.start()
        stack.push_async_callback(cluster.close)
        yield cluster


@pytest.fixture
async def connect(databases: dict[str, str]) -> AsyncIterator[Callable[[str], Awaitable[Any]]]:
    """Open a connection to a database by name."""
    opened: list[Any] = []

    async def connect(name: str) -> Any:  # noqa: ANN401
        opened.append(await asyncpg.connect(databases[name]))
        return opened[-1]

    yield connect
    for connection in opened:
        await connection.close()


@pytest.fixture(scope="module")
def apart() -> Iterator[dict[str, Postgres]]:
    """A PostgreSQL server per database, which a test can kill."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(Postgres(in_memory=True)) for name in NAMES}


async def joined(servers: Mapping[str, Postgres]) -> dict[str, str]:
    """A database in each server, by the same name. They have joined."""
    name = f"queen_{uuid4().hex}"
    databases = {each: server.create_database(name) for each, server in servers.items()}
    await join(databases)
    return databases
