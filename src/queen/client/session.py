"""The state of a client: its connections, buffers, registered handlers and consumers."""

import asyncio
import atexit
import logging
import os
import time
import warnings
import weakref
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from queen.client.consume.consumer import Consumers
from queen.client.consume.dispatch import Handler
from queen.client.consume.settle import Settler
from queen.client.push.buffer_pool import Buffers
from queen.client.push.push import Pusher
from queen.client.transport.base import Transport

_LOG: Final = logging.getLogger("queen.client")


class Session(Pusher, Settler):
    """A client without its builders: everything that queues and transactions use."""

    def __init__(
        self,
        where: "str | Sequence[str] | Mapping[str, Any] | None" = None,
        *,
        transport: Transport | None = None,
        **options: Any,  # noqa: ANN401 - fields of Config
    ) -> None:
        super().__init__(where, transport=transport, **options)
        self.buffers = Buffers(self)
        """The buffers of `Queue.buffer`."""
        self.consumers = Consumers(self)
        """The running consumers."""
        self.handlers: list[Handler] = []
        """Registered handlers, which `run` consumes with."""
        self._stop: asyncio.Event | None = None
        self._now: asyncio.Event | None = None
        """Set when `run` must cancel its handlers."""
        _ALL.add(self)
        if os.environ.get("QUEEN_CLIENT_LOG", "").lower() in ("1", "true", "yes"):
            _log_to_stderr()
        _LOG.info("client.initialized: %d servers", len(self.config.urls))

    async def __aenter__(self) -> Self:
        await self.transport.open()
        self.buffers.is_closed = False
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """
        Stop consumers, flush buffers, close connections. Raises PushError with unstored messages.

        Handlers in threads have ``close_timeout`` to end. After that, their leases expire.
        """
        ends = await self.consumers.stop()
        try:
            await self.buffers.close()
        finally:
            is_now = self._now is not None and self._now.is_set()
            await self.consumers.wait_for_threads(0 if is_now else self.config.close_timeout)
            await self.transport.close()
        for end in ends:
            if isinstance(end, BaseException):
                raise end

    def __del__(self) -> None:
        if hasattr(self, "buffers"):
            self.warn_of_loss()

    def after_fork(self) -> None:
        """In the child process: leave buffered messages and consumers to the parent."""
        self.buffers = Buffers(self)
        self.consumers = Consumers(self)
        self._producers.clear()  # The parent continues their numbers.

    def warn_of_loss(self) -> None:
        """Warn about buffered messages of a client that ends without `close`."""
        if count := self.buffers.messages:
            self.buffers = Buffers(self)
            text = (
                f"{count} buffered messages are lost, because a Queen was not closed. Call close()."
            )
            _LOG.error("buffer.lost: %s", text)
            warnings.warn(text, ResourceWarning, source=self, stacklevel=2)


_ALL: Final[weakref.WeakSet[Session]] = weakref.WeakSet()


def _after_fork() -> None:
    for session in list(_ALL):
        session.after_fork()


def _at_exit() -> None:
    for session in list(_ALL):
        session.warn_of_loss()


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


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
