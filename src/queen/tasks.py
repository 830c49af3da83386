"""Stop background tasks, and run coroutines without one."""

import asyncio
import contextlib
from asyncio.tasks import _enter_task, _leave_task  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportUnknownVariableType] - documented in "Extending asyncio"
from collections.abc import Coroutine
from typing import Any


async def stop(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel these tasks, and wait until they have ended. None: it has not started."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    for task in running:
        with contextlib.suppress(asyncio.CancelledError):
            await task


class InlineTask:
    """
    Run a coroutine in the current callback, until it waits for the first time.

    An asyncio task starts in a later iteration of the loop, which costs more than a short request.
    For the coroutine this is the current task: it can be cancelled, and it may use timeouts.
    Python 3.12 has the same as eager tasks.
    """

    __slots__ = ("_cancels", "_coroutine", "_is_cancel_due", "_loop", "_waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._coroutine: Coroutine[Any, Any, None] | None = None
        self._waiting: asyncio.Future[Any] | None = None
        self._is_cancel_due = False
        self._cancels = 0

    def start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run the coroutine. Call this once, from a callback and not from a task."""
        self._coroutine = coroutine
        self._step()

    @property
    def is_running(self) -> bool:
        """Whether the coroutine has started and not ended."""
        return self._coroutine is not None

    def ended(self, error: BaseException | None) -> None:
        """Subclasses override this: the coroutine has ended, maybe with an error."""

    def cancel(self, msg: object = None) -> bool:
        """Raise CancelledError where the coroutine waits."""
        if self._coroutine is None:
            return False
        self._cancels += 1
        if self._waiting is None or not self._waiting.cancel(msg):
            self._is_cancel_due = True
        return True

    def uncancel(self) -> int:
        """Take back one call of `cancel`. Returns how many remain."""
        self._cancels = max(0, self._cancels - 1)
        return self._cancels

    def cancelling(self) -> int:
        """Return how many calls of `cancel` remain."""
        return self._cancels

    def _step(self, _: object = None) -> None:
        """Run the coroutine until it waits or ends."""
        coroutine = self._coroutine
        assert coroutine is not None
        self._waiting = None
        this: Any = self  # Typed as asyncio's class.
        _enter_task(self._loop, this)
        try:
            if self._is_cancel_due:
                self._is_cancel_due = False
                waiting = coroutine.throw(asyncio.CancelledError())
            else:
                # A future that it waited for raises its own error.
                waiting = coroutine.send(None)
        except StopIteration:
            error = None
        except (Exception, asyncio.CancelledError) as raised:
            error = raised
        else:
            self._wait(waiting)
            return
        finally:
            _leave_task(self._loop, this)
        self._coroutine = None
        self.ended(error)

    def _wait(self, waiting: Any) -> None:  # noqa: ANN401 - whatever the coroutine yields
        if waiting is None:  # A bare yield, as in `asyncio.sleep(0)`.
            self._loop.call_soon(self._step)
            return
        # The protocol of `Future.__await__`.
        waiting._asyncio_future_blocking = False
        waiting.add_done_callback(self._step)
        self._waiting = waiting
        if self._is_cancel_due and waiting.cancel():
            self._is_cancel_due = False
