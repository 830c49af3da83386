"""A job application on a real server process."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest
import uvloop

from queen import Queen
from queen.jobs import QueueManager
from tests.support.postgres import Server as PostgresServer
from tests.support.server import Server


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
async def queen(process: Server) -> AsyncIterator[Queen]:
    async with Queen(process.base_url, retry_delay_millis=50) as queen:
        yield queen


@pytest.fixture
async def jobs(queen: Queen) -> AsyncIterator[QueueManager]:
    """The jobs of one test. Its workers end with it."""
    jobs = QueueManager(queen)
    yield jobs
    await jobs.shutdown()


@pytest.fixture
def queue() -> str:
    """A name that no other test uses."""
    return f"jobs-{uuid4().hex}"
