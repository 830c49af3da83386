"""A request that its client can stop waiting for without losing a response in transit."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    import aiohttp
    from aiohttp.connector import Connection

T = TypeVar("T")

_CURRENT: Final[ContextVar["LongPoll | None"]] = ContextVar("queen_long_poll", default=None)


class LongPoll:
    """
    One pop in progress.

    Closing the connection could drop a response that the server has sent, with its deliveries.
    `hang_up` closes only the sending half. Then the server has either responded, and the response
    arrives, or it withdraws the pop. Connections with TLS have no half-closed state.

    Usage::

        poll = LongPoll()
        task = poll.start(pop_runs(queue))
        poll.hang_up()
        await asyncio.wait([task], timeout=1)
    """

    __slots__ = ("connection", "is_over", "withdraw")

    def __init__(self) -> None:
        self.connection: Connection | None = None
        """The connection of the request, once it was sent."""
        self.withdraw: Callable[[], None] | None = None
        """Ends the pop on a stream, whose connection stays open."""
        self.is_over = False
        """The client no longer waits: a lost connection is the expected end."""

    def start(self, request: "Coroutine[Any, Any, T]") -> "asyncio.Task[T]":
        """Run the request as a task, and record its connection."""
        context = copy_context()
        context.run(_CURRENT.set, self)
        return asyncio.create_task(request, context=context)

    def hang_up(self) -> bool:
        """
        End the pop. Returns False if that is not possible without losing its response.

        Over HTTP this closes the sending half of the connection.
        """
        if self.withdraw is not None:
            self.is_over = True
            self.withdraw()
            return True
        connection = self.connection
        transport = None if connection is None else connection.transport
        if connection is None or transport is None or not transport.can_write_eof():
            return False
        self.is_over = True
        if connection.protocol is not None:
            connection.protocol.force_close()  # Never reused, because its sending half is closed.
        transport.write_eof()
        return True


def on_hang_up(withdraw: Callable[[], None] | None) -> None:
    """Set how to end the long poll of this task. None: it has no operation on a stream."""
    if (poll := _CURRENT.get()) is not None:
        poll.withdraw = withdraw
        if poll.is_over and withdraw is not None:
            withdraw()  # It was hung up, and repeated by another server.


def is_over() -> bool:
    """Whether the request of this task is a long poll that was hung up."""
    poll = _CURRENT.get()
    return poll is not None and poll.is_over


@cache
def response_class() -> "type[aiohttp.ClientResponse]":
    """Return a response class that records the connection of a long poll. Loads aiohttp."""
    import aiohttp

    class Response(aiohttp.ClientResponse):
        async def start(self, connection: "Connection") -> Any:  # noqa: ANN401 - as aiohttp has it
            if (poll := _CURRENT.get()) is not None:
                poll.connection = connection
            return await super().start(connection)

    return Response
