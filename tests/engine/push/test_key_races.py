"""Several processes push the same keys at the same time, restart, forget and wait."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise

import asyncpg
import pytest

from queen.codec.ids import place_of
from queen.engine.caches import key_windows
from queen.engine.engine import Engine
from queen.settings import Settings
from queen.wire.messages import Pushed, PushItem
from tests.engine.helpers import item
from tests.support.clock import Clock

WINDOW_SECONDS = 600
PROCESSES = (
    Settings(),
    Settings(),
    Settings(dedup_memory_bytes=20_000),
    Settings(dedup_memory_bytes=0),
)
"""Two with memory, one with too little, and one like a server of an earlier release."""
STORED = """
select s.partition_id, s.base_offset + i as "offset", s.created_at,
  convert_from(x.extra, 'UTF8')::json ->> 'transactionId' as id
from queen.segments s
cross join lateral generate_series(0, s.message_count - 1) i
cross join lateral queen.extra_at(s.extras, s.message_count, i) x (extra)
where s.extras is not null
order by 1, 2
"""
Name = tuple[int, str | None]


class World:
    """Some processes, and all results of their pushes."""

    def __init__(self, dsn: str, rng: random.Random) -> None:
        self.dsn = dsn
        self.rng = rng
        self.engines: list[Engine] = []
        self.answers: list[Pushed] = []
        self.delayed: set[str | None] = set()
        """transactionIds whose window begins before their message is stored."""

    async def __aenter__(self) -> "World":
        for settings in PROCESSES:
            self.engines.append(await Engine.open(self.dsn, settings=settings, connections=2))
        return self

    async def __aexit__(self, *_: object) -> None:
        for engine in self.engines:
            await engine.close()

    async def restart(self) -> None:
        number = self.rng.randrange(len(self.engines))
        await self.engines[number].close()
        settings = PROCESSES[number]
        self.engines[number] = await Engine.open(self.dsn, settings=settings, connections=2)

    def items(self, first: int) -> list[PushItem]:
        rng, count = self.rng, self.rng.choice((1, 1, 3, 20, 60))
        partition = f"p{rng.randrange(3)}"
        delay = 5 if count == 1 and rng.random() < 0.2 else None
        names = rng.sample(range(max(0, first - 60), first + 60), count)
        if delay is not None:
            self.delayed.add(f"id {names[0]}")
        return [
            item("orders", n, partition=partition, transaction_id=f"id {n}", delay_seconds=delay)
            for n in names
        ]

    async def push(self, items: Sequence[PushItem]) -> None:
        self.answers += await self.rng.choice(self.engines).push(items)


@pytest.mark.parametrize("seed", range(6))
async def test_each_key_is_stored_once_per_window(
    dsn: str, clock: Clock, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_windows, "MOST_KEYS", 150)
    rng = random.Random(seed)
    async with World(dsn, rng) as world:
        await world.engines[0].queues.configure("orders", {"dedup_seconds": WINDOW_SECONDS})
        for step in range(12):
            pushes = [world.items(step * 20) for _ in range(12)]
            await asyncio.gather(*(world.push(items) for items in pushes))
            action = rng.randrange(4)
            if action == 0:
                await world.restart()
            elif action == 1:
                rng.choice(world.engines).core.windows.forget()
            else:
                await clock.advance(seconds=rng.choice((1, 60, 200)))
        await check(world)


async def check(world: World) -> None:
    """Compare the results with the log: no key twice in a window, and each duplicate exists."""
    connection = await asyncpg.connect(world.dsn)
    try:
        rows = await connection.fetch(STORED)
    finally:
        await connection.close()
    times: defaultdict[Name, list[datetime]] = defaultdict(list)
    names: dict[tuple[int, int], str] = {}
    for row in rows:
        times[row["partition_id"], row["id"]].append(row["created_at"])
        names[row["partition_id"], row["offset"]] = row["id"]
    for (_, name), each in times.items():
        if name in world.delayed:
            continue
        assert all(b - a >= timedelta(seconds=WINDOW_SECONDS) for a, b in pairwise(each))
    for answer in world.answers:
        assert answer.status in ("queued", "duplicate")
        if answer.id is not None and (place := place_of(answer.id)) is not None:
            assert names[place.partition_id, place.offset] == answer.transaction_id
    queued = sum(
        answer.status == "queued" and answer.offset is not None for answer in world.answers
    )
    assert queued <= len(rows)
