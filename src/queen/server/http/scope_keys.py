"""Keys that the HTTP protocol adds to an ASGI scope, and the types of their values."""

import asyncio
from typing import Any, Final, Protocol

DISCONNECT: Final = "queen.disconnect"
"""The `Disconnect` of the connection."""
ABORT: Final = "queen.abort"
"""In the scope of a WebSocket: a function that ends the connection without a close frame."""
SWITCH: Final = "queen.switch"
"""In the scope of a request for a stream: a function that hands its connection to the stream."""
EXCHANGE: Final = "queen.exchange"
"""The `Exchange`. `App` removes it: it refers to the scope, and would keep it in memory."""


class ClientGone(Exception):
    """The client disconnected before the request or the response was complete."""

    response: bytes | None = None
    """The response to a client that cancelled a pop of its stream, if it has results."""


class Disconnect:
    """Cancels the task that waits on behalf of a client when the client disconnects."""

    __slots__ = ("has_happened", "is_cut", "task")

    def __init__(self) -> None:
        self.task: asyncio.Task[Any] | None = None
        self.has_happened = False
        self.is_cut = False
        """Whether the client disconnected before it read everything."""

    def watch(self, task: asyncio.Task[Any]) -> None:
        """Cancel this task when the client disconnects, also if it already has."""
        if self.has_happened:
            task.cancel()
        else:
            self.task = task

    def notify(self) -> None:
        self.has_happened = True
        if self.task is not None:
            self.task.cancel()
            self.task = None


class Exchange(Protocol):
    """One request and its response without ASGI messages, which cost 20 % of a small request."""

    @property
    def raw_head(self) -> bytes | None:
        """Its head, if requests with the same head may be recognised from now on."""

    def take_body(self) -> bytes | None:
        """Return the body if it is complete; None if it must be received."""

    async def answer(
        self, status: int, headers: bytes, body: bytes, *, is_awaited: bool = False
    ) -> bool:
        """
        Send a response with encoded headers, and end the exchange.

        Returns False if the client disconnected before. With ``is_awaited``, waits until most of
        the response is sent, and returns False also if the client disconnects meanwhile.
        """
        ...

    def close_after_answer(self) -> None:
        """Make this the last request of its connection."""
