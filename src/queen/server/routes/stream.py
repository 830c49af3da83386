"""Open a stream."""

import functools

from queen import errors
from queen.server.http.answer import Answer
from queen.server.http.call import Call, new_routes
from queen.wire.websocket import accept_of

ROUTES, route = new_routes()


@route(
    "GET /api/v1/stream",
    "Open a stream",
    None,
    {101: None},
    tag="push",
    headers={
        "Upgrade": "Always `websocket`.",
        "Sec-WebSocket-Version": "Always `13`.",
        "Sec-WebSocket-Key": "16 random bytes as Base64.",
    },
    problems=(errors.UpgradeRequired,),
)
async def stream(call: Call) -> Answer:
    """
    Open a WebSocket for pushes, deliveries and acknowledgments.

    The HTTP reference describes its frames. Each operation requires the permission that its request
    requires over HTTP.
    """
    switch = call.connection.switch
    key = accept_of(call.header(b"sec-websocket-key") or "")
    if (
        switch is None
        or key is None
        or (call.header(b"upgrade") or "").lower() != "websocket"
        or "upgrade" not in (call.header(b"connection") or "").lower()
        or call.header(b"sec-websocket-version") != "13"
    ):
        raise errors.UpgradeRequired
    return Answer(
        status=101,
        headers={"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": key},
        upgrade=functools.partial(switch, call),
    )
