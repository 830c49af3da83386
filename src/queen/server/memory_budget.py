"""Limits for the memory of all requests of one process together."""

from typing import Protocol

from queen import errors


class Budget:
    """Bytes in use, up to a limit. The user must return all of them."""

    __slots__ = ("limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0

    @property
    def is_exhausted(self) -> bool:
        return self.used_bytes >= self.limit_bytes

    def take(self, size_bytes: int) -> None:
        """Count these bytes, even beyond the limit."""
        self.used_bytes += size_bytes

    def give_back(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes


class Abortable(Protocol):
    """A connection."""

    def abort(self) -> None: ...


class Unsent:
    """
    Responses that clients have not read yet.

    Beyond the limit, the connection with the longest time since its last read is aborted.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.budget = Budget(limit_bytes)
        self._waiting: dict[Abortable, int] = {}
        """Bytes by connection, the longest time without a read first."""

    def note(self, connection: Abortable, size_bytes: int) -> None:
        """Set the unsent bytes of a connection."""
        if self._waiting.get(connection) == size_bytes:
            return
        self.forget(connection)
        self._waiting[connection] = size_bytes
        self.budget.take(size_bytes)
        while self.budget.used_bytes > self.budget.limit_bytes and len(self._waiting) > 1:
            slowest = next(iter(self._waiting))
            self.forget(slowest)
            slowest.abort()

    def forget(self, connection: Abortable) -> None:
        """Remove a connection: everything is sent, or it is closed."""
        self.budget.give_back(self._waiting.pop(connection, 0))

    def require_room(self) -> None:
        """Raise TooManyBytes, before messages are leased that could not be sent."""
        if self.budget.is_exhausted:
            raise errors.TooManyBytes(
                "Clients of this process have not read their responses, and these use all the "
                "memory for them. Try again later."
            )


class Share:
    """
    The memory of one request.

    Small requests always get their memory, so that a few large ones cannot block all others. The
    same applies to a request that is the only one.
    """

    __slots__ = ("_budget", "size_bytes")

    SMALL_BYTES = 2**16

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.size_bytes = 0

    def take(self, size_bytes: int) -> None:
        """Count more bytes; raises TooManyBytes if they do not fit."""
        self.size_bytes += size_bytes
        budget = self._budget
        budget.used_bytes += size_bytes
        if (
            budget.used_bytes > budget.limit_bytes
            and self.size_bytes > self.SMALL_BYTES
            and self.size_bytes < budget.used_bytes
        ):
            raise errors.TooManyBytes(
                "The requests in progress use all the memory that this process allows them. "
                "Try again later, or send smaller requests."
            )

    def give_back(self) -> None:
        self._budget.used_bytes -= self.size_bytes
        self.size_bytes = 0
