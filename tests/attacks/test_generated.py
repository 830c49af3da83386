"""Thousands of hostile requests from one tenant: the server stays up and leaks no foreign data."""

import asyncio
import base64
import contextlib
import json
import os
import random
import re
import socket
from collections import Counter, deque
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import pytest

from tests.attacks import routes
from tests.attacks.hostile import Attack, Attacker, Loot
from tests.attacks.probe import Probe
from tests.attacks.world import World, two_tenants
from tests.support.callers import Caller, make_key

VICTIM, ATTACKER = "acme", "zeta"
BACKLOG: Final = 13_579
"""The number of the victim's messages, which no response to the attacker may contain."""
FULL_QUEUE: Final = "zeta.full"
WORST_LIVEZ_SECONDS: Final = 0.25
MOST_GROWTH_BYTES: Final = 256 * 2**20
_LENIENT: Final = 20
"""Tolerance factor of the short form, which shares the machine with other tests."""
_CONNECTIONS: Final = 8
_HELD: Final = 64
_READ_SECONDS: Final = 60
_UNANSWERED: Final = b"HTTP/1.1 5-- the server did not answer"
_BACKLOG: Final = re.compile(rb"(?<![\w.-])%d(?![\w.-])" % BACKLOG)
_CURSOR: Final = re.compile(rb'"nextCursor":"([\w-]+)"')


@pytest.fixture
async def world(dsn: str) -> AsyncIterator[World]:
    async with two_tenants(dsn) as world:
        yield world


async def plunder(world: World) -> Loot:
    """Give the victim a backlog, and the attacker everything except the victim's secrets."""
    victim, attacker = world.callers[VICTIM], world.callers[ATTACKER]
    item = {"queue": "acme.backlog", "payload": "acme"}
    for count in (10_000, BACKLOG - 10_000):
        assert (await victim.post("/push", {"items": [item] * count})).status == 201
    filler = {"queue": FULL_QUEUE, "payload": "z" * 1_000_000}
    for at in range(16):
        pushed = await attacker.post("/push", {"items": [{**filler, "partition": f"p{at}"}]})
        assert pushed.status == 201
    popped = await victim.get("/pop/queue/acme.backlog", consumerGroup="acme-leased")
    return Loot(
        owned=world.owned[VICTIM],
        lease_id=popped.body["messages"][0]["leaseId"],
        key_id=victim.token.split("_")[1],
        cursors={path: await cursors(world, path) for path in routes.CASES if _has_pages(path)},
        full_queue=FULL_QUEUE,
    )


async def cursors(world: World, path: str) -> list[str]:
    """The cursors of a list as the victim gets them, one row per page."""
    asked, query = routes.call(path, world.owned[VICTIM])
    found: list[str] = []
    while len(found) < 5:
        after = {"cursor": found[-1]} if found else {}
        reply = await world.callers[VICTIM].get(asked, **{**query, "limit": 1, **after})
        assert reply.status == 200, reply
        if (cursor := reply.body.get("nextCursor")) is None:
            break
        found.append(cursor)
    return found


def _has_pages(path: str) -> bool:
    return routes.CASES[path].rows is not None and "{" not in path


