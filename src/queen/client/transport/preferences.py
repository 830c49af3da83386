"""Send messages to a server that prefers the database of their slot."""

import asyncio
import math
import re
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from queen import errors
from queen.bounded import BoundedDict
from queen.client.transport.base import Reply
from queen.codec.ids import NUMBER_BITS, id_of
from queen.codec.slots import RESERVED, hashed
from queen.wire.messages import PushItem
from queen.wire.resources.shards import ClusterMap

_PUSH: Final = "/api/v1/push"
_MAP: Final = "/api/v1/cluster"
_REFRESH_SECONDS: Final = 300.0
_FAILED_SECONDS: Final = 5.0
"""How soon the map is read again after another server than a preferred one has responded."""
_KNOWN: Final = 10_000
_MOST_HELD: Final = 100_000
_SPREAD: Final = -1
"""Stands for the slot of a queue whose partitions have slots of their own."""
_DECODE: Final = msgspec.json.Decoder(ClusterMap).decode
_PARTITION: Final = re.compile(rb'"partitionId":"([^"]+)"')
"""In a response. In a transactionId, the quotes would have backslashes."""
_BUFFERED: Final = b'"status":"buffered"'


class _Servers(Protocol):
    """The part of a transport that this needs."""

    @property
    def urls(self) -> Sequence[str]: ...

    @property
    def has_preferences(self) -> bool: ...

    async def exchange(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        key: str | None = None,
        headers: dict[str, str] | None = None,
        preferred: Collection[str] | None = None,
    ) -> Reply: ...


class _Held(msgspec.Struct, eq=False):
    """The servers of pushes with one key, while one is in progress or on the disk of a server."""

    urls: Sequence[str]
    requests: int = 0
    is_buffered: bool = False
    buffered: int = 0
    """The number of such responses."""


class Preferences:
    """
    Chooses servers for pushes, if servers prefer databases.

    When a server with preferences has responded, it reads the map of slots in the background. It
    learns the slots of queues from responses. So a push needs no other request, and without
    preferences it goes where it would go anyway.

    Pushes with one key keep their server while one of them is in progress, or while the server has
    one on its disk. So no later push overtakes them when the map changes.
    """

    def __init__(self, servers: _Servers) -> None:
        self._servers = servers
        self._refresh_at = 0.0
        self._reading: asyncio.Task[None] | None = None
        self._revision: str | None = None
        self._urls: Mapping[int, Sequence[str]] = {}
        """The servers that prefer the database of a slot; empty if no server prefers any."""
        self._slots = BoundedDict[str, int](_KNOWN)
        self._pins = BoundedDict[tuple[str, str], int](_KNOWN)
        self._held = BoundedDict[str, _Held](_MOST_HELD)

    async def push(self, items: Sequence[PushItem], body: bytes, key: str | None) -> Reply:
        """Send a push. ``key``: as for `Transport.exchange`."""
        if self._servers.has_preferences and time.monotonic() >= self._refresh_at:
            self.refresh()
        if not items:
            return await self._servers.exchange("POST", _PUSH, body, key=key)
        unit = key or f"{items[0].queue}/{items[0].partition}"
        held = self._held.get(unit)
        if held is None:
            held = self._held[unit] = _Held(self._preferring(items))
        held.requests += 1
        buffered = held.buffered
        try:
            reply = await self._servers.exchange("POST", _PUSH, body, key=key, preferred=held.urls)
            if _BUFFERED in reply.body:
                held.is_buffered = True
                held.buffered += 1
                held.urls = (reply.server,)
            elif buffered == held.buffered:
                # The server stores later pushes behind those on its disk. An earlier one proves
                # nothing.
                held.is_buffered = False
        finally:
            held.requests -= 1
            if not held.requests and not held.is_buffered:
                self._held.pop(unit, None)
        if self._urls:
            self._learn(items, reply)
            if held.urls and reply.server not in held.urls:
                self._refresh_at = min(self._refresh_at, time.monotonic() + _FAILED_SECONDS)
        return reply

    async def close(self) -> None:
        """Stop reading the map. A later push reads it again."""
        reading, self._reading, self._refresh_at = self._reading, None, 0.0
        if reading is not None and reading.get_loop() is asyncio.get_running_loop():
            reading.cancel()
            await asyncio.wait({reading})

    def _preferring(self, items: Sequence[PushItem]) -> Sequence[str]:
        """The servers that prefer the database of these items. Empty: any server."""
        slot = self._slot(items) if self._urls else None
        return () if slot is None else self._urls.get(slot, ())

    def _slot(self, items: Sequence[PushItem]) -> int | None:
        """The slot of all items, or None if it is not known or they have several."""
        queue, partition = items[0].queue, items[0].partition
        slot = self._slots.get(queue)
        if slot is not None and slot != _SPREAD:
            return slot if all(each.queue == queue for each in items) else None
        if not _have_one_partition(items):
            return None
        pinned = self._pins.get((queue, partition))
        return hashed(partition) if pinned is None and slot == _SPREAD else pinned

    def _learn(self, items: Sequence[PushItem], reply: Reply) -> None:
        """Learn the slot of a partition from its id in a response."""
        match = _PARTITION.search(reply.body) if _have_one_partition(items) else None
        id_ = None if match is None else id_of(match[1].decode())
        if id_ is None:
            return
        slot, queue, partition = id_ >> NUMBER_BITS, items[0].queue, items[0].partition
        if slot in RESERVED:
            self._pins[queue, partition] = slot
            return
        self._pins.pop((queue, partition), None)
        self._slots[queue] = _SPREAD if slot == hashed(partition) else slot

    @property
    def is_active(self) -> bool:
        """Whether servers prefer databases, as far as this client knows."""
        return bool(self._urls)

    def refresh(self) -> asyncio.Task[None]:
        """Start to read the map."""
        self._refresh_at = time.monotonic() + _REFRESH_SECONDS
        self._reading = reading = asyncio.create_task(self._read())
        return reading

    async def _read(self) -> None:
        """Read the map, unless the caller may not."""
        known = None if self._revision is None else {"If-None-Match": f'"{self._revision}"'}
        try:
            reply = await self._servers.exchange("GET", _MAP, headers=known)
            if reply.status == 200:
                self._apply(_DECODE(reply.body))
        except errors.Forbidden:
            self._refresh_at = math.inf
        except (errors.QueenError, msgspec.DecodeError):
            pass  # It is tried again after some minutes.

    def _apply(self, found: ClusterMap) -> None:
        urls: dict[int, Sequence[str]] = {}
        for database in found.databases:
            preferring = [
                # The token of this client is for these servers only.
                each.url.rstrip("/")
                for each in found.servers
                if each.url is not None
                and each.preferred_databases is not None
                and database.name in each.preferred_databases
                and each.url.rstrip("/") in self._servers.urls
            ]
            for owned in database.ranges if preferring else ():
                urls |= dict.fromkeys(range(owned.first, owned.last + 1), preferring)
        self._urls = urls
        self._revision = found.revision


def _have_one_partition(items: Sequence[PushItem]) -> bool:
    first = items[0]
    return len(items) == 1 or all(
        each.queue == first.queue and each.partition == first.partition for each in items
    )
