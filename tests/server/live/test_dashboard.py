"""The dashboard's WebSocket: its events, its access checks, and when it is closed."""

import asyncio
import socket as sockets
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import pairwise
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType

from tests.support.callers import KEYS, Caller, make_key
from tests.support.server import Server, until

FAST = {
    "QUEEN_COUNTERS_FLUSH_SECONDS": "0.1",
    "QUEEN_SAMPLE_SECONDS": "0.1",
    "QUEUE_DEPTH_UPDATE_INTERVAL": "100",
    "SYSTEM_STATS_UPDATE_INTERVAL": "100",
}


@pytest.fixture
async def fast(dsn: str) -> AsyncIterator[Server]:
    async with Server(dsn, FAST) as server:
        yield server


@asynccontextmanager
async def dashboard(
    server: Server, ticket: str | None = None, **headers: str
) -> AsyncGenerator[aiohttp.ClientWebSocketResponse]:
    url = f"{server.base_url}/ws/dashboard{'' if ticket is None else f'?ticket={ticket}'}"
    async with server.session.ws_connect(url, headers=headers) as opened:
        yield opened


async def next_frame(opened: aiohttp.ClientWebSocketResponse, event: str) -> dict[str, Any]:
    """The next frame of this event."""
    async with asyncio.timeout(10):
        while True:
            frame = await opened.receive_json()
            if frame["event"] == event:
                return frame


async def push(server: Server, queue: str, count: int = 1) -> None:
    items = [{"queue": queue, "payload": n} for n in range(count)]
    assert (await server.post("/push", {"items": items})).status == 201


async def test_depths_sums_and_system_statistics_are_sent(fast: Server) -> None:
    await push(fast, "orders", 3)
    async with dashboard(fast) as opened:
        stats = await next_frame(opened, "system.stats")
        assert stats["data"]["processes"] == 1
        assert stats["data"]["websockets"] == 1
        assert stats["data"]["buffer"] == (await fast.get("/status/buffers")).body
        depth = await next_frame(opened, "queue.depth.updated")
        assert depth["data"]["queues"][0]["depth"] == 3
        assert depth["at"].endswith("Z")
        await push(fast, "orders", 2)
        processed = await next_frame(opened, "message.processed")
        assert processed["data"]["queues"] == [
            {
                "queue": "orders",
                "pushed": 2,
                "popped": 0,
                "acked": 0,
                "nacked": 0,
                "deadLettered": 0,
            }
        ]


async def test_sums_are_sent_immediately_and_then_at_the_requested_interval(fast: Server) -> None:
    async with dashboard(fast) as opened, dashboard(fast) as eager:
        await opened.send_json({"subscribe": ["message.processed"], "seconds": 3})
        await eager.send_json({"subscribe": ["message.processed"]})
        is_over = asyncio.Event()

        async def push_on() -> int:
            count = 0
            while not is_over.is_set():
                await push(fast, "orders")
                count += 1
            return count

        pushing = asyncio.create_task(push_on())
        frames = [await next_frame(opened, "message.processed") for _ in range(4)]
        is_over.set()
        count = await pushing
        # The server may not have known the interval yet when it sent the first.
        times = [datetime.fromisoformat(each["at"]) for each in frames[1:]]
        assert all(2.4 < (b - a).total_seconds() < 6 for a, b in pairwise(times))

        async def received(to: aiohttp.ClientWebSocketResponse) -> int:
            frame = await next_frame(to, "message.processed")
            return frame["data"]["queues"][0]["pushed"]

        # Each count is sent once, and the rest follows later.
        sum_ = sum(each["data"]["queues"][0]["pushed"] for each in frames)
        while sum_ < count:
            sum_ += await received(opened)
        assert sum_ == count
        eagerly = [await received(eager)]
        while sum(eagerly) < count:
            eagerly.append(await received(eager))
        assert sum(eagerly) == count
        assert len(eagerly) > len(frames)

        await opened.send_json({"subscribe": ["message.processed"], "seconds": 16})
        assert (await opened.receive()).type in (WSMsgType.CLOSE, WSMsgType.CLOSED)


async def test_other_callers_activity_delays_no_frame(fast: Server) -> None:
    async with dashboard(fast) as opened, dashboard(fast) as other:
        wanted = {"subscribe": ["message.processed"], "queues": ["quiet"], "seconds": 15}
        await opened.send_json(wanted)
        for _ in range(3):
            await push(fast, "busy")
            await next_frame(other, "message.processed")
        await push(fast, "quiet")
        # The frame arrives within ten seconds.
        received = (await next_frame(opened, "message.processed"))["data"]["queues"]
        assert [each["queue"] for each in received] == ["quiet"]


async def test_progress_of_operations_is_sent(fast: Server) -> None:
    await push(fast, "orders", 3)
    async with dashboard(fast) as opened:
        await next_frame(opened, "system.stats")
        reply = await fast.post("/resources/queues/orders/purge", {"scope": "all"})
        assert reply.status == 202
        while True:
            received = (await next_frame(opened, "operation.updated"))["data"]
            assert received["id"] == reply.body["operation"]["id"]
            if received["state"] == "done":
                break

    assert received["queue"] == "orders"


