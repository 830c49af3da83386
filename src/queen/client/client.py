"""`Queen`: the way into the SDK."""

import asyncio
import atexit
import logging
import os
import time
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property, partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, overload

from queen.client import runner
from queen.client.config import Config
from queen.client.consume.consumer import Consumption
from queen.client.consume.settle import Settling
from queen.client.push.buffer_pool import Buffers
from queen.client.push.push import Pushing
from queen.client.queue import Queue
from queen.client.transaction import Transaction
from queen.client.transport.base import Transport

if TYPE_CHECKING:
    from queen.client.admin.admin import Admin

T = TypeVar("T")

_LOG: Final = logging.getLogger("queen.client")


class Queen(Pushing, Settling):
    """
    A client. Making one does no I/O, needs no event loop and touches no signal.

    Usage::

        async with Queen("http://localhost:6632") as queen:
            await queen.queue("orders").push([{"data": {"total": 12}}])
    """

    def __init__(
        self,
        where: "str | Sequence[str] | Mapping[str, Any] | None" = None,
        *,
        transport: Transport | None = None,
        **options: Any,  # noqa: ANN401 - fields of Config
    ) -> None:
        super().__init__(where, transport=transport, **options)
        self.buffers = Buffers(self)
        self.handlers: list[tuple[Queue[Any], Callable[[Any], Any]]] = []
        """What `run` consumes, by `handler`."""
        self.consumptions: set[Consumption] = set()
        """What is being consumed now."""
        self._outlasting: set[asyncio.Task[None]] = set()
        """Plain handlers whose thread goes on after their consumer has ended."""
        self._stop: asyncio.Event | None = None
        self._now: asyncio.Event | None = None
        _ALL.add(self)
        if os.environ.get("QUEEN_CLIENT_LOG", "").lower() in ("1", "true", "yes"):
            _log_to_stderr()
        _LOG.info("client.initialized: %d servers", len(self.config.urls))

    @classmethod
    def from_env(cls) -> Self:
        """A client as QUEEN_BASE_URL and the CLIENT_ variables say."""
        config = Config.from_env()
        return cls({name: getattr(config, name) for name in config.__struct_fields__})

    async def __aenter__(self) -> Self:
        await self.transport.open()
        self.buffers.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """
        Stop consumers, flush buffers (or raise with what is left), close connections.

        Handlers in threads that go on have ``close_timeout`` to end; then their leases run out.
        """
        stops = [each.stop() for each in list(self.consumptions)]
        ends = await asyncio.gather(*stops, return_exceptions=True)
        try:
            await self.buffers.close()
        finally:
            await self._outlast()
            await self.transport.close()
        for end in ends:
            if isinstance(end, BaseException):
                raise end

    def __del__(self) -> None:
        if hasattr(self, "buffers"):
            self.warn_of_loss()

    # Queues.

    @cached_property
    def admin(self) -> "Admin":
        """Everything that an operator may do."""
        from queen.client.admin.admin import Admin  # Many structs: not before they are used.

        return Admin(self)

    @overload
    def queue(self, name: str | None = None) -> Queue[Any]: ...
    @overload
    def queue(self, name: str | None = None, *, type: type[T]) -> Queue[T]: ...
    def queue(self, name: str | None = None, *, type: type[Any] | None = None) -> Queue[Any]:
        """A queue by name; without, whatever ``namespace`` and ``task`` say."""
        return Queue(queen=self, name=name, type=type)

    def transaction(self) -> Transaction:
        return Transaction(queen=self)

    # Buffers.

    async def flush_all_buffers(self) -> None:
        """Send what is buffered, and wait until it is stored."""
        await self.buffers.here().flush_all()

    def get_buffer_stats(self) -> dict[str, Any]:
        """How much waits in buffers, and how their flushes went."""
        return self.buffers.stats()

    # Handlers.

    async def run(self, *, handle_signals: bool = False) -> None:
        """
        Run all registered handlers until `stop`; with ``handle_signals`` until SIGTERM or SIGINT.

        Then nothing new is popped, handlers end in ``shutdown_timeout``, what is left is released,
        and buffers are flushed within ``close_timeout``, or PushError says what is left. A second
        signal gives handlers and buffers no more time.
        """
        self._stop, self._now = asyncio.Event(), asyncio.Event()
        await runner.run(self, self._stop, self._now, handle_signals=handle_signals)

    def stop(self, *, now: bool = False) -> None:
        """Let `run` end: what is being handled is finished, or with ``now`` cancelled."""
        if self._stop is not None:
            self._stop.set()
        if now:
            if self._now is not None:
                self._now.set()
            runner.stop_now(self)

    @property
    def is_stopping(self) -> bool:
        """Whether `run` was told to end."""
        return self._stop is not None and self._stop.is_set()

    @overload
    def lifespan(self, app: object) -> AbstractAsyncContextManager[dict[str, Any]]: ...
    @overload
    def lifespan(
        self, *, workers: bool = False
    ) -> "Callable[[object], AbstractAsyncContextManager[dict[str, Any]]]": ...
    def lifespan(self, app: object = None, *, workers: bool = False) -> Any:
        """
        For FastAPI and Starlette: ``FastAPI(lifespan=queen.lifespan)``.

        With ``lifespan=queen.lifespan(workers=True)`` the registered handlers run inside the app.
        Requests find the client as ``request.state.queen``.
        """
        if app is None:
            return partial(runner.lifespan, self, workers=workers)
        return runner.lifespan(self, app, workers=workers)

    def dependency(self) -> "Queen":
        """For FastAPI: ``Annotated[Queen, Depends(queen.dependency)]``."""
        return self

    # For the other parts of the SDK.

    def after_fork(self) -> None:
        """In the child: what is buffered is the parent's to send, and so are its consumers."""
        self.buffers = Buffers(self)
        self.consumptions = set()
        self._outlasting = set()
        self._producers.clear()  # The parent goes on with their numbers.

    def warn_of_loss(self) -> None:
        """Say how much is lost with a client that ends without `close`."""
        if count := self.buffers.messages:
            self.buffers = Buffers(self)
            text = f"{count} buffered messages are lost: a Queen ended without close()"
            _LOG.error("buffer.lost: %s", text)
            warnings.warn(text, ResourceWarning, source=self, stacklevel=2)

    def began(self, consumption: Consumption) -> None:
        self.consumptions.add(consumption)

    def ended(self, consumption: Consumption) -> None:
        self.consumptions.discard(consumption)

    def outlasts(self, work: "asyncio.Task[None]") -> None:
        """Remember what goes on after its consumer has ended."""
        self._outlasting.add(work)
        work.add_done_callback(self._outlasting.discard)

    async def _outlast(self) -> None:
        """Give threads that still work their time; after a second signal they have none."""
        loop = asyncio.get_running_loop()
        works = [work for work in self._outlasting if work.get_loop() is loop]
        if not works:
            return
        is_now = self._now is not None and self._now.is_set()
        await asyncio.wait(works, timeout=0 if is_now else self.config.close_timeout)
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)


_ALL: Final[weakref.WeakSet[Queen]] = weakref.WeakSet()


def _after_fork() -> None:
    for queen in list(_ALL):
        queen.after_fork()


def _at_exit() -> None:
    for queen in list(_ALL):
        queen.warn_of_loss()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)


def _log_to_stderr() -> None:
    if not _LOG.handlers:
        handler = logging.StreamHandler()
        form = logging.Formatter(
            "[%(asctime)s.%(msecs)03dZ] [%(levelname)s] [%(name)s] %(message)s", "%Y-%m-%dT%H:%M:%S"
        )
        form.converter = time.gmtime
        handler.setFormatter(form)
        _LOG.addHandler(handler)
        _LOG.setLevel(logging.DEBUG)
