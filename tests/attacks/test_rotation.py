"""A rotation returns the new secret, so the caller needs every permission of the key."""

from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Server


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn, KEYS) as server:
        yield server


def id_of(key: str) -> str:
    return key.split("_")[1]


async def rotate(caller: Caller, key: str, **body: Any) -> tuple[int, str | None]:  # noqa: ANN401 - JSON
    reply = await caller.post(f"/tokens/{id_of(key)}/rotate", body)
    return reply.status, reply.code


async def test_a_key_with_more_permissions_than_the_caller_is_not_rotated(
    dsn: str, server: Server
) -> None:
    ops = await make_key(dsn, name="ops")
    clerk = Caller(server, await make_key(dsn, permissions=["admin"], name="clerk"))
    for grace in (0, 604_800):
        assert await rotate(clerk, ops, graceSeconds=grace) == (403, "forbidden")
    for role, permissions in (("write-only", None), (None, ["admin", "browse"])):
        key = await make_key(dsn, role=role, permissions=permissions)
        assert await rotate(clerk, key) == (403, "forbidden")
    # The secret is unchanged, and the audit log records the caller and the key.
    owner = Caller(server, ops)
    records = (await owner.get("/audit", actor="key:clerk")).body["records"]
    assert {each["record"]["status"] for each in records} == {403}
    assert {each["record"]["before"]["name"] for each in records} == {"ops", "tests"}
    assert all("qk_" not in str(each["record"]["after"]) for each in records)


async def test_a_key_without_more_permissions_than_the_caller_is_rotated(
    dsn: str, server: Server
) -> None:
    clerk = await make_key(dsn, permissions=["admin", "browse"], name="clerk")
    caller = Caller(server, clerk)
    reader = await make_key(dsn, role="read-only", name="reader")
    assert (await rotate(caller, reader))[0] == 200
    assert (await rotate(caller, clerk, graceSeconds=60))[0] == 200  # The caller's own key.
    owner = Caller(server, await make_key(dsn, name="ops"))
    records = (await owner.get("/audit", actor="key:clerk")).body["records"]
    assert [each["record"]["status"] for each in records] == [200, 200]
    assert records[-1]["record"]["before"]["name"] == "reader"


@pytest.mark.parametrize("change", ["role = 'auditor'", "role = null, permissions = '{audit}'"])
async def test_a_key_of_a_later_release_is_not_rotated(
    dsn: str, server: Server, change: str
) -> None:
    key = await make_key(dsn, role="read-only")
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("alter table queen.keys disable trigger user")
        constraints = await connection.fetch(
            "select conname from pg_constraint"
            " where conrelid = 'queen.keys'::regclass and contype = 'c'"
        )
        for row in constraints:
            await connection.execute(f"alter table queen.keys drop constraint {row['conname']}")
        await connection.execute(f"update queen.keys set {change} where id = $1", id_of(key))
    finally:
        await connection.close()
    owner = Caller(server, await make_key(dsn, name="ops"))
    assert await rotate(owner, key) == (403, "forbidden")
