"""Many waiters for results cost a few statements, and an ack checks only its own partition."""

import asyncio
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from queen.engine.engine import Engine
from queen.engine.settle.outcome_waiters import MessageWaiters
from queen.engine.settle.results import Outcome
from tests.engine.helpers import pop_one, push, settle, until


@pytest.fixture
async def waited(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[asyncio.Task[Outcome]]]:
    """Waiters for results. Full checks are so rare that only acks trigger checks."""
    monkeypatch.setattr(MessageWaiters, "_LOOK_SECONDS", 600.0)
    waiting: list[asyncio.Task[Outcome]] = []
    yield waiting
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def wait_for(
    engine: Engine, waiting: list[asyncio.Task[Outcome]], *names: str, partition: str = "Default"
) -> None:
    queue = await engine.catalogue.queue("jobs")
    before = len(waiting)
    waiting += [
        asyncio.create_task(
            engine.message_waiters.wait(queue, name, partition=partition, seconds=50.0)
        )
        for name in names
    ]

    async def are_waiting() -> bool:
        return len(engine.message_waiters._waiting) == before + len(names)  # pyright: ignore[reportPrivateUsage]

    await until(are_waiting, seconds=20)


async def test_a_check_of_many_scheduled_messages_takes_two_statements(
    engine: Engine, waited: list[asyncio.Task[Outcome]]
) -> None:
    names = [f"job{n}" for n in range(40)]
    for name in names:
        await push(engine, "jobs", 1, transaction_id=name, delay_seconds=3600)
    await wait_for(engine, waited, *names)
    sent: list[str] = []

    @contextmanager
    def note(call: str) -> Generator[None]:
        sent.append(call)
        yield

    engine.store.database.span = note
    await engine.message_waiters.look(list(engine.message_waiters._waiting))  # pyright: ignore[reportPrivateUsage]

    assert [each for each in sent if each.startswith("find_")] == ["find_places"]


async def test_an_ack_checks_only_messages_of_its_partition(
    engine: Engine, waited: list[asyncio.Task[Outcome]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for partition in ("a", "b", "c"):
        await push(engine, "jobs", 1, partition=partition, transaction_id=partition)
    for partition in ("a", "b", "c"):
        await wait_for(engine, waited, partition, partition=partition)
    delivery = await pop_one(engine, "jobs", partition="b")
    looks: list[list[str]] = []
    look = engine.results.look

    async def note(messages: Sequence[Any]) -> list[Outcome | None]:
        looks.append([name for _, name, _ in messages])
        return await look(messages)

    monkeypatch.setattr(engine.results, "look", note)
    await settle(engine, delivery)

    async with asyncio.timeout(20):
        assert (await waited[1]).status == "completed"
    assert looks == [["b"]]
    assert not waited[0].done()
    assert not waited[2].done()
