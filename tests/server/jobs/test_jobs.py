"""Jobs over HTTP: add, show, wait, cancel, retry."""

import asyncio

from tests.support.calls import a_queue, configure, pop, push, settle
from tests.support.clock import Clock
from tests.support.jobs import add, cancel, done, path, show, status, take
from tests.support.server import Server, until
from tests.support.verbs import pages


async def test_a_job_is_a_message_with_a_name(shared: Server) -> None:
    queue = a_queue()
    id_ = await add(
        shared, queue, "send", data={"to": "a"}, priority=2, key="tenant", attempts=5,
        backoff={"type": "fixed", "delaySeconds": 2}, timeoutSeconds=30,
        metadata={"correlationId": "c", "tags": ["x", "y"]},
    )  # fmt: skip
    job = await show(shared, queue, id_)
    assert {
        name: job[name]
        for name in ("id", "name", "status", "priority", "key", "data", "attempts", "metadata")
    } == {
        "id": id_, "name": "send", "status": "waiting", "priority": 2, "key": "tenant",
        "data": {"to": "a"}, "attempts": 5, "metadata": {"correlationId": "c", "tags": ["x", "y"]},
    }  # fmt: skip

    message = await take(shared, queue)

    assert (message["transactionId"], message["partition"], message["priority"]) == (
        id_,
        "tenant",
        7,
    )
    assert message["data"]["name"] == "send"
    assert await status(shared, queue, id_) == "active"
    assert (await show(shared, queue, id_))["leaseExpiresAt"] is not None
    assert (await done(shared, message)).status == 200
    assert await status(shared, queue, id_) == "completed"


async def test_several_jobs_are_added_in_one_call(shared: Server) -> None:
    queue = a_queue()
    jobs = [{"queue": queue, "name": "n", "data": n, "priority": 1 + n % 5} for n in range(10)]

    reply = await shared.post("/jobs/bulk", {"jobs": jobs, "producerId": queue, "sequence": 1})
    again = await shared.post("/jobs/bulk", {"jobs": jobs, "producerId": queue, "sequence": 1})

    assert reply.status == 201
    assert [job["status"] for job in reply.body["jobs"]] == ["queued"] * 10
    assert again.body["replayed"] is True
    found = await pop(shared, queue, batch=100, partitions=10)
    assert sorted(each["data"].get("data", 0) for each in found) == list(range(10))
    assert (await shared.post("/jobs/bulk", {"jobs": []})).code == "bad_request"


async def test_a_delayed_job_is_found_before_and_after_it_is_due(
    server: Server, clock: Clock
) -> None:
    id_ = await add(server, "q", data=1, delaySeconds=60)
    named = await add(server, "q", unique="report", scheduledAt="2030-01-01T00:01:00Z")

    job = await show(server, "q", id_)
    assert (job["status"], job["data"]) == ("scheduled", 1)
    assert job["scheduledAt"].startswith("2030-01-01T00:01:00")
    assert await status(server, "q", named) == "scheduled"
    listed = (await server.get("/jobs", queue="q", status="scheduled")).body
    assert {each["id"] for each in listed["jobs"]} == {id_, named}

    await clock.advance(seconds=61)
    # A pop does not wait for upkeep, which may be moving them to their partitions.
    messages = await pop(server, "q", batch=10, partitions=10, wait=True, timeout=20_000)
    assert {each["transactionId"] for each in messages} == {id_, named}
    assert await status(server, "q", id_) == "active"
    for each in messages:
        assert (await done(server, each, result=each["transactionId"])).status == 200
    assert (await show(server, "q", named))["result"] == named


async def test_a_unique_job_is_added_once(shared: Server) -> None:
    queue = a_queue()
    await add(shared, queue, unique="u", data=1)
    reply = await shared.post("/jobs", {"queue": queue, "name": "n", "unique": "u", "data": 2})

    assert (reply.status, reply.body["status"], reply.body["id"]) == (201, "duplicate", "u")
    assert (await show(shared, queue, "u"))["data"] == 1


async def test_a_unique_job_with_a_key_is_found_by_id_and_key(shared: Server) -> None:
    queue = a_queue()
    await add(shared, queue, unique="u", key="a")

    assert (await shared.get(path(queue, "u"))).code == "message_not_found"
    assert await status(shared, queue, "u", key="a") == "waiting"


