"""A server for the snippets and examples of one file."""

import asyncio
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest
import uvloop

from tests.support.postgres import Server as PostgresServer
from tests.support.server import Server


@pytest.fixture(scope="module")
def process(postgres: PostgresServer, template: str) -> Iterator[Server]:
    with _serving(postgres, template) as server:
        yield server


@pytest.fixture
def own_process(postgres: PostgresServer, template: str) -> Iterator[Server]:
    """A server with an empty database, for pages that create the same queues."""
    with _serving(postgres, template) as server:
        yield server


@contextmanager
def _serving(postgres: PostgresServer, template: str) -> Generator[Server]:
    server = Server(postgres.create_database(f"docs_{uuid4().hex}", template=template))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(server.start())
            runner.run(server.hang_up())
            yield server
        finally:
            runner.run(server.close())