class Siege:
    """Sends attacks, and collects responses that must not occur."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._held: deque[socket.socket] = deque()
        """Connections of clients that neither read nor send."""
        self.statuses: Counter[str] = Counter()
        self.failures: list[tuple[Attack, bytes]] = []
        self.leaks: list[tuple[Attack, bytes]] = []

    async def strike(self, attack: Attack) -> None:
        """Send one attack on its own connection and check the response."""
        plain = socket.socket()
        plain.setblocking(False)
        if not attack.is_read:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(plain, ("127.0.0.1", self._world.server.port))
        with contextlib.suppress(ConnectionError):
            await loop.sock_sendall(plain, attack.request)
        if attack.is_read and attack.is_ended:
            self._judge(attack, await _response(plain))
            plain.close()
        else:
            self._hold(plain)

    def end(self) -> None:
        while self._held:
            self._held.popleft().close()

    def _hold(self, plain: socket.socket) -> None:
        self._held.append(plain)
        if len(self._held) > _HELD:
            self._held.popleft().close()

    def _judge(self, attack: Attack, response: bytes) -> None:
        status = response[9:12].decode("latin-1") or "none"
        self.statuses[f"{attack.kind} {status}"] += 1
        if status.startswith("5"):
            self.failures.append((attack, response))
        if is_leak(response, attack.echoes):
            self.leaks.append((attack, response))


async def _response(plain: socket.socket) -> bytes:
    """All bytes until the server closes or resets the connection."""
    loop, response = asyncio.get_running_loop(), bytearray()
    try:
        async with asyncio.timeout(_READ_SECONDS):
            while chunk := await loop.sock_recv(plain, 2**16):
                response += chunk
    except ConnectionError:
        pass
    except TimeoutError:
        return _UNANSWERED
    return bytes(response)


def is_leak(response: bytes, echoes: tuple[str, ...] = ()) -> bool:
    """Whether it contains data of the victim, cursors included, that the client did not send."""
    text = response + b"".join(map(_decoded, _CURSOR.findall(response)))
    for echo in sorted(echoes, key=len, reverse=True):
        if echo:
            text = text.replace(echo.encode(), b"").replace(quote(echo, safe="").encode(), b"")
    return VICTIM.encode() in text.lower() or _BACKLOG.search(text) is not None


def _decoded(cursor: bytes) -> bytes:
    return base64.urlsafe_b64decode(cursor + b"=" * (-len(cursor) % 4))


@contextlib.asynccontextmanager
async def eavesdropping(world: World) -> AsyncGenerator[list[str]]:
    """Frames of the attacker's WebSocket, which subscribes to the victim's queues."""
    ticket = (await world.callers[ATTACKER].post("/auth/ticket")).body["ticket"]
    url = f"{world.server.base_url}/ws/dashboard?ticket={ticket}"
    frames: list[str] = []
    async with world.server.session.ws_connect(url) as opened:
        await opened.send_json({"queues": [world.owned[VICTIM].queue, "acme.backlog"]})

        async def listen() -> None:
            async for message in opened:
                if message.type is aiohttp.WSMsgType.TEXT:
                    frames.append(message.data)

        listening = asyncio.create_task(listen())
        try:
            yield frames
        finally:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening


async def holdings(victim: Caller) -> dict[str, Any]:
    """The victim's objects, without values that change over time."""
    fields = {
        "/resources/queues": ("queues", "name", "pending", "held", "paused", "deadLetters"),
        "/dlq": ("messages", "id", "queue"),
        "/schedules": ("schedules", "name", "cron", "paused"),
        "/workflows": ("workflows", "id", "status"),
        "/consumer-groups": ("consumerGroups", "consumerGroup", "queue"),
    }
    found: dict[str, Any] = {}
    for path, (rows, *names) in fields.items():
        reply = await victim.get(path)
        assert reply.status == 200, reply
        found[path] = [[row.get(name) for name in names] for row in reply.body[rows]]
    return found


async def attack_with(world: World, dsn: str, count: int, *, seed: int, is_alone: bool) -> None:
    """Send the attacks, eight at a time, and check all invariants meanwhile."""
    loot = await plunder(world)
    victim, attacker = world.callers[VICTIM], world.callers[ATTACKER]
    scopes = [{"queue": "zeta.*"}]
    tokens = [attacker.token] + [
        await make_key(dsn, role=role, scopes=scopes, name=f"zeta-{role}")
        for role in ("read-only", "write-only")
    ]
    generated = Attacker(seed, tokens, loot)
    siege = Siege(world)
    before = await holdings(victim)
    pid = world.server.pid

    async def besiege(share: int) -> None:
        for _ in range(share):
            await siege.strike(generated.attack())

    async with eavesdropping(world) as frames, Probe(world.server.port, pid) as probe:
        await asyncio.gather(*(besiege(count // _CONNECTIONS) for _ in range(_CONNECTIONS)))
    siege.end()
    found = {
        "seed": seed,
        "attacks": count,
        "worst_livez_ms": round(1000 * probe.worst_livez_seconds),
        "rss_growth_mib": round(probe.rss_growth_bytes / 2**20),
        "frames": len(frames),
        "statuses": dict(sorted(siege.statuses.items())),
    }
    print(json.dumps(found), flush=True)
    assert not siege.failures, siege.failures[0]
    assert not siege.leaks, siege.leaks[0]
    assert frames
    assert not is_leak("".join(frames).encode())
    assert await holdings(victim) == before
    assert "Traceback" not in world.server.log
    assert probe.rss_growth_bytes <= MOST_GROWTH_BYTES * (1 if is_alone else 2), found
    assert probe.worst_livez_seconds <= WORST_LIVEZ_SECONDS * (1 if is_alone else _LENIENT), found


@pytest.mark.timeout(300)
async def test_two_hundred_and_fifty_attacks_leak_no_data(world: World, dsn: str) -> None:
    seed = random.SystemRandom().randrange(10**9)
    await attack_with(world, dsn, 252, seed=seed, is_alone=False)


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_ten_thousand_attacks_leak_no_data(world: World, dsn: str) -> None:
    seed = int(os.environ.get("QUEEN_ATTACK_SEED") or random.SystemRandom().randrange(10**9))
    await attack_with(world, dsn, 10_000, seed=seed, is_alone=True)
