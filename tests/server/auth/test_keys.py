"""API keys: create, use, rotate and revoke them."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import pytest

from tests.support.callers import KEYS, Caller, make_key
from tests.support.clock import Clock
from tests.support.server import Reply, Server, until


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn, KEYS) as server:
        yield server


@pytest.fixture
async def admin(dsn: str, server: Server) -> Caller:
    return Caller(server, await make_key(dsn))


async def test_without_a_key_only_probes_respond(server: Server) -> None:
    reply = await server.get("/auth/me")
    assert (reply.status, reply.code) == (401, "unauthorized")
    assert reply.headers["WWW-Authenticate"].startswith("Bearer")
    assert (await server.post("/push", {"items": []})).status == 401
    assert (await server.get("/livez")).status == 200
    assert (await server.get("/readyz", verbose="")).body == {"status": "ready"}
    assert (await server.get("/health")).body == {"status": "healthy"}


async def test_a_caller_with_a_key_sees_the_servers_health(admin: Caller) -> None:
    assert (await admin.get("/health")).body["database"] == "connected"


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Bearer qk_1", "Basic cXVlZW46cXVlZW4=", "Bearer a b", "qk_a_b",
     "Bearer qk_0123456789ab_" + "0" * 64, "Bearer ey.ey.ey"],
)  # fmt: skip
async def test_a_malformed_key_is_unauthorized(server: Server, header: str) -> None:
    reply = await server.request("GET", "/auth/me", headers={"Authorization": header})
    assert (reply.status, reply.code, reply.body["applied"]) == (401, "unauthorized", False)


async def test_a_known_id_with_a_wrong_secret_is_unauthorized(admin: Caller) -> None:
    forged = Caller(admin.server, admin.token[:-1] + ("0" if admin.token[-1] != "0" else "1"))
    assert (await forged.get("/auth/me")).status == 401
    assert (await admin.get("/auth/me")).status == 200


async def test_a_key_is_shown_once_and_stored_as_a_hash(dsn: str, admin: Caller) -> None:
    made = await admin.post(
        "/tokens",
        {"name": "shop", "role": "read-write", "scopes": [{"queue": "shop.*"}]},
    )
    assert made.status == 201
    secret = made.body["token"]
    shop = Caller(admin.server, secret)
    assert (await shop.get("/auth/me")).body == {
        "name": "key:shop",
        "kind": "key",
        "permissions": ["browse", "configure", "consume", "operate", "produce"],
        "scopes": [{"queue": "shop.*"}],
        "requestsPerSecond": None,
    }
    listed = await admin.get("/tokens")
    assert {each["name"] for each in listed.body["tokens"]} == {"tests", "shop"}
    assert secret not in str(listed.body)
    connection = await asyncpg.connect(dsn)
    try:
        for table in ("keys", "audit"):
            stored = await connection.fetch(f"select t::text as row from queen.{table} t")
            assert stored
            assert not any(secret.rpartition("_")[2] in each["row"] for each in stored)
    finally:
        await connection.close()


async def test_a_key_has_at_most_the_permissions_of_its_creator(dsn: str, admin: Caller) -> None:
    limited = Caller(admin.server, await make_key(dsn, permissions=["admin"]))
    refused = await limited.post("/tokens", {"name": "more", "role": "admin"})
    assert refused.code == "forbidden"
    same = await limited.post("/tokens", {"name": "same", "permissions": ["admin"]})
    assert same.status == 201


async def test_only_admins_of_the_whole_server_manage_keys(dsn: str, server: Server) -> None:
    for key in (
        await make_key(dsn, role="read-write"),
        await make_key(dsn, scopes=[{"queue": "*"}]),
    ):
        caller = Caller(server, key)
        assert (await caller.get("/tokens")).code == "forbidden"
        assert (await caller.post("/tokens", {"name": "x", "role": "admin"})).code == "forbidden"
        assert (await caller.delete("/tokens/0123456789ab")).code == "forbidden"
        assert (await caller.get("/audit")).code == "forbidden"


async def test_lists_of_keys_continue_at_a_cursor(dsn: str, admin: Caller) -> None:
    for name in "abcd":
        await make_key(dsn, name=name)
    seen: list[str] = []
    cursor = ""
    while True:
        page = (await admin.get("/tokens", limit=2, cursor=cursor)).body
        seen += [each["name"] for each in page["tokens"]]
        if page["nextCursor"] is None:
            break
        cursor = page["nextCursor"]
    assert sorted(seen) == ["a", "b", "c", "d", "tests"]
    assert (await admin.get("/tokens", cursor="\0")).code == "bad_request"


async def test_a_rotated_key_is_rejected_immediately_or_after_its_grace_period(
    clock: Clock, admin: Caller
) -> None:
    made = (await admin.post("/tokens", {"name": "k", "role": "read-only"})).body
    first = Caller(admin.server, made["token"])
    assert (await first.get("/auth/me")).status == 200

    rotated = (await admin.post(f"/tokens/{made['id']}/rotate", {"graceSeconds": 60})).body
    second = Caller(admin.server, rotated["token"])
    assert (await first.get("/auth/me")).status == 200
    assert (await second.get("/auth/me")).status == 200
    await clock.advance(seconds=61)
    await until(lambda: _is_refused(first), seconds=2)

    third = (await admin.post(f"/tokens/{made['id']}/rotate")).body
    assert (await second.get("/auth/me")).status == 401
    assert (await Caller(admin.server, third["token"]).get("/auth/me")).status == 200
    assert (await admin.post("/tokens/0123456789ab/rotate")).code == "not_found"


async def test_a_changed_key_keeps_its_secret(admin: Caller) -> None:
    body = {"name": "k", "role": "read-only", "managedBy": "shop"}
    made = (await admin.post("/tokens", body)).body
    caller = Caller(admin.server, made["token"])
    assert made["managedBy"] == "shop"

    scopes = [{"queue": "shop.*"}]
    body = {"name": "l", "permissions": ["browse", "produce"], "scopes": scopes}
    changed = await admin.post(f"/tokens/{made['id']}", {**body, "requestsPerSecond": 100})

    assert changed.status == 200, changed
    assert changed.body == {
        **{name: value for name, value in made.items() if name != "token"},
        **{"name": "l", "role": None, "permissions": ["browse", "produce"], "scopes": scopes},
        **{"requestsPerSecond": 100, "managedBy": None},
    }
    assert changed.body in (await admin.get("/tokens")).body["tokens"]
    me = (await caller.get("/auth/me")).body
    assert (me["name"], me["scopes"]) == ("key:l", scopes)
    assert (await caller.push("shop.orders")).status == 201
    assert (await caller.push("other")).code == "forbidden"
    records = (await admin.get("/audit", action="POST /api/v1/tokens/{id}")).body["records"]
    assert [each["record"]["before"]["name"] for each in records] == ["k"]


async def test_a_change_of_a_key_obeys_the_rules_of_a_new_one(
    dsn: str, clock: Clock, admin: Caller
) -> None:
    ends = (await clock.now() + timedelta(seconds=5)).isoformat().replace("+00:00", "Z")
    made = (await admin.post("/tokens", {"name": "k", "role": "admin", "expiresAt": ends})).body
    path = f"/tokens/{made['id']}"
    limited = Caller(admin.server, await make_key(dsn, permissions=["admin"]))

    assert (await limited.post(path, {"name": "k", "role": "admin"})).code == "forbidden"
    assert (await admin.post(path, {"name": "k"})).code == "bad_request"
    assert (await admin.post("/tokens/0123456789ab", {"name": "k", "role": "admin"})).status == 404
    await clock.advance(seconds=6)
    # An expiry in the past can stay, but cannot be set.
    kept = await admin.post(path, {"name": "l", "role": "admin", "expiresAt": ends})
    assert kept.body["name"] == "l", kept
    past = {"name": "l", "role": "admin", "expiresAt": "2020-01-01T00:00:00Z"}
    assert (await admin.post(path, past)).code == "bad_request"
    assert (await admin.delete(path)).status == 200
    assert (await admin.post(path, {"name": "l", "role": "admin"})).code == "not_found"


async def test_waiting_calls_end_if_their_key_is_restricted_but_not_if_it_is_extended(
    admin: Caller,
) -> None:
    scopes = [{"queue": "a"}]
    made = (await admin.post("/tokens", {"name": "k", "role": "read-write", "scopes": scopes})).body
    await admin.post("/configure", {"queue": "a"})
    caller, path = Caller(admin.server, made["token"]), f"/tokens/{made['id']}"

    def wait() -> asyncio.Task[Reply]:
        query = {"wait": True, "timeout": 30_000}
        return asyncio.create_task(caller.post("/pop/queue/a", query))

    async def is_waiting(count: int) -> bool:
        lines = (await admin.get("/metrics")).body.decode().splitlines()
        found = [line for line in lines if line.startswith("queen_waiters{")]
        return sum(float(line.split()[-1]) for line in found) == count

    first = wait()
    await until(lambda: is_waiting(1))
    wider = {"name": "k", "role": "read-write", "scopes": [*scopes, {"queue": "b"}]}
    assert (await admin.post(path, wider)).status == 200
    second = wait()
    await until(lambda: is_waiting(2))
    assert not first.done()

    narrower = {"name": "k", "role": "read-write", "scopes": [{"queue": "b"}]}
    assert (await admin.post(path, narrower)).status == 200
    async with asyncio.timeout(10):
        assert [(await each).code for each in (first, second)] == ["unauthorized"] * 2
    assert (await caller.post("/pop/queue/a", {})).code == "forbidden"


async def test_an_expired_key_is_rejected(clock: Clock, admin: Caller) -> None:
    ends = (await clock.now() + timedelta(seconds=5)).isoformat().replace("+00:00", "Z")
    dead = await admin.post("/tokens", {"name": "k", "role": "admin", "expiresAt": ends})
    await clock.advance(seconds=5)
    assert (await Caller(admin.server, dead.body["token"]).get("/auth/me")).status == 401

    ends = "2100-01-01T00:00:00Z"
    made = await admin.post("/tokens", {"name": "k", "role": "admin", "expiresAt": ends})
    caller = Caller(admin.server, made.body["token"])
    assert (await caller.get("/auth/me")).status == 200
    await clock.advance(seconds=200 * 365 * 86400)
    await until(lambda: _is_refused(caller), seconds=2)


async def test_a_revoked_key_is_rejected_by_every_process_within_a_second(dsn: str) -> None:
    async with Server(dsn, KEYS) as one, Server(dsn, KEYS) as two:
        admin = await make_key(dsn)
        for _ in range(5):
            made = (await Caller(one, admin).post("/tokens", {"name": "k", "role": "admin"})).body
            here, there = Caller(one, made["token"]), Caller(two, made["token"])
            used = [asyncio.create_task(_use_until_refused(each)) for each in (here, there) * 5]
            assert [(await each.get("/auth/me")).status for each in (here, there)] == [200, 200]
            assert (await Caller(one, admin).delete(f"/tokens/{made['id']}")).status == 200
            revoked_at = time.monotonic()
            ends = await asyncio.gather(*used)
            assert max(ends) - revoked_at < 1
            assert (await here.get("/auth/me")).status == 401
            assert (await there.get("/auth/me")).status == 401


async def test_revoked_keys_are_listed_on_request(admin: Caller) -> None:
    made = (await admin.post("/tokens", {"name": "gone", "role": "admin"})).body
    assert (await admin.delete(f"/tokens/{made['id']}")).body == {
        "id": made["id"],
        "revoked": True,
    }
    assert (await admin.delete(f"/tokens/{made['id']}")).code == "not_found"
    assert "gone" not in str((await admin.get("/tokens")).body)
    assert "gone" in str((await admin.get("/tokens", revoked="true")).body)


async def test_a_keys_request_rate_holds_across_processes(dsn: str, clock: Clock) -> None:
    async with Server(dsn, KEYS) as one, Server(dsn, KEYS) as two:
        key = await make_key(dsn, role="read-only", requests_per_second=10)
        replies = [await Caller(each, key).get("/auth/me") for each in (one, two) * 15]
        # The database's clock doesn't move, so the limit isn't refilled.
        assert [reply.status for reply in replies].count(200) == 10
        refused = next(reply for reply in replies if reply.status != 200)
        assert (refused.status, refused.code) == (429, "rate_limited")
        assert int(refused.headers["Retry-After"]) >= 1
        await clock.advance(seconds=10)
        await until(lambda: _is_admitted(Caller(one, key)), seconds=5)


async def test_a_ticket_works_once_and_only_for_its_caller(admin: Caller) -> None:
    reply = await admin.post("/auth/ticket")
    assert reply.status == 201
    assert reply.body["ticket"].startswith("qt_")


async def _is_refused(caller: Caller) -> bool:
    return (await caller.get("/auth/me")).status == 401


async def _is_admitted(caller: Caller) -> bool:
    return (await caller.get("/auth/me")).status == 200


async def _use_until_refused(caller: Caller) -> float:
    await until(lambda: _is_refused(caller))
    return time.monotonic()


async def test_an_expired_key_cannot_be_created(admin: Caller) -> None:
    body = {"name": "late", "role": "read-only", "expiresAt": "2020-01-01T00:00:00Z"}

    reply = await admin.post("/tokens", body)

    assert (reply.status, reply.code) == (400, "bad_request")


async def test_verbose_readiness_shows_each_check(admin: Caller) -> None:
    reply = await admin.get("/readyz", verbose="")

    assert reply.body["checks"] == {"draining": "ok", "database": "ok", "migrations": "ok"}
