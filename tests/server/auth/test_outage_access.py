"""Which callers may push while the database is unavailable, also after a restart."""

import asyncio
import json
import os
import stat
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import aiohttp
import jwt
import pytest

from queen.server.auth import api_keys
from queen.store.migrations import migrate
from tests.support.callers import Caller, make_key
from tests.support.postgres import Postgres
from tests.support.server import Reply, Server, until

pytestmark = pytest.mark.timeout(180)  # Each test starts and stops servers and databases.

SECRET = "a secret of more than thirty-two bytes"
BOTH = {
    "QUEEN_AUTH": "keys,jwt",
    "HOST": "127.0.0.1",
    "JWT_ALGORITHMS": "HS256",
    "JWT_SECRET": SECRET,
    "JWT_ISSUER": "https://id.example",
    "JWT_AUDIENCE": "queen",
}
CLAIMS = {"iss": "https://id.example", "aud": "queen", "sub": "alice", "role": "write-only"}


@pytest.fixture(scope="module")
def own() -> Iterator[Postgres]:
    """A database server that these tests stop and start."""
    with Postgres(in_memory=True) as postgres:
        yield postgres


@pytest.fixture
async def dsn(own: Postgres) -> str:
    if own.is_stopped:
        await asyncio.to_thread(own.start)
    dsn = own.create_database(f"t{uuid4().hex}")
    await migrate(dsn)
    return dsn


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "buffer"


@pytest.fixture
async def server(dsn: str, directory: Path) -> AsyncIterator[Server]:
    environment = {**BOTH, "FILE_BUFFER_DIR": str(directory), "NUM_WORKERS": "2"}
    async with Server(dsn, environment) as server:
        yield server


async def restart(server: Server) -> None:
    """Stop the server as an operator does, and start it without its database."""
    await server.stop()
    server.launch()
    await server.hang_up()

    async def is_up() -> bool:
        try:
            return (await server.get("/livez")).status == 200
        except aiohttp.ClientError:
            return False

    await until(is_up, seconds=90)


def known_ids(directory: Path) -> set[str]:
    """Empty until the first process is ready, because another one may be ready earlier."""
    file = directory / "keys.json"
    if not file.exists():
        return set()
    return {each["id"] for each in json.loads(file.read_bytes())["keys"]}


async def until_known(directory: Path, *callers: Caller) -> None:
    """Another program created the keys: the server reads them within a second."""
    wanted = {api_keys.id_of(caller.token) for caller in callers}

    async def are_known() -> bool:
        return wanted <= known_ids(directory)

    await until(are_known)


async def drained(admin: Caller) -> None:
    async def is_drained() -> bool:
        reply = await admin.get("/status/buffers")
        return reply.status == 200 and reply.body["buffering"] is False

    await until(is_drained, seconds=90)


async def popped_by(admin: Caller) -> Reply:
    """The messages from the first process that has its database again."""
    replies: list[Reply] = []

    async def is_answered() -> bool:
        replies.append(await admin.post("/pop/queue/orders", {"batch": 100}))
        return replies[-1].status == 200

    await until(is_answered, seconds=30)
    return replies[-1]


async def is_status(caller: Caller, status: int) -> bool:
    return (await caller.push("spare")).status == status


async def until_accepted_by_both(caller: Caller) -> None:
    """A process caches a key for half a second, and either of the two takes a connection."""
    processes: set[str] = set()

    async def is_accepted() -> bool:
        await caller.server.hang_up()
        reply = await caller.push("spare")
        if reply.status == 202:
            processes.add(reply.headers["X-Request-Id"].split("-")[1])
        return len(processes) == 2

    await until(is_accepted, seconds=30)


def code(reply: Reply) -> tuple[int, str | None]:
    return reply.status, reply.code


@pytest.mark.parametrize("is_restarted", [False, True], ids=["running", "restarted"])
async def test_every_valid_key_and_no_other_may_push_during_an_outage(
    own: Postgres, dsn: str, server: Server, directory: Path, is_restarted: bool
) -> None:
    admin = Caller(server, await make_key(dsn))
    unused = Caller(server, await make_key(dsn, role="write-only", scopes=[{"queue": "shop.*"}]))
    reader = Caller(server, await make_key(dsn, role="read-only"))
    made = {
        name: (await admin.post("/tokens", {"name": name, "role": "write-only"})).body
        for name in ("revoked", "rotated")
    }
    used = [Caller(server, each["token"]) for each in made.values()]
    assert [(await each.push("orders")).status for each in used] == [201, 201]
    assert (await admin.delete(f"/tokens/{made['revoked']['id']}")).status == 200
    new = (await admin.post(f"/tokens/{made['rotated']['id']}/rotate")).body["token"]
    await until_known(directory, admin, unused, reader)
    await asyncio.to_thread(own.stop)
    await until_accepted_by_both(Caller(server, new))
    if is_restarted:
        await restart(server)

    token = jwt.encode({**CLAIMS, "exp": int(time.time()) + 60}, SECRET, algorithm="HS256")
    for _ in range(4):  # Either of the two processes takes the connection.
        await server.hang_up()
        assert (await admin.push("orders")).status == 202
        assert (await unused.push("shop.orders")).status == 202
        assert (await Caller(server, new).push("orders")).status == 202
        assert (await Caller(server, token).push("orders")).status == 202
        assert code(await used[0].push("orders")) == (503, "database_unavailable")
        assert code(await used[1].push("orders")) == (401, "unauthorized")
        assert code(await reader.push("orders")) == (403, "forbidden")
        unknown = Caller(server, api_keys.new_key().text)
        assert code(await unknown.push("orders")) == (503, "database_unavailable")
        forged = Caller(server, admin.token[:-1] + ("0" if admin.token[-1] != "0" else "1"))
        assert code(await forged.push("orders")) == (401, "unauthorized")
        assert (await admin.get("/status/buffers")).body["dbHealthy"] is False
        assert code(await admin.post("/pop/queue/orders", {})) == (503, "database_unavailable")
        assert code(await admin.get("/tokens")) == (503, "database_unavailable")

    await asyncio.to_thread(own.start)
    await drained(admin)
    popped = await popped_by(admin)
    assert len(popped.body["messages"]) == 2 + 4 * 3
    await until(lambda: is_status(used[0], 401))


