"""T8: a stream follows a queue over many moves, and its driver is killed."""

# pyright: basic

import asyncio
import json
import os
import random
import time
from collections.abc import Mapping
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from queen import errors
from queen.cluster.cluster import Cluster
from queen.wire.messages import PushItem
from tests.cluster.moves import Members, finish
from tests.cluster.places import NAMES, ONE, home, slot_of
from tests.cluster.reports import report
from tests.engine.helpers import item
from tests.spark import oracle
from tests.spark.cluster import confs
from tests.spark.driver import Driver
from tests.spark.moves.reader import named
from tests.spark.place import quick

_PARTITIONS: Final = [f"p{number}" for number in range(4)]
_PAD: Final = "·" * 50
_PAUSE_SECONDS: Final = 0.25
"""Between pushes, because a driver takes seconds to start."""


class Form(NamedTuple):
    """How many moves, and how many messages are pushed at a time."""

    moves: int
    batch: int


_FULL: Final = Form(int(os.environ.get("QUEEN_MOVES", "20")), 50)
_SHORT: Final = Form(3, 10)


class Producer:
    """Pushes numbered messages to all partitions until it is stopped."""

    def __init__(self, cluster: Cluster, batch: int) -> None:
        self._cluster = cluster
        self._batch = batch
        self._is_over = asyncio.Event()
        self._task = asyncio.create_task(self._run())
        self.pushed = 0

    async def stop(self) -> None:
        self._is_over.set()
        await self._task

    async def _run(self) -> None:
        for number in count():
            if self._is_over.is_set():
                return
            items = [
                item(ONE, [number * self._batch + at, _PAD], partition=name)
                for name in _PARTITIONS
                for at in range(self._batch)
            ]
            for at in range(0, len(items), self._batch):
                await self._push(items[at : at + self._batch])
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _push(self, items: list[PushItem]) -> None:
        while True:
            try:
                results = await self._cluster.push(items)
            except errors.SlotMoved:
                continue
            codes = {each.code for each in results}
            if codes == {None}:
                self.pushed += len(items)
                return
            assert codes == {"slot_moved"}, codes


class Follower:
    """A driver process that is killed while a batch is written and not committed."""

    def __init__(self, databases: Mapping[str, str], folder: Path, batch: int) -> None:
        self._folder = str(folder)
        self._options = {"databases": named(databases), "queue": ONE}
        self._batch = batch
        self._driver: Driver | None = None
        self.kills = 0

    async def write(self) -> None:
        """Let the driver write another batch, before which it commits the last one."""
        await asyncio.to_thread(self._write)

    def _write(self) -> None:
        if self._driver is None:
            self._driver = self._start(60 * self._batch, is_endless=True)
        else:
            self._driver.go_on()
        self._driver.until("written")

    def kill(self) -> None:
        """Kill the driver, so that the next one repeats the last batch."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None
            self.kills += 1

    async def finish(self) -> str:
        """Read the rest with a new driver, and return the error, if any."""
        self.kill()

        def run() -> str:
            with self._start(1_000_000, is_endless=False) as driver:
                return driver.answer()["failure"]

        return await asyncio.to_thread(run)

    def _start(self, most: int, *, is_endless: bool) -> Driver:
        options = {**self._options, "maxMessagesPerTrigger": str(most)}
        given = json.dumps({"folder": self._folder, "options": options, "isEndless": is_endless})
        return Driver("-m", "tests.spark.drivers.follow", "local[2]", given, confs=quick(confs()))


_IS_LONG: Final = [pytest.mark.slow, pytest.mark.timeout(3600)]


@pytest.mark.parametrize(
    ("form", "placement"),
    [
        pytest.param(_FULL, "home", marks=_IS_LONG, id="full-home"),
        pytest.param(_FULL, "spread", marks=_IS_LONG, id="full-spread"),
        pytest.param(_SHORT, "home", marks=pytest.mark.timeout(180), id="short"),
    ],
)
async def test_a_stream_over_moves_reads_each_message_once_and_in_order(
    cluster: Cluster, databases: dict[str, str], tmp_path: Path, form: Form, placement: str
) -> None:
    began = time.monotonic()
    await _make(cluster, placement)
    moved = ONE if placement == "home" else _PARTITIONS[0]
    producer = Producer(cluster, form.batch)
    follower = Follower(databases, tmp_path, form.batch)
    chance = random.Random(form.moves)
    place = home(moved)
    for number in range(form.moves):
        target = chance.choice([name for name in NAMES if name != place])
        if number % 3 == 2:
            # While the driver plans and reads.
            await asyncio.gather(follower.write(), _move(databases, moved, place, target))
        else:
            # The next driver repeats the batch after the move, or the same one continues.
            await follower.write()
            await _move(databases, moved, place, target)
            if number % 3 == 1 and number + 2 < form.moves:
                follower.kill()
        place = target
    await producer.stop()
    assert await follower.finish() == ""

    expected = _expected(databases)
    found, batches = _found(tmp_path)
    total = oracle.assert_same(expected, found)
    assert total == producer.pushed
    report(
        "T8",
        placement=placement,
        moves=form.moves,
        messages=total,
        batches=batches,
        kills=follower.kills,
        seconds=round(time.monotonic() - began),
        lost=0,
        duplicated=0,
        reordered=0,
    )


async def _move(databases: Mapping[str, str], moved: str, source: str, target: str) -> None:
    async with Members.connected(databases) as members:
        await finish(members.move(slot_of(moved), source, target))


async def _make(cluster: Cluster, placement: str) -> None:
    engine = await cluster.of_new_queue(ONE, is_spread=placement == "spread")
    row = await engine.queues.configure(ONE, {"placement": placement})
    if placement == "spread":
        await cluster.publish(ONE, row["id"])


def _expected(databases: Mapping[str, str]) -> oracle.Digests:
    """The messages in all databases, each partition in one of them."""
    found: oracle.Digests = {}
    for dsn in databases.values():
        there = oracle.digests(dsn, ONE)
        assert not found.keys() & there.keys()
        found |= there
    return found


def _found(folder: Path) -> tuple[oracle.Digests, int]:
    """The messages of all batches, whose offsets must have no gaps, and the number of batches."""
    found: oracle.Digests = {}
    numbers = sorted(int(path.stem) for path in folder.glob("*.json"))
    assert numbers == [*range(len(numbers))]
    for number in numbers:
        for name, offset, payload in json.loads((folder / f"{number}.json").read_text()):
            there = found.setdefault(name, [])
            assert offset == len(there), f"{name}: {offset} comes where {len(there)} was due"
            there.append(sha256(payload.encode()).digest())
    return found, len(numbers)
