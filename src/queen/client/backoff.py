"""Delays between the client's own attempts. The delay of failed messages is `queen.backoff`."""


class Backoff:
    """
    Delays that double with each failure, up to a limit.

    Usage::

        backoff = Backoff(first_seconds=0.1, max_seconds=5.0)
        while not await attempt():
            await asyncio.sleep(backoff.next())
    """

    __slots__ = ("_first", "_max", "_next")

    def __init__(self, *, first_seconds: float, max_seconds: float) -> None:
        self._first = self._next = first_seconds
        self._max = max_seconds

    def next(self) -> float:
        """Seconds to wait before the next attempt."""
        delay = self._next
        self._next = min(2 * delay, self._max)
        return delay

    def reset(self) -> None:
        """Start again with the first delay, after a success."""
        self._next = self._first
