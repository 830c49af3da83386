"""A long poll that its client ends: a response that was already sent still arrives."""

import asyncio
import json
import re
import time
import urllib.request

from queen import Queen
from queen.client.consume.pop import pop_runs
from queen.client.transport.long_poll import LongPoll
from tests.support.server import Server, until


def push_and_wait(server: Server, queue: str) -> None:
    """Push while the event loop is blocked, so that the response to a waiting pop isn't read."""
    body = json.dumps({"items": [{"queue": queue, "payload": 1}]}).encode()
    earlier = sent_pops(server)
    push = urllib.request.Request(
        f"{server.base_url}/api/v1/push", body, {"content-type": "application/json"}
    )
    with urllib.request.urlopen(push, timeout=20) as response:
        response.read()
    ends_at = time.monotonic() + 20
    while sent_pops(server) == earlier:
        assert time.monotonic() < ends_at


def sent_pops(server: Server) -> int:
    """Responses to pops that the server has sent. It counts a response right before it sends it."""
    with urllib.request.urlopen(f"{server.base_url}/metrics", timeout=20) as response:
        metrics: str = response.read().decode()
    found = re.findall(
        r'^queen_http_request_seconds_count\{.*route="[^"]*/pop/.*\} (\d+)', metrics, re.MULTILINE
    )
    return sum(map(int, found))


async def test_a_response_sent_before_the_client_disconnects_arrives(
    server: Server, queen: Queen, name: str
) -> None:
    await queen.queue(name).create()
    poll = LongPoll()
    queue = queen.queue(name).wait(True).timeout_millis(30_000)
    task = poll.start(pop_runs(queen, queue.pop_request))

    async def is_waiting() -> bool:
        metrics = (await server.get("/metrics")).body.decode()
        return re.search(r"^queen_waiters\{.*\} 1$", metrics, re.MULTILINE) is not None

    await until(is_waiting)
    push_and_wait(server, name)
    assert poll.hang_up()
    async with asyncio.timeout(10):
        (run,) = await task
    assert len(run.data) == 1
    await queen.release(run.lease_id or "")  # On another connection: this one is half-closed.


async def test_the_server_cancels_a_pop_whose_client_disconnected(
    server: Server, queen: Queen, name: str
) -> None:
    await queen.queue(name).create()
    poll = LongPoll()
    queue = queen.queue(name).wait(True).timeout_millis(30_000)
    task = poll.start(pop_runs(queen, queue.pop_request))

    async def is_sent() -> bool:
        return poll.connection is not None

    await until(is_sent)
    assert poll.hang_up()
    done, _ = await asyncio.wait([task], timeout=10)
    assert done
    assert task.cancelled()

    await queen.queue(name).push({"data": 1})
    (message,) = await queen.queue(name).wait(True).pop()
    assert message.attempt == 1
