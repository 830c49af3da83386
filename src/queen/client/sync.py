"""The same client for code without ``await``: a private event loop in a thread of its own."""

import asyncio
import inspect
import os
import threading
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Self, TypeVar

from queen.client.client import Queen
from queen.client.message import Message
from queen.client.queue import Queue
from queen.client.transaction import Transaction

T = TypeVar("T")


class SyncQueen:
    """
    `Queen` without ``await``: the same names, the same answers.

    Usage::

        with SyncQueen("http://localhost:6632") as queen:
            queen.queue("orders").push([{"data": {"total": 12}}])
            for message in queen.queue("orders").batch(10).pop():
                queen.ack(message)

    Handlers given to ``consume`` may be plain functions: they run in threads. After a fork the
    child starts a loop of its own.
    """

    def __init__(self, *where: Any, **options: Any) -> None:  # noqa: ANN401 - as Queen takes them
        self._made = (where, options)
        self._loop = _Loop()
        self._queen = Queen(*where, **options)
        self._pid = os.getpid()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop consumers, flush buffers, close connections, end the thread."""
        self._loop.run(self._queen.close())
        self._loop.stop()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever Queen has
        if os.getpid() != self._pid:
            # Threads do not survive a fork, and neither do connections that the parent uses.
            self._loop, self._pid = _Loop(), os.getpid()
            self._queen = Queen(*self._made[0], **self._made[1])
        return _plain(getattr(self._queen, name), self._loop)


class _Facade:
    """A handle whose last word waits for its answer."""

    def __init__(self, inner: Any, loop: "_Loop") -> None:  # noqa: ANN401 - Queue, Message …
        self._inner = inner
        self._loop = loop

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the inner one has
        return _plain(getattr(self._inner, name), self._loop)

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - of a message
        return _plain(self._inner[name], self._loop)

    def __repr__(self) -> str:
        return repr(self._inner)


class _Loop:
    """An event loop in a thread, started when it is first needed."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for the answer; Ctrl-C cancels the work."""
        future = asyncio.run_coroutine_threadsafe(work, self._started())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        with self._lock:
            if self._loop is not None and self._thread is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop.close()
                self._loop = self._thread = None

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="queen", daemon=True
                )
                self._thread.start()
            return self._loop


def _plain(value: Any, loop: _Loop) -> Any:  # noqa: ANN401 - of many types
    """What a caller without a loop can use of a value."""
    if isinstance(value, Queue | Transaction | Message):
        return _Facade(value, loop)
    if isinstance(value, list):
        return [_plain(each, loop) for each in value]  # pyright: ignore[reportUnknownVariableType]
    if callable(value) and not isinstance(value, type):
        return _waiting(value, loop)
    return value


def _waiting(function: Callable[..., Any], loop: _Loop) -> Callable[..., Any]:
    @wraps(function)
    def call(*given: Any, **options: Any) -> Any:  # noqa: ANN401 - as the function takes them
        result = function(
            *(_inner(each, loop) for each in given),
            **{name: _inner(each, loop) for name, each in options.items()},
        )
        if inspect.iscoroutine(result):
            result = loop.run(result)
        return _plain(result, loop)

    return call


def _inner(value: Any, loop: _Loop) -> Any:  # noqa: ANN401 - of many types
    """The way back: facades are opened, and plain functions run in threads."""
    if isinstance(value, _Facade):
        return value._inner  # pyright: ignore[reportPrivateUsage] - of this file
    if isinstance(value, list):
        return [_inner(each, loop) for each in value]  # pyright: ignore[reportUnknownVariableType]
    if inspect.isfunction(value) and not inspect.iscoroutinefunction(value):

        async def threaded(*given: Any) -> Any:  # noqa: ANN401 - a handler
            return await asyncio.to_thread(value, *(_plain(each, loop) for each in given))

        return threaded
    return value