async def dead_letter(caller: Caller, queue: str) -> str:
    """Create a dead letter in a queue and return its id."""
    await caller.push(queue)
    (message,) = (await caller.get(f"/pop/queue/{queue}")).body["messages"]
    named = {name: message[name] for name in ("transactionId", "partitionId", "leaseId")}
    assert (await caller.post("/ack", {**named, "status": "dlq"})).status == 200
    (letter,) = (await caller.get("/dlq", queue=queue)).body["messages"]
    return letter["id"]


async def test_operations_on_several_queues_are_sent_only_to_unscoped_callers(dsn: str) -> None:
    async with Server(dsn, {**FAST, **KEYS}) as server:
        admin = Caller(server, await make_key(dsn))
        shop = Caller(server, await make_key(dsn, scopes=[{"queue": "shop.*"}]))
        ids = [await dead_letter(admin, queue) for queue in ("shop.a", "secret")]
        async with (
            dashboard(server, (await admin.post("/auth/ticket")).body["ticket"]) as all_of_it,
            dashboard(server, (await shop.post("/auth/ticket")).body["ticket"]) as some_of_it,
        ):
            await next_frame(all_of_it, "system.stats")
            await next_frame(some_of_it, "system.stats")
            body = {"filter": {"ids": ids}, "ratePerSecond": 100}
            work = (await admin.post("/dlq/redrive", body)).body["operation"]
            received = await next_frame(all_of_it, "operation.updated")
            assert (received["data"]["id"], received["data"]["queue"]) == (work["id"], None)

            await shop.post("/resources/queues/shop.a/purge", {"scope": "all"})
            received = await next_frame(some_of_it, "operation.updated")
            assert received["data"]["queue"] == "shop.a"


async def test_a_client_receives_only_its_subscriptions(fast: Server) -> None:
    async with dashboard(fast) as opened:
        await opened.send_json({"subscribe": ["message.processed"], "queues": ["orders"]})
        events = ["system.stats"]
        while events[-2:] != ["message.processed"] * 2:  # Unfiltered, each tick has more.
            await push(fast, "orders", 1)
            async with asyncio.timeout(10):
                events.append((await opened.receive_json())["event"])
        await push(fast, "secret", 1)
        await push(fast, "orders", 1)
        frames = [await next_frame(opened, "message.processed")]
        while frames[-1]["data"]["queues"][0]["queue"] != "orders":
            frames.append(await next_frame(opened, "message.processed"))

        assert "secret" not in str(frames)


async def test_a_misspelt_subscription_closes_the_connection(fast: Server) -> None:
    async with dashboard(fast) as opened:
        await opened.send_json({"subscribe": ["message.proccessed"]})
        async with asyncio.timeout(10):
            while (message := await opened.receive()).type == aiohttp.WSMsgType.TEXT:
                pass

        assert message.type == aiohttp.WSMsgType.CLOSE
        assert opened.close_code == 1008


async def test_a_page_of_another_site_is_rejected(fast: Server) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with dashboard(fast, Origin="https://evil.example"):
            pass
    assert refused.value.status == 403

    async with dashboard(fast, Origin=fast.base_url) as opened:
        await next_frame(opened, "system.stats")
    # A rejection isn't logged as an error of the server.
    assert "websocket.refused" in fast.log
    assert "ASGI" not in fast.log


async def test_connections_above_the_limit_are_rejected(dsn: str) -> None:
    async with Server(dsn, {**FAST, "WS_MAX_CONNECTIONS": "1"}) as server, dashboard(server):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with dashboard(server):
                pass

        assert refused.value.status == 503


async def test_a_message_that_is_too_large_closes_the_connection(fast: Server) -> None:
    async with dashboard(fast) as opened:
        await opened.send_str(" " * 20_000)
        async with asyncio.timeout(10):
            while (message := await opened.receive()).type == aiohttp.WSMsgType.TEXT:
                pass

        assert message.type == aiohttp.WSMsgType.CLOSE
        assert opened.close_code == 1009


async def test_no_other_path_accepts_websockets(fast: Server) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await fast.session.ws_connect(f"{fast.base_url}/ws/other")
    assert refused.value.status == 403


async def test_a_server_stops_while_dashboards_are_connected(fast: Server) -> None:
    async with dashboard(fast) as opened:
        await next_frame(opened, "system.stats")

        assert await fast.stop() == 0


async def test_a_dashboard_that_does_not_read_is_disconnected(dsn: str) -> None:
    # Many queues make large frames, and a small window leaves few of them in the kernel.
    async with Server(dsn, FAST) as server:
        names = [f"{n}-{'long' * 50}" for n in range(1_000)]
        await server.post("/push", {"items": [{"queue": n, "payload": 1} for n in names]})
        raw = sockets.socket()
        raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
        raw.connect(("127.0.0.1", server.port))
        raw.sendall(
            b"GET /ws/dashboard HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
            b"Sec-WebSocket-Version: 13\r\n\r\n"
        )

        async def is_dropped() -> bool:
            await server.post("/push", {"items": [{"queue": n, "payload": 1} for n in names]})
            return "websocket.dropped" in server.log

        async def is_gone() -> bool:
            return b"queen_websocket_connections 0" in (await server.get("/metrics")).body

        try:
            await until(is_dropped, seconds=55)
            await until(is_gone)
        finally:
            raw.close()
