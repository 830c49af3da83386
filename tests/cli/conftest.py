"""A server, and a shell to run commands against it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cli.shell import Shell
from tests.support.server import Server


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn) as server:
        yield server


@pytest.fixture
def shell(server: Server, tmp_path: Path) -> Shell:
    return Shell(server, tmp_path)
