"""Bring a database to this release: forward only, by one process at a time."""

import hashlib

import asyncpg

from queen import errors, sql

_LOCK = "select pg_advisory_xact_lock(hashtext('queen.migrations'))"
_BOOK = """
create schema if not exists queen;
create table if not exists queen.migrations (
  name       text primary key,
  checksum   text not null,
  applied_at timestamptz not null default clock_timestamp()
);
"""
_ENTER = """
insert into queen.migrations (name, checksum) values ($1, $2)
on conflict (name) do update set checksum = excluded.checksum, applied_at = excluded.applied_at
"""
_FUNCTIONS = "functions"


async def migrate(dsn: str) -> list[str]:
    """Apply what is missing, all of it or nothing; answers the names of what was applied."""
    try:
        connection = await asyncpg.connect(dsn)
    except (OSError, asyncpg.PostgresError) as error:
        raise errors.DatabaseUnavailable(str(error)) from error
    try:
        async with connection.transaction():
            # Twenty servers that start at once queue up here, and nineteen find nothing to do.
            await connection.execute(_LOCK)
            return await _apply(connection)
    finally:
        await connection.close()


async def pending(dsn: str) -> list[str]:
    """What `migrate` would apply."""
    connection = await asyncpg.connect(dsn)
    try:
        is_new = await connection.fetchval("select to_regclass('queen.migrations') is null")
        applied = {} if is_new else await _applied(connection)
        return _missing(applied)
    finally:
        await connection.close()


async def _apply(connection: "asyncpg.Connection[asyncpg.Record]") -> list[str]:
    if await connection.fetchval("select to_regclass('queen.migrations') is null"):
        await connection.execute(_BOOK)
    applied = await _applied(connection)
    missing = _missing(applied)
    for name in missing:
        if name != _FUNCTIONS:
            await connection.execute(sql.MIGRATIONS[name])
            await connection.execute(_ENTER, name, _checksum(sql.MIGRATIONS[name]))
    if _FUNCTIONS in missing:
        # They call each other; the order of the files is not the order of the calls.
        await connection.execute("set local check_function_bodies = off")
        for text in sql.FUNCTIONS.values():
            await connection.execute(text)
        await connection.execute("revoke all on all functions in schema queen from public")
        await connection.execute(_ENTER, _FUNCTIONS, _functions_checksum())
    return missing


async def _applied(connection: "asyncpg.Connection[asyncpg.Record]") -> dict[str, str]:
    return {row["name"]: row["checksum"] for row in await connection.fetch(sql.CALLS["migrations"])}


def _missing(applied: dict[str, str]) -> list[str]:
    changed = [
        name
        for name, text in sql.MIGRATIONS.items()
        if applied.get(name, _checksum(text)) != _checksum(text)
    ]
    if changed:
        raise errors.DatabaseUnsafe(
            f"the database was migrated by another release: {', '.join(changed)} differs; "
            "migrations are frozen once applied"
        )
    missing = [name for name in sql.MIGRATIONS if name not in applied]
    if missing or applied.get(_FUNCTIONS) != _functions_checksum():
        missing.append(_FUNCTIONS)
    return missing


def _functions_checksum() -> str:
    return _checksum("\n".join(sql.FUNCTIONS.values()))


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
