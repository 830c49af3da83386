"""Opens connections, and checks which server they reach."""

import asyncio
import contextlib
import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, Final

import asyncpg

from queen import errors, sql
from queen.store.connection.connection import Connection
from queen.store.connection.options import Connecting
from queen.store.connection.pool import NO_CONNECTION
from queen.store.connection.primary import OF_SOCKETS, STANDBY, Hosts

_CHECK_CLIENT: Final = "set client_connection_check_interval = '2s'"
_WARM_SECONDS: Final = 2.0
_RENEW_SECONDS: Final = 1.0


class Connector:
    """Opens connections to the primary, and rejects a database that could lose confirmed data."""

    def __init__(self, dsn: str, connecting: Connecting, changed: Callable[[], None]) -> None:
        """``changed`` is called if it reaches another server, or another history of it."""
        self._connecting = connecting
        self._hosts = Hosts(dsn, is_pooled=connecting.is_pooled)
        self._identity: str | None = None
        self._changed = changed
        how = connecting
        session = {"application_name": how.application_name, **how.session, **OF_SOCKETS}
        self._options: dict[str, Any] = {
            "timeout": how.timeout_seconds,
            "statement_cache_size": 0 if how.is_pooled else 100,
            # Behind a pooler, each transaction sets its own options.
            "server_settings": (
                {"application_name": how.application_name} if how.is_pooled else session
            ),
        }

    async def connect(self) -> Connection:
        """
        A new connection, ready for calls.

        After a network failure, an attempt may get no response because its packets were lost. So
        another one begins each second. The first one continues, because the server may only be
        slow, and so does the last one.
        """
        attempts: list[asyncio.Task[Connection]] = []
        try:
            while True:
                attempts.append(asyncio.create_task(self._connect()))
                ended, _ = await asyncio.wait(
                    attempts, timeout=_RENEW_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                for each in ended:
                    attempts.remove(each)
                    return each.result()
                _discard(attempts[1:-1])
                del attempts[1:-1]
        finally:
            _discard(attempts)

    async def _connect(self) -> Connection:
        connection = await self._hosts.connect(**self._options)
        half = self._connecting.timeout_seconds / 2
        timer = asyncio.get_running_loop().call_later(half, connection.terminate)
        is_pooled = self._connecting.is_pooled
        try:
            # Behind PgBouncer, a parsed statement stays on its server only within a transaction.
            async with connection.transaction() if is_pooled else nullcontext():
                await self._set_up(connection)
        except BaseException:
            connection.terminate()
            raise
        finally:
            timer.cancel()
        return connection

    async def warm(self, connection: Connection) -> None:
        """Plan the hot calls, whose first run in a session is the slowest."""
        # An unplanned connection is better than none.
        with contextlib.suppress(*NO_CONNECTION):
            await connection.fetch(sql.CALLS["warm"], *(None,) * 7, timeout=_WARM_SECONDS)

    async def _set_up(self, connection: Connection) -> None:
        await connection.set_type_codec(
            "jsonb", schema="pg_catalog", encoder=_dump, decoder=json.loads, format="text"
        )
        server = await connection.fetchrow(sql.CALLS["identity"])
        assert server is not None
        if server["is_standby"]:
            self._hosts.pass_over()
            raise errors.DatabaseUnavailable(STANDBY)
        if server["fsync"] != "on" or server["full_page_writes"] != "on":
            raise errors.DatabaseUnsafe(
                "fsync or full_page_writes is off: a crash would lose messages; turn them on"
            )
        if not self._connecting.is_pooled:
            # If the system supports it: a statement of a lost client must not keep its locks.
            with contextlib.suppress(asyncpg.InvalidParameterValueError):
                await connection.execute(_CHECK_CLIENT)
        known, identity = self._identity, server["identity"]
        if known is not None and _is_older(identity, known):
            self._hosts.pass_over()
            raise errors.DatabaseUnavailable(
                "this server was the primary before another was promoted; stop it"
            )
        self._identity = identity
        if known not in (None, identity):
            self._changed()
            # The arguments of the next call are based on the former server's state.
            raise errors.DatabaseUnavailable("this is another server, or it lost its history")


def _discard(attempts: Sequence[asyncio.Task[Connection]]) -> None:
    for each in attempts:
        each.add_done_callback(_terminate)
        each.cancel()


def _terminate(attempt: asyncio.Task[Connection]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().terminate()


def _is_older(identity: str, known: str) -> bool:
    """Return whether a server follows an abandoned timeline: the same cluster, a lower number."""
    system, _, timeline = identity.partition("/")
    known_system, _, known_timeline = known.partition("/")
    return system == known_system and timeline < known_timeline


def _dump(value: Any) -> str:  # noqa: ANN401 - whatever JSON can hold
    return json.dumps(value)
