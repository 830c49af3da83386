"""Make several databases one queue: migrate all of them, and give each its slots."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from queen import errors, sql
from queen.store.migrations import connected, migrate, pending

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

_LOG: Final = logging.getLogger("queen.store")
_HASHED: Final = range(1, 960)
"""The slots that are chosen by a hash."""


async def join(databases: Mapping[str, str], *, away: set[str] | None = None) -> list[str]:
    """
    Migrate all databases, and let new ones join the first. It can be repeated after a failure.

    ``databases``: connection URLs by name, the first database first. Returns what was done.

    ``away``: gets the databases that are unavailable and have joined before. Without it, they are
    an error.
    """
    (first, first_dsn), *others = databases.items()
    done = await _migrated(first, first_dsn, len(databases))
    async with connected(first_dsn) as leader:
        unfinished = await _unfinished(leader, databases, away)
        try:
            for name, dsn in others:
                if name in unfinished:
                    done += await _migrated(name, dsn, len(databases))
                    async with connected(dsn) as follower:
                        done += await _join(leader, follower, [*databases], name)
        except asyncpg.InsufficientPrivilegeError as error:
            raise errors.DatabaseUnsafe(
                f"joining databases needs their owner: {error}. Run `queen migrate up` as the owner"
            ) from error
        except asyncpg.LockNotAvailableError as error:
            raise errors.DatabaseUnavailable(
                "a transaction uses a slot that should move; try again"
            ) from error
    return done


async def missing(databases: Mapping[str, str], *, away: set[str] | None = None) -> list[str]:
    """
    What `join` would do. Raises DatabaseUnsafe if these databases don't belong together.

    ``away``: gets the databases that are unavailable and have joined before.
    """
    (first, first_dsn), *others = databases.items()
    if found := _named(first, await pending(first_dsn), len(databases)):
        return [*found, *(f"{name}: join" for name, _ in others)]
    async with connected(first_dsn) as leader:
        unfinished = await _unfinished(leader, databases, away)
    for name, steps in unfinished.items():
        found += [*_named(name, steps, len(databases)), f"{name}: join"]
    return found


async def _unfinished(
    leader: "Connection", databases: Mapping[str, str], away: set[str] | None
) -> dict[str, list[str]]:
    """The databases that have to join, with the missing migrations of those that did before."""
    known = await _listed(leader)
    _check(known, databases)
    if removed := await leader.fetch(sql.CALLS["removed_databases"], [*databases]):
        names = ", ".join(row["name"] for row in removed)
        raise errors.DatabaseUnsafe(f"{names} was removed. Leave it out of QUEEN_DATABASES")
    leaving = {row["moved_to"] for row in await leader.fetch(sql.CALLS["leaving_slots"])}
    found: dict[str, list[str]] = {}
    for name, dsn in [*databases.items()][1:]:
        if name not in known:
            found[name] = []
            continue
        try:
            steps = await pending(dsn)
            own = name
            if not steps:
                async with connected(dsn) as follower:
                    own = await _own_name(follower)
        except errors.DatabaseUnavailable:
            if away is None:
                raise
            away.add(name)
            continue
        if own is not None and own != name:
            raise errors.DatabaseUnsafe(
                f"the URL of database {name} in QUEEN_DATABASES leads to database {own}"
            )
        if steps or own is None or name in leaving:
            found[name] = steps
    return found


def _check(known: Mapping[str, int], databases: Mapping[str, str]) -> None:
    """Raise if the first database is used with others than these."""
    if absent := sorted(known.keys() - databases.keys()):
        raise errors.DatabaseUnsafe(
            f"this database shares its queues with {', '.join(absent)}. Add it to QUEEN_DATABASES:"
            " NAME=URL"
        )
    first = next(iter(databases))
    if known and known.get(first) != 0:
        raise errors.DatabaseUnsafe(
            f"database {first} is listed first in QUEEN_DATABASES, but it joined another one. The"
            " first in the list must be the one with API keys and all names"
        )


async def _listed(leader: "Connection") -> dict[str, int]:
    """The databases that the first one lists, by name, with their numbers."""
    rows = await leader.fetch(sql.CALLS["databases"])
    return {row["name"]: row["number"] for row in rows}


async def _own_name(connection: "Connection") -> str | None:
    """The name under which a database has joined."""
    rows = await connection.fetch(sql.CALLS["databases"])
    return next((row["name"] for row in rows if row["is_here"]), None)


async def _join(
    leader: "Connection", follower: "Connection", names: list[str], name: str
) -> list[str]:
    """Let one database join the first one, and give it its share of the slots."""
    first = names[0]
    if await _own_name(leader) is None:
        await _call(leader, "join_databases", 0, first, first, None)
    is_new = name not in await _listed(leader)
    number = await _call(leader, "list_database", name)
    used = await _call(leader, "shared_sequences")
    try:
        await _call(follower, "join_databases", number, name, first, used)
    except asyncpg.PostgresError as error:
        if is_new:
            await _call(leader, "unlist_database", name)
        if error.sqlstate != "QN024":
            raise
        raise errors.DatabaseUnsafe(f"database {name} cannot join {first}: {error}") from error
    share = [each for each in _HASHED if (each - number) % len(names) == 0]
    await give(leader, follower, leader, name, share)
    return [f"{name}: joined"] if is_new else []


async def give(
    source: "Connection", target: "Connection", first: "Connection", name: str, slots: list[int]
) -> set[int]:
    """Give those slots that are empty to the database ``name``. Returns them."""
    leaving = await source.fetch(sql.CALLS["leave_slots"], slots, name)
    if leaving:
        epochs = {row["slot"]: row["epoch"] for row in leaving}
        await _call(target, "own_slots", [*epochs], [*epochs.values()])
        for slot, epoch in epochs.items():
            if first not in (source, target):
                await _call(first, "record_owner", slot, name, epoch + 1)
        await _call(source, "close_given_slots", [*epochs], [*epochs.values()], name)
        _LOG.info("%s: owns %d more slots", name, len(leaving))
    return {row["slot"] for row in leaving}


async def _call(connection: "Connection", name: str, *arguments: object) -> Any:  # noqa: ANN401 - any column
    return await connection.fetchval(sql.CALLS[name], *arguments)


async def _migrated(name: str, dsn: str, count: int) -> list[str]:
    return _named(name, await migrate(dsn), count)


def _named(database: str, steps: list[str], count: int) -> list[str]:
    return [f"{database}: {step}" for step in steps] if count > 1 else steps
