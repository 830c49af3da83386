"""Holds and archives from the command line, through a server or directly in the database."""

import pytest

from queen.store.store import Store
from tests.cli.shell import Shell


@pytest.fixture(params=["server", "database"])
def where(request: pytest.FixtureRequest, dsn: str) -> list[str]:
    """The options that name a server or its database."""
    return [] if request.param == "server" else ["--dsn", dsn]


async def prepare(shell: Shell, store: Store) -> None:
    """A queue with a message, an archive, and its hold."""
    assert (await shell.run("push", "orders", "1")).code == 0
    await store.database.fetch("open_archive", "lake", "orders", "iceberg", "/lake")
    await store.database.fetch("hold_archive", "lake")


async def test_holds_are_listed_and_released(shell: Shell, store: Store, where: list[str]) -> None:
    await prepare(shell, store)

    listed = await shell.run("pipeline", "holds", "ls", *where)
    release = ("pipeline", "holds", "release", "orders", "archive:lake", *where)
    would = await shell.run(*release, "--dry-run")
    unconfirmed = await shell.run(*release)
    released = await shell.run(*release, "--yes")
    again = await shell.run(*release, "--yes")

    header, row = listed.lines
    assert header.split()[:4] == ["queue", "name", "messages", "ageSeconds"]
    assert row.split()[:3] == ["orders", "archive:lake", "1"]
    assert would.err == "would release hold archive:lake of orders\n"
    assert unconfirmed.code == 2
    assert (released.code, released.err) == (0, "archive:lake is released\n")
    assert (again.code, again.out) == (3, "")
    assert "queue orders has no hold archive:lake" in again.err
    assert (await shell.run("pipeline", "holds", "ls", *where, "-o", "json")).json == []


async def test_archives_are_listed_and_dropped(
    shell: Shell, store: Store, where: list[str]
) -> None:
    await prepare(shell, store)

    listed = await shell.run("pipeline", "archives", "ls", *where, "-o", "json")
    drop = ("pipeline", "archives", "drop", "lake", *where)
    would = await shell.run(*drop, "--dry-run")
    dropped = await shell.run(*drop, "--yes")
    again = await shell.run(*drop, "--yes")

    (row,) = listed.json
    assert (row["name"], row["location"], row["missedMessages"]) == ("lake", "/lake", 0)
    assert would.err == "would drop archive lake and its hold\n"
    assert (dropped.code, dropped.err) == (0, "lake is dropped\n")
    assert again.code == 3
    assert (await shell.run("pipeline", "holds", "ls", *where, "-o", "json")).json == []


async def test_a_purge_of_held_messages_needs_force(shell: Shell, store: Store) -> None:
    await prepare(shell, store)
    purge = ("queue", "purge", "orders", "--all", "--yes")

    refused = await shell.run(*purge)
    forced = await shell.run(*purge, "--force")

    assert (refused.code, refused.out) == (7, "")
    assert "hold archive:lake keeps messages of queue orders" in refused.err
    assert (forced.code, forced.err) == (0, "done: 1 messages deleted\n")
    (row,) = (await shell.run("pipeline", "archives", "ls", "-o", "json")).json
    assert row["missedMessages"] == 1
