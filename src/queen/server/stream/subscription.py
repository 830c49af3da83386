"""A subscription: pops that the server repeats while the client grants credit."""

import asyncio
from typing import Final, Protocol

from msgspec import structs

from queen.server.http.answer import Answer
from queen.server.routes.messaging.pop import PopAnswered
from queen.server.stream.operations import ConsumeRequest

_MOST_POPS: Final = 16
"""Pops in progress per subscription. Each waits, so more of them would only use memory."""
_MIN_WAIT_SECONDS: Final = 1.0
"""A pop without messages takes at least this long, so an idle subscription sends few frames."""
_EMPTY: Final = b'"messages":[]}'


class Owner(Protocol):
    """The stream of a subscription."""

    @property
    def has_room(self) -> bool:
        """Whether the client reads what it receives, and may have more waiting pops."""
        ...

    def start_pop(
        self, subscription: "Subscription", request: ConsumeRequest
    ) -> "asyncio.Task[Answer | None]":
        """Start a pop of a subscription."""
        ...

    def deliver(self, subscription: "Subscription", answer: Answer, body: bytes) -> None:
        """Send the messages of a pop."""
        ...

    def fail(self, subscription: "Subscription", error: BaseException) -> None:
        """End a subscription with a problem."""
        ...

    def finish(self, subscription: "Subscription") -> None:
        """Confirm the end of a subscription."""
        ...


class Subscription:
    """
    One `consume` operation.

    It holds at most its credit in messages that the client received and has not granted again. A
    pop reserves the credit for its batch, and returns the part that it did not use.
    """

    __slots__ = ("_credit", "_error", "_owner", "_pops", "_rest", "id", "is_ending", "request")

    def __init__(self, owner: Owner, id_: int) -> None:
        self._owner = owner
        self.id = id_
        self.request: ConsumeRequest | None = None
        """None until it is decoded. Credit may arrive before that."""
        self._credit = 0
        """Messages that no pop has reserved."""
        self._pops: set[asyncio.Task[Answer | None]] = set()
        self._rest: asyncio.TimerHandle | None = None
        """Set after a pop that returned no messages at once, until pops start again."""
        self._error: BaseException | None = None
        """The error of a pop that failed while the subscription was ending."""
        self.is_ending = False

    def begin(self, request: ConsumeRequest) -> None:
        """Start with a decoded request."""
        timeout = request.timeout
        if timeout is not None:
            timeout = max(timeout, int(_MIN_WAIT_SECONDS * 1000))
        self.request = structs.replace(request, wait=True, timeout=timeout)
        if self.is_ending:
            self._owner.finish(self)
        else:
            self.grant(request.credit)

    def grant(self, messages: int) -> None:
        """Allow more messages."""
        self._credit += messages
        self.fill()

    def fill(self) -> None:
        """Start a pop for each batch that the credit covers."""
        if self.request is None or self._rest is not None:
            return
        batch = self.request.batch or 1
        while (
            self._credit
            and len(self._pops) < _MOST_POPS
            and not self.is_ending
            and self._owner.has_room
        ):
            size = min(batch, self._credit)
            self._credit -= size
            pop = self._owner.start_pop(self, structs.replace(self.request, batch=size))
            self._pops.add(pop)
            pop.add_done_callback(self._done(size))

    def _resume(self) -> None:
        self._rest = None
        self.fill()

    def end(self) -> None:
        """Start no more pops. The caller ends those that wait."""
        self.is_ending = True
        if self._rest is not None:
            self._rest.cancel()
        if not self._pops and self.request is not None:
            self._finish()

    def _done(self, size: int):  # noqa: ANN202 - a callback
        began = asyncio.get_running_loop().time()

        def done(pop: "asyncio.Task[Answer | None]") -> None:
            self._pops.discard(pop)
            if pop.cancelled() or (error := pop.exception()) is None:
                self._take(None if pop.cancelled() else pop.result(), size, began)
            elif self.is_ending:
                self._error = error
            else:
                self.is_ending = True
                self._owner.fail(self, error)
            if not self.is_ending:
                self.fill()
            elif not self._pops:
                self._finish()

        return done

    def _take(self, answer: Answer | None, size: int, began: float) -> None:
        """Send the result of a pop, and use its remaining credit again."""
        if answer is None:
            return
        is_empty = not isinstance(answer, PopAnswered)
        self._credit += size if is_empty else size - answer.messages
        if is_empty:
            if self._rest is not None:
                return  # The client knows it from another pop.
            loop = asyncio.get_running_loop()
            if not self.is_ending and (rest := began + _MIN_WAIT_SECONDS - loop.time()) > 0:
                self._rest = loop.call_later(rest, self._resume)
        self._owner.deliver(self, answer, _body(answer))

    def _finish(self) -> None:
        """Confirm the end after the last pop, or report a pop that failed meanwhile."""
        if self._error is None:
            self._owner.finish(self)
        else:
            self._owner.fail(self, self._error)


def _body(answer: Answer) -> bytes:
    if answer.body is not None:
        return answer.body[1:]
    reason = (answer.headers or {}).get("Queen-Reason")
    return _EMPTY if reason is None else b'"messages":[],"reason":"%b"}' % reason.encode()
