"""Engines shared by tests of waiting pops."""

from collections.abc import AsyncIterator

import pytest

from queen.engine.engine import Engine
from tests.engine.helpers import PATIENT


@pytest.fixture
async def patient(dsn: str) -> AsyncIterator[Engine]:
    async with await Engine.open(dsn, settings=PATIENT) as engine:
        yield engine
