"""A server process for each test that asks for one."""

from collections.abc import AsyncIterator

import pytest

from tests.server.server import Server


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Server]:
    """A server over a database of this test alone. Ask for `clock` as well to move its time."""
    async with Server(dsn) as server:
        yield server
