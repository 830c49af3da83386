"""A server process for each test that asks for one, and one that many tests share."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest
import uvloop

from tests.support.postgres import Server as PostgresServer
from tests.support.server import Server


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Server]:
    """A server over a database of this test alone. Ask for `clock` as well to move its time."""
    async with Server(dsn) as server:
        yield server


@pytest.fixture(scope="module")
def process(postgres: PostgresServer, template: str) -> Iterator[Server]:
    """A server that stays for all tests of a file."""
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
    """The server of this file: each test has queues of its own, and the clock goes as it goes."""
    yield process
    await process.hang_up()
