"""A server that requires API keys, and a caller that may only push."""

from collections.abc import AsyncIterator

import pytest

from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Server


@pytest.fixture
async def locked(dsn: str) -> AsyncIterator[Server]:
    """A server process with API keys and its own database."""
    async with Server(dsn, KEYS) as server:
        yield server


@pytest.fixture
async def admin(locked: Server, dsn: str) -> Caller:
    """A caller with all permissions."""
    return Caller(locked, await make_key(dsn))


@pytest.fixture
async def writer(locked: Server, dsn: str) -> Caller:
    """A caller that may only push to queues that begin with `w`."""
    scopes = [{"queue": "w*"}]
    key = await make_key(dsn, permissions=["produce"], scopes=scopes, name="writer")
    return Caller(locked, key)
