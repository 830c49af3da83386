"""The same client for code without ``await``: an event loop in a separate thread."""

import asyncio
import atexit
import inspect
import logging
import os
import signal
import threading
import weakref
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager
from functools import wraps
from typing import Any, Final, Generic, Self, TypeVar

import msgspec

from queen.client.admin.admin import Admin
from queen.client.admin.dead_letters import DeadLetters
from queen.client.client import Queen
from queen.client.config import Config
from queen.client.consume.consumer import Consumption
from queen.client.consume.dispatch import is_async
from queen.client.message import Message
from queen.client.push.buffered import Buffered
from queen.client.queue import BufferedQueue, Queue
from queen.client.transaction import Transaction

T = TypeVar("T")

_MOST_THREADS: Final = 1_000
_LOG: Final = logging.getLogger("queen.client")

_TAKES_HANDLER: Final = frozenset({"consume", "handler", "start"})
"""Methods whose argument is a handler, which the consumer runs in its own threads."""
_NEEDS_LOOP: Final = frozenset({"start"})
"""Plain functions that still need a running loop."""


class SyncQueen:
    """
    `Queen` without ``await``: the same names and results.

    Usage::

        with SyncQueen("http://localhost:6632") as queen:
            queen.queue("orders").push([{"data": {"total": 12}}])
            for message in queen.queue("orders").batch(10).pop():
                queen.ack(message)

    Handlers may be plain functions, which run in threads. After a fork, the child process starts
    its own loop and connections. Buffered messages stay with the parent.
    """

    def __init__(self, *where: Any, **options: Any) -> None:  # noqa: ANN401 - as Queen takes them
        self._loop = _Loop()
        self._queen = Queen(*where, **options)
        _ALL.add(self)

    @classmethod
    def from_env(cls) -> Self:
        """Create a client configured by QUEEN_BASE_URL and the CLIENT_ variables."""
        return cls(msgspec.structs.asdict(Config.from_env()))

    def __enter__(self) -> Self:
        self._loop.run(self._queen.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop consumers, flush buffers, close connections, end the thread."""
        try:
            self._loop.run(self._queen.close())
        finally:
            self._loop.stop()

    def run(self, *, handle_signals: bool = False) -> None:
        """Run all registered handlers until `stop`, or with ``handle_signals`` until SIGTERM."""
        numbers = (signal.SIGTERM, signal.SIGINT) if handle_signals else ()
        # Only the main thread receives signals, so it passes them to the loop's thread.
        before = {number: signal.signal(number, self._on_signal) for number in numbers}
        try:
            self._loop.run(self._queen.run())
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def stop(self, *, now: bool = False) -> None:
        """End `run`; with ``now`` handlers are cancelled."""
        self._loop.call(lambda: self._queen.stop(now=now))

    def after_fork(self) -> None:
        """Reset the loop in the child process."""
        self._loop.after_fork()

    def at_exit(self) -> None:
        """Store buffered messages of a client that was not closed."""
        if self._queen.buffers.messages:
            try:
                self._loop.run(self._queen.buffers.close())
            except Exception as error:
                _LOG.error("buffer.lost: at exit: %s", error)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever Queen has
        return _plain(getattr(self._queen, name), self._loop)

    def _on_signal(self, *_: object) -> None:
        self._loop.call(lambda: self._queen.stop(now=self._queen.is_stopping))


_ALL: Final[weakref.WeakSet[SyncQueen]] = weakref.WeakSet()


def _after_fork() -> None:
    for queen in list(_ALL):
        queen.after_fork()


def _at_exit() -> None:
    for queen in list(_ALL):
        queen.at_exit()


os.register_at_fork(after_in_child=_after_fork)
# `atexit` is too late: thread pools have stopped by then, and DNS lookups need one.
getattr(threading, "_register_atexit", atexit.register)(_at_exit)


class _Facade:
    """A handle whose coroutines are run on the client's loop."""

    def __init__(self, inner: Any, loop: "_Loop") -> None:  # noqa: ANN401 - Queue, Message …
        self._inner = inner
        self._loop = loop

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the inner one has
        return _plain(getattr(self._inner, name), self._loop)

    def __getitem__(self, name: Any) -> Any:  # noqa: ANN401 - of a message or a list
        return _plain(self._inner[name], self._loop)

    def __iter__(self) -> Iterator[Any]:
        return (_plain(each, self._loop) for each in self._inner)

    def __len__(self) -> int:
        return len(self._inner)

    def __hash__(self) -> int:
        return hash(self._inner)

    def __eq__(self, other: object) -> bool:
        return self._inner is (other._inner if isinstance(other, _Facade) else other)

    def __repr__(self) -> str:
        return repr(self._inner)


class SyncAdmin(_Facade):
    """`Admin` without ``await``; its lists are plain iterators."""


class SyncBuffered(_Facade, Sequence[Any]):
    """`Buffered` without ``await``."""


class SyncConsumption(_Facade):
    """`Consumption` without ``await``."""


class SyncDeadLetters(_Facade):
    """`DeadLetters` without ``await``."""


class SyncMessage(_Facade, Mapping[str, Any], Generic[T]):
    """`Message` without ``await``, as handlers of a `SyncQueen` get it."""


class SyncQueue(_Facade, Generic[T]):
    """`Queue` without ``await``."""


class SyncBufferedQueue(SyncQueue[T], Generic[T]):
    """`BufferedQueue` without ``await``."""


class SyncTransaction(_Facade):
    """`Transaction` without ``await``."""


_PARTS: Final[dict[type, type[_Facade]]] = {
    Admin: SyncAdmin,
    Buffered: SyncBuffered,
    BufferedQueue: SyncBufferedQueue,
    Consumption: SyncConsumption,
    DeadLetters: SyncDeadLetters,
    Message: SyncMessage,
    Queue: SyncQueue,
    Transaction: SyncTransaction,
}
"""The facades by class. Their types are in `sync.pyi`."""


class _Loop:
    """An event loop in a thread, started on first use."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._parents: list[object] = []

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for the result; Ctrl-C cancels the work."""
        future = asyncio.run_coroutine_threadsafe(work, self._started())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[[], object]) -> None:
        """Schedule a function on the loop."""
        self._started().call_soon_threadsafe(function)

    def stop(self) -> None:
        with self._lock:
            if self._loop is not None and self._thread is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)
                self._thread.join()
                self._loop.close()
                self._loop = self._thread = None

    def after_fork(self) -> None:
        """Drop the parent's loop without closing it: its thread did not survive the fork."""
        self._parents.append(self._loop)
        self._loop = self._thread = None
        self._lock = threading.Lock()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # Consumers limit their own concurrency.
                self._loop.set_default_executor(ThreadPoolExecutor(_MOST_THREADS, "queen-handler"))
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="queen", daemon=True
                )
                self._thread.start()
            return self._loop


