"""Time limits for statements of a move, because its connections can fall silent."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import asyncpg

from queen.store.connection.primary import CONNECTION_ERRORS, OF_SOCKETS
from queen.store.migrations import connected

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

ANSWER_SECONDS: Final = 5.0
"""For a short statement. A slot may have no owner until it has ended."""
PATIENT_SECONDS: Final = 60.0
"""For a statement that takes longer the more queues a slot has, if no call waits for it."""
STALL_SECONDS: Final = 30.0
"""For the next part of a copy, after the first."""
_CONNECT_SECONDS: Final = 5.0
_ROLLBACK_SECONDS: Final = 1.0
"""PostgreSQL also rolls back when the connection is closed."""
_SESSION: Final = {
    **OF_SOCKETS,
    # Less than `ANSWER_SECONDS`, so that no statement of a closed connection still waits.
    "lock_timeout": "3s",
    "idle_in_transaction_session_timeout": "10s",
}
_CHECK_CLIENT: Final = "set client_connection_check_interval = '2s'"


@asynccontextmanager
async def connected_for_moves(dsn: str, *, is_pooled: bool) -> "AsyncGenerator[Connection]":
    """A connection whose ends both detect a dead peer within ten seconds."""
    # A pooler rejects settings, and would keep those that are set later for other clients.
    session = {} if is_pooled else _SESSION
    async with connected(dsn, session=session, seconds=_CONNECT_SECONDS) as connection:
        if not is_pooled:
            # If the system supports it: a statement of a lost client must not keep its locks.
            unsupported = contextlib.suppress(asyncpg.InvalidParameterValueError)
            with unsupported, Deadline(ANSWER_SECONDS, connection):
                await connection.execute(_CHECK_CLIENT)
        yield connection


class Deadline:
    """
    Closes connections unless the statements inside end in time. They fail with TimeoutError then.

    A cancelled statement would wait for the response to its cancellation, and a cancelled commit
    would not wait for the standby.
    """

    def __init__(self, seconds: float, *connections: "Connection") -> None:
        self._seconds = seconds
        self._connections = connections
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    def __enter__(self) -> Self:
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._end)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._timer is not None
        self._timer.cancel()
        if self._is_over and isinstance(error, Exception):
            raise TimeoutError(f"PostgreSQL did not respond within {self._seconds:g} s") from error

    def _end(self) -> None:
        self._is_over = True
        for each in self._connections:
            each.terminate()


@asynccontextmanager
async def transaction(connection: "Connection") -> AsyncGenerator[None]:
    """A transaction that ends in time, also on a silent connection."""
    own = connection.transaction()
    with Deadline(ANSWER_SECONDS, connection):
        await own.start()
    try:
        yield
    except BaseException:
        with contextlib.suppress(*CONNECTION_ERRORS), Deadline(_ROLLBACK_SECONDS, connection):
            await own.rollback()
        raise
    with Deadline(ANSWER_SECONDS, connection):
        await own.commit()


@asynccontextmanager
async def progressing(*connections: "Connection") -> "AsyncGenerator[Callable[[], None]]":
    """
    A copy between two connections. Gives a function to call whenever data has passed.

    Raises TimeoutError if none passes for too long, or if one of the connections is lost. asyncpg
    notices neither while it waits until it may send more.
    """
    loop = asyncio.get_running_loop()
    limit = asyncio.timeout(None)

    def end(lost: object) -> None:
        del lost
        with contextlib.suppress(RuntimeError):  # The copy has just ended.
            limit.reschedule(loop.time())

    def pass_on() -> None:
        limit.reschedule(loop.time() + STALL_SECONDS)

    for each in connections:
        each.add_termination_listener(end)
    try:
        async with limit:
            yield pass_on
    except Exception as error:
        if limit.expired():
            # On a lost connection, asyncpg raises errors of its own code.
            raise TimeoutError("a copy received no data, or lost a connection") from error
        raise
    finally:
        for each in connections:
            each.remove_termination_listener(end)
