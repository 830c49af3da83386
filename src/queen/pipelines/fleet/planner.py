"""Find the archives of a fleet that have something to archive, and the queues of its patterns."""

import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple, Self

from queen.arrow.database import Connection, Database, call
from queen.pipelines.archive import exceeds

_SPECIAL: Final = re.compile(r"[\\%_]")


class Polled(NamedTuple):
    """The state of an archive."""

    is_due: bool
    """A run would archive messages, finish a batch, or report an error."""
    has_lag: bool
    """Messages wait, for a commit or for an open transaction."""


class Watched(NamedTuple):
    """An archive whose queue is polled."""

    name: str
    commit_bytes: int
    may_commit: bool
    """Enough time has passed since its last commit."""


class Match(NamedTuple):
    """A queue that matches a pattern."""

    queue: str
    archives: list[str]


class Planner:
    """
    Polls all queues of a fleet in one statement, on one connection.

    Only an archive that has messages, but may not commit yet, costs two more statements, which
    measure its payload.
    """

    def __init__(self, dsn: str) -> None:
        self._database = Database(dsn)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    def poll(self, archives: Collection[Watched]) -> dict[str, Polled]:
        """Return the state of each archive."""
        return self._database.ask(_poll, archives) if archives else {}

    def match(self, patterns: Sequence[str]) -> dict[str, list[Match]]:
        """Return the queues of each pattern, in which only ``*`` is special."""
        like = {_SPECIAL.sub(r"\\\g<0>", each).replace("*", "%"): each for each in patterns}
        found: dict[str, list[Match]] = {each: [] for each in patterns}
        for row in self._database.call("match_queues", [*like]) if like else ():
            found[like[row["pattern"]]].append(Match(row["name"], row["archives"]))
        return found


def _poll(connection: Connection, archives: Collection[Watched]) -> dict[str, Polled]:
    # An archive that was dropped is created again by its next run.
    found = {each.name: Polled(is_due=True, has_lag=False) for each in archives}
    by_name = {each.name: each for each in archives}
    for row in call(connection, "poll_archives", [*by_name]):
        archive = by_name[row["name"]]
        is_due = row["is_urgent"] or (
            row["has_messages"]
            and (
                archive.may_commit
                or exceeds(
                    connection, row["queue_id"], row["xid"], row["horizon"], archive.commit_bytes
                )
            )
        )
        found[archive.name] = Polled(is_due, row["has_messages"] or row["is_waiting"])
    return found
