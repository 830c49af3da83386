"""A server that asks for API keys, and one caller who may only push."""

from collections.abc import AsyncIterator

import pytest

from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Server


@pytest.fixture
async def locked(dsn: str) -> AsyncIterator[Server]:
    """A server process with API keys, over a database of this test."""
    async with Server(dsn, KEYS) as server:
        yield server


@pytest.fixture
async def admin(locked: Server, dsn: str) -> Caller:
    """A caller who may do everything."""
    return Caller(locked, await make_key(dsn))


@pytest.fixture
async def writer(locked: Server, dsn: str) -> Caller:
    """A caller who may push to queues that begin with `w`, and nothing else."""
    scopes = [{"queue": "w*"}]
    key = await make_key(dsn, permissions=["produce"], scopes=scopes, name="writer")
    return Caller(locked, key)