async def test_the_file_has_no_secret_and_only_the_server_can_read_it(
    dsn: str, server: Server, directory: Path
) -> None:
    admin = Caller(server, await make_key(dsn))
    made = (await admin.post("/tokens", {"name": "k", "role": "admin"})).body["token"]
    file = directory / "keys.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert made.rpartition("_")[2] not in file.read_text()
    assert api_keys.id_of(made) in known_ids(directory)

    async def is_alone() -> bool:
        """The server may be replacing the file now."""
        return "keys" not in " ".join(set(os.listdir(directory)) - {"keys.json"})

    await until(is_alone)


async def test_keys_created_or_revoked_elsewhere_are_applied_within_about_a_second(
    dsn: str, server: Server, directory: Path
) -> None:
    key = await make_key(dsn)
    await until_known(directory, Caller(server, key))
    async with Server(dsn, BOTH) as other:
        assert (await Caller(other, key).delete(f"/tokens/{api_keys.id_of(key)}")).status == 200

    async def is_gone() -> bool:
        return api_keys.id_of(key) not in known_ids(directory)

    await until(is_gone)


async def test_keys_and_old_secrets_expire_by_the_servers_clock(
    own: Postgres, dsn: str, server: Server, directory: Path
) -> None:
    admin = Caller(server, await make_key(dsn))
    ends = (datetime.now(UTC) + timedelta(seconds=4)).isoformat()
    made = await admin.post("/tokens", {"name": "k", "role": "write-only", "expiresAt": ends})
    short = Caller(server, made.body["token"])
    made = (await admin.post("/tokens", {"name": "l", "role": "write-only"})).body
    old = Caller(server, made["token"])
    await admin.post(f"/tokens/{made['id']}/rotate", {"graceSeconds": 4})
    await asyncio.to_thread(own.stop)
    assert {(await each.push("orders")).status for each in (short, old)} == {202}

    async def are_refused() -> bool:
        return {(await each.push("orders")).status for each in (short, old)} == {401, 503}

    await until(are_refused, seconds=20)
    assert code(await old.push("orders")) == (401, "unauthorized")
    await restart(server)
    assert await are_refused()


async def test_namespace_scopes_work_for_known_queues(
    own: Postgres, dsn: str, directory: Path
) -> None:
    environment = {**BOTH, "FILE_BUFFER_DIR": str(directory)}
    async with Server(dsn, environment) as server:
        admin = Caller(server, await make_key(dsn))
        made = {"queue": "orders", "namespace": "shop"}
        assert (await admin.post("/configure", made)).status in (200, 201)
        body = {"name": "s", "role": "read-write", "scopes": [{"namespace": "shop"}]}
        shop = Caller(server, (await admin.post("/tokens", body)).body["token"])
        assert (await shop.push("orders")).status == 201
        await asyncio.to_thread(own.stop)
        assert (await shop.push("orders")).status == 202
        assert code(await shop.push("elsewhere")) == (503, "database_unavailable")
        await restart(server)
        reply = await shop.push("orders")
        assert code(reply) == (503, "database_unavailable")
        assert "namespace" in reply.body["detail"]
        assert (await admin.push("orders")).status == 202


async def test_a_request_limit_applies_during_an_outage(
    own: Postgres, dsn: str, directory: Path
) -> None:
    async with Server(dsn, {**BOTH, "FILE_BUFFER_DIR": str(directory)}) as server:
        limited = Caller(server, await make_key(dsn, requests_per_second=5))
        await until_known(directory, limited)
        await asyncio.to_thread(own.stop)
        began_at = time.monotonic()
        statuses = [(await limited.push("orders")).status for _ in range(100)]
        seconds = time.monotonic() - began_at

        assert set(statuses) == {202, 429}
        assert 5 <= statuses.count(202) <= 6 + 5 * seconds


async def test_without_a_grace_period_no_key_is_accepted_during_an_outage(
    own: Postgres, dsn: str, directory: Path
) -> None:
    environment = {
        **BOTH, "FILE_BUFFER_DIR": str(directory), "QUEEN_KEY_GRACE_SECONDS": "0"
    }  # fmt: skip
    async with Server(dsn, environment) as server:
        admin = Caller(server, await make_key(dsn))
        assert (await admin.push("orders")).status == 201
        await asyncio.to_thread(own.stop)

        async def is_refused() -> bool:
            return (await admin.push("orders")).status == 503

        await until(is_refused)
        assert not (directory / "keys.json").exists()