async def test_an_ordered_queue_rejects_jobs(shared: Server) -> None:
    queue = a_queue()
    await configure(shared, queue, ordered=True)
    reply = await shared.post("/jobs", {"queue": queue, "name": "n"})

    assert reply.code == "invalid_item"


async def test_a_wait_returns_when_the_result_is_stored(shared: Server) -> None:
    queue = a_queue()
    id_ = await add(shared, queue)
    waiting = asyncio.create_task(show(shared, queue, id_, wait="true", timeout=20_000))
    message = await take(shared, queue)
    assert not waiting.done()

    assert (await done(shared, message, result="there")).status == 200

    async with asyncio.timeout(5):
        job = await waiting
    assert (job["status"], job["result"]) == ("completed", "there")


async def test_a_wait_returns_for_every_final_status(shared: Server) -> None:
    queue = a_queue()
    plain, dead, gone, late = [await add(shared, queue, data=n) for n in range(4)]
    waits = [
        asyncio.create_task(show(shared, queue, id_, wait="true", timeout=20_000))
        for id_ in (plain, dead, gone)
    ]
    messages = await pop(shared, queue, batch=2)
    assert (await done(shared, messages[0])).status == 200
    await settle(shared, messages[1], status="dlq", error="no")
    assert (await cancel(shared, queue, gone)).status == 200

    async with asyncio.timeout(5):
        jobs = await asyncio.gather(*waits)
    assert [job["status"] for job in jobs] == ["completed", "failed", "cancelled"]
    assert (jobs[1]["error"], jobs[1]["attempt"]) == ("no", 1)
    assert jobs[1]["deadLetterId"]
    assert await status(shared, queue, late, wait="true", timeout=50) == "waiting"


async def test_a_scheduled_job_is_cancelled(server: Server, clock: Clock) -> None:
    id_ = await add(server, "q", delaySeconds=60)

    reply = await cancel(server, "q", id_)

    assert (reply.status, reply.body["was"]) == (200, "scheduled")
    assert await status(server, "q", id_) == "cancelled"
    await clock.advance(seconds=61)
    assert await pop(server, "q", batch=10) == []
    assert (await cancel(server, "q", id_)).code == "already_settled"


async def test_a_cancelled_unique_job_may_be_added_again(server: Server, clock: Clock) -> None:
    await add(server, "q", unique="u", delaySeconds=60)
    assert (await cancel(server, "q", "u")).status == 200

    await add(server, "q", unique="u", data=2)

    assert await status(server, "q", "u") == "waiting"
    message = await take(server, "q")
    jobs = [{"id": "u", "messageId": message["id"]}]
    reply = await server.post("/jobs/renew", {"leaseIds": [message["leaseId"]], "jobs": jobs})
    assert reply.body["cancelled"] == []
    assert (await done(server, message, result=2)).status == 200
    assert (await show(server, "q", "u"))["result"] == 2


async def test_only_the_given_waiting_job_is_cancelled(shared: Server) -> None:
    queue = a_queue()
    ids = [await add(shared, queue, data=n) for n in range(5)]

    reply = await cancel(shared, queue, ids[2])

    assert (reply.status, reply.body["was"]) == (200, "waiting")
    messages = await pop(shared, queue, batch=10, partitions=10)
    assert sorted(each["data"].get("data", 0) for each in messages) == [0, 1, 3, 4]
    assert await status(shared, queue, ids[2]) == "cancelled"


async def test_a_job_that_waits_for_its_next_attempt_is_cancelled(
    server: Server, clock: Clock
) -> None:
    id_ = await add(server, "q")
    await settle(server, await take(server, "q"), status="failed", delaySeconds=60)

    assert (await cancel(server, "q", id_)).body["was"] == "waiting"

    await clock.advance(seconds=61)
    assert await pop(server, "q") == []


