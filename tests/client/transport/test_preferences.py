"""The server of a push, if servers prefer databases. tests/cluster has tests with real servers."""

import asyncio
from collections.abc import Collection
from typing import Any

import msgspec
import pytest

from queen import errors
from queen.client.transport.base import Reply
from queen.client.transport.preferences import Preferences
from queen.codec.ids import NUMBER_BITS, reference
from queen.codec.slots import hashed
from queen.wire.messages import PushItem

ONE, TWO, FOREIGN = "http://one:6632", "http://two:6632", "http://elsewhere:6632"
SLOT = 7


class Servers:
    """Two servers. They return fixed responses, and record to which one each push went."""

    urls = (ONE, TWO)
    has_preferences = True

    def __init__(self) -> None:
        self.owner = TWO
        """The server that prefers the database of all slots."""
        self.status = "queued"
        self.pushed: list[str] = []
        self.reads = 0
        self.is_forbidden = False
        self.gate: asyncio.Event | None = None

    async def exchange(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        key: str | None = None,
        headers: dict[str, str] | None = None,
        preferred: Collection[str] | None = None,
    ) -> Reply:
        if method == "GET":
            self.reads += 1
            if self.is_forbidden:
                raise errors.Forbidden("no")
            return Reply(200, self._map())
        server = next(iter(preferred or ()), ONE)
        self.pushed.append(server)
        if self.gate is not None:
            await self.gate.wait()
        result: dict[str, Any] = {"status": self.status}
        if self.status == "queued":
            result["partitionId"] = reference(SLOT << NUMBER_BITS | 1)
        return Reply(201, msgspec.json.encode({"messages": [result]}), server=server)

    def _map(self) -> bytes:
        servers = [
            {"url": self.owner, "preferredDatabases": ["two"]},
            {"url": FOREIGN, "preferredDatabases": ["two"]},
            {"url": None, "preferredDatabases": ["two"]},
        ]
        ranges = [{"first": 0, "last": 1023}]
        databases = [{"name": "two", "available": True, "ranges": ranges}]
        return msgspec.json.encode(
            {"revision": self.owner, "databases": databases, "servers": servers}
        )


@pytest.fixture
def servers() -> Servers:
    return Servers()


@pytest.fixture
def preferences(servers: Servers) -> Preferences:
    return Preferences(servers)


async def push(preferences: Preferences, *partitions: str) -> None:
    items = [
        PushItem(queue="orders", partition=each, payload=b"1") for each in partitions or ("p",)
    ]
    await preferences.push(items, b"{}", "orders/p")


async def test_pushes_follow_the_map(preferences: Preferences, servers: Servers) -> None:
    await preferences.refresh()
    await push(preferences)  # Its response has the slot.
    await push(preferences)
    await push(preferences, "q", "p")
    servers.owner = ONE
    await preferences.refresh()
    await push(preferences)

    assert servers.pushed == [ONE, TWO, TWO, ONE]
    assert hashed("p") != SLOT


async def test_a_push_does_not_overtake_one_on_the_disk_of_a_server(
    preferences: Preferences, servers: Servers
) -> None:
    await preferences.refresh()
    await push(preferences)
    servers.status = "buffered"
    await push(preferences)
    servers.owner = ONE
    await preferences.refresh()
    await push(preferences)
    servers.status = "queued"
    await push(preferences)
    await push(preferences)

    assert servers.pushed == [ONE, TWO, TWO, TWO, ONE]


async def test_a_late_response_of_an_earlier_push_does_not_end_the_order(
    preferences: Preferences, servers: Servers
) -> None:
    await preferences.refresh()
    await push(preferences)
    gate = servers.gate = asyncio.Event()
    stored = asyncio.create_task(push(preferences))
    await asyncio.sleep(0)
    servers.gate = None
    servers.status = "buffered"
    await push(preferences)
    servers.status = "queued"
    gate.set()
    await stored
    servers.owner = ONE
    await preferences.refresh()
    await push(preferences)
    await push(preferences)

    assert servers.pushed == [ONE, TWO, TWO, TWO, ONE]


async def test_pushes_with_one_key_stay_together_while_one_is_in_progress(
    preferences: Preferences, servers: Servers
) -> None:
    await preferences.refresh()
    await push(preferences)
    servers.gate = asyncio.Event()
    first = asyncio.create_task(push(preferences))
    await asyncio.sleep(0)
    servers.owner = ONE
    await preferences.refresh()
    second = asyncio.create_task(push(preferences))
    await asyncio.sleep(0)
    servers.gate.set()
    await asyncio.gather(first, second)
    await push(preferences)

    assert servers.pushed == [ONE, TWO, TWO, ONE]


async def test_a_client_without_permission_asks_once(
    preferences: Preferences, servers: Servers
) -> None:
    servers.is_forbidden = True
    for _ in range(5):
        await push(preferences)
        await asyncio.sleep(0)

    assert servers.reads == 1
    assert servers.pushed == [ONE] * 5


async def test_servers_without_preferences_are_not_asked(
    preferences: Preferences, servers: Servers
) -> None:
    servers.has_preferences = False
    for _ in range(3):
        await push(preferences)

    assert (servers.reads, servers.pushed) == (0, [ONE] * 3)
