"""A slot moves many times under load, while the mover, servers and databases are killed."""

import asyncio
import contextlib
import logging
import os
import random
import re
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final, NamedTuple

import pytest

from tests.cluster.conftest import joined
from tests.cluster.load import Load
from tests.cluster.moves import BROKEN, Members, finish
from tests.cluster.places import NAMES, ONE, home, slot_of
from tests.cluster.reports import report
from tests.support.postgres import Postgres
from tests.support.server import Server


@pytest.fixture
async def databases(apart: dict[str, Postgres]) -> dict[str, str]:
    return await joined(apart)


@pytest.fixture
async def servers(databases: dict[str, str]) -> AsyncIterator[list[Server]]:
    async with Server(databases) as one, Server(databases) as two:
        yield [one, two]


class Faults:
    """Kills one part at a time, and starts it again."""

    def __init__(self, apart: dict[str, Postgres], servers: list[Server]) -> None:
        self._apart = apart
        self._servers = servers
        self._down: Callable[[], object] | None = None

    def of(self, victim: str, source: str, target: str) -> Callable[[], None] | None:
        """What kills a part, or None for the mover, whose connections are closed."""
        if victim == "server":
            return lambda: self._kill_server(self._servers[0])
        database = {"source": source, "target": target}.get(victim)
        return None if database is None else lambda: self._kill(self._apart[database])

    def _kill(self, postgres: Postgres) -> None:
        postgres.kill()
        self._down = postgres.start

    def _kill_server(self, server: Server) -> None:
        server.kill()
        self._down = server.start

    async def repair(self) -> None:
        if self._down is not None:
            starting = self._down()
            if asyncio.iscoroutine(starting):
                await starting
        self._down = None


class Form(NamedTuple):
    """How many moves and messages."""

    moves: int
    messages: int
    batch: int
    ahead: int
    """How many batches of a partition may wait, which a short form must consume at its end."""


_FULL: Final = Form(
    int(os.environ.get("QUEEN_MOVES", "100")),
    int(os.environ.get("QUEEN_MESSAGES", "1000000")),
    100,
    200,
)
_SHORT: Final = Form(5, 100, 10, 10)


@pytest.mark.parametrize("placement", ["home", "spread"])
@pytest.mark.parametrize(
    "form",
    [
        pytest.param(_FULL, marks=[pytest.mark.slow, pytest.mark.timeout(7200)], id="full"),
        pytest.param(_SHORT, marks=pytest.mark.timeout(180), id="short"),
    ],
)
async def test_no_message_is_lost_duplicated_or_reordered(
    apart: dict[str, Postgres],
    databases: dict[str, str],
    servers: list[Server],
    form: Form,
    placement: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "queen.store")
    chance = random.Random(form.moves)
    faults = Faults(apart, servers)
    options = {"leaseTime": 3, "retryLimit": 1000, "placement": placement}
    reply = await servers[0].post("/configure", {"queue": ONE, "options": options})
    assert reply.status in (200, 201), reply.body
    # The queue, or one of its partitions.
    moved = ONE if placement == "home" else "p0"
    slot = slot_of(moved)
    load = Load(servers, ONE, batch=form.batch, ahead=form.ahead)
    load.start()
    place = home(moved)
    for number in range(form.moves):
        victim = ("none", "mover", "source", "target", "server")[number % 5]
        target = chance.choice([name for name in NAMES if name != place])
        with contextlib.suppress(*BROKEN):
            await _moved(databases, slot, place, target, victim, faults, chance)
        await faults.repair()
        await _completed(databases, slot, place, target)
        place = target
    await load.until(form.messages)
    await load.stop()

    verdict = load.judge()
    report(
        "T2",
        placement=placement,
        moves=form.moves,
        messages=sum(load.pushed),
        **verdict,
        pause_ms=_pauses(caplog.messages),
    )
    assert set(verdict.values()) == {0}
    assert sum(load.pushed) >= form.messages


def _pauses(messages: Sequence[str]) -> dict[str, float]:
    """How long calls waited for the slot, as the mover logs it."""
    waits = sorted(
        float(found[1])
        for each in messages
        if (found := re.search(r"its calls waited (\d+) ms", each))
    )
    return {f"p{percent}": waits[len(waits) * percent // 100] for percent in (50, 99)} | {
        "max": waits[-1]
    }


async def _moved(
    databases: dict[str, str],
    slot: int,
    source: str,
    target: str,
    victim: str,
    faults: Faults,
    chance: random.Random,
) -> None:
    """Move the slot, and kill a part before a statement of the move."""
    at = None if victim == "none" else chance.randrange(150)
    kill = faults.of(victim, source, target)
    async with Members.connected(databases, stop_at=at, kill=kill) as members:
        await finish(members.move(slot, source, target))


async def _completed(databases: dict[str, str], slot: int, source: str, target: str) -> None:
    """Continue until the target owns the slot and the source has no row of it."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(*BROKEN):
                async with Members.connected(databases) as members:
                    await finish(members.move(slot, source, target))
                    return
            await asyncio.sleep(0.05)
