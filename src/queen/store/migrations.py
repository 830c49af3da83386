"""Migrates a database to this release: forward only, one process at a time."""

import asyncio
import hashlib
import logging
import random
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from importlib.metadata import version
from typing import NamedTuple

import asyncpg

from queen import errors, sql
from queen.sql.former_checksums import FORMER_CHECKSUMS
from queen.store.connection.primary import CONNECT_SECONDS, Hosts, check_version

_LOG = logging.getLogger("queen.store")
_ATTEMPTS = 30
_TURN_SECONDS = 300.0
_ROLE_ATTEMPTS = 5
"""How long a process waits for another migration. A large table takes minutes."""
_STEP_SECONDS = 5.0
"""The wait is logged after each step."""
_PATIENCE = "set local lock_timeout = '1s'"
"""A statement that waits for a table blocks all later users of it."""
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
insert into queen.migrations (name, checksum) values ('{name}', {mark})
on conflict (name) do update set checksum = excluded.checksum, applied_at = excluded.applied_at
"""
_REVOKE = "revoke all on all functions in schema queen from public"
_FUNCTIONS = "functions"
_BREAKING_LINE = "--! breaking"
_BREAKING = " breaking"
_HAS_ROLES = """
select exists (
  select 1
  from pg_namespace n
  cross join lateral aclexplode(n.nspacl) a
  where n.nspname = 'queen' and a.grantee = to_regrole('queen_app')
)
"""
_OWNER = """
select format('set local role %I', pg_get_userbyid(n.nspowner))
from pg_namespace n
where n.nspname = 'queen' and n.nspowner <> current_user::regrole
  and pg_has_role(current_user, n.nspowner, 'member')
