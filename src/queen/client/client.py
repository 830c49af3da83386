"""`Queen`: the entry point of the SDK."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, overload

import msgspec

from queen.client import runner
from queen.client.config import Config
from queen.client.queue import Queue
from queen.client.session import Session
from queen.client.transaction import Transaction

if TYPE_CHECKING:
    from queen.client.admin.admin import Admin

T = TypeVar("T")


class Queen(Session):
    """
    A client. Creating one does no I/O, needs no event loop and installs no signal handler.

    Usage::

        async with Queen("http://localhost:6632") as queen:
            await queen.queue("orders").push([{"data": {"total": 12}}])
    """

    @classmethod
    def from_env(cls) -> Self:
        """A client configured by QUEEN_BASE_URL and the CLIENT_ variables."""
        return cls(msgspec.structs.asdict(Config.from_env()))

    # Queues.

    @cached_property
    def admin(self) -> "Admin":
        """The admin API."""
        from queen.client.admin.admin import Admin  # Has many structs: loaded on first use.

        return Admin(self)

    @overload
    def queue(self, name: str | None = None) -> Queue[Any]: ...
    @overload
    def queue(self, name: str | None = None, *, type: type[T]) -> Queue[T]: ...
    def queue(self, name: str | None = None, *, type: type[Any] | None = None) -> Queue[Any]:
        """Select a queue by name; without a name, all queues of a ``namespace`` and ``task``."""
        return Queue(queen=self, name=name, type=type)

    def transaction(self, *, across_shards: Literal["reject", "outbox"] = "reject") -> Transaction:
        """
        Start a transaction of acks and pushes. Its `commit` sends it.

        ``across_shards``: with several databases, pushes to other ones than that of the acks are
        rejected, or sent through the outbox, so that they arrive a little later.
        """
        return Transaction(queen=self, across_shards=across_shards)

    # Buffers.

    async def flush_all_buffers(self) -> None:
        """Send all buffered messages, and wait until they are stored."""
        await self.buffers.here().flush_all()

    def get_buffer_stats(self) -> dict[str, Any]:
        """Return the number of buffered messages, and counts of their flushes."""
        return self.buffers.stats()

    # Handlers.

    async def run(self, *, handle_signals: bool = False) -> None:
        """
        Run all registered handlers until `stop`; with ``handle_signals`` until SIGTERM or SIGINT.

        Then the client stops popping, waits up to ``shutdown_timeout`` for handlers, releases the
        other messages, and flushes buffers within ``close_timeout``. Raises PushError with messages
        that could not be stored. A second signal cancels handlers and flushes immediately.
        """
        self._stop, self._now = stop, now = asyncio.Event(), asyncio.Event()
        # The first signal asks handlers to finish, the second cancels them.
        on_signal = (lambda: self.stop(now=stop.is_set())) if handle_signals else None
        await runner.run(self, stop, now, on_signal=on_signal)

    def stop(self, *, now: bool = False) -> None:
        """End `run`: handlers finish their messages, or with ``now`` are cancelled."""
        if self._stop is not None:
            self._stop.set()
        if now:
            if self._now is not None:
                self._now.set()
            self.consumers.stop_now()

    @property
    def is_stopping(self) -> bool:
        """Whether `stop` was called."""
        return self._stop is not None and self._stop.is_set()

    @overload
    def lifespan(self, app: object) -> AbstractAsyncContextManager[dict[str, Any]]: ...
    @overload
    def lifespan(
        self, *, workers: bool = False
    ) -> "Callable[[object], AbstractAsyncContextManager[dict[str, Any]]]": ...
    def lifespan(self, app: object = None, *, workers: bool = False) -> Any:
        """
        The lifespan for FastAPI and Starlette: ``FastAPI(lifespan=queen.lifespan)``.

        With ``lifespan=queen.lifespan(workers=True)`` the registered handlers run inside the app.
        Requests find the client as ``request.state.queen``.
        """
        if app is None:
            return partial(runner.lifespan, self, workers=workers)
        return runner.lifespan(self, app, workers=workers)

    def dependency(self) -> "Queen":
        """The dependency for FastAPI: ``Annotated[Queen, Depends(queen.dependency)]``."""
        return self
