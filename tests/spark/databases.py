"""A database on a server of a test's own."""

import asyncio

from queen.store.migrations import migrate
from tests.support.postgres import Server


def migrated(server: Server, name: str = "queen") -> str:
    """A new database, brought to this release; its DSN."""
    dsn = server.create_database(name)
    with asyncio.Runner() as runner:
        runner.run(migrate(dsn))
    return dsn
