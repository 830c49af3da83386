"""Finds the primary among the hosts of a DSN, with sockets that detect dead peers."""

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import asyncpg
from asyncpg.connect_utils import SessionAttribute

from queen import errors
from queen.store.connection.connection import Connection, Record

if TYPE_CHECKING:
    from asyncio import BaseTransport

CONNECT_SECONDS: Final = 10.0
OLDEST_POSTGRES: Final = 15
"""The oldest major version that Queen supports."""
STANDBY: Final = "this server is a standby or read-only; name the primary"
CONNECTION_ERRORS: Final = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
_SOCKET_OPTIONS: Final = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    # After the third unanswered probe, in 9 s, the peer counts as dead.
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 3),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 2),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    # The same if it does not confirm sent data.
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 9_000),
)
OF_SOCKETS: Final[Mapping[str, str]] = {
    "tcp_keepalives_idle": "3",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "9s",
}
"""The same for PostgreSQL's end, as session settings."""


class Hosts:
    """
    The hosts of a DSN, tried in turn until one is the primary.

    The last primary is tried first. Each host has its share of the time, so that an unresponsive
    host leaves time for the others.
    """

    def __init__(self, dsn: str, *, is_pooled: bool = False) -> None:
        self._dsns = split(dsn)
        # A pooler caches this state of its server, maybe from before a promotion.
        is_asked = len(self._dsns) > 1 and not is_pooled
        self._wanted = SessionAttribute.read_write if is_asked else SessionAttribute.any
        self._first = 0

    def pass_over(self) -> None:
        """Try the next host first, because the last primary should not be one any more."""
        self._first = (self._first + 1) % len(self._dsns)

    async def connect(
        self,
        *,
        timeout: float = CONNECT_SECONDS,  # noqa: ASYNC109 - as asyncpg calls it
        **options: Any,  # noqa: ANN401 - whatever asyncpg takes
    ) -> Connection:
        """A connection to the primary."""
        failures: list[tuple[str, Exception]] = []
        for turn in range(len(self._dsns)):
            index = (self._first + turn) % len(self._dsns)
            try:
                connection = await asyncpg.connect(
                    self._dsns[index],
                    timeout=timeout / len(self._dsns),
                    target_session_attrs=self._wanted,
                    connection_class=Connection,
                    **options,
                )
            except asyncpg.TargetServerAttributeNotMatched:
                failures.append((self._dsns[index], ConnectionError(STANDBY)))
            except CONNECTION_ERRORS as error:
                failures.append((self._dsns[index], error))
            else:
                self._first = index
                keep_alive(connection)
                return connection
        if len(failures) == 1 and not isinstance(failures[0][1], OSError):
            raise failures[0][1]
        raise ConnectionError(
            "; ".join(
                f"{_host(name)}: {str(error) or type(error).__name__}" for name, error in failures
            )
        )


def split(dsn: str) -> list[str]:
    """One DSN per host of a DSN: ``//a,b:5433/db`` or ``///db?host=a,b&port=1,2``."""
    parts = urlsplit(dsn)
    user, at, hosts = parts.netloc.rpartition("@")
    if "," in hosts:
        return [parts._replace(netloc=user + at + host).geturl() for host in hosts.split(",")]
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if hosts or "," not in query.get("host", ""):
        return [dsn]
    named = query["host"].split(",")
    ports = query.get("port", "5432").split(",")
    ports = ports * len(named) if len(ports) == 1 else ports
    return [
        parts._replace(
            query=urlencode({**query, "host": host, "port": port}, quote_via=quote)
        ).geturl()
        for host, port in zip(named, ports, strict=True)
    ]


def named(dsn: str) -> list[str]:
    """The hosts of a DSN, without ports: names, addresses and socket directories."""
    found: list[str] = []
    for each in split(dsn):
        parts = urlsplit(each)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        found.append(unquote(parts.hostname or "") or query.get("host", ""))
    return found


def check_version(connection: "asyncpg.Connection[Record]") -> None:
    """Raise DatabaseUnsafe if PostgreSQL is older than Queen supports."""
    version = connection.get_server_version()
    if version.major < OLDEST_POSTGRES:
        raise errors.DatabaseUnsafe(
            f"this is PostgreSQL {version.major}.{version.minor}, and Queen needs PostgreSQL "
            f"{OLDEST_POSTGRES} or newer. Upgrade it, or name another database in DATABASE_URL."
        )


def keep_alive(connection: "asyncpg.Connection[Record]") -> None:
    """Let the kernel detect a dead peer within ten seconds."""
    # There is no public way: asyncpg neither accepts nor exposes sockets.
    transport: BaseTransport = connection._transport  # pyright: ignore
    own = transport.get_extra_info("socket")
    if own is None or own.family not in (socket.AF_INET, socket.AF_INET6):
        return
    for level, name, value in _SOCKET_OPTIONS:
        if (option := getattr(socket, name, None)) is not None:
            own.setsockopt(level, option, value)


def _host(dsn: str) -> str:
    """The host without user and password."""
    parts = urlsplit(dsn)
    query = dict(parse_qsl(parts.query))
    return parts.netloc.rpartition("@")[2] or f"{query.get('host')}:{query.get('port', 5432)}"