def _plain(value: Any, loop: _Loop) -> Any:  # noqa: ANN401 - of many types
    """Wrap a value for callers without an event loop."""
    if (facade := _PARTS.get(value.__class__)) is not None:
        return facade(value, loop)
    if isinstance(value, list):
        return [_plain(each, loop) for each in value]  # pyright: ignore[reportUnknownVariableType]
    if hasattr(value, "__anext__"):
        return _iterated(value, loop)
    if isinstance(value, AbstractAsyncContextManager):
        return _entered(value, loop)  # pyright: ignore[reportUnknownArgumentType] - of anything
    if (original := getattr(value, "queen_original", None)) is not None:
        return original
    if callable(value) and not isinstance(value, type):
        return _waiting(value, loop)
    return value


def _waiting(function: Callable[..., Any], loop: _Loop) -> Callable[..., Any]:
    @wraps(function)
    def call(*given: Any, **options: Any) -> Any:  # noqa: ANN401 - as the function takes them
        is_handler = function.__name__ in _TAKES_HANDLER
        inner = [_inner(each, loop, is_handler=is_handler) for each in given]
        named = {name: _inner(each, loop, is_handler=is_handler) for name, each in options.items()}
        if function.__name__ in _NEEDS_LOOP:
            return _plain(loop.run(_called(function, *inner, **named)), loop)
        result = function(*inner, **named)
        if inspect.iscoroutine(result):
            result = loop.run(result)
        return _plain(result, loop)

    return call


async def _called(function: Callable[..., Any], *given: Any, **named: Any) -> Any:  # noqa: ANN401
    return function(*given, **named)


def _iterated(values: Any, loop: _Loop) -> Iterator[Any]:  # noqa: ANN401 - an async iterator
    while True:
        try:
            value = loop.run(values.__anext__())
        except StopAsyncIteration:
            return
        yield _plain(value, loop)


@contextmanager
def _entered(manager: "AbstractAsyncContextManager[Any]", loop: _Loop) -> Generator[Any]:
    value = loop.run(manager.__aenter__())  # pyright: ignore[reportArgumentType] - a coroutine
    try:
        yield _plain(value, loop)
    except BaseException as error:
        leaving: Any = manager.__aexit__(type(error), error, error.__traceback__)
        if not loop.run(leaving):
            raise
    else:
        leaving = manager.__aexit__(None, None, None)
        loop.run(leaving)


def _inner(value: Any, loop: _Loop, *, is_handler: bool) -> Any:  # noqa: ANN401 - of many types
    """Unwrap facades, and run plain functions in threads: the reverse of `_plain`."""
    if isinstance(value, _Facade):
        return value._inner  # pyright: ignore[reportPrivateUsage] - of this file
    if isinstance(value, asyncio.Event):
        raise TypeError(
            "An asyncio.Event cannot be set from another thread. Use a threading.Event."
        )
    if isinstance(value, list):
        values: list[Any] = value  # pyright: ignore[reportUnknownVariableType] - of anything
        return [_inner(each, loop, is_handler=is_handler) for each in values]
    if isinstance(value, tuple):
        parts: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType] - of anything
        return tuple(_inner(each, loop, is_handler=is_handler) for each in parts)
    # Also partials and objects with __call__, but not types, which include generic aliases.
    is_type = isinstance(value, type) or type(value).__module__ in ("typing", "types")
    if inspect.isroutine(value) or (callable(value) and not is_type):
        return _function(value, loop, is_handler=is_handler)
    return value


def _function(function: Callable[..., Any], loop: _Loop, *, is_handler: bool) -> Callable[..., Any]:
    """Wrap a handler or callback, so that it gets values without ``await``."""
    if is_async(function):
        return function

    @wraps(function)
    def plain(*given: Any) -> Any:  # noqa: ANN401 - messages, errors
        return function(*(_plain(each, loop) for each in given))

    @wraps(function)
    async def threaded(*given: Any) -> Any:  # noqa: ANN401 - messages, errors
        return await asyncio.to_thread(plain, *given)

    called: Callable[..., Any] = plain if is_handler else threaded
    # `handler` returns it, so that the decorated function stays unchanged.
    setattr(called, "queen_original", function)  # noqa: B010 - of no type
    return called
