"""OpenTelemetry spans. If disabled, they cost one comparison per call."""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from queen import errors
from queen.codec.extras import Extra
from queen.engine.pop.delivery import Delivery
from queen.server.http.call import Call
from queen.settings import Settings
from queen.wire.messages import PushItem

if TYPE_CHECKING:
    from opentelemetry.trace import Span

_MOST_LINKS: Final = 128
_SYSTEM: Final = {"messaging.system": "queen"}
_KINDS: Final = {
    "send": "PRODUCER",
    "receive": "CLIENT",
    "settle": "CLIENT",
    "transaction": "PRODUCER",
}
"""Operations of the message plane, and their span kinds by the messaging conventions."""
_FLUSHES: Final = frozenset({"push", "pop", "ack", "nack", "transact", "combine"})
"""Calls whose statement is a flush."""


class Tracing:
    """The tracer of one process. It sends by OTLP to the address in the OTEL_ variables."""

    def __init__(self, settings: Settings) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as error:
            raise errors.BadSettings("QUEEN_OTEL needs the extra otel: queenmq[otel]") from error
        # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence.
        resource = Resource({"service.name": settings.app_name}).merge(Resource.create())
        named = resource.attributes.get("service.name", "")
        if str(named).startswith("unknown_service"):
            resource = resource.merge(Resource({"service.name": settings.app_name}))
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("queen")

    async def close(self) -> None:
        """Send the remaining spans."""
        await asyncio.to_thread(self._provider.shutdown)

    @contextmanager
    def of_call(self, call: Call) -> Generator[None]:
        """Open a span around a call of the message plane, in the trace of its ``traceparent``."""
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        operation = None if call.route is None else call.route.span
        if operation is None:
            yield
            return
        carrier = {
            name: value
            for name in ("traceparent", "tracestate")
            if (value := call.header(name.encode())) is not None
        }
        with self._tracer.start_as_current_span(
            operation,
            context=TraceContextTextMapPropagator().extract(carrier),
            kind=getattr(trace.SpanKind, _KINDS[operation]),
            attributes={**_SYSTEM, "messaging.operation.name": operation},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            call.span = span
            with _record_error(span):
                yield

    @contextmanager
    def of_statement(self, call: str) -> Generator[None]:
        """Open a span around the statement of a flush."""
        from opentelemetry import trace

        # All kinds of transactions are traced as transactions.
        call = call.removesuffix("_once").removesuffix("_across")
        if call not in _FLUSHES:
            yield
            return
        with (
            self._tracer.start_as_current_span(
                f"flush {call}",
                kind=trace.SpanKind.CLIENT,
                attributes={"db.system.name": "postgresql", "db.operation.name": call},
                record_exception=False,
                set_status_on_exception=False,
            ) as span,
            _record_error(span),
        ):
            yield


@contextmanager
def _record_error(span: "Span") -> Generator[None]:
    """Record the type of an error in a span, but not its text, in which PostgreSQL quotes rows."""
    from opentelemetry.trace import StatusCode

    try:
        yield
    except Exception as error:
        kind = error.code if isinstance(error, errors.QueenError) else type(error).__name__
        span.set_attribute("error.type", kind)
        span.set_status(StatusCode.ERROR, kind)
        raise


def parent_of(call: Call) -> str | None:
    """Return the ``traceparent`` of pushed messages: that of the call's span, or its caller's."""
    if call.span is not None:
        context = call.span.get_span_context()
        flags = int(context.trace_flags)
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags:02x}"
    return call.header(b"traceparent") if call.trace_id else None


def describe_push(span: "Span | None", items: Sequence[PushItem]) -> None:
    """Name the span after its queue."""
    if span is None:
        return
    _name(span, "send", {item.queue for item in items})
    partitions = {item.partition for item in items}
    if len(partitions) == 1:
        span.set_attribute("messaging.destination.partition.id", partitions.pop())
    span.set_attribute("messaging.batch.message_count", len(items))


def describe_pop(span: "Span | None", deliveries: Sequence[Delivery], group: str | None) -> None:
    """Name the span after its queue, with links to the spans that pushed the messages."""
    if span is None:
        return
    _name(span, "receive", {delivery.queue for delivery in deliveries})
    if group is not None:
        span.set_attribute("messaging.consumer.group.name", group)
    span.set_attribute("messaging.batch.message_count", sum(len(each) for each in deliveries))
    for context in _contexts(deliveries):
        span.add_link(context)


def describe_settle(span: "Span | None", count: int, group: str | None) -> None:
    """Record the number of acknowledged messages, and their group."""
    if span is None:
        return
    span.set_attribute("messaging.batch.message_count", count)
    if group is not None:
        span.set_attribute("messaging.consumer.group.name", group)


def _name(span: "Span", operation: str, queues: set[str]) -> None:
    if len(queues) == 1:
        (queue,) = queues
        span.update_name(f"{operation} {queue}")
        span.set_attribute("messaging.destination.name", queue)


def _contexts(deliveries: Sequence[Delivery]) -> list[Any]:
    """Return the spans that pushed these messages, up to a limit."""
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    propagator = TraceContextTextMapPropagator()
    found: dict[str, Any] = {}
    for delivery in deliveries:
        for run in delivery.runs:
            first, last = run.first_offset - run.base_offset, run.end_offset - run.base_offset
            for stored in run.source.extras(first, last):
                headers = msgspec.json.decode(stored, type=Extra).headers if stored else None
                parent = (headers or {}).get("traceparent")
                if parent is not None and parent not in found:
                    context = propagator.extract({"traceparent": parent})
                    span = trace.get_current_span(context).get_span_context()
                    if span.is_valid:
                        found[parent] = span
                if len(found) >= _MOST_LINKS:
                    return list(found.values())
    return list(found.values())
