"""A stream's bookkeeping, with a transport and pops that the test controls."""

import asyncio
import json
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from queen import errors
from queen.server.auth.permissions import ANYBODY
from queen.server.http.answer import Answer
from queen.server.http.call import Call
from queen.server.http.head import Connection, Head
from queen.server.http.scope_keys import ClientGone
from queen.server.memory_budget import Budget, Unsent
from queen.server.routes.messaging.pop import PopAnswered
from queen.server.stream import connection, operations
from queen.server.stream.connection import StreamConnection
from queen.settings import Settings
from queen.wire import websocket
from queen.wire.websocket import Receiver

HEAD = Head({"scheme": "http", "path": "/", "raw_path": b"/", "query_string": b"", "headers": ()})


class Transport:
    """A transport that records the frames of the server."""

    def __init__(self) -> None:
        self.sent = b""
        self.is_over = False
        self.on_write: Callable[[], None] | None = None

    def write(self, data: bytes) -> None:
        self.sent += data
        if self.on_write is not None:
            self.on_write()

    def is_closing(self) -> bool:
        return self.is_over

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    @property
    def frames(self) -> list[dict[str, Any]]:
        """The single results that the server has sent so far."""
        found: list[dict[str, Any]] = []
        for _, payload in Receiver(2**20).feed(self.sent):
            decoded = json.loads(payload)
            found += decoded if isinstance(decoded, list) else [decoded]
        return found


class Pops:
    """The pops that a stream has started, each with a future for its result."""

    def __init__(self) -> None:
        self.started: list[asyncio.Future[Answer]] = []
        self.can_be_cancelled = True

    async def run(self, call: Call, request: object) -> Answer:
        del request
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.started.append(future)
        assert call.connection.disconnect is not None
        task = asyncio.current_task()
        assert task is not None
        if self.can_be_cancelled:
            call.connection.disconnect.watch(task)
        try:
            return await future
        except asyncio.CancelledError:
            raise ClientGone from None


@pytest.fixture
def pops(monkeypatch: pytest.MonkeyPatch) -> Pops:
    pops = Pops()
    pop = operations.POP._replace(run=pops.run)
    monkeypatch.setattr(connection, "POP", pop)
    monkeypatch.setitem(operations._TABLE, "pop", pop)  # pyright: ignore[reportPrivateUsage]
    return pops


@pytest.fixture
async def transport() -> Transport:
    return Transport()


@pytest.fixture
async def stream(transport: Transport) -> StreamConnection:
    async def parse(*_: object) -> Any:  # noqa: ANN401
        raise NotImplementedError

    revocations = SimpleNamespace(add=lambda *_: None, remove=lambda *_: None)  # pyright: ignore[reportUnknownLambdaType]
    state = SimpleNamespace(
        settings=Settings(),
        unsent=Unsent(2**20),
        requests=Budget(2**20),
        bodies=SimpleNamespace(parse=parse),
        is_draining=False,
        authenticator=SimpleNamespace(is_open=True, revocations=revocations),
    )
    observer = SimpleNamespace(
        metrics=SimpleNamespace(received=0, sent=0, count=lambda *_: None),  # pyright: ignore[reportUnknownLambdaType]
        is_tracing=False,
        span=lambda _: nullcontext(),  # pyright: ignore[reportUnknownLambdaType]
        rejected=lambda error, _: error,  # pyright: ignore[reportUnknownLambdaType]
    )
    call = Call(HEAD, cast("Any", state), Connection(), None)
    call.caller = ANYBODY
    call.request_id = "r"
    opened = StreamConnection(call, cast("Any", observer), lambda: None)
    opened.connection_made(cast("Any", transport))
    return opened


def send(stream: StreamConnection, *operations: object) -> None:
    for each in operations:
        stream.data_received(websocket.masked_frame(websocket.TEXT, json.dumps(each).encode()))


async def settle() -> None:
    """Let tasks and callbacks that are ready run."""
    for _ in range(10):
        await asyncio.sleep(0)


def popped(undo: Callable[[], Any] | None = None) -> PopAnswered:
    answer = PopAnswered(b'{"messages":[{}]}', undo=undo)
    answer.messages = 1
    return answer


async def fail_if_cancelled(call: Call, _: object) -> Answer:
    """A pop that loses the database while it is cancelled."""
    assert call.connection.disconnect is not None
    while not call.connection.disconnect.has_happened:  # noqa: ASYNC110 - it has no event
        await asyncio.sleep(0)
    raise errors.DatabaseUnavailable("no connection")


class Undone:
    """Counts deliveries that were given back."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self) -> None:
        self.count += 1


async def test_messages_for_a_closing_transport_are_given_back(
    stream: StreamConnection, transport: Transport, pops: Pops
) -> None:
    send(stream, {"id": 1, "pop": {"queue": "q", "wait": True}})
    await settle()
    transport.is_over = True
    undone = Undone()
    pops.started[0].set_result(popped(undone))
    await settle()

    assert (undone.count, transport.sent) == (1, b"")


async def test_unread_messages_are_given_back_although_another_pop_of_a_full_stream_ends(
    stream: StreamConnection, transport: Transport, pops: Pops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "MAX_WAITING", 2)
    transport.on_write = stream.pause_writing
    send(stream, {"id": 1, "consume": {"queue": "q", "credit": 3}})
    await settle()
    undone = Undone()
    pops.started[0].set_result(popped(undone))
    await settle()
    assert len(pops.started) == 3
    pops.started[1].set_result(popped(undone))
    await settle()

    stream.connection_lost(ConnectionResetError())
    await settle()
    assert undone.count == 2


async def test_a_pop_that_fails_after_a_cancellation_ends_the_subscription(
    stream: StreamConnection, transport: Transport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "POP", operations.POP._replace(run=fail_if_cancelled))
    send(stream, {"id": 1, "consume": {"queue": "q", "credit": 2}})
    await settle()
    send(stream, {"cancel": 1})
    await settle()
    (frame,) = transport.frames
    assert (frame["id"], frame["problem"]["code"]) == (1, "database_unavailable")
    send(stream, {"id": 1, "consume": {"queue": "q", "credit": 1}})  # The id is free.
    await settle()
    assert not stream.is_closed


async def test_a_draining_stream_closes_after_its_subscription_has_failed(
    stream: StreamConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "POP", operations.POP._replace(run=fail_if_cancelled))
    send(stream, {"id": 1, "consume": {"queue": "q", "credit": 2}})
    await settle()
    stream.drain()
    await settle()
    assert stream.is_closed


async def test_a_new_subscription_does_not_get_the_messages_of_a_failed_one_with_its_id(
    stream: StreamConnection, transport: Transport, pops: Pops
) -> None:
    pops.can_be_cancelled = False
    send(stream, {"id": 1, "consume": {"queue": "a", "credit": 2}})
    await settle()
    first, second = pops.started
    first.set_exception(errors.QueueNotFound("no queue"))
    await settle()
    send(stream, {"id": 1, "consume": {"queue": "b", "credit": 1}})
    await settle()
    undone = Undone()
    second.set_result(popped(undone))
    await settle()

    assert [set(each) for each in transport.frames] == [{"id", "problem"}]
    assert undone.count == 1
    pops.started[2].set_result(popped())
    await settle()
    assert transport.frames[-1] == {"id": 1, "messages": [{}]}
