"""OpenTelemetry: a producer's trace continues in its consumers, without a cost if unused."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from queen import Message, Queen
from queen.client import tracing
from tests.support.server import SOURCE


class Observed:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def metrics(self) -> set[str]:
        data = self.reader.get_metrics_data()
        assert data is not None
        return {
            metric.name
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }


@pytest.fixture
def observed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Observed]:
    found = Observed()
    tracer = TracerProvider()
    tracer.add_span_processor(SimpleSpanProcessor(found.exporter))
    meter = MeterProvider(metric_readers=[found.reader])
    monkeypatch.setattr(trace, "get_tracer", tracer.get_tracer)
    monkeypatch.setattr(metrics, "get_meter", meter.get_meter)
    tracing.forget()
    yield found
    tracing.forget()
    tracer.shutdown()
    meter.shutdown()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


async def test_a_trace_continues_from_producer_to_consumer(
    shared: Queen, name: str, observed: Observed
) -> None:
    tracer = trace.get_tracer("test")
    with tracer.start_as_current_span("request") as request:
        await shared.queue(name).partition("p").push([{"data": 1, "transactionId": "t-1"}])

    async def handler(message: Message[int]) -> None:
        with tracer.start_as_current_span("inside"):
            pass

    await shared.queue(name).group("g").limit(1).consume(handler)

    (send,) = observed.spans(f"send {name}")
    (process,) = observed.spans(f"process {name}")
    (inside,) = observed.spans("inside")
    (settle,) = observed.spans(f"settle {name}")
    (receive,) = observed.spans(f"receive {name}")
    trace_id = request.get_span_context().trace_id
    assert {span.context.trace_id for span in (send, process, inside) if span.context} == {trace_id}
    assert process.parent is not None
    assert send.context is not None
    assert process.parent.span_id == send.context.span_id
    assert (send.kind.name, receive.kind.name) == ("PRODUCER", "CLIENT")
    assert (process.kind.name, settle.kind.name) == ("CONSUMER", "CLIENT")
    assert attributes(send)["messaging.destination.partition.id"] == "p"
    assert attributes(send)["messaging.message.id"] == "t-1"
    assert attributes(process)["messaging.consumer.group.name"] == "g"
    assert attributes(process)["messaging.system"] == "queen"
    assert not trace.get_current_span().get_span_context().is_valid


async def test_a_batch_is_linked_to_its_producers(
    shared: Queen, name: str, observed: Observed
) -> None:
    for number in range(3):
        await shared.queue(name).push([{"data": number}])

    async def handler(messages: list[Message[int]]) -> None: ...

    await shared.queue(name).batch(3).limit(3).consume(handler)

    (process,) = observed.spans(f"process {name}")
    sent = {span.context.span_id for span in observed.spans(f"send {name}") if span.context}
    assert {link.context.span_id for link in process.links} == sent
    assert attributes(process)["messaging.batch.message_count"] == 3


async def test_a_failure_is_recorded_and_metrics_are_exported(
    shared: Queen, name: str, observed: Observed
) -> None:
    await shared.queue(name).config({"retryLimit": 0}).create()
    await shared.queue(name).push([{"data": 1}])

    async def handler(message: Message[int]) -> None:
        raise ValueError("no")

    await shared.queue(name).limit(1).consume(handler)

    (process,) = observed.spans(f"process {name}")
    assert attributes(process)["error.type"] == "ValueError"
    assert observed.metrics() == {
        "messaging.client.operation.duration",
        "messaging.client.sent.messages",
        "messaging.client.consumed.messages",
        "messaging.process.duration",
    }


async def test_a_transaction_is_traced_from_its_acks_to_its_pushes(
    shared: Queen, name: str, observed: Observed
) -> None:
    await shared.queue(f"{name}-in").push([{"data": 1}])
    (message,) = await shared.queue(f"{name}-in").pop()

    transaction = shared.transaction().ack(message)
    await transaction.queue(name).partition("p").push([{"data": 2}]).commit()

    (settle,) = observed.spans(f"settle {name}-in")
    (send,) = observed.spans(f"send {name}")
    assert settle.context is not None
    assert send.context is not None
    assert send.parent is not None
    assert send.parent.span_id == settle.context.span_id
    assert (send.kind.name, settle.kind.name) == ("PRODUCER", "CLIENT")
    assert attributes(send)["messaging.destination.partition.id"] == "p"
    (out,) = await shared.queue(name).pop()
    assert f"{send.context.span_id:016x}" in out.headers["traceparent"]


async def test_headers_of_the_caller_take_precedence(
    shared: Queen, name: str, observed: Observed
) -> None:
    mine = f"00-{'1' * 32}-{'2' * 16}-01"
    await shared.queue(name).push([{"data": 1, "headers": {"traceparent": mine, "a": "b"}}])

    (message,) = await shared.queue(name).pop()

    assert message.headers == {"traceparent": mine, "a": "b"}


def test_without_opentelemetry_its_modules_are_not_loaded() -> None:
    code = (
        "import sys; from queen import Queen; from queen.client import tracing, transport\n"
        "with tracing.sending('q', []), tracing.settling([]): pass\n"
        "assert not any(name.startswith('opentelemetry') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(SOURCE)}, check=True)
