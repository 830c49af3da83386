"""`Queen`: the entry point of the SDK."""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, overload

from queen.client import runner
from queen.client.config import Config
from queen.client.queue import Queue
from queen.client.session import Session
from queen.client.transaction import Transaction
from queen.client.transport.base import Transport

if TYPE_CHECKING:
    from queen.client.admin.admin import Admin

T = TypeVar("T")

_LOG: Final = logging.getLogger("queen.client")


class Queen(Session):
    """
    A client. Creating one does no I/O, needs no event loop and installs no signal handler.

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
        self._stop: asyncio.Event | None = None
        if os.environ.get("QUEEN_CLIENT_LOG", "").lower() in ("1", "true", "yes"):
            _log_to_stderr()
        _LOG.info("client.initialized: %d servers", len(self.config.urls))

    @classmethod
    def from_env(cls) -> Self:
        """A client configured by QUEEN_BASE_URL and the CLIENT_ variables."""
        config = Config.from_env()
        return cls({name: getattr(config, name) for name in config.__struct_fields__})

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

    def transaction(self) -> Transaction:
        return Transaction(queen=self)

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
