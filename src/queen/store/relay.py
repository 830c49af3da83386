"""The outbox in an application's database, from which a relay sends messages over HTTP."""

from collections.abc import Mapping
from typing import Final

import asyncpg

from queen import errors, sql
from queen.store.connection.database import Record
from queen.store.outbox import Outbox

_MIGRATIONS: Final = ("0005_outbox", "0009_relay")
_FUNCTIONS: Final = ("now", "enqueue", "lead_appending", "relay")
_LOCK: Final = "select pg_advisory_xact_lock(hashtext('queen.migrations'))"


class Relay(Outbox):
    """Batches of such an outbox, each with its own sequence number."""

    async def check(self) -> None:
        """Raise DatabaseUnsafe if the database has no such outbox."""
        (row,) = await self._database.fetch("outbox_objects")
        _refuse_servers(row)
        if not (row["has_outbox"] and row["has_relay"]):
            raise errors.DatabaseUnsafe(
                "this database has no outbox; run `queen relay --init` once"
            )

    async def take(self, first_xid: int, limit: int, size_bytes: int) -> list[Record]:
        """The unconfirmed batch, or else the next one. Empty if there is none."""
        return await self._database.fetch("take_batch", first_xid, limit, size_bytes)

    async def end(self, sequence: int) -> bool:
        """Confirm a batch. Returns False if it was already confirmed."""
        (row,) = await self._database.fetch("end_batch", sequence)
        return row["is_ended"]

    async def refuse(self, sequence: int, reasons: Mapping[int, str]) -> bool:
        """Record that a batch was rejected because of these messages. The others are retried."""
        (row,) = await self._database.fetch(
            "refuse_batch", sequence, list(reasons), list(reasons.values())
        )
        return row["is_refused"]


async def init(dsn: str) -> None:
    """Create the missing objects of an outbox, and replace its functions."""
    try:
        connection = await asyncpg.connect(dsn)
    except (OSError, ValueError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise errors.DatabaseUnavailable(str(error)) from error
    try:
        async with connection.transaction():
            await connection.execute(_LOCK)
            row = await connection.fetchrow(sql.CALLS["outbox_objects"])
            assert row is not None
            _refuse_servers(row)
            await connection.execute("create schema if not exists queen")
            for name, has in zip(_MIGRATIONS, (row["has_outbox"], row["has_relay"]), strict=True):
                if not has:
                    await connection.execute(sql.MIGRATIONS[name])
            for name in _FUNCTIONS:
                await connection.execute(sql.FUNCTIONS[name])
            await connection.execute("revoke all on all functions in schema queen from public")
    except asyncpg.InsufficientPrivilegeError as error:
        raise errors.DatabaseUnsafe(f"this user cannot create an outbox: {error}") from error
    finally:
        await connection.close()


def _refuse_servers(row: Record) -> None:
    if row["has_servers"]:
        raise errors.DatabaseUnsafe(
            "this is the database of Queen's servers, which move the outbox: don't use a relay"
        )
