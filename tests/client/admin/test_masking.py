"""Encrypted queues in the SDK: results are decrypted, and dead letters can be revealed."""

from collections.abc import AsyncIterator

import pytest

from queen import Queen, errors
from queen.jobs import Job, QueueManager
from queen.testing import dead_letters, pushed
from tests.support.callers import KEYS, make_key
from tests.support.server import Server


@pytest.fixture
async def server(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn, {**KEYS, "QUEEN_ENCRYPTION_KEY": "ab" * 32}) as server:
        yield server


@pytest.fixture
async def queen(dsn: str, server: Server) -> AsyncIterator[Queen]:
    token = await make_key(dsn, role="read-write")
    async with Queen(server.base_url, bearer_token=token) as queen:
        yield queen


async def test_the_producer_of_a_job_gets_its_result(
    dsn: str, server: Server, queen: Queen
) -> None:
    await queen.queue("jobs").config({"encryptionEnabled": True, "ordered": False}).create()
    jobs = QueueManager(queen)

    @jobs.processor("jobs")
    async def double(job: Job[int]) -> int:
        await job.progress(0.5)
        return 2 * job.data

    await jobs.start_workers()
    try:
        handle = await double.add(21)
        assert await handle.result(timeout=20) == 42
        assert await handle.progress() == 0.5
        info = await handle.info()
        assert (info.masked, bytes(info.result)) == (True, b"null")
        # Without the permission, the call fails instead of returning another value.
        token = await make_key(dsn, permissions=["browse", "produce"])
        async with Queen(server.base_url, bearer_token=token) as other:
            with pytest.raises(errors.Forbidden):
                await QueueManager(other).job("jobs", handle.id).result(timeout=20)
    finally:
        await jobs.shutdown()


async def test_dead_letters_are_masked_unless_revealed(queen: Queen) -> None:
    orders = queen.queue("orders").config({"encryptionEnabled": True})
    await orders.create()
    await orders.push([{"data": {"n": 1}, "headers": {"a": "b"}}])
    (message,) = await orders.pop()
    await queen.ack(message, "dlq")

    (masked,) = (await orders.dlq().get())["messages"]
    assert (masked["masked"], masked["data"], masked["headers"]) == (True, None, {})
    (letter,) = (await orders.dlq().reveal().get())["messages"]
    assert (letter["masked"], letter["data"], letter["headers"]) == (False, {"n": 1}, {"a": "b"})
    assert (await queen.admin.dead_letter(letter["id"], reveal=True)).masked is False
    assert (await queen.admin.message(letter["messageId"], reveal=True)).masked is False
    assert [each.masked async for each in queen.admin.messages("orders", reveal=True)] == [False]
    with pytest.raises(errors.Masked):
        _ = [each async for each in queen.admin.messages("orders", contains="1")]
    # The helpers of `queen.testing` reveal payloads.
    assert await pushed(queen, "orders") == [{"n": 1}]
    assert [each["data"] for each in await dead_letters(queen, "orders")] == [{"n": 1}]
