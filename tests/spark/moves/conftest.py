"""Three databases, moves between them, and a reader of all three."""

# pyright: basic

from collections.abc import AsyncIterator

import pytest

from queen.cluster.cluster import Cluster
from tests.cluster.conftest import cluster, connect, databases, empty
from tests.cluster.moves import Members
from tests.spark.moves.reader import Reader

__all__ = ["cluster", "connect", "databases", "empty"]


@pytest.fixture
async def members(databases: dict[str, str]) -> AsyncIterator[Members]:
    async with Members.connected(databases) as members:
        yield members


@pytest.fixture
def reader(databases: dict[str, str], cluster: Cluster) -> Reader:
    return Reader(databases)
