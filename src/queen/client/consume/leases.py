"""The leases of the messages that a consumer handles: renew them, detect lost ones."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from queen import errors
from queen.client.consume.settle import Settler
from queen.client.message import Message

_SHARE: Final = 3
"""Renewals per lease duration: two of them may fail."""
_MIN_SECONDS: Final = 0.05
_MAX_LEASES: Final = 5_000
"""Leases per request."""


class _Lease(msgspec.Struct, eq=False):
    """One lease, its messages, and the task that handles them now."""

    messages: list[Message[Any]]
    interval: float
    renew_at: float
    task: asyncio.Task[Any] | None = None


class Leases:
    """
    The leases of one consumer.

    Usage::

        lease_ids = leases.add(messages)
        leases.set_task(lease_ids, task)
        …
        leases.remove(lease_ids)
    """

    def __init__(
        self,
        settler: Settler,
        *,
        seconds: float | None,
        interval_millis: int | None,
        on_lost: "Callable[[list[Message[Any]]], None] | None",
    ) -> None:
        self._settler = settler
        self._seconds = seconds
        self._interval = None if interval_millis is None else interval_millis / 1000
        self._on_lost = on_lost
        self._leases: dict[str, _Lease] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._leases)

    def add(self, messages: Sequence[Message[Any]]) -> list[str]:
        """Renew the leases of these messages from now on, and return their ids."""
        found = by_lease(messages)
        for id_, group in found.items():
            seconds = self._seconds or group[0].lease_seconds
            interval = self._interval or max(seconds / _SHARE, _MIN_SECONDS)
            self._leases[id_] = _Lease(group, interval, time.monotonic() + interval)
        self._changed.set()
        return list(found)

    def remove(self, lease_ids: Iterable[str]) -> None:
        for id_ in lease_ids:
            self._leases.pop(id_, None)

    def is_whole(self, lease_id: str, count: int) -> bool:
        """Whether a lease has this many messages."""
        lease = self._leases.get(lease_id)
        return lease is not None and len(lease.messages) == count

    def set_task(self, lease_ids: Iterable[str], task: "asyncio.Task[Any] | None") -> None:
        """Set the task of these leases: it is cancelled if one of them is lost."""
        for id_ in lease_ids:
            if (lease := self._leases.get(id_)) is not None:
                lease.task = task

    async def renew_forever(self) -> None:
        """Renew all leases in one call, well before the first of them ends."""
        while True:
            self._changed.clear()
            due = min((lease.renew_at for lease in self._leases.values()), default=None)
            wait = None if due is None else max(due - time.monotonic(), 0.0)
            if wait != 0.0:
                # A lease that is added meanwhile may be shorter than the others.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait):
                        await self._changed.wait()
                continue
            await self._renew()

    async def _renew(self) -> None:
        ids = list(self._leases)
        for first in range(0, len(ids), _MAX_LEASES):
            await self._renew_part(ids[first : first + _MAX_LEASES])

    async def _renew_part(self, ids: list[str]) -> None:
        given = {id_: lease for id_ in ids if (lease := self._leases.get(id_)) is not None}
        try:
            ends = await self._settler.extend(list(given), seconds=self._seconds)
        except errors.QueenError:
            ends = None  # Retried soon: the leases are valid until they end.
        now = time.monotonic()
        for id_, lease in given.items():
            lease.renew_at = now + lease.interval / (1 if ends is not None else _SHARE)
            if ends is not None and ends.get(id_) is None and id_ in self._leases:
                self._lose(lease)
                del self._leases[id_]

    def _lose(self, lease: _Lease) -> None:
        """Notify the callback or cancel the task, because another consumer has the lease."""
        for message in lease.messages:
            message.is_lost = True
        if self._on_lost is not None:
            self._on_lost(lease.messages)
        elif lease.task is not None:
            lease.task.cancel()


def by_lease(messages: Iterable[Message[Any]]) -> dict[str, list[Message[Any]]]:
    """Messages by lease, without those that were acknowledged by their pop."""
    found: dict[str, list[Message[Any]]] = {}
    for message in messages:
        if (id_ := message.lease_id) is not None:
            found.setdefault(id_, []).append(message)
    return found
