"""The audit log records every change, and detects changes to its own records."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from queen import errors
from queen.store.connection.options import Connecting
from queen.store.store import Store
from tests.support.callers import KEYS, Caller, make_key
from tests.support.clock import Clock
from tests.support.server import Server


@pytest.fixture
async def admin(dsn: str) -> AsyncIterator[Caller]:
    async with Server(dsn, KEYS) as server:
        yield Caller(server, await make_key(dsn, name="ops"))


async def records(caller: Caller, **filters: str | int) -> list[dict[str, Any]]:
    reply = await caller.get("/audit", **filters)
    assert reply.status == 200, reply.body
    return reply.body["records"]


async def test_a_change_records_actor_action_source_before_and_after(admin: Caller) -> None:
    await admin.post("/configure", {"queue": "q", "options": {"leaseTime": 60}})
    made = await admin.request(
        "POST",
        "/configure",
        {"queue": "q", "options": {"leaseTime": 90}},
        headers={"X-Request-Id": "r-42"},
    )
    assert made.status == 200
    second, first = [entry["record"] for entry in await records(admin, queue="q")]
    assert first.get("before") is None
    assert second == {
        "actor": "key:ops",
        "action": "POST /api/v1/configure",
        "permission": "configure",
        "queue": "q",
        "path": "/api/v1/configure",
        "source": "127.0.0.1",
        "requestId": "r-42",
        "status": 200,
        "before": first["after"],
        "after": made.body,
        "revealed": None,
        "count": 1,
    }
    assert second["before"]["options"]["leaseTime"] == 60


async def test_each_call_has_one_record_except_message_calls(admin: Caller) -> None:
    await admin.push("q")
    await admin.get("/pop/queue/q")
    await admin.get("/auth/me")
    assert await records(admin) == []
    made = (await admin.post("/tokens", {"name": "k", "role": "read-only"})).body
    await admin.post(f"/tokens/{made['id']}/rotate")
    await admin.delete(f"/tokens/{made['id']}")
    await admin.delete(f"/tokens/{made['id']}")
    await admin.post("/configure", {"queue": "q", "options": {"noSuch": 1}})
    told = [(each["record"]["action"], each["record"]["status"]) for each in await records(admin)]
    assert told[::-1] == [
        ("GET /api/v1/audit", 200),
        ("POST /api/v1/tokens", 201),
        ("POST /api/v1/tokens/{id}/rotate", 200),
        ("DELETE /api/v1/tokens/{id}", 200),
        ("DELETE /api/v1/tokens/{id}", 404),
        ("POST /api/v1/configure", 400),
    ]


async def test_rejected_callers_cannot_fill_the_log(dsn: str, admin: Caller) -> None:
    reader = Caller(admin.server, await make_key(dsn, role="read-only"))
    assert (await reader.post("/configure", {"queue": "q"})).code == "forbidden"
    assert (await Caller(admin.server, "qk_x").post("/configure", {"queue": "q"})).status == 401
    assert await records(admin) == []


async def test_records_are_filtered_by_actor_action_queue_and_time(
    dsn: str, clock: Clock, admin: Caller
) -> None:
    other = Caller(admin.server, await make_key(dsn, name="other"))
    await admin.post("/configure", {"queue": "a"})
    await clock.advance(seconds=100)
    middle = (await clock.now()).isoformat()
    await other.post("/configure", {"queue": "b"})
    await other.post("/tokens", {"name": "k", "role": "admin"})

    async def queues(**filters: str | int) -> list[str | None]:
        told = await records(admin, **filters)
        return [each["record"]["queue"] for each in told[::-1]]

    assert await queues(actor="key:other") == ["b", None]
    assert await queues(queue="b") == ["b"]
    assert await queues(action="POST /api/v1/configure") == ["a", "b"]
    assert await queues(action="POST /api/v1/configure", to=middle) == ["a"]
    assert await queues(actor="key:other", **{"from": middle}) == ["b", None]
    assert (await admin.get("/audit", who="me")).code == "bad_request"
    assert (await admin.get("/audit", cursor="x")).code == "bad_request"
    assert (await admin.get("/audit", actor="\0")).code == "bad_request"
    assert (await admin.get("/audit", **{"from": "2030-01-01T00:00:00"})).code == "bad_request"


async def test_lists_continue_at_a_cursor(admin: Caller) -> None:
    for number in range(5):
        await admin.post("/configure", {"queue": f"q{number}"})
    seen: list[str] = []
    parameters: dict[str, str | int] = {"limit": 2, "action": "POST /api/v1/configure"}
    while True:
        page = (await admin.get("/audit", **parameters)).body
        seen += [each["record"]["queue"] for each in page["records"]]
        if page["nextCursor"] is None:
            break
        parameters["cursor"] = page["nextCursor"]
    assert seen == ["q4", "q3", "q2", "q1", "q0"]


async def test_behind_a_proxy_the_client_address_is_recorded(dsn: str) -> None:
    async with Server(dsn, {**KEYS, "QUEEN_BEHIND_PROXY": "true"}) as server:
        admin = Caller(server, await make_key(dsn))
        forwarded = {"X-Forwarded-For": "10.1.1.1, 203.0.113.9"}
        await admin.request("POST", "/configure", {"queue": "q"}, headers=forwarded)
        (entry,) = await records(admin)
        assert entry["record"]["source"] == "203.0.113.9"


async def test_control_characters_never_reach_the_log(admin: Caller) -> None:
    path = "/tokens/%1b%5b31m%0d%0a%00"
    assert (await admin.delete(path)).status in (400, 404)
    forwarded = {"X-Request-Id": "r\x9b2J"}
    await admin.request("POST", "/configure", {"queue": "q"}, headers=forwarded)
    told = str(await records(admin))
    assert told.isprintable()
    assert "\\x" not in told


@pytest.mark.parametrize(
    "damage",
    [
        "update queen.audit set record = replace(record, 'key:ops', 'key:not') where id = 2",
        "update queen.audit set actor = 'key:not' where id = 2",
        "update queen.audit set at = at + interval '1 microsecond' where id = 2",
        "update queen.audit set queue = 'q9' where id = 2",
        "delete from queen.audit where id = 2",
        "delete from queen.audit where id = 1",
        "delete from queen.audit where id = (select max(id) from queen.audit)",
        "update queen.audit set hash = sha256('x') where id = 2",
        """
        insert into queen.audit
        select
          max(id) + 1, max(at), 'key:x', 'x', null,
          '{"actor":"key:x","action":"x","queue":null}', sha256('x')
        from queen.audit
        """,
        "delete from queen.audit",
    ],
)  # fmt: skip
async def test_any_tampering_is_detected(dsn: str, store: Store, damage: str) -> None:
    for number in range(4):
        record = f'{{"actor":"key:ops","action":"a","queue":"q{number}"}}'
        await store.audit.append(actor="key:ops", action="a", queue=f"q{number}", record=record)
    checked = await store.audit.check()
    assert checked.records == 4
    connection = await asyncpg.connect(dsn)
    await connection.execute(damage)
    await connection.close()
    with pytest.raises(errors.DatabaseUnsafe):
        await store.audit.check()


async def test_concurrent_records_form_one_chain(dsn: str, admin: Caller) -> None:
    await asyncio.gather(
        *(admin.post("/configure", {"queue": f"q{number}"}) for number in range(40))
    )
    store = await Store.open(dsn, connecting=Connecting(connections=1))
    assert (await store.audit.check()).records == 40
    await store.close()
