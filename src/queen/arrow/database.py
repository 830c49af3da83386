"""A PostgreSQL connection of a driver or a task, with named statements."""

import time
from collections.abc import Callable
from typing import Any, Final, Self, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from queen import errors, sql

Connection = psycopg.Connection[dict[str, Any]]
Answer = TypeVar("Answer")

_PATIENCE_SECONDS: Final = 60.0
_WAIT_SECONDS: Final = 0.5

_SETTINGS: Final = {
    "application_name": "queen-spark",
    # An unreachable host is detected within ten seconds, as by the server's connections.
    "connect_timeout": "10",
    "keepalives_idle": "3",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "9000",
}

DURABLE: Final = "-c synchronous_commit=on"
"""A confirmed commit is on disk, whatever the role or the database defaults to."""


def conninfo(dsn: str) -> str:
    """Add Queen's connection settings to a DSN. Raises InvalidOption, without quoting the DSN."""
    try:
        given = conninfo_to_dict(dsn).get("options") or ""
        return make_conninfo(dsn, **_SETTINGS, options=f"{given} {DURABLE}".strip())
    except psycopg.ProgrammingError:
        # libpq's message quotes the DSN, which may contain a password.
        raise errors.InvalidOption(
            "dsn: write postgresql://user@host/database, or keywords and values of libpq"
        ) from None


def connect(dsn: str) -> Connection:
    """Open a connection in autocommit mode. Raises DatabaseUnavailable."""
    try:
        connection = Connection.connect(conninfo(dsn), autocommit=True, row_factory=dict_row)
        # With parameters $1, $2 … as in all other calls.
        connection.cursor_factory = psycopg.RawCursor[dict[str, Any]]
        return connection
    except psycopg.OperationalError as error:
        reason = str(error).partition("\n")[0]  # The other lines are hints of libpq.
        raise errors.DatabaseUnavailable(f"PostgreSQL is unreachable: {reason}") from error


def call(connection: Connection, name: str, *arguments: object) -> list[dict[str, Any]]:
    """Run a named statement and return its rows."""
    cursor = connection.execute(sql.CALLS[name].encode(), arguments)
    return cursor.fetchall() if cursor.description else []


def bound(name: str, *values: str | int) -> str:
    """Return a named statement with its values inlined, because COPY accepts no parameters."""
    text = sql.CALLS[name].removesuffix(";")
    for number in range(len(values), 0, -1):
        text = text.replace(f"${number}", str(values[number - 1]))
    return text


class Database:
    """A connection that reconnects for up to a minute. Only for statements that can be repeated."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: Connection | None = None
        self.sessions = 0
        """How many connections were opened. A crash of the server ends them."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, question: Callable[..., Answer], *arguments: Any) -> Answer:  # noqa: ANN401
        """Call a function with the connection. Repeats it while PostgreSQL is unavailable."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                if self._connection is None:
                    self._connection = connect(self._dsn)
                    self.sessions += 1
                return question(self._connection, *arguments)
            except (psycopg.OperationalError, errors.DatabaseUnavailable):
                self.close()
                if time.monotonic() > until:
                    raise
                time.sleep(_WAIT_SECONDS)
            except psycopg.Error as error:
                if (ours := errors.of_sqlstate(error.sqlstate or "")) is None:
                    raise
                raise ours(error.diag.message_primary or str(error)) from error

    def call(self, name: str, *arguments: object) -> list[dict[str, Any]]:
        """Run a named statement and return its rows."""
        return self.ask(call, name, *arguments)

    def close(self) -> None:
        """Close the connection. The next statement opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
