"""One connection of a driver or a task to PostgreSQL: statements by name, as everywhere."""

from typing import Any, Final

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from queen import errors, sql

Connection = psycopg.Connection[dict[str, Any]]

_SETTINGS: Final = {
    "application_name": "queen-spark",
    # A host that is gone is found within ten seconds, as the server's connections find it.
    "connect_timeout": "10",
    "keepalives_idle": "3",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "9000",
}


def conninfo(dsn: str) -> str:
    """A DSN with what all our connections have. Raises InvalidOption, without a word of it."""
    try:
        return make_conninfo(dsn, **_SETTINGS)
    except psycopg.ProgrammingError:
        # What libpq says of it quotes it, and there may be a password in it.
        raise errors.InvalidOption(
            "dsn: it is neither postgresql://user@host/database nor keywords and values of libpq"
        ) from None


def connect(dsn: str) -> Connection:
    """A connection of its own, each statement a transaction. Raises DatabaseUnavailable."""
    try:
        connection = Connection.connect(conninfo(dsn), autocommit=True, row_factory=dict_row)
        # Parameters are $1, $2 … as in all other calls.
        connection.cursor_factory = psycopg.RawCursor[dict[str, Any]]
        return connection
    except psycopg.OperationalError as error:
        raise errors.DatabaseUnavailable(f"PostgreSQL does not answer: {error}") from error


def call(connection: Connection, name: str, *arguments: object) -> list[dict[str, Any]]:
    """What a named statement answers."""
    cursor = connection.execute(sql.CALLS[name].encode(), arguments)
    return cursor.fetchall() if cursor.description else []


def bound(name: str, *values: str | int) -> str:
    """The text of a named statement with its values in it, for COPY, which takes no parameters."""
    text = sql.CALLS[name].removesuffix(";")
    for number in range(len(values), 0, -1):
        text = text.replace(f"${number}", str(values[number - 1]))
    return text
