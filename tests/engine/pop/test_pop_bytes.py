"""The payloads of one response have a maximum size, and the next pop returns the rest."""

import asyncio

import pytest

from queen.engine.engine import Engine
from queen.errors import DatabaseUnavailable
from queen.settings import Settings
from queen.store import messages as rows
from tests.engine.helpers import ack, ack_all, drain, lease, pop, pop_one, push, values
from tests.support.clock import Clock

SETTINGS = Settings(max_pop_bytes=100, max_payload_bytes=300)
TEXTS = [f"{number}" + "x" * 37 for number in range(5)]
"""40 bytes each, so two fit."""


async def test_messages_that_do_not_fit_follow_in_order_and_uncounted(dsn: str) -> None:
    async with await Engine.open(dsn, settings=SETTINGS) as engine:
        await push(engine, "orders", *TEXTS[:3])
        await push(engine, "orders", *TEXTS[3:])

        taken: list[str] = []
        while found := await pop(engine, "orders", batch=10):
            (delivery,) = found
            assert len(delivery) <= 2
            assert delivery.attempt == 1
            taken += values(delivery)
            assert await pop(engine, "orders") == []
            await ack(engine, delivery)

        assert taken == TEXTS


async def test_the_expiry_of_a_shortened_lease_is_charged_only_to_its_first_message(
    dsn: str, clock: Clock
) -> None:
    async with await Engine.open(dsn, settings=SETTINGS) as engine:
        await push(engine, "orders", *TEXTS)
        await pop_one(engine, "orders", batch=10)
        await clock.advance(seconds=400)

        attempts: list[tuple[str, int]] = []
        while found := await pop(engine, "orders", batch=10):
            attempts += [(each, found[0].attempt) for each in values(found)]
            await ack_all(engine, found)

        assert attempts == [(each, 2 if each == TEXTS[0] else 1) for each in TEXTS]


async def test_on_an_unordered_queue_messages_that_do_not_fit_are_available_immediately(
    dsn: str,
) -> None:
    async with await Engine.open(dsn, settings=SETTINGS) as engine:
        await engine.queues.configure("jobs", {"ordered": False})
        await push(engine, "jobs", *TEXTS)

        taken = [await pop_one(engine, "jobs", batch=10) for _ in range(3)]

        assert [len(each) for each in taken] == [2, 2, 1]
        assert sorted(values(taken)) == TEXTS
        assert [each.attempt for each in taken] == [1, 1, 1]
        assert [await ack(engine, each) for each in taken] == [2, 2, 1]
        assert await pop(engine, "jobs") == []


async def test_whole_partitions_that_do_not_fit_are_returned_to_the_queue(dsn: str) -> None:
    async with await Engine.open(dsn, settings=SETTINGS) as engine:
        for number, text in enumerate(TEXTS):
            await push(engine, "orders", text, partition=f"p{number}")

        first = await pop(engine, "orders", batch=10, partitions=10)
        second = await pop(engine, "orders", batch=10, partitions=10)

        assert [len(first), len(second)] == [2, 2]
        assert {each.attempt for each in second} == {1}
        assert len({each.partition for each in (*first, *second)}) == 4


async def test_one_message_always_fits(dsn: str) -> None:
    async with await Engine.open(dsn, settings=SETTINGS) as engine:
        await push(engine, "orders", "y" * 250, *TEXTS[:2])

        assert [len(each) for each in await pop(engine, "orders", batch=10)] == [1]


@pytest.mark.parametrize("ordered", [True, False])
async def test_auto_ack_settles_only_returned_messages(
    dsn: str, clock: Clock, ordered: bool
) -> None:
    async with await Engine.open(dsn, settings=SETTINGS) as engine:
        await engine.queues.configure("orders", {"ordered": ordered})
        for partition in ("a", "b"):
            await push(engine, "orders", *TEXTS, partition=partition)

        taken: dict[str, list[str]] = {"a": [], "b": []}
        while found := await pop(engine, "orders", batch=10, partitions=2, auto_ack=True):
            assert sum(map(len, found)) <= 2
            for each in found:
                assert (each.lease_id, each.until, each.attempt) == (None, None, 1)
                taken[each.partition] += values(each)

        assert {name: sorted(each) for name, each in taken.items()} == {"a": TEXTS, "b": TEXTS}
        if ordered:
            assert taken == {"a": TEXTS, "b": TEXTS}
        await clock.advance(seconds=10_000)
        assert await drain(engine, "orders") == []


async def test_auto_ack_for_several_waiters_loses_no_message(dsn: str) -> None:
    async with await Engine.open(dsn, settings=SETTINGS) as engine:
        await engine.queues.configure("jobs", {"ordered": False})
        waiters = [
            asyncio.create_task(pop(engine, "jobs", batch=10, auto_ack=True, wait=True))
            for _ in range(3)
        ]
        await push(engine, "jobs", *TEXTS)

        found = await asyncio.gather(*waiters)

        assert sorted(values(each for several in found for each in several)) == TEXTS


async def test_a_lease_that_cannot_be_shortened_is_not_returned(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ack of the whole lease would settle messages that the consumer did not receive."""
    async with await Engine.open(dsn, settings=SETTINGS) as engine:
        await push(engine, "orders", *TEXTS)

        async def fail(*_: object) -> list[rows.Record]:
            raise DatabaseUnavailable("no connection")

        with monkeypatch.context() as patch:
            patch.setattr(engine.store.messages, "shorten", fail)
            with pytest.raises(DatabaseUnavailable):
                await pop(engine, "orders", batch=10)

        again = await pop_one(engine, "orders", batch=10)
        assert (values(again), again.attempt, bool(lease(again))) == (TEXTS[:2], 1, True)
