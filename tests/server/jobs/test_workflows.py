"""Workflows over HTTP: start, show, advance, list, rejections and permissions."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import asyncpg
import pytest

from tests.server.jobs.workflows import Json, job, operations, settle, start, take
from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Server, until
from tests.support.verbs import pages


@pytest.fixture
async def guarded(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn, KEYS) as server:
        yield server


async def test_a_workflow_runs_from_its_start_to_its_result(server: Server) -> None:
    id_ = await start(
        server,
        job("split", onSuccess=[job("count", over="split", onSuccess=["sum"])]),
        job("sum"),
        metadata={"correlationId": "c1", "tags": ["a"], "createdBy": "me"},
    )
    message = await take(server)
    assert message["data"] == {
        "name": "split",
        "metadata": {"correlationId": "c1", "tags": ["a"], "createdBy": "me"},
        "workflow": {
            "id": id_,
            "step": "split",
            "token": message["data"]["workflow"]["token"],
            "results": {},
            "errors": {},
        },
    }
    assert message["priority"] == 5
    assert await settle(server, message, result=["x", "yy"]) == {
        "index": 1,
        "type": "advance",
        "advanced": True,
    }
    items: dict[int, str] = {}
    for _ in range(2):
        message = await take(server)
        items[message["data"]["workflow"]["part"]] = message["data"]["data"]
        assert message["data"]["workflow"]["parts"] == 2
        await settle(server, message, result=len(message["data"]["data"]))
    assert items == {0: "x", 1: "yy"}
    shown = (await server.get(f"/workflows/{id_}/steps/count/parts")).body
    assert [(each["part"], each["state"], each["result"]) for each in shown["parts"]] == [
        (0, "completed", 1),
        (1, "completed", 2),
    ]
    message = await take(server)
    assert message["data"]["workflow"]["results"] == {"count": [1, 2]}
    await settle(server, message, result=3)

    shown = (await server.get(f"/workflows/{id_}", wait="true")).body
    assert (shown["state"], shown["result"], shown["openSteps"]) == ("completed", {"sum": 3}, 0)
    assert (shown["correlationId"], shown["tags"]) == ("c1", ["a"])
    assert [(each["name"], each["kind"], each["state"]) for each in shown["steps"]] == [
        ("split", "job", "completed"),
        ("count", "map", "completed"),
        ("sum", "job", "completed"),
    ]
    count = shown["steps"][1]
    assert (count["parts"], count["openParts"], count["over"]) == (2, 0, "split")
    assert (count["onSuccess"], count["result"]) == (["sum"], [1, 2])
    assert shown["steps"][0]["attempts"] == 1
    assert (shown["totalSteps"], shown["traceId"]) == (3, None)


async def test_steps_are_shown_without_results_and_one_by_one(server: Server) -> None:
    id_ = await start(server, job("a", onSuccess=[job("b")]))
    await settle(server, await take(server), result={"n": 1})

    (first, second) = (await server.get(f"/workflows/{id_}", results="false")).body["steps"]
    assert (first["state"], second["state"]) == ("completed", "active")
    assert "result" not in first
    alone = await server.get(f"/workflows/{id_}/steps/a")
    assert alone.body == {**first, "result": {"n": 1}}
    none = await server.get(f"/workflows/{id_}/steps/c")
    assert (none.status, none.code) == (404, "workflow_not_found")


async def test_a_step_and_a_part_link_to_their_jobs(server: Server) -> None:
    undo = {"queue": "work", "job": "undo"}
    id_ = await start(
        server,
        job("a", compensate=undo, onSuccess=["b"]),
        job("b", over=[1, 2], key="k"),
    )
    steps = {each["name"]: each for each in (await server.get(f"/workflows/{id_}")).body["steps"]}
    assert "jobId" not in steps["b"]
    assert "jobId" not in steps["a:undo"]
    first = await take(server)
    assert steps["a"]["jobId"] == first["transactionId"]
    await settle(server, first)

    path = f"/workflows/{id_}/steps/b/parts"
    ids = [each["jobId"] for each in (await server.get(path)).body["parts"]]
    done = await take(server)
    part = done["data"]["workflow"]["part"]
    assert ids[part] == done["transactionId"]
    shown = await server.get(f"/jobs/work/{quote(ids[part], safe='')}", key="k")
    assert shown.body["workflow"] == {"id": id_, "step": "b", "part": part}
    await settle(server, done)
    failed = await take(server)
    await settle(server, failed, outcome="failure", status="dlq", error="no")
    await settle(server, await take(server))
    listed = (await server.get("/workflows")).body["workflows"]
    assert [(each["openSteps"], each["totalSteps"]) for each in listed] == [(0, 2)]


async def test_a_part_that_a_retry_kept_links_to_no_other_job(server: Server) -> None:
    id_ = await start(server, job("b", over=[1, 2]))
    await settle(server, await take(server))
    failed = await take(server)
    part = failed["data"]["workflow"]["part"]
    await settle(server, failed, outcome="failure", status="dlq", error="no")

    assert (await server.post(f"/workflows/{id_}/retry")).status == 200

    again = await take(server)
    parts = (await server.get(f"/workflows/{id_}/steps/b/parts")).body["parts"]
    assert {each["part"]: each.get("jobId") for each in parts} == {
        1 - part: None,
        part: again["transactionId"],
    }


async def test_a_repeated_start_returns_the_first_response(server: Server) -> None:
    await start(server, job("a"), id="once")

    again = await server.post("/workflows", {"name": "test", "steps": [job("a")], "id": "once"})
    assert (again.status, again.body) == (200, {"id": "once", "name": "test", "new": False})
    other = await server.post("/workflows", {"name": "test", "steps": [job("b")], "id": "once"})
    assert (other.status, other.code) == (409, "workflow_exists")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"steps": []}, "invalid_workflow"),
        ({"steps": [job("a"), job("a")]}, "invalid_workflow"),
        ({"steps": [job("a", onSuccess=["b"])]}, "invalid_workflow"),
        ({"steps": [job("a", onSuccess=["b"]), job("b", onSuccess=["a"])]}, "invalid_workflow"),
        ({"steps": [{"job": "a"}]}, "invalid_workflow"),
        ({"steps": [job("a", jop="b")]}, "bad_request"),
        ({"steps": [job("a", priority=0)]}, "bad_request"),
        ({"steps": [job("a", backoff={"type": "linear"})]}, "invalid_workflow"),
        ({"steps": [job("a", compensate=job("b", backoff="fast"))]}, "invalid_workflow"),
        ({"steps": [job("a", backoff={"type": "fixed", "delaySeconds": 1})]}, None),
        ({"steps": [job("a")], "id": "a/b"}, "invalid_workflow"),
        ({"steps": [job("a")], "metadata": {"tags": 1}}, "invalid_workflow"),
        ({"steps": [{"queue": "none", "job": "a"}]}, "queue_not_found"),
        ({"steps": [{"queue": "__x", "job": "a"}]}, "invalid_name"),
        ({"steps": [job("a", key="..")]}, "invalid_name"),
        ({"steps": [job("a", data="x" * 2**20)]}, "payload_too_large"),
        ({"steps": [job("a", data=[[[[[[[[[[]]]]]]]]]])]}, None),
        ({"steps": [job(f"s{number}") for number in range(1_001)]}, "invalid_workflow"),
    ],
)
async def test_an_invalid_workflow_does_not_start(
    shared: Server, body: Json, code: str | None
) -> None:
    await shared.post("/configure", {"queue": "work", "options": {"ordered": False}})

    reply = await shared.post("/workflows", {"name": "test", **body})

    assert reply.code == code, reply


async def test_a_definition_nested_too_deep_is_rejected(shared: Server) -> None:
    deep: list[Any] = []
    for _ in range(60):
        deep = [deep]
    await shared.post("/configure", {"queue": "work", "options": {"ordered": False}})

    reply = await shared.post("/workflows", {"name": "test", "steps": [job("a", data=deep)]})

    assert (reply.status, reply.code) == (422, "invalid_item")


async def test_a_step_waits_for_its_signal(server: Server) -> None:
    id_ = await start(server, {"signal": "go", "timeoutSeconds": 60})
    (step,) = (await server.get(f"/workflows/{id_}")).body["steps"]
    assert (step["kind"], step["state"]) == ("signal", "waiting")
    assert step["timesOutAt"] is not None
    waiting = asyncio.create_task(server.get(f"/workflows/{id_}", wait="true", timeout=20_000))

    reply = await server.post(f"/workflows/{id_}/signal", {"signal": "go", "data": {"by": 1}})

    assert reply.body == {"id": id_, "taken": 1}
    ended = (await waiting).body
    assert (ended["state"], ended["result"]) == ("completed", {"go": {"by": 1}})
    again = await server.post(f"/workflows/{id_}/signal", {"signal": "go"})
    assert again.body["taken"] == 0
    other = await server.post(f"/workflows/{id_}/signal", {"signal": "stop"})
    assert (other.status, other.code) == (404, "not_found")


async def test_a_signal_can_fail_its_step(server: Server) -> None:
    id_ = await start(server, {"signal": "go"})

    body = {"signal": "go", "data": "not now", "outcome": "failure"}
    await server.post(f"/workflows/{id_}/signal", body)

    shown = (await server.get(f"/workflows/{id_}")).body
    assert (shown["state"], shown["error"]) == ("failed", "go: not now")


async def test_a_workflow_is_cancelled_and_deleted(server: Server) -> None:
    undo = {"queue": "work", "job": "undo"}
    id_ = await start(server, job("a", compensate=undo), job("b", after=["a"]))
    message = await take(server)
    assert (await server.delete(f"/workflows/{id_}")).code == "workflow_running"

    reply = await server.post(f"/workflows/{id_}/cancel", {"reason": "enough"})
    assert reply.body == {"id": id_, "state": "stopping", "openSteps": 1}
    await settle(server, message)
    await settle(server, await take(server))
    shown = (await server.get(f"/workflows/{id_}")).body
    assert (shown["state"], shown["error"]) == ("cancelled", "enough")

    assert (await server.delete(f"/workflows/{id_}")).body == {"success": True, "id": id_}
    for reply in (
        await server.get(f"/workflows/{id_}"),
        await server.get(f"/workflows/{id_}/steps/a/parts"),
        await server.post(f"/workflows/{id_}/signal", {"signal": "x"}),
        await server.post(f"/workflows/{id_}/cancel", {}),
        await server.post(f"/workflows/{id_}/retry", {}),
        await server.delete(f"/workflows/{id_}"),
        await server.get("/workflows/a:b"),
    ):
        assert (reply.status, reply.code) == (404, "workflow_not_found")


async def test_a_workflow_is_cancelled_while_its_message_leaves_the_outbox(
    dsn: str, server: Server
) -> None:
    connection = await asyncpg.connect(dsn)

    async def are_blocked(count: int) -> bool:
        query = "select count(*) from pg_locks where not granted"
        return await connection.fetchval(query) == count

    await start(server, job("earlier"))
    await settle(server, await take(server))
    try:
        async with connection.transaction():
            await connection.execute("lock table queen.segments in share mode")
            id_ = await start(server, job("a"))
            await until(lambda: are_blocked(1))
            cancelling = asyncio.create_task(server.post(f"/workflows/{id_}/cancel"))

            async def is_waiting() -> bool:
                return cancelling.done() or await are_blocked(2)

            await until(is_waiting)
    finally:
        await connection.close()

    assert (await cancelling).body == {"id": id_, "state": "cancelled", "openSteps": 0}


async def test_a_failed_workflow_is_retried(server: Server) -> None:
    id_ = await start(server, job("a", onSuccess=[job("b")]))
    await settle(server, await take(server), outcome="failure", status="dlq", error="boom")
    shown = (await server.get(f"/workflows/{id_}")).body
    assert (shown["state"], shown["error"]) == ("failed", "a: boom")

    assert (await server.post(f"/workflows/{id_}/retry", {"fromStep": "z"})).status == 404
    reply = await server.post(f"/workflows/{id_}/retry")
    assert reply.body == {"id": id_, "state": "running"}
    again = await server.post(f"/workflows/{id_}/retry")
    assert (again.status, again.code) == (409, "not_retryable")
    for _ in range(2):
        await settle(server, await take(server))
    shown = (await server.get(f"/workflows/{id_}")).body
    assert (shown["state"], shown["steps"][0]["tries"]) == ("completed", 2)


async def test_a_step_advances_only_with_the_ack_of_its_message(server: Server) -> None:
    id_ = await start(server, job("a", onSuccess=[job("b")]))
    message = await take(server)
    await server.post(f"/lease/{message['leaseId']}/release")

    reply = await server.post("/transaction", {"operations": operations(message)})

    assert (reply.status, reply.code) == (409, "lease_lost")
    (first, second) = (await server.get(f"/workflows/{id_}")).body["steps"]
    assert (first["state"], second["state"]) == ("active", "pending")


async def test_invalid_advances_are_rejected_with_their_index(server: Server) -> None:
    await start(server, job("a"))
    message = await take(server)
    ack, advance = operations(message)

    for wrong, code, at in (
        ([advance], "bad_request", None),
        ([ack, {**advance, "token": "x"}], "bad_request", 1),
        ([ack, {**advance, "part": -1}], "bad_request", 1),
        ([ack, {**advance, "outcome": "maybe"}], "bad_request", None),
        ([ack, {**advance, "result": "x" * 2**20}], "payload_too_large", 1),
        ([ack, {**advance, "step": "\0"}], "invalid_name", 1),
    ):
        reply = await server.post("/transaction", {"operations": wrong})
        assert (reply.code, reply.body.get("failedIndex")) == (code, at), reply
    foreign = {**advance, "workflow": "another"}
    reply = await server.post("/transaction", {"operations": [ack, foreign]})
    assert (reply.code, reply.body["failedIndex"]) == ("bad_request", 1)


async def test_workflows_are_listed_newest_first_in_pages_and_by_filter(server: Server) -> None:
    ids: list[str] = []
    for number in range(5):
        metadata = {"correlationId": f"c{number % 2}", "tags": [f"t{number}", "all"]}
        steps = [{"signal": "go"}]
        ids.append(await start(server, *steps, name=f"w{number % 2}", metadata=metadata))
    await server.post(f"/workflows/{ids[0]}/signal", {"signal": "go"})

    found = await pages(server, "/workflows", "workflows", limit=2)
    assert [[each["id"] for each in page] for page in found] == [
        [ids[4], ids[3]],
        [ids[2], ids[1]],
        [ids[0]],
    ]

    async def listed(**filters: str) -> list[str]:
        return [
            each["id"] for each in (await server.get("/workflows", **filters)).body["workflows"]
        ]

    assert await listed(state="completed") == [ids[0]]
    assert await listed(name="w1") == [ids[3], ids[1]]
    assert await listed(correlationId="c0") == [ids[4], ids[2], ids[0]]
    assert await listed(tag="t2") == [ids[2]]
    assert len(await listed(tag="all", state="running")) == 4
    assert await listed(tag="none") == []
    assert (await server.get("/workflows", state="odd")).code == "bad_request"
    assert (await server.get("/workflows", cursor="x")).code == "bad_request"


async def test_a_step_whose_job_is_cancelled_fails_immediately(server: Server) -> None:
    id_ = await start(server, job("a", onFailure=[job("b")]), job("c", delaySeconds=60))
    message = await take(server)

    gone = quote(message["transactionId"], safe="")
    reply = await server.post(f"/jobs/work/{gone}/cancel", {})

    assert (reply.status, reply.body["was"]) == (200, "active")
    following = await take(server)
    assert following["data"]["workflow"]["step"] == "b"
    assert following["data"]["workflow"]["errors"] == {"a": "its job was cancelled"}
    late = await server.post("/transaction", {"operations": operations(message)})
    assert late.code in ("lease_lost", "already_settled")
    steps = (await server.get(f"/workflows/{id_}")).body["steps"]
    assert [step["state"] for step in steps if step["name"] != "b"] == ["failed", "active"]

    waits = next(step for step in steps if step["name"] == "c")
    assert waits["state"] == "active"
    held_back = quote(f"{id_}/c/{message['transactionId'].rpartition('/')[2]}", safe="")
    await until(lambda: _is_there(server, held_back))
    assert (await server.post(f"/jobs/work/{held_back}/cancel", {})).body["was"] == "scheduled"
    run = (await server.get(f"/workflows/{id_}")).body
    assert (run["state"], run["error"]) == ("stopping", "c: its job was cancelled")


async def _is_there(server: Server, id_: str) -> bool:
    return (await server.get(f"/jobs/work/{id_}")).status == 200


async def test_a_trace_continues_through_the_workflow(server: Server) -> None:
    await server.post("/configure", {"queue": "work", "options": {"ordered": False}})
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    body = {"name": "test", "steps": [job("a", onSuccess=[job("b")])]}
    await server.request("POST", "/workflows", body, headers={"traceparent": parent})

    for _ in range(2):
        message = await take(server)
        assert message["traceId"] == "0af7651916cd43dd8448eb211c80319c"
        await settle(server, message)


async def test_parts_of_an_unknown_step_are_not_found(shared: Server) -> None:
    id_ = await start(shared, job("a"))

    reply = await shared.get(f"/workflows/{id_}/steps/b/parts")

    assert (reply.status, reply.code) == (404, "not_found")
    assert (await shared.get(f"/workflows/{id_}/steps/a/parts")).body["parts"] == []


async def test_a_workflow_belongs_to_the_scope_of_its_queues(dsn: str, guarded: Server) -> None:
    admin = Caller(guarded, await make_key(dsn))
    for queue in ("theirs", "ours.1"):
        await admin.post("/configure", {"queue": queue, "options": {"ordered": False}})
    theirs = {"name": "t", "id": "theirs", "steps": [{"queue": "theirs", "job": "b"}]}
    await admin.post("/workflows", theirs)
    nobodys = {"name": "t", "id": "nobodys", "steps": [{"signal": "go"}]}
    await admin.post("/workflows", nobodys)
    tenant = Caller(guarded, await make_key(dsn, scopes=[{"queue": "ours.*"}]))
    assert (await tenant.post("/workflows", {**nobodys, "id": "ours too"})).status == 403
    ours = {"name": "t", "id": "ours", "steps": [{"queue": "ours.1", "job": "a"}]}
    assert (await tenant.post("/workflows", ours)).status == 201

    listed = (await tenant.get("/workflows")).body["workflows"]
    assert [each["id"] for each in listed] == ["ours"]
    for id_ in ("theirs", "nobodys", "unknown"):
        for reply in (
            await tenant.get(f"/workflows/{id_}"),
            await tenant.get(f"/workflows/{id_}/steps/a/parts"),
            await tenant.post(f"/workflows/{id_}/signal", {"signal": "x"}),
            await tenant.post(f"/workflows/{id_}/cancel"),
            await tenant.post(f"/workflows/{id_}/retry"),
            await tenant.delete(f"/workflows/{id_}"),
        ):
            assert (reply.status, reply.code) == (403, "forbidden")
    both = {**ours, "id": "both", "steps": [*ours["steps"], *theirs["steps"]]}
    assert (await tenant.post("/workflows", both)).status == 403


async def test_the_audit_log_records_who_changed_a_workflow(dsn: str, guarded: Server) -> None:
    admin = Caller(guarded, await make_key(dsn))
    body = {"name": "t", "id": "w", "steps": [{"signal": "go"}]}
    await admin.post("/workflows", body)

    await admin.post("/workflows/w/cancel", {"reason": "canary"})

    async def is_recorded() -> bool:
        records = (await admin.get("/audit")).body["records"]
        return any(each["record"].get("after") == {"state": "cancelled"} for each in records)

    await until(is_recorded)
    reader = Caller(guarded, await make_key(dsn, role="read-only"))
    assert (await reader.get("/workflows/w")).status == 200
    for path, body in (("cancel", {}), ("retry", {}), ("signal", {"signal": "go"})):
        assert (await reader.post(f"/workflows/w/{path}", body)).code == "forbidden"
    assert (await reader.delete("/workflows/w")).code == "forbidden"
