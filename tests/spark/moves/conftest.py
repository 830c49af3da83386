"""Three servers with a database each, moves between them, and a reader of all three."""

# pyright: basic

from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from queen.cluster.cluster import Cluster
from queen.store.cluster.joining import join
from tests.cluster.conftest import apart, cluster
from tests.cluster.moves import Members
from tests.spark.moves.reader import Reader
from tests.support.postgres import Postgres

__all__ = ["apart", "cluster"]


@pytest.fixture
async def databases(apart: dict[str, Postgres]) -> dict[str, str]:
    """Databases of one server would share their transaction numbers."""
    queen = f"queen_{uuid4().hex}"
    found = {name: each.create_database(queen) for name, each in apart.items()}
    # The numbers of a server mean nothing in another one.
    for number, name in enumerate(found):
        for _ in range(100 * number):
            apart[name].execute("select pg_current_xact_id()")
    await join(found)
    return found


@pytest.fixture
async def members(databases: dict[str, str]) -> AsyncIterator[Members]:
    async with Members.connected(databases) as members:
        yield members


@pytest.fixture
def reader(databases: dict[str, str], cluster: Cluster) -> Reader:
    return Reader(databases)
