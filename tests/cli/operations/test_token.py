"""`queen token` and `queen audit`: manage API keys without a server."""

import json

from queen.store.store import Store
from tests.cli.commands import queen
from tests.support.callers import KEYS, Caller
from tests.support.server import Server, until


async def test_the_first_key_is_created_on_the_command_line(dsn: str) -> None:
    made = await queen("token", "create", "ops", "--role", "admin", dsn=dsn)
    assert (made.code, made.err) == (0, "Store it now: it is not shown again.\n")
    key = made.out.strip()
    listed = await queen("token", "ls", dsn=dsn)
    assert "ops" in listed.out
    assert "admin" in listed.out
    assert key not in listed.out

    async with Server(dsn, KEYS) as server:
        caller = Caller(server, key)
        assert (await caller.get("/auth/me")).body["name"] == "key:ops"
        assert (await queen("token", "revoke", key.split("_")[1], dsn=dsn)).code == 2
        dry = await queen("token", "revoke", key.split("_")[1], "--dry-run", dsn=dsn)
        assert dry.err.startswith("would revoke")
        assert (await caller.get("/auth/me")).status == 200
        revoked = await queen("token", "revoke", key.split("_")[1], "--yes", dsn=dsn)
        assert revoked.code == 0

        async def is_refused() -> bool:
            return (await caller.get("/auth/me")).status == 401

        await until(is_refused, seconds=2)
    assert "ops" not in (await queen("token", "ls", dsn=dsn)).out
    assert "revoked" in (await queen("token", "ls", "--revoked", dsn=dsn)).out
    (shown,) = json.loads((await queen("token", "ls", "--revoked", "-o", "json", dsn=dsn)).out)
    assert shown["revokedAt"] is not None
    names = await queen("token", "ls", "--revoked", "-o", "name", dsn=dsn)
    assert names.out == f"{shown['id']}\n"


async def test_a_key_has_the_given_options(dsn: str, store: Store) -> None:
    options = ["--permission", "produce", "--permission", "browse", "--queue", "shop.*"]
    options += ["--namespace", "eu", "--expires-at", "2100-01-01", "--requests-per-second", "5"]
    assert (await queen("token", "create", "shop", *options, dsn=dsn)).code == 0
    (row,) = await store.keys.list(after="", limit=10)
    assert row["permissions"] == ["produce", "browse"]
    assert row["scopes"] == [{"queue": "shop.*"}, {"namespace": "eu"}]
    assert row["expires_at"].isoformat() == "2100-01-01T00:00:00+00:00"
    assert row["requests_per_second"] == 5


async def test_an_invalid_key_is_reported_in_one_sentence(dsn: str) -> None:
    for arguments in (
        ["create", "k"],
        ["create", "k", "--role", "root"],
        ["create", "k", "--role", "admin", "--permission", "browse"],
        ["create", "k", "--permission", "everything"],
        ["create", "", "--role", "admin"],
        ["revoke", "0123456789ab", "--yes"],
    ):
        ended = await queen("token", *arguments, dsn=dsn)
        assert ended.code == (3 if arguments[0] == "revoke" else 2)
        assert ended.err.startswith("queen: ")
        assert len(ended.err.splitlines()) == 1


async def test_commands_are_in_the_audit_log_and_the_log_is_intact(dsn: str, store: Store) -> None:
    made = await queen("token", "create", "ops", "--role", "admin", dsn=dsn)
    await queen("token", "revoke", made.out.split("_")[1], "--yes", dsn=dsn)
    rows = await store.audit.list(before=2**62, limit=10)
    assert len(rows) == 2
    assert made.out.strip() not in str(rows)
    checked = await queen("audit", "verify", dsn=dsn)
    assert checked.code == 0
    assert checked.out.split()[0] == "2"

    await store.database.fetch(
        "audit", ["a"], ["b"], [None], ['{"actor":"x","action":"b","queue":null}']
    )
    broken = await queen("audit", "verify", dsn=dsn)
    assert (broken.code, broken.err) == (1, "queen: the audit log is broken at record 3\n")
