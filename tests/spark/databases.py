"""Databases on a test's own server."""

import asyncio

from queen.store.migrations import migrate
from tests.support.postgres import Server


def migrated(server: Server, name: str = "queen") -> str:
    """Create a database with the schema of this release, and return its DSN."""
    dsn = server.create_database(name)
    with asyncio.Runner() as runner:
        runner.run(migrate(dsn))
    return dsn
