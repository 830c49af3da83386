"""Fixtures for pytest: a real server in this process, its client, and its clock."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from queen.client.client import Queen
    from queen.testing.databases import Databases
    from queen.testing.server import QueenClock, QueenServer


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register the ini option ``queen_dsn``."""
    help_ = "DSN of a PostgreSQL whose user may create databases (default: start a local one)"
    parser.addini("queen_dsn", help_, default="")


@pytest.fixture(scope="session")
def queen_databases(pytestconfig: pytest.Config) -> "Iterator[Databases]":
    """Create test databases: on TEST_QUEEN_DSN, ``queen_dsn``, or a local server."""
    from queen.testing.databases import Databases

    dsn = os.environ.get("TEST_QUEEN_DSN") or pytestconfig.getini("queen_dsn") or None
    with Databases(dsn) as databases:
        yield databases


@pytest.fixture
def queen_server(queen_databases: "Databases") -> "Iterator[QueenServer]":
    """Run the real app and its SQL on the test's own database, without a port."""
    from queen.testing.server import QueenServer

    with queen_databases.copy() as dsn, QueenServer(dsn) as server:
        yield server


@pytest.fixture
def queen(queen_server: "QueenServer") -> "Queen":
    """Return a client of the test's server, for any event loop."""
    return queen_server.client()


@pytest.fixture
def queen_clock(queen_server: "QueenServer") -> "QueenClock":
    """Return the server's clock, which stands still until ``queen_clock.advance("1h")``."""
    from queen.testing.server import QueenClock

    return QueenClock(queen_server)
