"""Helpers for tests: read pushed messages and dead letters, and run handlers without waiting."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import msgspec

from queen import errors
from queen.client.client import Queen
from queen.client.consume.pop import messages_of, pop_runs
from queen.client.transport.base import Reply, Transport

_MOST_ROUNDS: Final = 1_000
"""Maximum rounds for handlers that push to each other, so that a test ends."""
_PUSHING: Final = ("/api/v1/push", "/api/v1/transaction")

_is_draining: ContextVar[bool] = ContextVar("queen_is_draining", default=False)


async def pushed(queen: Queen, queue: str) -> list[Any]:
    """Return the payloads of a queue in the order of their pushes, without consuming them."""
    try:
        found = [each async for each in queen.admin.messages(queue, reveal=True)]
    except errors.QueueNotFound:
        return []
    found.sort(key=lambda each: (each.created_at, each.offset or 0))
    return [msgspec.json.decode(each.data) for each in found]


async def dead_letters(queen: Queen, queue: str) -> list[dict[str, Any]]:
    """Return the dead letters, newest first: ``data``, ``errorMessage``, ``attempts``, …"""
    return (await queen.queue(queue).dlq().limit(1_000).reveal().get())["messages"]


async def drain(queen: Queen) -> int:
    """
    Run the registered handlers until no message is due. Returns the number of messages.

    Failed messages wait for their backoff, as in production: advance the clock, and drain again.
    """
    count = 0
    token = _is_draining.set(True)
    try:
        for _ in range(_MOST_ROUNDS):
            before = count
            for handler in list(queen.handlers):
                request = handler.request.replaced(wait=False, auto_ack=False)
                try:
                    runs = await pop_runs(queen, request)
                except errors.QueueNotFound:
                    continue  # The queue does not exist yet.
                messages = messages_of(queen, runs, handler.type)
                if messages:
                    dispatcher = queen.consumers.dispatcher(handler)
                    try:
                        await dispatcher.dispatch(messages)
                    finally:
                        dispatcher.close()
                    count += len(messages)
            if count == before:
                return count
        raise AssertionError(f"handlers still push to each other after {_MOST_ROUNDS} rounds")
    finally:
        _is_draining.reset(token)


@contextmanager
def inline(queen: Queen) -> Generator[None]:
    """
    Run the registered handlers in each push in the block, before the push returns.

    Usage::

        with inline(queen):
            await place_order(…)  # Pushes; its handlers have run when this returns.
    """
    ordinary = queen.transport
    queen.transport = _Inline(queen, ordinary)
    try:
        yield
    finally:
        queen.transport = ordinary


class _Inline:
    """Runs handlers after each push that does not come from a handler."""

    def __init__(self, queen: Queen, inner: Transport) -> None:
        self._queen = queen
        self._inner = inner

    async def open(self) -> None:
        await self._inner.open()

    async def close(self) -> None:
        await self._inner.close()

    async def exchange(self, method: str, path: str, *body: Any, **options: Any) -> Reply:  # noqa: ANN401 - of Transport
        reply = await self._inner.exchange(method, path, *body, **options)
        if path in _PUSHING and not _is_draining.get():
            await drain(self._queen)
        return reply
