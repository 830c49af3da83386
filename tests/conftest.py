"""The chain of fixtures: postgres (once), template (once), dsn (a copy per test)."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from uuid import uuid4

import hypothesis
import pytest
import uvloop

from queen.engine.engine import Engine
from queen.store.migrations import migrate
from queen.store.store import Store
from tests.support.clock import Clock
from tests.support.exercised import Exercised
from tests.support.postgres import Postgres, Server


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Exercised())
    # The duration of an example depends more on the machine than on the code.
    hypothesis.settings.register_profile("queen", deadline=None)
    hypothesis.settings.load_profile("queen")


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A server per worker. Set `TEST_QUEEN_DSN` to use an existing one."""
    if dsn := os.environ.get("TEST_QUEEN_DSN"):
        server = Server(dsn)
        yield server
        server.disconnect()
        return
    with Postgres(in_memory=True, is_first=True) as server:
        yield server


@pytest.fixture(scope="session")
def template(postgres: Server) -> str:
    """The name of a migrated database. Close all connections to it, or copies fail."""
    name = f"template_{uuid4().hex}"
    dsn = postgres.create_database(name)
    # A `Runner` instead of `asyncio.run`, which would unset the test's event loop.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(migrate(dsn))
    return name


@pytest.fixture
def dsn(postgres: Server, template: str) -> Iterator[str]:
    """A database for one test."""
    name = f"test_{uuid4().hex}"
    yield postgres.create_database(name, template=template)
    postgres.drop_database(name)


@pytest.fixture
async def store(dsn: str) -> AsyncIterator[Store]:
    store = await Store.open(dsn)
    yield store
    await store.close()


@pytest.fixture
async def clock(dsn: str) -> AsyncIterator[Clock]:
    """The clock of this test's database, which the test moves."""
    async with await Clock.install(dsn) as clock:
        yield clock


@pytest.fixture
async def engine(dsn: str) -> AsyncIterator[Engine]:
    async with await Engine.open(dsn) as engine:
        yield engine


@pytest.fixture
def folder() -> Iterator[Path]:
    """
    A directory that all users may enter, because root's `queen dev` runs PostgreSQL as another
    user.
    """
    made = Path(tempfile.mkdtemp(prefix="queen-test-"))
    made.chmod(0o777)
    yield made
    shutil.rmtree(made, ignore_errors=True)
