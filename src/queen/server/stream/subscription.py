"""A subscription: pops that the server repeats while the client grants credit."""

import asyncio
from typing import Final, Protocol

from msgspec import structs

from queen.server.http.answer import Answer
from queen.server.routes.messaging.pop import Popped
from queen.server.stream.operations import ConsumeRequest

_MOST_POPS: Final = 16
"""Pops in progress per subscription. Each waits, so more of them would only use memory."""
_EMPTY: Final = b'"messages":[]}'


class Owner(Protocol):
    """The stream of a subscription."""

    @property
    def has_room(self) -> bool:
        """Whether the client reads what it receives, and may have more waiting pops."""
        ...

    def start_pop(self, id_: int, request: ConsumeRequest) -> "asyncio.Task[Answer | None]":
        """Start a pop of a subscription."""
        ...

    def deliver(self, id_: int, answer: Answer, body: bytes) -> None:
        """Send the messages of a pop."""
        ...

    def fail(self, id_: int, error: BaseException) -> None:
        """End a subscription with a problem."""
        ...

    def finish(self, id_: int) -> None:
        """Confirm the end of a subscription."""
        ...


class Subscription:
    """
    One `consume` operation.

    It holds at most its credit in messages that the client received and has not granted again. A
    pop reserves the credit for its batch, and returns the part that it did not use.
    """

    __slots__ = ("_credit", "_owner", "_pops", "id", "is_ending", "request")

    def __init__(self, owner: Owner, id_: int) -> None:
        self._owner = owner
        self.id = id_
        self.request: ConsumeRequest | None = None
        """None until it is decoded. Credit may arrive before that."""
        self._credit = 0
        """Messages that no pop has reserved."""
        self._pops: set[asyncio.Task[Answer | None]] = set()
        self.is_ending = False

    def begin(self, request: ConsumeRequest) -> None:
        """Start with a decoded request."""
        self.request = structs.replace(request, wait=True)
        if self.is_ending:
            self._owner.finish(self.id)
        else:
            self.grant(request.credit)

    def grant(self, messages: int) -> None:
        """Allow more messages."""
        self._credit += messages
        self.fill()

    def fill(self) -> None:
        """Start a pop for each batch that the credit covers."""
        if self.request is None:
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
            pop = self._owner.start_pop(self.id, structs.replace(self.request, batch=size))
            self._pops.add(pop)
            pop.add_done_callback(self._done(size))

    def end(self) -> None:
        """Start no more pops. The caller ends those that wait."""
        self.is_ending = True
        if not self._pops and self.request is not None:
            self._owner.finish(self.id)

    def _done(self, size: int):  # noqa: ANN202 - a callback
        def done(pop: "asyncio.Task[Answer | None]") -> None:
            self._pops.discard(pop)
            self._take(pop, size)

        return done

    def _take(self, pop: "asyncio.Task[Answer | None]", size: int) -> None:
        """Send the result of a pop, and use its remaining credit again."""
        answer = None
        if not pop.cancelled():
            if (error := pop.exception()) is not None:
                if not self.is_ending:
                    self.is_ending = True
                    self._owner.fail(self.id, error)
                return
            answer = pop.result()
        if answer is not None:
            count = answer.messages if isinstance(answer, Popped) else 0
            self._credit += size - count
            self._owner.deliver(self.id, answer, _body(answer))
        if not self.is_ending:
            self.fill()
        elif not self._pops:
            self._owner.finish(self.id)


def _body(answer: Answer) -> bytes:
    if answer.body is not None:
        return answer.body[1:]
    reason = (answer.headers or {}).get("Queen-Reason")
    return _EMPTY if reason is None else b'"messages":[],"reason":"%b"}' % reason.encode()
