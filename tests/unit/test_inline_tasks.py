"""An inline task behaves like an asyncio task, except that it starts at once."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from queen.tasks import InlineTask


class Noted(InlineTask):
    """An inline task that notes how it ended."""

    def __init__(self) -> None:
        super().__init__(asyncio.get_running_loop())
        self.end: asyncio.Future[BaseException | None] = self._loop.create_future()

    def ended(self, error: BaseException | None) -> None:
        self.end.set_result(error)


async def begin(task: Noted, body: Coroutine[Any, Any, None]) -> None:
    """Start it from a callback, as protocols do."""
    asyncio.get_running_loop().call_soon(task.start, body)
    await asyncio.sleep(0)


async def test_it_runs_until_it_waits() -> None:
    gate: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    steps: list[object] = []

    async def body() -> None:
        steps.append("begun")
        steps.append(await gate)
        await asyncio.sleep(0)
        steps.append("ended")

    task = Noted()
    await begin(task, body())
    assert steps == ["begun"]
    gate.set_result(1)

    assert await task.end is None
    assert steps == ["begun", 1, "ended"]


async def test_it_is_the_current_task_and_may_use_timeouts() -> None:
    async def body() -> None:
        assert asyncio.current_task() is task  # pyright: ignore[reportUnnecessaryComparison] - typed as a task
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        assert task.cancelling() == 0
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))

    task = Noted()
    await begin(task, body())

    assert await task.end is None


async def test_a_failure_of_what_it_waits_for_is_raised_there() -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def body() -> None:
        with pytest.raises(ValueError, match="broken"):
            await gate
        raise KeyError

    task = Noted()
    await begin(task, body())
    gate.set_exception(ValueError("broken"))

    assert isinstance(await task.end, KeyError)


async def test_cancelling_cancels_what_it_waits_for() -> None:
    gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def body() -> None:
        await gate

    task = Noted()
    await begin(task, body())

    assert task.cancel()
    assert isinstance(await task.end, asyncio.CancelledError)
    assert gate.cancelled()
    assert not task.cancel()


async def test_it_can_be_cancelled_before_it_waits_and_go_on() -> None:
    steps: list[str] = []

    async def body() -> None:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.Event().wait()
        assert task.uncancel() == 0
        steps.append("cancelled")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(0)
        steps.append("again")

    task = Noted()
    await begin(task, body())

    assert await task.end is None
    assert steps == ["cancelled", "again"]
