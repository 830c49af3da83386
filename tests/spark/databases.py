"""Databases on a test's own server."""

import asyncio
import shutil
import subprocess
from pathlib import Path

from queen.store.migrations import migrate
from tests.support.postgres import Postgres, Server


def migrated(server: Server, name: str = "queen") -> str:
    """Create a database with the schema of this release, and return its DSN."""
    dsn = server.create_database(name)
    with asyncio.Runner() as runner:
        runner.run(migrate(dsn))
    return dsn


def snapshot(server: Postgres) -> Path:
    """Copy the files of a server, which is stopped meanwhile, with their owner."""
    server.stop()
    copy = server.data.with_name("snapshot")
    subprocess.run(["cp", "--archive", server.data, copy], check=True)
    server.start()
    return copy


def fail_over(server: Postgres, copy: Path, *, is_promoted: bool = True) -> None:
    """Replace a server by its copy, which lacks later transactions, as a standby or a backup."""
    server.stop()
    shutil.rmtree(server.data)
    copy.rename(server.data)
    if is_promoted:
        promote(server)
    else:
        server.start()


def promote(server: Postgres) -> None:
    """Start a stopped server as a standby, and promote it to a new timeline."""
    (server.data / "standby.signal").touch()
    server.start()
    server.execute("select pg_promote(true, 60)")
