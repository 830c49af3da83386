"""Responses of a proxy are never taken for Queen's decision about a message."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from queen import Message, PushError, Queen, errors
from queen.jobs import Job, QueueManager
from tests.client.faults import Faulty
from tests.support.nginx import Nginx
from tests.support.server import Server, until

SLOW = {"message_count": 1_000, "time_millis": 60_000}
STATUSES = (401, 403, 404, 408, 425, 429, 502)
RULES = "client_max_body_size 8k;" + "".join(
    f"if (-f {{directory}}/{status}) {{ return {status}; }}" for status in STATUSES
)
NO_ACKS = """
set $acks "";
if (-f {directory}/no-acks) { set $acks "closed"; }
if ($uri ~ "/(ack|transaction)") { set $acks "$acks by uri"; }
if ($acks = "closed by uri") { return 403; }
"""


@pytest.fixture
async def proxy(process: Server) -> AsyncIterator[Nginx]:
    async with Nginx(process.base_url, RULES + NO_ACKS) as proxy:
        yield proxy


@pytest.fixture
async def through(proxy: Nginx) -> AsyncIterator[Queen]:
    """A client with few retries, so that its buffers and consumers have to handle errors."""
    async with Queen(proxy.base_url, retry_attempts=1, retry_delay_millis=10) as queen:
        yield queen


async def numbers(queen: Queen, name: str) -> list[int]:
    return [message.data for message in await queen.queue(name).batch(10_000).pop()]


@pytest.mark.parametrize("status", [401, 403, 404, 408, 425, 429, 502])
async def test_a_buffer_keeps_its_messages_on_errors_of_a_proxy(
    proxy: Nginx, through: Queen, shared: Queen, name: str, status: int
) -> None:
    closed = proxy.path(str(status))
    closed.touch()
    pushed = await through.queue(name).buffer(SLOW).push([{"data": n} for n in range(3)])
    flushing = asyncio.create_task(through.flush_all_buffers())

    async def has_failed() -> bool:
        return through.get_buffer_stats()["flushesFailed"] > 0 or flushing.done()

    await until(has_failed)
    closed.unlink()
    async with asyncio.timeout(30):
        await flushing
        await pushed.stored()
    assert await numbers(shared, name) == [0, 1, 2]


async def test_close_reports_the_messages_that_a_proxy_rejected(proxy: Nginx, name: str) -> None:
    proxy.path("403").touch()
    queen = Queen(proxy.base_url, close_timeout=1.0)
    await queen.queue(name).buffer(SLOW).push([{"data": n} for n in range(3)])
    with pytest.raises(PushError) as caught:
        await queen.close()
    assert [each.code for each in caught.value.failed] == ["forbidden"] * 3


async def test_a_batch_that_is_too_large_for_a_proxy_is_split(
    proxy: Nginx, through: Queen, shared: Queen, name: str
) -> None:
    events = through.queue(name).buffer(SLOW)
    good = await events.push([{"data": n} for n in range(500)])
    large = await events.push({"data": "x" * 20_000})
    more = await events.push({"data": 500})

    with pytest.raises(PushError) as caught:
        await through.flush_all_buffers()
    assert [each.code for each in caught.value.failed] == ["body_too_large"]
    with pytest.raises(PushError):
        await large.stored()
    await good.stored()
    await more.stored()
    assert await numbers(shared, name) == list(range(501))


async def test_acks_that_are_too_large_for_a_proxy_are_split(
    proxy: Nginx, through: Queen, shared: Queen, name: str
) -> None:
    await shared.queue(name).push([{"data": n} for n in range(500)])
    messages = await through.queue(name).batch(500).pop()

    results = await through.settle([(each, True, None) for each in messages])

    assert [result.index for result in results] == list(range(500))
    assert all(message.is_settled for message in messages)
    assert await numbers(shared, name) == []


@pytest.mark.parametrize("status", [401, 403, 404, 408, 429])
async def test_a_consumer_continues_after_a_rejection_by_a_proxy(
    proxy: Nginx, through: Queen, shared: Queen, name: str, status: int
) -> None:
    handled: list[int] = []
    through.transport = faulty = Faulty(through.transport)

    async def handle(message: Message[int]) -> None:
        handled.append(message.data)

    await shared.queue(name).push({"data": 0})
    work = through.queue(name).timeout_millis(500).start(handle)

    async def is_acked_and_pops_again() -> bool:
        *_, last_but_one, last = ("", "", *(path for _, path, _ in faulty.sent))
        return "/ack" in last_but_one and "/pop" in last

    await until(is_acked_and_pops_again, seconds=20)
    closed = proxy.path(str(status))
    closed.touch()
    before = len(faulty.sent)

    async def was_turned_away() -> bool:
        return len(faulty.sent) >= before + 2

    await until(was_turned_away, seconds=20)
    closed.unlink()
    await shared.queue(name).push({"data": 1})

    async def has_handled_both() -> bool:
        return handled == [0, 1]

    await until(has_handled_both, seconds=20)
    await work.stop()


async def test_a_consumer_whose_key_never_worked_raises(proxy: Nginx, through: Queen) -> None:
    proxy.path("401").touch()

    async def handle(message: Message[int]) -> None: ...

    with pytest.raises(errors.Unauthorized):
        async with asyncio.timeout(10):
            await through.queue("orders").consume(handle)


@pytest.mark.parametrize("has_follower", [False, True])
async def test_a_rejected_acknowledgment_does_not_fail_its_job(
    proxy: Nginx, through: Queen, name: str, has_follower: bool
) -> None:
    through.transport = faulty = Faulty(through.transport)
    jobs = QueueManager(through)
    closed = proxy.path("no-acks")
    runs: list[int] = []

    @jobs.processor(name, attempts=1)
    async def step(job: Job[int]) -> None:
        runs.append(job.data)
        if job.data == 0:
            closed.touch()
            if has_follower:
                job.transaction().add_job(name, "step", 1)

    await jobs.start_workers(concurrency=1)
    added = await jobs.add_job(name, "step", 0)

    async def was_turned_away() -> bool:
        return any("/ack" in path or path.endswith("/transaction") for _, path, _ in faulty.sent)

    await until(was_turned_away, seconds=20)
    closed.unlink()
    await added.result(timeout=30)
    await jobs.shutdown()
    assert runs.count(0) == 1
