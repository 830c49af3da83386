"""Requests are served without a task only if they are whole, alone, and equal a known one."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
import uvicorn
from uvicorn.server import ServerState

from queen.server.http.call import Call, Route
from queen.server.http.connection_limits import ConnectionLimits
from queen.server.http.cycles import Cycle, DirectCycle
from queen.server.http.head import Connection, Head
from queen.server.http.known_heads import KnownHeads, Recognised
from queen.server.http.protocol import Protocol
from queen.server.http.scope_keys import EXCHANGE
from queen.server.memory_budget import Unsent
from queen.server.routes.messaging.push import push
from queen.settings import Settings
from queen.wire.messages import PushRequest

ROUTE = Route(push, "POST", "/api/v1/push", "", None, {}, span="send", body=PushRequest)
SECRET = "Bearer qk_0123456789ab_" + "5" * 64
LINES = (
    "POST /api/v1/push HTTP/1.1",
    "host: localhost",
    f"Authorization: {SECRET}",
    "content-type: application/json",
)


def request(body: bytes = b"{}", *lines: str, length: str | None = None) -> bytes:
    lines = (*(lines or LINES), f"Content-Length: {len(body) if length is None else length}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.is_closed = False

    def get_extra_info(self, name: str) -> tuple[str, int] | None:
        return ("127.0.0.1", 1) if name in ("sockname", "peername") else None

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        """Nothing reads."""

    def resume_reading(self) -> None:
        """Nothing reads."""

    def close(self) -> None:
        self.is_closed = True


class App:
    """Responds to every request with its body, and notes which way it came."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - of any setting
        self.route = ROUTE
        self.parameters: dict[str, str] = {}
        self.settings = Settings(**settings)
        self.known_heads = KnownHeads(self.settings.max_body_bytes)
        self.direct: list[Recognised] = []
        self.general: list[bytes] = []

    async def __call__(self, scope: Any, *_: object) -> None:  # noqa: ANN401 - as in ASGI
        cycle: Cycle = scope[EXCHANGE]
        if (body := cycle.take_body()) is None:
            return  # Its connection is closed.
        self.general.append(body)
        call = SimpleNamespace(
            route=self.route, head=Head(scope), span=None, parameters=self.parameters
        )
        if cycle.raw_head is not None:
            self.known_heads.learn(cycle.raw_head, cast("Call", call))
        await cycle.answer(200, b"content-length: 0\r\n", b"")

    async def respond_directly(self, found: Recognised, cycle: DirectCycle, _: Connection) -> None:
        self.direct.append(found)
        await cycle.answer(200, b"content-length: 0\r\n", b"")


class Peer:
    """A client's connection."""

    def __init__(self, app: App) -> None:
        self.wire = Wire()
        bound = {
            "settings": app.settings,
            "limits": ConnectionLimits(0),
            "unsent": Unsent(2**30),
            "direct": app,
        }
        config = uvicorn.Config(cast("Any", app), lifespan="off", log_config=None)
        config.load()
        kind: type[Protocol] = type("Bound", (Protocol,), bound)
        self.protocol = kind(config, ServerState(), {})
        self.protocol.connection_made(cast("asyncio.Transport", self.wire))

    async def send(self, *chunks: bytes) -> bytes:
        """Send these bytes, and return the response, empty if there is none."""
        self.wire.written = b""
        for chunk in chunks:
            asyncio.get_running_loop().call_soon(self.protocol.data_received, chunk)
        for _ in range(20):
            await asyncio.sleep(0)
        return self.wire.written


async def trained(**settings: Any) -> tuple[App, Peer]:  # noqa: ANN401 - of any setting
    """An app that knows the head of `request`, and a connection that used it."""
    app = App(**settings)
    peer = Peer(app)
    await peer.send(request())
    await peer.send(request())
    assert len(app.known_heads) == 1
    app.general.clear()
    return app, peer


async def test_a_known_head_with_another_body_is_recognised() -> None:
    app, peer = await trained()

    answer = await peer.send(request(b'{"items":[1,2,3]}'))

    assert answer.startswith(b"HTTP/1.1 200 ")
    assert [body for _, body, _ in app.direct] == [b'{"items":[1,2,3]}']
    assert app.general == []


async def test_credentials_come_from_each_request_and_are_not_stored() -> None:
    app, peer = await trained()

    await peer.send(request())

    ((known, _, authorization),) = app.direct
    assert authorization == SECRET
    assert SECRET.encode() not in repr(known.head.headers).encode()
    assert not any(b"qk_" in key for key in app.known_heads._known)  # pyright: ignore[reportPrivateUsage] - what is kept


async def test_another_connection_profits_after_its_first_request() -> None:
    app, _ = await trained()
    other = Peer(app)

    await other.send(request())
    await other.send(request())

    assert (len(app.general), len(app.direct)) == (1, 1)


async def test_a_head_in_two_chunks_takes_the_general_way() -> None:
    app, peer = await trained()
    data = request(b'{"a":1}')

    for cut in (5, len(data) - 8):
        await peer.send(data[:cut], data[cut:])

    assert app.direct == []
    assert app.general == [b'{"a":1}'] * 2


async def test_a_small_body_may_follow_its_head() -> None:
    app, peer = await trained()
    data = request(b'{"a":1}')

    for cut in (len(data) - 7, len(data) - 1):
        await peer.send(data[:cut], data[cut:])
    await peer.send(data[:-7], *[bytes([each]) for each in data[-7:]])

    assert [body for _, body, _ in app.direct] == [b'{"a":1}'] * 3
    assert app.general == []


