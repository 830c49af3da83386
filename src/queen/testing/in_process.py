"""A client transport to an ASGI app in another thread of this process, without a port."""

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from queen.client.transport.base import Reply, error_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message


class AppTransport:
    """Calls the app in its own event loop. Callers may have any loops."""

    def __init__(self, app: "ASGIApp", loop: asyncio.AbstractEventLoop) -> None:
        self._app = app
        self._loop = loop

    async def open(self) -> None:
        """Do nothing: there is no connection."""

    async def close(self) -> None:
        """Do nothing: the app has another owner."""

    async def exchange(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        headers: dict[str, str] | None = None,
        **_: object,  # There is one server, and its connection can't fail.
    ) -> Reply:
        gone = asyncio.Event()
        call = self._call(_scope(method, path, body, headers or {}), body or b"", gone)
        answer = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._loop))
        try:
            reply = await asyncio.shield(answer)
        except asyncio.CancelledError:
            # The app sees a closed connection, as from a network client, and cleans up.
            self._loop.call_soon_threadsafe(gone.set)
            raise
        if reply.status >= 400:
            raise error_of(reply)
        return reply

    async def _call(self, scope: dict[str, Any], body: bytes, gone: asyncio.Event) -> Reply:
        status = 500
        answered: dict[bytes, bytes] = {}
        parts: list[bytes] = []
        is_read = False

        async def receive() -> "Message":
            nonlocal is_read
            if is_read:
                await gone.wait()
                return {"type": "http.disconnect"}
            is_read = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: "Message") -> None:
            nonlocal status, answered
            if message["type"] == "http.response.start":
                status, answered = message["status"], dict(message["headers"])
            else:
                parts.append(message.get("body", b""))

        await self._app(scope, receive, send)
        after = {name.lower(): value for name, value in answered.items()}.get(b"retry-after")
        return Reply(status, b"".join(parts), None if after is None else after.decode())


def _scope(method: str, path: str, body: bytes | None, headers: dict[str, str]) -> dict[str, Any]:
    plain, _, query = path.partition("?")
    sent = {"host": "localhost", **({"content-type": "application/json"} if body else {})}
    sent |= {"content-length": str(len(body))} if body else {}
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(plain),
        "raw_path": plain.encode("ascii"),
        "query_string": query.encode("ascii"),
        "headers": [
            (name.lower().encode("latin-1"), value.encode("latin-1"))
            for name, value in {**sent, **headers}.items()
        ],
        "client": ("127.0.0.1", 0),
        "server": ("localhost", 6632),
        "state": {},
    }
