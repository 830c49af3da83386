"""
OpenTelemetry spans and metrics of the SDK, for applications that have imported it.

Without that import, there can't be a provider, and each call costs one lookup. Names follow the
messaging conventions.
"""

import contextvars
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from queen.wire.messages import PushItem
from queen.wire.transactions import AckOperation, AdvanceOperation, PushOperation

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram
    from opentelemetry.trace import Link, Span, SpanKind, Tracer

    from queen.client.message import Message

_MOST_LINKS: Final = 128
_MODULE: Final = "opentelemetry.trace"
_MEASURED: Final = (
    "messaging.system",
    "messaging.operation.name",
    "messaging.destination.name",
    "messaging.consumer.group.name",
)
"""Attributes of metrics. Other attributes of a span have too many values."""


class _Instruments:
    """The tracer and the meters, created once."""

    def __init__(self) -> None:
        from opentelemetry import metrics, trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self.tracer: Tracer = trace.get_tracer("queen")
        self.kinds: type[SpanKind] = trace.SpanKind
        self.propagator = TraceContextTextMapPropagator()
        meter = metrics.get_meter("queen")
        self.operation: Histogram = meter.create_histogram(
            "messaging.client.operation.duration", unit="s"
        )
        self.process: Histogram = meter.create_histogram("messaging.process.duration", unit="s")
        self.sent: Counter = meter.create_counter("messaging.client.sent.messages")
        self.consumed: Counter = meter.create_counter("messaging.client.consumed.messages")

    @contextmanager
    def span(
        self,
        operation: str,
        kind: str,
        attributes: dict[str, Any],
        *,
        duration: "Histogram | None" = None,
        carrier: dict[str, str] | None = None,
        links: "Sequence[Link]" = (),
    ) -> "Generator[Span]":
        """Open a span and measure its time; it ends with the block in every case."""
        attributes = {
            "messaging.system": "queen",
            "messaging.operation.name": operation,
            **{name: value for name, value in attributes.items() if value is not None},
        }
        began = time.perf_counter()
        measured = {name: attributes[name] for name in _MEASURED if name in attributes}
        try:
            with self.tracer.start_as_current_span(
                f"{operation} {attributes.get('messaging.destination.name', '')}".rstrip(),
                context=None if carrier is None else self.propagator.extract(carrier),
                kind=getattr(self.kinds, kind),
                attributes=attributes,
                links=links,
            ) as span:
                try:
                    yield span
                except BaseException as error:
                    span.set_attribute("error.type", type(error).__qualname__)
                    measured["error.type"] = type(error).__qualname__
                    raise
        finally:
            (duration or self.operation).record(time.perf_counter() - began, measured)


@lru_cache(maxsize=1)
def _instruments() -> _Instruments:
    return _Instruments()


def is_on() -> bool:
    """Whether OpenTelemetry is imported in this process."""
    return _MODULE in sys.modules


def forget() -> None:
    """Read the providers again, for tests that set their own."""
    _instruments.cache_clear()


@contextmanager
def sending(queue: str, items: list[PushItem]) -> Generator[list[PushItem]]:
    """Open a span around a push; each message carries its context in its headers."""
    if not is_on():
        yield items
        return
    ours = _instruments()
    attributes: dict[str, Any] = {"messaging.destination.name": queue}
    if len(items) == 1:
        attributes["messaging.destination.partition.id"] = items[0].partition
        attributes["messaging.message.id"] = items[0].transaction_id
    else:
        attributes["messaging.batch.message_count"] = len(items)
    with ours.span("send", "PRODUCER", attributes):
        carrier: dict[str, str] = {}
        ours.propagator.inject(carrier)
        if carrier:
            items = [
                msgspec.structs.replace(item, headers={**carrier, **(item.headers or {})})
                for item in items
            ]
        yield items
        ours.sent.add(
            len(items), {"messaging.system": "queen", "messaging.destination.name": queue}
        )


def starting(workflow: str) -> AbstractContextManager[object]:
    """Open a span around the start of a workflow. The spans of its steps join its trace."""
    if not is_on():
        return nullcontext()
    return _instruments().span("start", "PRODUCER", {"messaging.destination.name": workflow})


@contextmanager
def receiving(queue: str | None, group: str | None) -> "Generator[Callable[[int], None]]":
    """Open a span around a pop. Call the result with the number of messages."""
    if not is_on():
        yield _nothing
        return
    ours = _instruments()
    attributes = {"messaging.destination.name": queue, "messaging.consumer.group.name": group}
    with ours.span("receive", "CLIENT", attributes) as span:

        def came(count: int) -> None:
            span.set_attribute("messaging.batch.message_count", count)
            given = {name: value for name, value in attributes.items() if value is not None}
            ours.consumed.add(count, {"messaging.system": "queen", **given})

        yield came


def settling(messages: "Sequence[Message[Any]]") -> AbstractContextManager[object]:
    """Open a span around an ack, a nack or an extension."""
    if not messages or not is_on():
        return nullcontext()
    return _instruments().span("settle", "CLIENT", _about(messages))


@contextmanager
def committing(
    messages: "Sequence[Message[Any]]",
    operations: Sequence[AckOperation | PushOperation | AdvanceOperation],
) -> Generator[Sequence[AckOperation | PushOperation | AdvanceOperation]]:
    """Open spans around a transaction: one for its acks, and in it one per push."""
    if not is_on():
        yield operations
        return
    with ExitStack() as stack:
        stack.enter_context(settling(messages))
        given: list[AckOperation | PushOperation | AdvanceOperation] = []
        for each in operations:
            if isinstance(each, PushOperation) and each.items:
                items = stack.enter_context(sending(each.items[0].queue, each.items))
                each = msgspec.structs.replace(each, items=items)
            given.append(each)
        yield given


def processing(
    messages: "Sequence[Message[Any]]", **about: str | None
) -> AbstractContextManager[object]:
    """
    Open a span around a handler: in the producer's trace for one message, linked for many.

    ``about``: more attributes, under ``queen.``.
    """
    if not is_on():
        return nullcontext()
    from opentelemetry import trace

    ours = _instruments()
    carrier: dict[str, str] | None = None
    links: list[Link] = []
    if len(messages) == 1:
        carrier = messages[0].headers
    else:
        for message in messages[:_MOST_LINKS]:
            found = trace.get_current_span(ours.propagator.extract(message.headers))
            if found.get_span_context().is_valid:
                links.append(trace.Link(found.get_span_context()))
    attributes = _about(messages) | {f"queen.{name}": value for name, value in about.items()}
    return ours.span(
        "process", "CONSUMER", attributes, duration=ours.process, carrier=carrier, links=links
    )


def request_headers() -> dict[str, str] | None:
    """Return headers with the current context, so that the server's spans join the trace."""
    if not is_on():
        return None
    carrier: dict[str, str] = {}
    _instruments().propagator.inject(carrier)
    return carrier or None


def carried(function: Callable[..., Any]) -> Callable[..., Any]:
    """Bind a function to the caller's context, for any thread."""
    return partial(contextvars.copy_context().run, function)


def _about(messages: "Sequence[Message[Any]]") -> dict[str, Any]:
    first = messages[0]
    about: dict[str, Any] = {
        "messaging.destination.name": first.queue,
        "messaging.consumer.group.name": first.consumer_group,
    }
    if len(messages) == 1:
        about["messaging.destination.partition.id"] = first.partition
        about["messaging.message.id"] = first.id
    else:
        about["messaging.batch.message_count"] = len(messages)
    return about


def _nothing(count: int) -> None:
    """Ignore the count."""
