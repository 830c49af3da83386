"""Shorthands for tests of buffered pushes."""

from queen.engine.engine import Engine
from tests.engine.helpers import until


async def drained(engine: Engine) -> None:
    async def is_drained() -> bool:
        return not engine.push_fallback.is_buffering

    await until(is_drained, seconds=20)