async def test_a_running_job_is_cancelled_and_its_worker_is_notified(shared: Server) -> None:
    queue = a_queue()
    ids = [await add(shared, queue, data=n) for n in range(3)]
    messages = await pop(shared, queue, batch=3)
    leases = list({each["leaseId"] for each in messages})

    assert (await cancel(shared, queue, ids[1])).body["was"] == "active"

    jobs = [{"id": each["transactionId"], "messageId": each["id"]} for each in messages]
    renewed = await shared.post("/jobs/renew", {"leaseIds": leases, "seconds": 30, "jobs": jobs})
    assert renewed.body["cancelled"] == [1]
    assert all(each["success"] for each in renewed.body["results"])
    await done(shared, messages[1], result="too late")
    job = await show(shared, queue, ids[1])
    assert (job["status"], job["result"]) == ("cancelled", None)
    assert (await done(shared, messages[0], result="in time")).status == 200
    assert await status(shared, queue, ids[0]) == "completed"


async def test_a_cancelled_running_job_pushes_no_messages(shared: Server) -> None:
    queue, out = a_queue(), a_queue()
    id_ = await add(shared, queue)
    message = await take(shared, queue)
    assert (await cancel(shared, queue, id_)).body["was"] == "active"

    operations = [
        {"type": "ack", **{name: message[name] for name in ("id", "leaseId", "partitionId")}},
        {"type": "push", "items": [{"queue": out, "payload": 1}]},
    ]
    reply = await shared.post("/transaction", {"operations": operations})

    assert reply.status == 409
    assert await pop(shared, out) == []


async def test_a_renewal_returns_lost_leases(server: Server, clock: Clock) -> None:
    await add(server, "q")
    message = await take(server, "q", leaseSeconds=1)
    await clock.advance(seconds=10)
    await take(server, "q")

    reply = await server.post("/jobs/renew", {"leaseIds": [message["leaseId"]], "seconds": 3})

    assert [each["success"] for each in reply.body["results"]] == [False]
    assert (await server.post("/jobs/renew", {"leaseIds": []})).body["results"] == []


async def test_a_failed_job_is_retried(shared: Server) -> None:
    queue = a_queue()
    id_ = await add(shared, queue)
    assert (await shared.post(path(queue, id_, "/retry"))).code == "not_retryable"
    await settle(shared, await take(shared, queue), status="dlq", error="no")
    assert await status(shared, queue, id_) == "failed"

    reply = await shared.post(path(queue, id_, "/retry"))

    assert (reply.status, reply.body["was"]) == (200, "failed")
    message = await take(shared, queue)
    assert message["transactionId"] == id_
    assert (await done(shared, message)).status == 200
    assert await status(shared, queue, id_) == "completed"


async def test_only_the_lease_holder_reports_progress(server: Server, clock: Clock) -> None:
    id_ = await add(server, "q")
    message = await take(server, "q", leaseSeconds=1)
    said = {"leaseId": message["leaseId"], "progress": 0.5}

    reply = await server.post(path("q", id_, "/progress"), said)

    assert reply.status == 200, reply.body
    job = await show(server, "q", id_)
    assert (job["status"], job["progress"]) == ("active", 0.5)
    await clock.advance(seconds=10)
    again = await take(server, "q")
    assert (await server.post(path("q", id_, "/progress"), said)).code == "lease_lost"
    large = {"leaseId": again["leaseId"], "progress": "x" * 2**20}
    assert (await server.post(path("q", id_, "/progress"), large)).code == "payload_too_large"
    assert (await done(server, again, result=1)).status == 200
    job = await show(server, "q", id_)
    assert (job["progress"], job["result"]) == (0.5, 1)


async def test_jobs_are_listed_by_status_name_tag_and_key(shared: Server) -> None:
    queue = a_queue()
    ids = [
        await add(shared, queue, f"n{n % 2}", data=n, metadata={"tags": [f"t{n % 3}"]})
        for n in range(12)
    ]
    other = await add(shared, queue, "keyed", key="k")
    first, second, third, fourth = await pop(shared, queue, batch=4)
    assert (await done(shared, first, result=1)).status == 200
    await settle(shared, second, status="dlq", error="no")
    await settle(shared, third, status="failed", delaySeconds=600)
    await cancel(shared, queue, ids[5])

    async def listed(**filters: str | int) -> list[str]:
        found: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            reply = await shared.get("/jobs", queue=queue, limit=3, **filters, **cursor)
            assert reply.status == 200, reply.body
            found += [job["id"] for job in reply.body["jobs"]]
            if reply.body["nextCursor"] is None:
                return found
            cursor = {"cursor": reply.body["nextCursor"]}

    assert sorted(await listed()) == sorted([*ids, other])
    assert await listed(status="completed") == [ids[0]]
    assert await listed(status="failed") == [ids[1]]
    assert await listed(status="cancelled") == [ids[5]]
    assert await listed(status="active") == [fourth["transactionId"]]
    assert set(await listed(status="waiting")) == {*ids[2:], other} - {ids[3], ids[5]}
    assert set(await listed(name="n1")) == set(ids[1::2])
    assert set(await listed(tag="t2")) == set(ids[2::3])
    assert await listed(key="k") == [other]


