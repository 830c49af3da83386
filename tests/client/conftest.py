"""A client of a real server process."""

from collections.abc import AsyncIterator

import pytest

from queen import Queen
from tests.server.server import Server


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn) as server:
        yield server


@pytest.fixture
async def queen(server: Server) -> AsyncIterator[Queen]:
    async with Queen(server.base_url, retry_delay_millis=50) as queen:
        yield queen
