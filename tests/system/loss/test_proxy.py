"""An nginx that fails at random in front of a server: buffered pushes are stored once, in order."""

import asyncio
from collections import defaultdict

import pytest

from queen import Message, Queen
from tests.support.nginx import Nginx
from tests.support.server import Server

PARTITIONS = 20
SHARED = """\
split_clients "$request_id" $fate {
  5% early-408; 5% early-413; 5% early-429; 5% early-502; 5% late-502; * passed;
}
# A batch of one message is never too large, so that it is the size that counts.
map "$fate:$content_length" $answer { default $fate; "~^early-413:(\\d{1,3})?$" passed; }
"""
RULES = """\
client_max_body_size 8k;
error_page 418 = @late;
if ($answer = early-408) { return 408; }
if ($answer = early-413) { return 413; }
if ($answer = early-429) { return 429; }
if ($answer = early-502) { return 502; }
if ($answer = late-502) { return 418; }
"""
LATE = """\
location @late {
  # The server's response has no room: it is replaced by a 502 after the request was applied.
  proxy_buffer_size 16; proxy_buffers 4 4k; proxy_pass http://queen;
}
"""


def proxy(server: Server) -> Nginx:
    return Nginx(server.base_url, RULES, shared=SHARED, locations=LATE)


async def push(server: Server, count: int) -> None:
    """Push through the proxy, and wait until all messages are stored."""
    async with (
        proxy(server) as front,
        # One attempt per request, so that the buffer itself must retry.
        Queen(front.base_url, retry_attempts=1, close_timeout=300) as queen,
    ):
        # A full batch exceeds the 8 kB limit of the proxy, so it is always split.
        events = queen.queue("events").buffer(message_count=200, time_millis=500)
        for n in range(count):
            await events.partition(str(n % PARTITIONS)).push({"data": n})
        await queen.flush_all_buffers()
        stats = queen.get_buffer_stats()
    print(f"{count} messages, {stats['flushesFailed']} flushes failed in the proxy")
    assert stats["messagesRefused"] == 0
    assert stats["flushesFailed"] > 0


async def stored(server: Server) -> dict[str, list[int]]:
    """The stored messages of each partition, read without the proxy."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    async with Queen(server.base_url) as queen:
        events = queen.queue("events").group("judge").subscription_mode("all").auto_ack(True)
        while messages := await events.batch(10_000).partitions(PARTITIONS).pop():
            for message in messages:
                found[message.partition].append(message.data)
    return dict(found)


async def push_and_judge(dsn: str, count: int) -> None:
    async with Server(dsn) as server:
        await push(server, count)
        found = await stored(server)
    assert found == {str(at): list(range(at, count, PARTITIONS)) for at in range(PARTITIONS)}


@pytest.mark.nightly
@pytest.mark.timeout(180)
async def test_buffered_pushes_survive_a_proxy_that_fails_at_random(dsn: str) -> None:
    await push_and_judge(dsn, 5_000)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
async def test_a_hundred_thousand_pushes_survive_a_proxy_that_fails_at_random(dsn: str) -> None:
    await push_and_judge(dsn, 100_000)


@pytest.mark.nightly
@pytest.mark.timeout(180)
async def test_a_consumer_survives_a_proxy_that_fails_at_random(dsn: str) -> None:
    count = 2_000
    handled: set[int] = set()
    is_all = asyncio.Event()

    async def handle(messages: list[Message[int]]) -> None:
        handled.update(message.data for message in messages)
        if len(handled) == count:
            is_all.set()

    async with Server(dsn) as server, Queen(server.base_url) as direct, proxy(server) as front:
        # Deliveries in a response that the proxy dropped are redelivered when their leases end.
        await direct.queue("work").config({"leaseTime": 2, "retryLimit": 1_000}).create()
        for partition in range(PARTITIONS):
            items = [{"data": n} for n in range(partition, count, PARTITIONS)]
            await direct.queue("work").partition(str(partition)).push(items)
        async with Queen(front.base_url, retry_attempts=1) as queen:
            work = queen.queue("work").batch(20).concurrency(4).start(handle)
            waiting = asyncio.create_task(is_all.wait())
            ending = asyncio.create_task(work.wait())
            await asyncio.wait([waiting, ending], timeout=150, return_when="FIRST_COMPLETED")
            assert not ending.done()
            assert handled == set(range(count))
            await work.stop()
            await ending