async def test_metrics_of_a_queue_count_jobs(server: Server, clock: Clock) -> None:
    ids = [await add(server, "q", data=n) for n in range(10)]
    await add(server, "q", delaySeconds=60)
    messages = await pop(server, "q", batch=5)
    await done(server, messages[0])
    await settle(server, messages[1], status="dlq", error="no")
    await settle(server, messages[2], status="failed", delaySeconds=600)

    (found,) = (await server.get("/jobs/metrics", queue="q")).body["queues"]

    counted = ("queue", "paused", "waiting", "active", "delayed", "stalled", "failed")
    assert {name: found[name] for name in counted} == {
        "queue": "q", "paused": False, "waiting": 5, "active": 2, "delayed": 2, "stalled": 0,
        "failed": 1,
    }  # fmt: skip
    await clock.advance(seconds=301)
    (found,) = (await server.get("/jobs/metrics", queue="q")).body["queues"]
    assert (found["active"], found["stalled"]) == (0, 2)
    assert len(ids) == 10


async def test_metrics_include_recent_activity(shared: Server) -> None:
    queue = a_queue()
    await add(shared, queue)
    await done(shared, await take(shared, queue))

    async def is_counted() -> bool:
        (found,) = (await shared.get("/jobs/metrics", queue=queue)).body["queues"]
        return found["completed"] == 1 and found["throughput"] > 0

    await until(is_counted, seconds=20)
    every = (await shared.get("/jobs/metrics")).body["queues"]
    assert queue in {each["queue"] for each in every}


async def test_metrics_of_queues_are_listed_in_pages(server: Server) -> None:
    for queue in ("a", "b", "c"):
        await configure(server, queue, ordered=False)
    await configure(server, "ordered", ordered=True)

    found = await pages(server, "/jobs/metrics", "queues", limit=2)

    assert [[each["queue"] for each in page] for page in found] == [["a", "b"], ["c"]]
    assert (await server.get("/jobs/metrics")).body["nextCursor"] is None


async def test_old_jobs_are_deleted(server: Server, clock: Clock) -> None:
    await configure(server, "q", ordered=False)
    gone, dead = await add(server, "q", data=1), await add(server, "q", data=2)
    first, second = await pop(server, "q", batch=2)
    await done(server, first)
    await settle(server, second, status="dlq", error="no")
    await clock.advance(seconds=100)
    left = await add(server, "q", data=3)

    for wanted in ("completed", "failed"):
        body = {"queue": "q", "status": wanted, "graceSeconds": 50}
        reply = await server.post("/jobs/clean", body)
        assert reply.status == 202, reply.body

    async def is_clean() -> bool:
        letters = (await server.get("/dlq", queue="q")).body["messages"]
        jobs = (await server.get("/jobs", queue="q")).body["jobs"]
        return not letters and [job["id"] for job in jobs] == [left]

    await until(is_clean)
    assert gone != dead


async def test_a_plain_message_is_shown_without_a_name(shared: Server) -> None:
    queue = a_queue()
    await configure(shared, queue, ordered=False)
    (pushed,) = await push(shared, queue, [1, 2])

    job = await show(shared, queue, pushed["transactionId"])

    assert (job["name"], job["status"]) == (None, "waiting")


async def test_an_unknown_job_is_not_found(shared: Server) -> None:
    queue, other = a_queue(), a_queue()
    id_ = await add(shared, queue)
    await add(shared, other)

    assert (await shared.get(path(queue, "nothing"))).code == "message_not_found"
    assert (await shared.get(path(other, id_))).code == "message_not_found"
    assert (await shared.get(path(a_queue(), id_))).code == "queue_not_found"
    assert (await cancel(shared, queue, "nothing")).code == "message_not_found"
    assert (await cancel(shared, other, id_)).code == "message_not_found"
