"""Server processes: one per test, or one shared by the tests of a file."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest
import uvloop

from tests.support.postgres import Server as PostgresServer
from tests.support.server import Server


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Server]:
    """A server with its own database. Request the fixture `clock` to move its time."""
    async with Server(dsn) as server:
        yield server


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
async def shared(process: Server) -> AsyncIterator[Server]:
    """The server of this file. Each test uses its own queues, and the clock is real."""
    yield process
    await process.hang_up()
