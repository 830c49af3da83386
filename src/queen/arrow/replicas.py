"""Bulk reads from a replica that has the needed data, and from the primary otherwise."""

import contextlib
import logging
import time
from typing import Final

import psycopg

from queen import errors
from queen.arrow.database import Connection, call, connect

_LOG: Final = logging.getLogger("queen.pipelines")
_PATIENCE_SECONDS: Final = 10.0
"""How long a batch waits for a replica before it is read from the primary."""
_WAIT_SECONDS: Final = 0.1


def check_replica(primary: Connection, read_dsn: str | None) -> None:
    """Raise InvalidOption unless this is a replica of the primary. An unavailable one may be."""
    if read_dsn is None:
        return
    try:
        with connect(read_dsn) as replica:
            (found,) = call(replica, "database_identity")
    except (psycopg.OperationalError, errors.DatabaseUnavailable):
        return
    (wanted,) = call(primary, "database_identity")
    if found != wanted:
        raise errors.InvalidOption(
            "read_dsn: this is another database, so its transaction numbers differ: name a"
            " streaming replica of dsn, and the same database in it"
        )


def connect_to_read(dsn: str, read_dsn: str | None, xid: int | None) -> Connection:
    """Connect to the replica if it has what lower transactions stored, else to the primary."""
    if read_dsn is not None and xid is not None:
        with contextlib.suppress(psycopg.OperationalError, errors.DatabaseUnavailable):
            replica = connect(read_dsn)
            # A DSN may name several replicas that differ in progress.
            if call(replica, "horizon")[0]["xid"] >= xid:
                return replica
            replica.close()
    return connect(dsn)


def caught_up(read_dsn: str | None, xid: int) -> str | None:
    """
    Return the replica once everything that lower transactions stored is readable there.

    Returns None if it is unavailable or still behind after a few seconds: then read the primary.
    """
    if read_dsn is None:
        return None
    until = time.monotonic() + _PATIENCE_SECONDS
    try:
        with connect(read_dsn) as replica:
            while call(replica, "horizon")[0]["xid"] < xid:
                if time.monotonic() > until:
                    _LOG.warning("read_dsn: the replica is behind: reading from the primary")
                    return None
                time.sleep(_WAIT_SECONDS)
    except (psycopg.OperationalError, errors.DatabaseUnavailable) as error:
        _LOG.warning("read_dsn: %s: reading from the primary", str(error).partition("\n")[0])
        return None
    return read_dsn
