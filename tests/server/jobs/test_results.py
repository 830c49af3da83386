"""A result is stored in the transaction of its ack, for a limited time."""

import asyncpg

from tests.server.queues.test_upkeep import QUICK
from tests.support.calls import ack, configure, pop, push, says
from tests.support.clock import Clock
from tests.support.jobs import add, done, show, status, take
from tests.support.server import Server, until


async def test_an_ack_stores_its_result(server: Server) -> None:
    id_ = await add(server, "q", data={"n": 1})
    message = await take(server, "q")

    assert (await done(server, message, result={"sent": True})).status == 200

    job = await show(server, "q", id_)
    assert (job["status"], job["result"], job["data"]) == ("completed", {"sent": True}, {"n": 1})
    assert job["settledAt"] is not None


async def test_a_batch_stores_the_results_of_its_acks(server: Server) -> None:
    ids = [await add(server, "q", data=n) for n in range(4)]
    messages = await pop(server, "q", batch=4)
    said = [
        {**says(each), "id": each["id"], "result": each["data"]["data"]} for each in messages[:3]
    ]
    said.append({**says(messages[3], "failed"), "id": messages[3]["id"], "delaySeconds": 60})

    reply = await server.post("/ack/batch", {"acknowledgments": said})

    assert reply.body["success"] is True
    jobs = [await show(server, "q", id_) for id_ in ids]
    assert [job["result"] for job in jobs] == [0, 1, 2, None]
    assert [job["status"] for job in jobs] == ["completed"] * 3 + ["waiting"]
    assert jobs[3]["nextAttemptAt"] is not None


async def test_an_ack_by_transaction_id_stores_its_result(server: Server) -> None:
    id_ = await add(server, "q", unique="once")
    message = await take(server, "q")
    assert id_ == message["transactionId"] == "once"

    assert (await ack(server, message, result=7)).status == 200

    assert (await show(server, "q", "once"))["result"] == 7


async def test_a_transaction_stores_a_result_with_its_pushes(server: Server) -> None:
    id_ = await add(server, "q")
    message = await take(server, "q")
    operation = {**says(message), "type": "ack", "id": message["id"], "result": [1]}
    pushes = {"type": "push", "items": [{"queue": "out", "payload": 1}]}

    reply = await server.post("/transaction", {"operations": [operation, pushes]})

    assert reply.status == 200, reply.body
    assert (await show(server, "q", id_))["result"] == [1]
    assert len(await pop(server, "out")) == 1


async def test_a_rejected_ack_stores_no_result(server: Server, clock: Clock) -> None:
    id_ = await add(server, "q")
    late = await take(server, "q", leaseSeconds=1)
    await clock.advance(seconds=10)
    again = await take(server, "q", leaseSeconds=60)

    assert (await done(server, late, result="late")).code == "lease_lost"
    operation = {**says(late), "type": "ack", "id": late["id"], "result": "late"}
    reply = await server.post("/transaction", {"operations": [operation]})
    assert reply.code == "lease_lost"
    assert (await show(server, "q", id_))["result"] is None

    assert (await done(server, again, result="again")).status == 200
    assert (await show(server, "q", id_))["result"] == "again"


async def test_a_null_result_is_not_stored(server: Server, dsn: str) -> None:
    id_ = await add(server, "q")
    assert (await done(server, await take(server, "q"), result=None)).status == 200

    assert (await show(server, "q", id_))["status"] == "completed"
    connection = await asyncpg.connect(dsn)
    assert await connection.fetchval("select count(*) from queen.results") == 0
    await connection.close()


async def test_an_ack_with_an_invalid_result_is_rejected(server: Server) -> None:
    await add(server, "q")
    message = await take(server, "q")
    nameless = {name: message[name] for name in ("id", "leaseId", "partitionId")}
    many = {"acknowledgments": [{**nameless, "result": 1}]}

    assert (await done(server, message, status="failed", result=1)).code == "bad_request"
    assert (await server.post("/ack", {**nameless, "result": 1})).code == "bad_request"
    assert (await server.post("/ack/batch", many)).code == "bad_request"
    assert (await done(server, message, result=1, resultSeconds=0)).code == "bad_request"
    assert (await done(server, message, result="x" * 2**20)).code == "payload_too_large"

    assert (await done(server, message, result=1)).status == 200


async def test_a_result_expires(dsn: str, clock: Clock) -> None:
    async with Server(dsn, QUICK) as server:
        short, long = await add(server, "q"), await add(server, "q")
        for seconds in (60, 600):
            assert (
                await done(server, await take(server, "q"), result=1, resultSeconds=seconds)
            ).status == 200
        await clock.advance(seconds=61)

        async def is_gone() -> bool:
            await clock.advance(seconds=0.2)
            return (await show(server, "q", short))["result"] is None

        await until(is_gone, seconds=15)
        assert await status(server, "q", short) == "completed"
        assert (await show(server, "q", long))["result"] == 1


async def test_results_and_progress_of_an_encrypted_queue_are_encrypted(dsn: str) -> None:
    async with Server(dsn, {"QUEEN_ENCRYPTION_KEY": "ab" * 32}) as server:
        await configure(server, "q", ordered=False, encryptionEnabled=True)
        ids = [await add(server, "q", data="canary"), await add(server, "q", data="canary")]
        first, second = await take(server, "q"), await take(server, "q")
        reply = await server.post(
            f"/jobs/q/{ids[0]}/progress", {"leaseId": first["leaseId"], "progress": "canary"}
        )
        assert reply.status == 200, reply.body
        assert (await done(server, first, result="canary")).status == 200
        operation = {**says(second), "type": "ack", "id": second["id"], "result": "canary"}
        assert (await server.post("/transaction", {"operations": [operation]})).status == 200

        connection = await asyncpg.connect(dsn)
        rows = await connection.fetch("select result, progress from queen.results")
        await connection.close()
        assert len(rows) == 2
        assert not any(b"canary" in (value or b"") for row in rows for value in row)
        jobs = [await show(server, "q", id_, reveal="true") for id_ in ids]
        assert [job["result"] for job in jobs] == ["canary", "canary"]
        assert jobs[0]["progress"] == "canary"


async def test_a_redaction_deletes_the_result(server: Server) -> None:
    id_ = await add(server, "q", data="secret")
    message = await take(server, "q")
    assert (await done(server, message, result="secret")).status == 200

    assert (await server.delete(f"/messages/{message['id']}")).status == 200

    job = await show(server, "q", id_)
    assert (job["status"], job["data"], job["result"]) == ("completed", None, None)


async def test_a_batch_of_acks_is_one_call(server: Server) -> None:
    await push(server, "q", *range(10))
    messages = await pop(server, "q", batch=10)
    said = {"acknowledgments": [{**says(each), "id": each["id"]} for each in messages]}
    assert (await server.post("/ack/batch", said)).body["success"] is True

    text = (await server.get("/metrics")).body
    metrics = text.decode() if isinstance(text, bytes) else str(text)
    assert 'call="ack"' in metrics
    assert 'call="nack"' not in metrics
    assert 'call="find_deliveries"' not in metrics
