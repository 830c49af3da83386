"""Databases that a test restores. Each module has its own server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.cluster.operators.backups import Backups
from tests.support.postgres import Server as PostgresServer
from tests.support.server import Server


@pytest.fixture
def backups(
    postgres: PostgresServer, server: Server, databases: dict[str, str]
) -> Iterator[Backups]:
    backups = Backups(postgres, server, databases)
    yield backups
    backups.drop()


@pytest.fixture
def shell(server: Server, tmp_path: Path) -> Shell:
    """A shell that knows all databases."""
    shell = Shell(server, tmp_path)
    shell.environment["QUEEN_DATABASES"] = server.environment["QUEEN_DATABASES"]
    return shell
