"""A client of a real server process."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest
import uvloop

from queen import Queen
from tests.support.postgres import Server as PostgresServer
from tests.support.server import Server


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn) as server:
        yield server


@pytest.fixture
async def queen(server: Server) -> AsyncIterator[Queen]:
    async with Queen(server.base_url, retry_delay_millis=50) as queen:
        yield queen


@pytest.fixture(scope="module")
def process(postgres: PostgresServer, template: str) -> Iterator[Server]:
    """A server that runs during all tests of a file."""
    server = Server(postgres.create_database(f"shared_{uuid4().hex}", template=template))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(server.start())
            runner.run(server.hang_up())
            yield server
        finally:
            runner.run(server.close())


@pytest.fixture
async def shared(process: Server) -> AsyncIterator[Queen]:
    """A client of the file's server. Each test uses its own queues."""
    async with Queen(process.base_url, retry_delay_millis=50) as queen:
        yield queen


@pytest.fixture
def name() -> str:
    """A queue name that no other test uses."""
    return f"q-{uuid4().hex}"