async def test_a_large_body_after_its_head_takes_the_general_way() -> None:
    app, peer = await trained()
    body = b'"%b"' % (b"x" * 20_000)
    data = request(body)

    await peer.send(data[: -len(body)], body)

    assert app.direct == []
    assert app.general == [body]


async def test_a_body_that_never_comes_ends_the_connection() -> None:
    app, peer = await trained(body_timeout_ms=1_000)

    await peer.send(request(b"{}")[:-2])
    assert not peer.wire.written
    peer.protocol.sweep(time.monotonic() + 0.9)
    assert not peer.wire.is_closed
    peer.protocol.sweep(time.monotonic() + 1.1)

    assert peer.wire.written.startswith(b"HTTP/1.1 408 ")
    assert peer.wire.is_closed
    assert (app.direct, app.general) == ([], [])


async def test_more_than_the_body_after_a_head_takes_the_general_way() -> None:
    app, peer = await trained()

    await peer.send(request(b"{}")[:-2], b"{}" + request(b"[]"))
    await peer.send(request(b"{}"))

    assert app.general == [b"{}", b"[]"]
    assert [body for _, body, _ in app.direct] == [b"{}"]


OTHERS = {
    "too long a length": request(b"{}", length="3") + b"}" + request(),
    "too short a length": request(b"{}", length="1"),
    "a length with a sign": request(b"{}", length="+2"),
    "a length with spaces": request(b"{}", length=" 2 "),
    "a length in hexadecimal": request(b"{}", length="0x2"),
    "a list of lengths": request(b"{}", length="2, 2"),
    "an empty length": request(b"{}", length=""),
    "a length in other digits": request(b"{}", length="\u0662"),
    "two lengths": request(b"{}", *LINES, "content-length: 2"),
    "chunks": request(b"0\r\n\r\n", *LINES, "transfer-encoding: chunked"),
    "another header": request(b"{}", *LINES, "x-a: b"),
    "another key": request().replace(b"5555", b"6666"),
    "another path": request().replace(b"/push", b"/pop?"),
    "another version": request().replace(b"HTTP/1.1", b"HTTP/1.0"),
    "a closed connection": request(b"{}", *LINES, "connection: close"),
    "line feeds alone": request().replace(b"\r\n", b"\n"),
    "a second request": request() + request(),
    "garbage behind it": request() + b"GARBAGE",
    "a line break before it": b"\r\n" + request(),
}


@pytest.mark.parametrize("name", OTHERS)
async def test_every_other_request_takes_the_general_way(name: str) -> None:
    app, peer = await trained()

    await peer.send(OTHERS[name])

    assert app.direct == []


NEVER_LEARNT = {
    "a fragment of a head": (b"POST /x HTTP/1.1\r\nhost: localhost\r\nx-a: b", request()),
    "a body like a head": (request(b"", length=str(len(request()))), request()),
    "a pipelined request": (request() + request(),),
    "an expectation": (request(b"{}", *LINES, "expect: 100-continue"),),
    "chunks": (
        b"\r\n".join([*(line.encode() for line in LINES), b"transfer-encoding: chunked"])
        + b"\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    ),
    "gzip": (request(b"{}", *LINES, "content-encoding: gzip"),),
    "a closed connection": (request(b"{}", *LINES, "connection: close"),),
    "a request id": (request(b"{}", *LINES, "x-request-id: 1"),),
    "a trace": (request(b"{}", *LINES, "traceparent: 00-1-1-01"),),
    "a length in another header": (request(b"{}", *LINES, "x-content-length: 2"),),
    "a long head": (request(b"{}", *LINES, "x-a: " + "b" * 5_000),),
}


@pytest.mark.parametrize("name", NEVER_LEARNT)
async def test_a_head_is_learnt_only_from_a_whole_plain_request(name: str) -> None:
    app = App()
    peer = Peer(app)
    await peer.send(b"GET /livez HTTP/1.1\r\nhost: localhost\r\nx-request-id: 1\r\n\r\n")

    await peer.send(*NEVER_LEARNT[name])

    assert len(app.known_heads) == 0


async def test_a_route_without_a_body_is_recognised_without_one() -> None:
    app = App()
    app.route = msgspec.structs.replace(ROUTE, body=None)
    peer = Peer(app)
    for body in (b"{}", b"{}", b"{}", b""):
        await peer.send(request(body))

    assert len(app.general) == 3
    assert [body for _, body, _ in app.direct] == [b""]


async def test_paths_with_leases_are_not_remembered() -> None:
    app = App()
    app.parameters = {"leaseId": "0.1.2.3"}
    peer = Peer(app)
    for _ in range(3):
        await peer.send(request())

    assert len(app.known_heads) == 0


async def test_the_number_of_known_heads_is_bounded() -> None:
    app = App()
    peer = Peer(app)

    for number in range(5_000):
        await peer.send(request(b"{}", *LINES, f"user-agent: {number}"))

    assert len(app.known_heads) == 4_096


async def test_a_body_over_the_limit_takes_the_general_way() -> None:
    app, peer = await trained(max_body_bytes=10)

    await peer.send(request(b'{"a":"12345"}'))

    assert app.direct == []
