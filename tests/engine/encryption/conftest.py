"""An engine with a key and an encrypted queue."""

from collections.abc import AsyncIterator

import pytest

from queen.engine.engine import Engine
from tests.engine.encryption.helpers import KEYED


@pytest.fixture
async def engine(dsn: str) -> AsyncIterator[Engine]:
    async with await Engine.open(dsn, settings=KEYED) as engine:
        await engine.queues.configure("orders", {"encrypted": True})
        yield engine
