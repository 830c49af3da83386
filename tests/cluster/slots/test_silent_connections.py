"""A move whose connections fall silent or are lost, while PostgreSQL and new connections work."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Final

import asyncpg
import pytest

from queen import errors
from queen.cluster.cluster import Cluster
from queen.store.cluster import deadlines, mover
from queen.store.cluster.moving import Progress
from tests.cluster.moves import Members
from tests.cluster.places import ONE
from tests.cluster.reports import report
from tests.cluster.stops import TERMINATE, WAIT, WAITERS
from tests.cluster.user import item
from tests.engine.helpers import drain, item as blob, until
from tests.support.gate import Gate

_MOST_SECONDS: Final = 12.0
"""The longest time without an owner, on a busy machine. In detail: five seconds for a response,
one second until the next step, and the rest of the move."""
_AT_COMMIT: Final = """
create constraint trigger wait after update on queen.slots deferrable initially deferred
  for each row when (new.state = '{state}') execute function public.wait();
"""
_FUNCTION: Final = WAIT.partition("create or replace trigger")[0]
_BLOB: Final = random.Random(7).randbytes(250_000).hex()


class Scene:
    """A slot with messages that moves from ``main`` to ``two``, each behind a gate."""

    def __init__(
        self, cluster: Cluster, members: Members, gates: dict[str, Gate], slot: int
    ) -> None:
        self.cluster = cluster
        self.members = members
        self.gates = gates
        self.slot = slot
        self.move = mover.Move(slot, "main", "two")
        self.mover = mover.Mover({name: each.dsn for name, each in gates.items()})

    async def step(self) -> Progress:
        """One step of the move, as its operation makes it."""
        try:
            return await self.mover.step(self.move)
        except errors.DatabaseUnavailable as error:
            return Progress(waits_for=str(error))

    async def steps(self) -> None:
        is_over = False
        while not is_over:
            progress = await self.step()
            is_over = progress.is_over
            await asyncio.sleep(min(progress.pause_seconds, 0.05))

    async def stop_at(self, name: str, trigger: str) -> None:
        """Let a statement wait as long as this process has the lock."""
        connection = self.members.connections[name]
        await connection.execute(_FUNCTION + trigger)
        await connection.execute("select pg_advisory_lock(7)")

    async def stopped(self, name: str) -> None:
        """Wait until a statement waits."""

        async def is_waiting() -> bool:
            return await self.members.value(name, WAITERS) > 0

        await until(is_waiting, seconds=30)

    async def resume(self, name: str) -> None:
        await self.members.connections[name].execute("select pg_advisory_unlock(7)")

    async def owned_after(self, *owners: str) -> float:
        """The seconds until these databases own the slot."""
        began = time.monotonic()

        async def is_owned() -> bool:
            return await self.members.owners(self.slot) == [*owners]

        await until(is_owned, seconds=40)
        return time.monotonic() - began


@pytest.fixture
async def scene(
    cluster: Cluster, databases: dict[str, str], tmp_path: Path
) -> AsyncIterator[Scene]:
    pushed = await cluster.engines["main"].push([item(each, ONE) for each in (1, 2, 3)])
    assert not any(each.code for each in pushed)
    async with contextlib.AsyncExitStack() as stack:
        gates: dict[str, Gate] = {}
        for name in ("main", "two"):
            (tmp_path / name).mkdir()
            gates[name] = await stack.enter_async_context(
                Gate.open(databases[name], tmp_path / name)
            )
        members = await stack.enter_async_context(Members.connected(databases))
        scene = Scene(cluster, members, gates, await members.slot(ONE))
        await stack.enter_async_context(scene.mover)
        yield scene


async def completed(scene: Scene) -> None:
    async with asyncio.timeout(40):
        await scene.steps()
    assert await scene.members.owners(scene.slot) == ["two"]
    assert await drain(scene.cluster.engines["two"], ONE) == [1, 2, 3]


@contextlib.asynccontextmanager
async def moving(scene: Scene) -> AsyncGenerator[None]:
    task = asyncio.create_task(scene.steps())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_target_that_falls_silent_at_its_commit_owns_the_slot_soon(scene: Scene) -> None:
    await scene.stop_at("two", _AT_COMMIT.format(state="owned"))
    async with moving(scene):
        await scene.stopped("two")
        scene.gates["two"].fall_silent()
        await scene.resume("two")
        seconds = await scene.owned_after("two")

        async def is_closed() -> bool:
            query = "select state from queen.slots where slot = $1"
            return await scene.members.value("main", query, scene.slot) == "gone"

        await until(is_closed, seconds=40)
    report("silent target at its commit", without_owner_seconds=round(seconds, 1))
    await completed(scene)


async def test_a_source_owns_a_slot_again_if_the_target_falls_silent_before_its_commit(
    scene: Scene,
) -> None:
    trigger = "create trigger wait before update on queen.slots for each row"
    await scene.stop_at(
        "two", f"{trigger} when (new.state = 'owned') execute function public.wait();"
    )
    async with moving(scene):
        await scene.stopped("two")
        scene.gates["two"].swallow(True)
        seconds = await scene.owned_after("main")
    report("silent target before its commit", without_owner_seconds=round(seconds, 1))
    assert seconds < _MOST_SECONDS
    pushed = await scene.cluster.engines["main"].push([item(4, ONE)])
    assert pushed[0].code is None

    await scene.resume("two")
    scene.gates["two"].swallow(False)
    async with asyncio.timeout(40):
        await scene.steps()
    assert await scene.members.owners(scene.slot) == ["two"]
    assert await drain(scene.cluster.engines["two"], ONE) == [1, 2, 3, 4]


async def test_a_source_that_falls_silent_while_the_slot_leaves_is_followed_soon(
    scene: Scene,
) -> None:
    await scene.stop_at("main", _AT_COMMIT.format(state="leaving"))
    async with moving(scene):
        await scene.stopped("main")
        scene.gates["main"].fall_silent()
        await scene.resume("main")
        seconds = await scene.owned_after("two")
    report("silent source", without_owner_seconds=round(seconds, 1))
    assert seconds < _MOST_SECONDS
    await completed(scene)


@pytest.mark.parametrize("is_lost", [True, False], ids=["lost", "silent"])
async def test_a_copy_ends_if_its_target_takes_no_more_data(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    """The buffers of the connection are full, so the mover waits until it may send more."""
    monkeypatch.setattr(deadlines, "STALL_SECONDS", 30.0 if is_lost else 2.0)
    for _ in range(20):
        await scene.cluster.engines["main"].push([blob(ONE, _BLOB)])
    await scene.stop_at(
        "two",
        "create trigger wait before insert on queen.segments for each row"
        " execute function public.wait();",
    )
    waiting: list[str] = []

    async def steps() -> None:
        while not waiting:
            if (reason := (await scene.step()).waits_for) is not None:
                waiting.append(reason)

    task = asyncio.create_task(steps())
    await scene.stopped("two")
    began = time.monotonic()
    if is_lost:
        await scene.members.value("two", TERMINATE)
        scene.gates["two"].cut()
    else:
        scene.gates["two"].fall_silent()
    async with asyncio.timeout(20):
        await task
    assert time.monotonic() - began < 10
    assert await scene.members.owners(scene.slot) == ["main"]


async def test_a_move_does_not_wait_for_locks_of_a_process_that_stopped(scene: Scene) -> None:
    """The transaction of another mover, for example behind a proxy that keeps its connection."""
    while await scene.members.value("two", "select count(*) from queen.arrivals") == 0:
        await scene.step()
    await scene.mover.__aexit__(None, None, None)
    other = await asyncpg.connect(scene.gates["two"].dsn)
    async with other.transaction():
        await other.execute("select 1 from queen.arrivals for update")
        began = time.monotonic()
        async with asyncio.timeout(20):
            progress = await scene.step()
        assert progress.waits_for is not None
        assert progress.waits_for.startswith("a transaction that uses the slot has not ended")
        assert time.monotonic() - began < 10
    await other.close()
    await completed(scene)


async def test_a_process_can_stop_while_a_connection_is_silent(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mover, "_LAST_SECONDS", 0.1)
    await scene.stop_at(
        "two",
        "create trigger wait before insert on queen.segments for each row"
        " execute function public.wait();",
    )
    task = asyncio.create_task(scene.steps())
    await scene.stopped("two")
    scene.gates["two"].swallow(True)

    task.cancel()
    async with asyncio.timeout(10):
        await asyncio.gather(task, return_exceptions=True)
    assert await scene.members.owners(scene.slot) == ["main"]
    await scene.resume("two")
