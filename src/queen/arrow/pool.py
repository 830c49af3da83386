"""Connections that the tasks of one process use one after the other."""

import os
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import psycopg

from queen.arrow.database import Connection, connect

_IDLE_SECONDS: Final = 30.0
"""An older connection may have been closed by a firewall or a proxy."""


class Closable(Protocol):
    """A connection of any driver."""

    def close(self) -> object: ...


Pooled = TypeVar("Pooled", bound=Closable)


class _Idle(NamedTuple, Generic[Pooled]):
    connection: Pooled
    pid: int
    """A forked process must not use the connection of its parent."""
    since: float


class Pool(Generic[Pooled]):
    """
    At most one idle connection for each DSN.

    Usage::

        with pool.borrow(dsn) as connection:
            …  # After an exception, the connection is closed.
    """

    def __init__(self, open_: Callable[[str], Pooled], is_alive: Callable[[Pooled], bool]) -> None:
        self._open = open_
        self._is_alive = is_alive
        self._idle: dict[str, _Idle[Pooled]] = {}
        self._lock = threading.Lock()

    @contextmanager
    def borrow(self, dsn: str) -> Generator[Pooled]:
        """Lend the idle connection, or a new one."""
        connection = self._taken(dsn) or self._open(dsn)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        with self._lock:
            before = self._idle.get(dsn)
            self._idle[dsn] = _Idle(connection, os.getpid(), time.monotonic())
        if before is not None and before.pid == os.getpid():
            before.connection.close()

    def _taken(self, dsn: str) -> Pooled | None:
        with self._lock:
            idle = self._idle.pop(dsn, None)
        if idle is None or idle.pid != os.getpid():
            return None
        if time.monotonic() - idle.since < _IDLE_SECONDS and self._is_alive(idle.connection):
            return idle.connection
        idle.connection.close()
        return None


def _is_alive(connection: Connection) -> bool:
    try:
        connection.execute(b"select 1")
    except psycopg.Error:
        return False
    return True


CONNECTIONS: Final = Pool(connect, _is_alive)
"""Connections of tasks, which run one after the other in a process of Spark."""
