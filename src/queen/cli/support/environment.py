"""Shared by commands: the settings of this environment, and a temporary store."""

import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from queen.settings import Settings

if TYPE_CHECKING:
    from queen.store.store import Store

T = TypeVar("T")


def settings() -> Settings:
    return Settings.from_environ(os.environ)


def with_store(use: "Callable[[Store], Awaitable[T]]", dsn: str | None = None) -> T:
    """Open a database for one command: this one, or the database of this environment."""
    import asyncio

    from queen.store.connection.options import Connecting
    from queen.store.store import Store

    here = settings()

    async def run() -> T:
        connecting = Connecting(connections=1, is_pooled=here.db_pgbouncer)
        store = await Store.open(dsn or here.dsn, connecting=connecting)
        try:
            return await use(store)
        finally:
            await store.close()

    return asyncio.run(run())
