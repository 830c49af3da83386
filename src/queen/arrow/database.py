"""A PostgreSQL connection of a driver or a task, with named statements."""

from typing import Any, Final

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from queen import errors, sql

Connection = psycopg.Connection[dict[str, Any]]

_SETTINGS: Final = {
    "application_name": "queen-spark",
    # An unreachable host is detected within ten seconds, as by the server's connections.
    "connect_timeout": "10",
    "keepalives_idle": "3",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "9000",
}


def conninfo(dsn: str) -> str:
    """Add Queen's connection settings to a DSN. Raises InvalidOption, without quoting the DSN."""
    try:
        return make_conninfo(dsn, **_SETTINGS)
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
        raise errors.DatabaseUnavailable(f"PostgreSQL is unreachable: {error}") from error


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
