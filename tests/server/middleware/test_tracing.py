"""Spans of calls and flushes, and the trace of a message."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.server import Server, until

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


class Collector:
    """The spans that an OpenTelemetry collector receives."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.port = 0

    async def take(self, request: web.Request) -> web.Response:
        # The classes are created at run time.
        sent: Any = ExportTraceServiceRequest.FromString(await request.read())
        for resource in sent.resource_spans:
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)
        return web.Response()

    @property
    def environment(self) -> dict[str, str]:
        """Of a server that sends its spans here."""
        return {
            "QUEEN_OTEL": "true",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }

    def named(self, name: str) -> list[Any]:
        return [span for span in self.spans if span.name == name]


@pytest.fixture
async def collector() -> AsyncIterator[Collector]:
    collector = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", collector.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None  # pyright: ignore[reportPrivateUsage] - there is no public API
    collector.port = site._server.sockets[0].getsockname()[1]  # pyright: ignore
    yield collector
    await runner.cleanup()


async def push(server: Server, *, headers: dict[str, str] | None = None) -> None:
    items = [{"queue": "orders", "partition": "c42", "payload": 1}]
    reply = await server.request("POST", "/push", {"items": items}, headers=headers)
    assert reply.status == 201


async def test_the_trace_of_a_push_is_delivered_with_its_message(server: Server) -> None:
    await push(server, headers={"traceparent": PARENT})
    popped = await server.get("/pop/queue/orders")

    (message,) = popped.body["messages"]
    assert message["traceId"] == TRACE
    assert message["headers"] == {"traceparent": PARENT}


async def test_the_trace_of_an_item_is_unchanged(server: Server) -> None:
    item = {"queue": "orders", "payload": 1, "traceId": "mine", "headers": {"traceparent": "own"}}
    await server.request("POST", "/push", {"items": [item]}, headers={"traceparent": PARENT})
    popped = await server.get("/pop/queue/orders")

    (message,) = popped.body["messages"]
    assert (message["traceId"], message["headers"]) == ("mine", {"traceparent": "own"})


@pytest.mark.parametrize("parent", ["nonsense", f"ff-{TRACE}-00f067aa0ba902b7-01", "00-0-0-0"])
async def test_a_malformed_trace_is_ignored(server: Server, parent: str) -> None:
    await push(server, headers={"traceparent": parent})
    popped = await server.get("/pop/queue/orders")

    (message,) = popped.body["messages"]
    assert (message["traceId"], message["headers"]) == (None, {})


async def test_full_headers_leave_no_room_for_a_trace_and_are_accepted(server: Server) -> None:
    item = {"queue": "orders", "payload": 1, "headers": {str(n): "" for n in range(64)}}
    reply = await server.request(
        "POST", "/push", {"items": [item]}, headers={"traceparent": PARENT}
    )

    assert reply.body["messages"][0]["status"] == "queued"


async def test_calls_and_flushes_are_spans_of_the_callers_trace(
    dsn: str, collector: Collector
) -> None:
    async with Server(dsn, collector.environment) as server:
        await push(server, headers={"traceparent": PARENT})
        popped = await server.get("/pop/queue/orders", consumerGroup="g")
        (message,) = popped.body["messages"]
        await server.post("/ack", {"id": message["id"], "leaseId": message["leaseId"]})
        await server.post("/ack", {"id": message["id"], "leaseId": message["leaseId"]})

        async def is_all_there() -> bool:
            return len(collector.named("settle")) == 2

        await until(is_all_there)

        async def is_flushed() -> bool:
            names = ("send orders", "receive orders", "flush push", "flush pop", "flush ack")
            return all(collector.named(name) for name in names)

        await until(is_flushed)
    (send,) = collector.named("send orders")
    assert send.trace_id.hex() == TRACE
    assert send.kind == 4
    told = {each.key: each.value for each in send.attributes}
    assert told["messaging.system"].string_value == "queen"
    assert told["messaging.destination.name"].string_value == "orders"
    assert told["messaging.batch.message_count"].int_value == 1
    # The consumer's trace continues from the span that sent the message.
    assert message["headers"]["traceparent"].split("-")[2] == send.span_id.hex()
    (receive,) = collector.named("receive orders")
    assert [link.span_id for link in receive.links] == [send.span_id]
    (flush,) = collector.named("flush push")
    assert flush.trace_id.hex() == TRACE
    failed = [span for span in collector.named("settle") if span.status.code == 2]
    assert [span.status.message for span in failed] == ["lease_lost"]


async def test_a_push_to_a_waiting_consumer_has_a_span_of_their_common_flush(
    dsn: str, collector: Collector
) -> None:
    numbers = itertools.count()
    async with Server(dsn, collector.environment) as server:

        async def is_combined() -> bool:
            popping = asyncio.create_task(server.get("/pop/queue/orders", wait="true"))
            item = {"queue": "orders", "partition": f"p{next(numbers)}", "payload": 1}
            await server.post("/push", {"items": [item]})
            await popping
            return bool(collector.named("flush combine"))

        await until(is_combined)


async def test_an_ack_of_a_delivery_has_a_span_and_an_operators_release_has_none(
    dsn: str, collector: Collector
) -> None:
    async with Server(dsn, collector.environment) as server:
        await push(server)
        popped = await server.get("/pop/queue/orders", consumerGroup="g")
        (message,) = popped.body["messages"]
        await server.post(f"/lease/{message['leaseId']}/ack")
        await server.post("/resources/queues/orders/deliveries/1/release")

        async def is_exported() -> bool:
            return bool(collector.named("settle"))

        await until(is_exported)
    (settle,) = collector.named("settle")
    told = {each.key: each.value for each in settle.attributes}
    assert told["messaging.operation.name"].string_value == "settle"


async def test_an_unavailable_collector_blocks_no_calls(dsn: str) -> None:
    environment = {
        "QUEEN_OTEL": "true",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
    }
    async with Server(dsn, environment) as server:
        async with asyncio.timeout(10):
            for _ in range(10):
                await push(server)
