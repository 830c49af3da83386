"""Connections that detect a deadlock immediately."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import asyncpg
import pytest

from tests.sql.locks.scene import Connect

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]


@pytest.fixture
async def connect(dsn: str) -> AsyncIterator[Connect]:
    """Connections that detect a deadlock immediately."""
    async with AsyncExitStack() as stack:

        async def connect() -> "Connection":
            settings = {"deadlock_timeout": "20ms", "lock_timeout": "20s"}
            connection = await asyncpg.connect(dsn, server_settings=settings)
            stack.push_async_callback(connection.close)
            return connection

        yield connect
