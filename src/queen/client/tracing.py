"""
OpenTelemetry of the SDK, for applications that have it loaded; the others pay for one look-up.

Without the package, or before an application has imported it, nobody can have set a provider: then
nothing is done here. Names are those of the messaging conventions.
"""

import contextvars
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from queen.wire.messages import AckOperation, AdvanceOperation, PushItem, PushOperation

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram
    from opentelemetry.trace import Link, Span, SpanKind, Tracer

    from queen.client.message import Message

_MOST_LINKS: Final = 128
_MODULE: Final = "opentelemetry.trace"


class _Instruments:
    """The tracer and the meters, made once."""

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
        duration: "Histogram",
        carrier: dict[str, str] | None = None,
        links: "Sequence[Link]" = (),
    ) -> "Generator[Span]":
        """A span and the time that it took; ended and detached however the block ends."""
        attributes = {
            "messaging.system": "queen",
            "messaging.operation.name": operation,
            **{name: value for name, value in attributes.items() if value is not None},
        }
        began = time.perf_counter()
        measured = {
            name: value
            for name, value in attributes.items()
            if name in ("messaging.system", "messaging.operation.name")
            or name == "messaging.destination.name"
            or name == "messaging.consumer.group.name"
        }
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
            duration.record(time.perf_counter() - began, measured)


@lru_cache(maxsize=1)
def _instruments() -> _Instruments:
    return _Instruments()


def is_on() -> bool:
    """Whether somebody in this process uses OpenTelemetry."""
    return _MODULE in sys.modules


def forget() -> None:
    """Ask for the providers anew; for tests, which set their own."""
    _instruments.cache_clear()


@contextmanager
def sending(queue: str, items: list[PushItem]) -> Generator[list[PushItem]]:
    """A span around a push; each message carries its context in its headers."""
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
    with ours.span("send", "PRODUCER", attributes, duration=ours.operation):
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


@contextmanager
def starting(workflow: str) -> Generator[None]:
    """A span around the start of a workflow: its steps, whoever runs them, are in its trace."""
    if not is_on():
        yield
        return
    ours = _instruments()
    attributes = {"messaging.destination.name": workflow}
    with ours.span("start", "PRODUCER", attributes, duration=ours.operation):
        yield


@contextmanager
def receiving(queue: str | None, group: str | None) -> "Generator[Callable[[int], None]]":
    """A span around a pop; tell it how many messages came."""
    if not is_on():
        yield _nothing
        return
    ours = _instruments()
    attributes = {"messaging.destination.name": queue, "messaging.consumer.group.name": group}
    with ours.span("receive", "CLIENT", attributes, duration=ours.operation) as span:

        def came(count: int) -> None:
            span.set_attribute("messaging.batch.message_count", count)
            given = {name: value for name, value in attributes.items() if value is not None}
            ours.consumed.add(count, {"messaging.system": "queen", **given})

        yield came


@contextmanager
def settling(messages: "Sequence[Message[Any]]") -> Generator[None]:
    """A span around an ack, a nack or an extension."""
    if not messages or not is_on():
        yield
        return
    ours = _instruments()
    with ours.span("settle", "CLIENT", _about(messages), duration=ours.operation):
        yield


@contextmanager
def committing(
    messages: "Sequence[Message[Any]]",
    operations: Sequence[AckOperation | PushOperation | AdvanceOperation],
) -> Generator[Sequence[AckOperation | PushOperation | AdvanceOperation]]:
    """Spans around a transaction: that of its acks, and in it one for each of its pushes."""
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


@contextmanager
def processing(messages: "Sequence[Message[Any]]", **about: str | None) -> Generator[None]:
    """
    A span around a handler: in the producer's trace for one message, linked to it for many.

    ``about``: attributes besides, under ``queen.``.
    """
    if not is_on():
        yield
        return
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
    with ours.span(
        "process",
        "CONSUMER",
        _about(messages) | {f"queen.{name}": value for name, value in about.items()},
        duration=ours.process,
        carrier=carrier,
        links=links,
    ):
        yield


def request_headers() -> dict[str, str] | None:
    """The current context for the server, so that its spans are in the same trace."""
    if not is_on():
        return None
    carrier: dict[str, str] = {}
    _instruments().propagator.inject(carrier)
    return carrier or None


def carried(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function in the caller's context, whatever thread runs it."""
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
    """Nobody counts."""