"""


class Step(NamedTuple):
    """One migration of this release, and when it was applied."""

    name: str
    applied_at: datetime | None


async def migrate(dsn: str, *, wait_seconds: float = _TURN_SECONDS) -> list[str]:
    """
    Apply missing migrations, all or none. Returns their names.

    ``wait_seconds``: how long to wait for another process that is migrating.
    """
    for _ in range(_ATTEMPTS):
        try:
            async with connected(dsn) as connection, connection.transaction():
                # If twenty servers start together, nineteen wait here and have no work left.
                await _take_turn(connection, wait_seconds)
                await connection.execute(_PATIENCE)
                return await _apply(connection)
        except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError):
            # Blocked statements can continue now, and the blocking one may end.
            await asyncio.sleep(random.uniform(0.5, 1.5))
    raise errors.DatabaseUnavailable(
        "another session locks a table that must change; see `queen doctor` and try again"
    )


async def pending(dsn: str) -> list[str]:
    """The names of the migrations that `migrate` would apply."""
    async with connected(dsn) as connection:
        is_new = await connection.fetchval("select to_regclass('queen.migrations') is null")
        applied = {} if is_new else await _applied(connection)
        return _missing(applied)


async def ahead(dsn: str) -> list[str]:
    """Migrations of a later release that are compatible with this one."""
    async with connected(dsn) as connection:
        is_new = await connection.fetchval("select to_regclass('queen.migrations') is null")
        return [] if is_new else _unknown(await _applied(connection))


async def status(dsn: str) -> list[Step]:
    """All migrations of this release, in order, with the time when each was applied."""
    missing = await pending(dsn)
    async with connected(dsn) as connection:
        at: dict[str, datetime] = {}
        if not await connection.fetchval("select to_regclass('queen.migrations') is null"):
            rows = await connection.fetch(sql.CALLS["migrations"])
            at = {row["name"]: row["applied_at"] for row in rows}
    names = [*sql.MIGRATIONS, _FUNCTIONS]
    return [Step(name, None if name in missing else at[name]) for name in names]


async def script(dsn: str) -> str:
    """The SQL that `migrate` would send, to read it or to run it by hand."""
    missing = await pending(dsn)
    if not missing:
        return ""
    async with connected(dsn) as connection:
        become, has_roles = [await connection.fetchval(query) for query in (_OWNER, _HAS_ROLES)]
    parts = ["begin", _LOCK, *([become] if become else [])]
    if len(missing) > len(sql.MIGRATIONS):
        parts.append(_BOOK.strip().rstrip(";"))
    for name in missing:
        if name != _FUNCTIONS:
            text = sql.MIGRATIONS[name]
            parts += [text.strip().rstrip(";"), _entered(name, _mark(text))]
    parts.append("set local check_function_bodies = off")
    parts += [text.strip().rstrip(";") for text in sql.FUNCTIONS.values()]
    parts += [_REVOKE, _entered(_FUNCTIONS, _functions_mark())]
    parts += [*([sql.GRANTS.strip().rstrip(";")] if has_roles else []), "commit"]
    return ";\n\n".join(parts) + ";\n"


async def make_roles(dsn: str) -> None:
    """Create the roles of `sql/roles.sql`, and grant their privileges."""
    async with connected(dsn) as connection, connection.transaction():
        await _take_turn(connection, _TURN_SECONDS)
        if await connection.fetchval("select to_regclass('queen.migrations') is null"):
            raise errors.DatabaseUnavailable("the database is empty; run `queen migrate up` first")
        for attempt in range(1, _ROLE_ATTEMPTS + 1):
            try:
                async with connection.transaction():
                    await connection.execute(sql.ROLES)
                    await connection.execute(sql.GRANTS)
                return
            except asyncpg.DeadlockDetectedError:
                # Servers write to several tables in a transaction, in another order.
                if attempt == _ROLE_ATTEMPTS:
                    raise
            except asyncpg.InsufficientPrivilegeError as error:
                raise errors.DatabaseUnsafe(
                    f"creating roles needs a user with CREATEROLE: {error}"
                ) from error


@asynccontextmanager
async def connected(
    dsn: str, *, session: Mapping[str, str] | None = None, seconds: float = CONNECT_SECONDS
) -> AsyncGenerator["asyncpg.Connection[asyncpg.Record]"]:
    """
    A connection to the primary, without named statements.

    ``session``: its settings. ``seconds``: how long connecting may take.
    """
    try:
        # PgBouncer would keep named statements on its server, where those of the next process
        # collide with them.
        connection = await Hosts(dsn).connect(
            timeout=seconds, statement_cache_size=0, server_settings=dict(session or {})
        )
    except (
        OSError,
        TimeoutError,
        ValueError,
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
    ) as error:
        raise errors.DatabaseUnavailable(f"cannot connect to PostgreSQL: {error}") from error
    try:
        check_version(connection)
        yield connection
    finally:
        await connection.close()


async def _take_turn(connection: "asyncpg.Connection[asyncpg.Record]", wait_seconds: float) -> None:
    """Lock migrations until the end of the transaction. Logs while it waits, and then times out."""
    ends_at = time.monotonic() + wait_seconds
    while True:
        step = max(0.001, min(_STEP_SECONDS, ends_at - time.monotonic()))
        try:
            # A failure inside must not abort the transaction.
            async with connection.transaction():
                await connection.execute(f"set local lock_timeout = '{step * 1000:.0f}ms'")
                await connection.execute(_LOCK, timeout=step + _STEP_SECONDS)
                return
        except asyncpg.LockNotAvailableError:
            holder = await _holder(connection)
        except TimeoutError as error:
            raise errors.DatabaseUnavailable("PostgreSQL does not respond") from error
        if time.monotonic() >= ends_at:
            raise errors.DatabaseUnavailable(
                f"another process has been migrating this database for over {wait_seconds:g} s: "
                f"{holder}. Wait until it ends, or end it with select pg_terminate_backend(pid)"
            )
        _LOG.warning("waiting for another process that migrates this database: %s", holder)


async def _holder(connection: "asyncpg.Connection[asyncpg.Record]") -> str:
    row = await connection.fetchrow(sql.CALLS["migration_holder"])
    if row is None:
        return "it has just ended"
    return (
        f"PostgreSQL pid {row['pid']}, application {row['application_name'] or 'unknown'}, "
        f"state {row['state'] or 'unknown'}, for {row['seconds'] or 0} s"
    )


async def _apply(connection: "asyncpg.Connection[asyncpg.Record]") -> list[str]:
    if await connection.fetchval("select to_regclass('queen.migrations') is null"):
        await connection.execute(_BOOK)
    applied = await _applied(connection)
    missing = _missing(applied)
    if missing and (become := await connection.fetchval(_OWNER)):
        # New objects belong to the owner of the others, independent of the member that migrates.
        await connection.execute(become)
    for name in missing:
        if name != _FUNCTIONS:
            await connection.execute(sql.MIGRATIONS[name])
            await connection.execute(_entered(name, _mark(sql.MIGRATIONS[name])))
    if _FUNCTIONS in missing:
        # Functions call each other in another order than that of their files.
        await connection.execute("set local check_function_bodies = off")
        for text in sql.FUNCTIONS.values():
            await connection.execute(text)
        await connection.execute(_REVOKE)
        await connection.execute(_entered(_FUNCTIONS, _functions_mark()))
    if missing and await connection.fetchval(_HAS_ROLES):
        await connection.execute(sql.GRANTS)
    return missing


async def _applied(connection: "asyncpg.Connection[asyncpg.Record]") -> dict[str, str]:
    return {row["name"]: row["checksum"] for row in await connection.fetch(sql.CALLS["migrations"])}


def _missing(applied: dict[str, str]) -> list[str]:
    changed = [
        name
        for name, text in sql.MIGRATIONS.items()
        if name in applied
        and applied[name].split()[0] not in (_checksum(text), FORMER_CHECKSUMS.get(name))
    ]
    if changed:
        raise errors.DatabaseUnsafe(
            f"the database was migrated by another release: {', '.join(changed)} differs; "
            "migrations are frozen once applied"
        )
    unknown = _unknown(applied)
    if breaking := [name for name in unknown if applied[name].endswith(_BREAKING)]:
        raise errors.DatabaseUnsafe(
            f"a later release migrated the database ({', '.join(breaking)}), and this release "
            "cannot work with it; start the later release"
        )
    missing = [name for name in sql.MIGRATIONS if name not in applied]
    if missing or (not unknown and _are_functions_old(applied.get(_FUNCTIONS, ""))):
        missing.append(_FUNCTIONS)
    return missing


def _unknown(applied: dict[str, str]) -> list[str]:
    return sorted(applied.keys() - sql.MIGRATIONS.keys() - {_FUNCTIONS})


def _are_functions_old(mark: str) -> bool:
    """Functions of a later release stay: its servers need them, and this release can use them."""
    checksum, _, release = mark.partition(" ")
    return checksum != _functions_checksum() and _numbers(release) <= _numbers(version("queenmq"))


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".") if part.isdigit())


def _mark(text: str) -> str:
    """
    SQL for a checksum, and whether the migration breaks servers of the last release.

    ``--! breaking where CONDITION`` as the first line: it does if that is true once it is applied.
    """
    checksum = f"'{_checksum(text)}'"
    first = text.partition("\n")[0]
    if not first.startswith(_BREAKING_LINE):
        return checksum
    condition = first.removeprefix(_BREAKING_LINE).removeprefix(" where").strip() or "true"
    return f"{checksum} || case when {condition} then '{_BREAKING}' else '' end"


def _functions_mark() -> str:
    return f"'{_functions_checksum()} {version('queenmq')}'"


def _entered(name: str, mark: str) -> str:
    """SQL that records a migration. File names and hexadecimal digits need no quoting."""
    return _ENTER.format(name=name, mark=mark).strip()


def _functions_checksum() -> str:
    return _checksum("\n".join(sql.FUNCTIONS.values()))


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
