"""The leases of what a consumer is handling: renewed in time, and noticed when they are lost."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from queen import errors
from queen.client.message import Message

if TYPE_CHECKING:
    from queen.client.client import Queen

_SHARE: Final = 3
"""A lease is renewed this many times in its length: two renewals may fail."""
_LEAST_SECONDS: Final = 0.05
_MOST: Final = 5_000
"""Leases of one renewal."""


class _Lease:
    """One lease, its messages, and who works on them just now."""

    __slots__ = ("interval", "messages", "renew_at", "task")

    def __init__(self, messages: list[Message[Any]], interval: float) -> None:
        self.messages = messages
        self.interval = interval
        self.renew_at = time.monotonic() + interval
        self.task: asyncio.Task[Any] | None = None


class Leases:
    """
    What one consumer holds.

    Usage::

        held = leases.hold(messages)
        leases.work(held, task)
        …
        leases.let_go(held)
    """

    def __init__(
        self,
        queen: "Queen",
        *,
        seconds: float | None,
        interval_millis: int | None,
        on_lost: "Callable[[list[Message[Any]]], None] | None",
    ) -> None:
        self._queen = queen
        self._seconds = seconds
        self._interval = None if interval_millis is None else interval_millis / 1000
        self._on_lost = on_lost
        self._held: dict[str, _Lease] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, messages: Sequence[Message[Any]]) -> list[str]:
        """From now on these are renewed; their leases."""
        found = by_lease(messages)
        for id_, group in found.items():
            seconds = self._seconds or group[0].lease_seconds
            interval = self._interval or max(seconds / _SHARE, _LEAST_SECONDS)
            self._held[id_] = _Lease(group, interval)
        self._changed.set()
        return list(found)

    def let_go(self, lease_ids: Iterable[str]) -> None:
        for id_ in lease_ids:
            self._held.pop(id_, None)

    def work(self, lease_ids: Iterable[str], task: "asyncio.Task[Any] | None") -> None:
        """Say who works under these: it is cancelled when one of them is lost."""
        for id_ in lease_ids:
            if (lease := self._held.get(id_)) is not None:
                lease.task = task

    async def renew_for_ever(self) -> None:
        """One call for all leases that are held, well before the first of them ends."""
        while True:
            self._changed.clear()
            due = min((lease.renew_at for lease in self._held.values()), default=None)
            wait = None if due is None else max(due - time.monotonic(), 0.0)
            if wait != 0.0:
                # A lease that comes meanwhile may be shorter than those that are here.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._changed.wait()
                continue
            await self._renew()

    async def _renew(self) -> None:
        ids = list(self._held)
        for first in range(0, len(ids), _MOST):
            await self._renew_part(ids[first : first + _MOST])

    async def _renew_part(self, ids: list[str]) -> None:
        given = {id_: lease for id_ in ids if (lease := self._held.get(id_)) is not None}
        try:
            ends = await self._queen.extend(list(given), seconds=self._seconds)
        except errors.QueenError:
            ends = None  # Asked again soon: until its end a lease is ours.
        now = time.monotonic()
        for id_, lease in given.items():
            lease.renew_at = now + lease.interval / (1 if ends is not None else _SHARE)
            if ends is not None and ends.get(id_) is None and id_ in self._held:
                self._lose(lease)
                del self._held[id_]

    def _lose(self, lease: _Lease) -> None:
        """Another consumer has it now: whoever works on it is stopped or told."""
        for message in lease.messages:
            message.is_lost = True
        if self._on_lost is not None:
            self._on_lost(lease.messages)
        elif lease.task is not None:
            lease.task.cancel()


def by_lease(messages: Iterable[Message[Any]]) -> dict[str, list[Message[Any]]]:
    """Messages under their leases; those that were settled by their pop have none."""
    found: dict[str, list[Message[Any]]] = {}
    for message in messages:
        id_ = message.lease_id
        if id_ is not None:
            if id_ in found:
                found[id_].append(message)
            else:
                found[id_] = [message]
    return found
