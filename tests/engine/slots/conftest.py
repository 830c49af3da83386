"""A connection that moves slots."""

from collections.abc import AsyncIterator

import pytest

from tests.engine.slots.mover import Mover


@pytest.fixture
async def mover(dsn: str) -> AsyncIterator[Mover]:
    async with Mover.open(dsn) as mover:
        yield mover
