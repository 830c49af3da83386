"""Servers of this release on the migrated schema of a later one."""

from types import MappingProxyType

import asyncpg
import pytest

from queen import sql
from queen.store.migrations import migrate
from tests.cli.commands import queen
from tests.support.server import Server

LATER = {"9998_notes": "create table queen.notes (id bigint primary key);"}
BREAKING = {"9999_gone": "--! breaking\ndrop table queen.notes;"}


async def bring_forward(
    dsn: str, monkeypatch: pytest.MonkeyPatch, migrations: dict[str, str]
) -> None:
    """Migrate as a server of the next release does at its start."""
    later = sql.FUNCTIONS["now"] + "\ncomment on function queen.now is 'later';"
    with monkeypatch.context() as patched:
        patched.setattr(sql, "MIGRATIONS", MappingProxyType({**sql.MIGRATIONS, **migrations}))
        patched.setattr(sql, "FUNCTIONS", MappingProxyType({**sql.FUNCTIONS, "now": later}))
        await migrate(dsn)


async def serves(server: Server) -> None:
    pushed = await server.post("/push", {"items": [{"queue": "orders", "payload": 1}]})
    assert pushed.status == 201
    popped = await server.post("/pop/queue/orders", {"batch": 10, "autoAck": True})
    assert [each["data"] for each in popped.body["messages"]] == [1]
    assert (await server.get("/readyz")).status == 200


async def test_servers_of_the_last_release_continue_and_start_on_the_new_schema(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Server(dsn) as running:
        await serves(running)

        await bring_forward(dsn, monkeypatch, LATER)

        await serves(running)
        async with Server(dsn) as started, Server(dsn, {"QUEEN_AUTO_MIGRATE": "false"}) as other:
            for server in (started, other, running):
                await serves(server)
    connection = await asyncpg.connect(dsn)
    try:
        # The functions of the next release are not overwritten.
        comment = "select obj_description('queen.now()'::regprocedure, 'pg_proc')"
        assert await connection.fetchval(comment) == "later"
        assert await connection.fetchval("select count(*) from queen.notes") == 0
    finally:
        await connection.close()
    checked = await queen("migrate", "check", dsn=dsn)
    assert (checked.code, "9998_notes" in checked.err) == (0, True)


async def test_a_schema_that_breaks_this_release_is_rejected_at_the_start(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bring_forward(dsn, monkeypatch, LATER | BREAKING)

    server = Server(dsn)
    try:
        with pytest.raises(RuntimeError, match="9999_gone"):
            await server.start()
    finally:
        await server.close()

    checked = await queen("migrate", "check", dsn=dsn)
    assert checked.code != 0
    assert "9999_gone" in checked.err
