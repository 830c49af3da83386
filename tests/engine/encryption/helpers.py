"""Keys, and a check that the tables contain only ciphertext."""

from typing import Any

import asyncpg

from queen.settings import Settings

CANARY = "canary-7d1e90"
KEYED = Settings(encryption_key="11" * 32)


async def rows(dsn: str, query: str, *arguments: Any) -> list[Any]:  # noqa: ANN401
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetch(query, *arguments)
    finally:
        await connection.close()


async def assert_sealed(dsn: str) -> None:
    """Check that no table contains the canary, and that encrypted data exists."""
    names = await rows(
        dsn,
        "select oid::regclass as name from pg_class"
        " where relnamespace = 'queen'::regnamespace and relkind = 'r'",
    )
    for (name,) in names:
        found = await rows(
            dsn,
            f"select 1 from {name} t where strpos(t::text, $1) > 0 or strpos(t::text, $2) > 0",
            CANARY,
            CANARY.encode().hex(),
        )
        assert not found, name
