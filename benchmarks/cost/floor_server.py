"""
The cheapest HTTP servers in Python: each returns the same response to every request.

Usage::

    python -m benchmarks.cost.floor_server PORT raw|uvicorn
"""

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import uvicorn
import uvloop

_BODY: Final = (
    b'{"messages":[{"id":"019a0000-0000-7000-8000-000000000000","transactionId":'
    b'"019a0000-0000-7000-8000-000000000000","status":"queued","offset":1}]}'
)
_RESPONSE: Final = (
    b"HTTP/1.1 201 Created\r\ncontent-length: %d\r\ncontent-type: application/json\r\n"
    b"cache-control: no-store\r\n\r\n%b" % (len(_BODY), _BODY)
)
_LENGTH: Final = re.compile(rb"content-length: (\d+)\r\n")


class Raw(asyncio.Protocol):
    """Reads the length from the headers and responds, with one request per packet."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # pyright: ignore[reportAttributeAccessIssue] - uvloop's is one

    def data_received(self, data: bytes) -> None:
        end = data.index(b"\r\n\r\n") + 4
        length = _LENGTH.search(data, 0, end)
        if length and len(data) - end == int(length[1]):
            self.transport.write(_RESPONSE)


async def application(
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
) -> None:
    """Ignore the request and respond."""
    assert scope["type"] == "http"
    await receive()
    headers = [(b"content-length", b"%d" % len(_BODY)), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": _BODY})


async def raw(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Raw, "127.0.0.1", port)
    await server.serve_forever()


def main() -> None:
    port, kind = int(sys.argv[1]), sys.argv[2]
    if kind == "raw":
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(raw(port))
    uvicorn.run(
        application,
        host="127.0.0.1",
        port=port,
        log_level="warning",
        access_log=False,
        lifespan="off",
        loop="uvloop",
        http="httptools",
    )


if __name__ == "__main__":
    main()
