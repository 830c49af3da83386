"""Several servers: which one gets a request, and what happens when one fails."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Callable

import pytest
from aiohttp import web

from queen import Queen, errors
from queen.client.config import Strategy
from queen.client.transport.failover import Servers

URLS = ("http://a", "http://b", "http://c")


class Time:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def servers(strategy: Strategy, clock: Callable[[], float] | None = None) -> Servers:
    return Servers(URLS, strategy, points=128, retry_after_seconds=5, clock=clock or Time())


def test_affinity_sends_a_key_to_one_server_and_distributes_keys() -> None:
    ring = servers("affinity")
    homes = {f"q:{n}:g": ring.choose(f"q:{n}:g").url for n in range(3_000)}

    assert all(ring.choose(key).url == url for key, url in homes.items())
    assert all(700 < count < 1_300 for count in Counter(homes.values()).values())


def test_keys_of_a_failed_server_are_distributed_and_no_other_moves() -> None:
    ring = servers("affinity")
    homes = {f"q:{n}:g": ring.choose(f"q:{n}:g").url for n in range(3_000)}
    ring.failed(ring.all[0])
    after = {key: ring.choose(key).url for key in homes}

    moved = [key for key in homes if homes[key] != after[key]]
    assert all(homes[key] == "http://a" for key in moved)
    assert all(Counter(after[key] for key in moved)[url] > 200 for url in URLS[1:])


def test_round_robin_takes_turns() -> None:
    ring = servers("round-robin")
    assert [ring.choose("k").url for _ in range(4)] == [*URLS, URLS[0]]


def test_a_session_stays_until_its_server_fails() -> None:
    ring = servers("session")
    assert {ring.choose(str(n)).url for n in range(9)} == {"http://a"}
    ring.failed(ring.all[0])
    assert {ring.choose(str(n)).url for n in range(9)} == {"http://b"}
    ring.answered(ring.all[0])
    assert ring.choose("k").url == "http://b"


def test_a_failed_server_is_tried_by_one_request_after_a_pause() -> None:
    clock = Time()
    ring = servers("affinity", clock)
    key = next(f"k{n}" for n in range(99) if ring.choose(f"k{n}").url == "http://a")
    ring.failed(ring.all[0])
    assert ring.choose(key).url != "http://a"

    clock.now += 5.1
    assert ring.choose(key).url == "http://a"
    assert ring.choose(key).url != "http://a"  # The first request has no response yet.
    ring.answered(ring.all[0])
    assert ring.choose(key).url == "http://a"


def test_a_long_poll_on_a_failed_server_blocks_other_requests_only_briefly() -> None:
    clock = Time()
    ring = servers("affinity", clock)
    key = next(f"k{n}" for n in range(99) if ring.choose(f"k{n}").url == "http://a")
    ring.failed(ring.all[0])
    clock.now += 5.1
    assert ring.choose(key).url == "http://a"  # A long poll with a response after 30 seconds.

    clock.now += 5.1
    assert ring.choose(key).url == "http://a"
    ring.answered(ring.all[0])
    assert [ring.choose(key).url for _ in range(3)] == ["http://a"] * 3


@contextlib.asynccontextmanager
async def listening(answer: Callable[[], web.Response]) -> AsyncGenerator[str]:
    """A server that returns the given responses."""

    async def handle(request: web.Request) -> web.Response:
        return answer()

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0]
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()


def problem(status: int, code: str, retry_after: str | None = None) -> web.Response:
    body = (
        f'{{"type":"urn:queen:{code}","title":"","status":{status},"code":"{code}",'
        f'"detail":"told","error":"told","applied":false}}'
    )
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return web.Response(status=status, text=body, headers=headers)


async def test_a_failing_server_is_replaced_by_another_immediately() -> None:
    calls = Counter[str]()

    def broken() -> web.Response:
        calls["broken"] += 1
        return problem(503, "draining", "9")

    def well() -> web.Response:
        calls["well"] += 1
        return web.Response(status=204)

    async with (
        asyncio.timeout(5),
        listening(broken) as one,
        listening(well) as two,
        Queen([one, two], load_balancing_strategy="session") as queen,
    ):
        for _ in range(5):
            assert await queen.queue("q").pop() == []
    assert calls == {"broken": 1, "well": 5}


async def test_without_failover_a_call_stays_on_its_server() -> None:
    async with (
        listening(lambda: problem(503, "draining")) as one,
        listening(lambda: web.Response(status=204)) as two,
        Queen(
            [one, two],
            load_balancing_strategy="session",
            enable_failover=False,
            retry_attempts=1,
        ) as queen,
    ):
        with pytest.raises(errors.Draining):
            await queen.queue("q").pop()


async def test_retry_after_is_obeyed() -> None:
    answers = [problem(429, "rate_limited", "1"), web.Response(status=204)]
    async with (
        listening(lambda: answers.pop(0)) as url,
        Queen(url, retry_delay_millis=0) as queen,
    ):
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await queen.queue("q").pop() == []
        assert loop.time() - began >= 1


async def test_an_error_contains_the_servers_retry_after() -> None:
    async with (
        listening(lambda: problem(429, "rate_limited", "7")) as url,
        Queen(url, retry_attempts=1) as queen,
    ):
        with pytest.raises(errors.RateLimited) as caught:
            await queen.queue("q").pop()
    assert caught.value.retry_after == 7
    assert caught.value.problem.code == "rate_limited"


async def test_a_response_timeout_is_a_lost_connection() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with Queen(f"http://127.0.0.1:{port}", timeout_millis=100, retry_attempts=1) as queen:
        with pytest.raises(errors.TransportError) as caught:
            await queen.queue("q").pop()
    assert isinstance(caught.value, errors.OutcomeUnknown)
    server.close()


@contextlib.asynccontextmanager
async def hanging_up() -> AsyncGenerator[str]:
    """A server that takes one request, disconnects without a response, and stops."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        server.close()
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    try:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"
    finally:
        server.close()


async def test_a_lost_response_is_reported_although_the_retry_reached_no_server() -> None:
    async with hanging_up() as url, Queen(url, retry_delay_millis=0) as queen:
        with pytest.raises(errors.OutcomeUnknown, match=r"lost.*cannot reach") as caught:
            await queen.queue("q").push([{"data": 1}])
    assert isinstance(caught.value, errors.TransportError)
    assert caught.value.applied is None


@pytest.mark.parametrize(
    ("status", "code"), [(503, "draining"), (401, "unauthorized"), (403, "forbidden")]
)
async def test_a_lost_response_stays_unknown_if_another_server_rejects_the_retry_early(
    status: int, code: str
) -> None:
    async with (
        hanging_up() as one,
        listening(lambda: problem(status, code)) as two,
        Queen([one, two], load_balancing_strategy="session", retry_attempts=1) as queen,
    ):
        with pytest.raises(errors.OutcomeUnknown, match="told"):
            await queen.queue("q").push([{"data": 1}])


async def test_a_rejected_retry_decides_the_outcome_of_a_lost_response() -> None:
    async with (
        hanging_up() as one,
        listening(lambda: problem(413, "body_too_large")) as two,
        Queen([one, two], load_balancing_strategy="session") as queen,
    ):
        with pytest.raises(errors.BodyTooLarge):
            await queen.queue("q").push([{"data": 1}])
