"""A process that is alone sends no notifications of messages, and no process misses any."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

import asyncpg

from queen.engine.engine import Engine
from tests.engine.helpers import PATIENT, asleep, listening, pop_later, push, until, values
from tests.engine.runtime.listener import Listener
from tests.support.gate import Gate


@contextlib.asynccontextmanager
async def alone(dsn: str) -> "AsyncGenerator[Listener]":
    """A listener that knows that no other process listens."""
    async with Listener.open(dsn) as listener:
        await is_alone(listener)
        yield listener


async def is_alone(listener: Listener) -> None:
    async def has_no_listeners() -> bool:
        return not listener.notifications.has_listeners

    await until(has_no_listeners)


def forget_others(*engines: Engine) -> None:
    """As after some seconds in which no other process was heard."""
    for engine in engines:
        assert engine.signals.notifications is not None
        engine.signals.notifications._others_until = 0.0  # pyright: ignore[reportPrivateUsage]


async def test_a_process_that_is_alone_sends_no_notification_of_messages(dsn: str) -> None:
    async with alone(dsn) as one:
        one.notifications.tell(queue_ids=[42], group_ids=[43])
        one.notifications.tell(changed_queue_ids=[44])

        async def is_sent() -> bool:
            return one.notifications.sent > 0

        await until(is_sent)
        assert one.notifications.sent == 1
        assert one.words == []


async def test_notifications_of_changes_are_always_sent(dsn: str) -> None:
    """They are rare, and a listener that sends nothing needs them too."""
    heard: asyncio.Queue[object] = asyncio.Queue()

    def note(connection: object, pid: int, channel: str, payload: object) -> None:
        del connection, pid, channel
        heard.put_nowait(payload)

    async with alone(dsn) as one:
        connection = await asyncpg.connect(dsn)
        await connection.add_listener("queen", note)
        one.notifications.tell(queue_ids=[42], changed_queue_ids=[44])

        async with asyncio.timeout(5):
            while (payload := await heard.get()) == "?":
                pass
        await connection.close()
    assert payload == "c44"


async def test_a_process_that_starts_is_told_of_the_notifications_it_missed(dsn: str) -> None:
    async with alone(dsn) as one:
        one.notifications.tell(queue_ids=[42])

        async with Listener.open(dsn) as other:
            await other.hears_everything()
            one.notifications.tell(queue_ids=[43])
            await other.hears(43)


async def test_a_notification_between_the_start_and_the_first_sign_of_a_process_is_repeated(
    dsn: str,
) -> None:
    """It listens already, and the other process does not know that yet."""
    async with alone(dsn) as one, Listener.open(dsn, is_shy=True) as other:
        assert not one.notifications.has_listeners
        one.notifications.tell(queue_ids=[42])
        assert other.words == []

        other.may_show.set()

        await other.hears_everything()


async def test_a_process_shows_immediately_that_it_listens(dsn: str) -> None:
    """Not with the check of an idle connection, which comes later."""
    async with alone(dsn) as one, Listener.open(dsn, check_seconds=600):

        async def is_seen() -> bool:
            return one.notifications.has_listeners

        await until(is_seen)


async def test_a_process_without_withheld_notifications_tells_a_new_one_nothing(dsn: str) -> None:
    async with alone(dsn) as one, Listener.open(dsn) as other:

        async def is_seen() -> bool:
            return one.notifications.has_listeners

        await until(is_seen)
        one.notifications.tell(queue_ids=[43])
        await other.hears(43)
        assert not any(each is not None and each.is_everything for each in other.news)


async def test_a_process_that_ended_is_forgotten_and_served_again_when_it_is_back(
    dsn: str,
) -> None:
    async with alone(dsn) as one:
        for _ in range(2):
            async with Listener.open(dsn) as other:
                one.notifications.tell(queue_ids=[43])
                await other.hears_of(43)
            await is_alone(one)
            one.notifications.tell(queue_ids=[44])


async def test_an_application_that_enqueues_is_no_listener(dsn: str) -> None:
    async with alone(dsn) as one:
        connection = await asyncpg.connect(dsn)
        await connection.execute("select pg_notify('queen', 'outbox')")
        await connection.close()

        async def is_heard() -> bool:
            return any(each is not None and each.is_outbox for each in one.news)

        await until(is_heard)
        assert not one.notifications.has_listeners


async def test_notifications_withheld_before_a_lost_connection_are_repeated_after_it(
    dsn: str, tmp_path: Path
) -> None:
    """A process may have started to listen while the connection was broken."""
    async with Gate.open(dsn, tmp_path) as gate, alone(gate.dsn) as one:
        one.notifications.tell(queue_ids=[42])
        async with Listener.open(dsn, is_shy=True) as other:
            gate.cut()
            await one.connects(2)

            await other.hears_everything()


async def test_an_engine_that_starts_between_two_pushes_misses_neither(dsn: str) -> None:
    async with await Engine.open(dsn, settings=PATIENT) as first:
        await first.queues.configure("orders")
        await listening(first)
        forget_others(first)
        await push(first, "orders", 1)
        async with await Engine.open(dsn, settings=PATIENT) as second:
            # Before it listens.
            popping = asyncio.create_task(pop_later(second, "orders", auto_ack=True))
            assert values(await popping) == [1]
            waiting = asyncio.create_task(pop_later(second, "orders", auto_ack=True))
            await asleep(second, 1)

            await push(first, "orders", 2)

            assert values(await waiting) == [2]


async def test_pushes_during_the_start_of_another_engine_wake_its_waiters(dsn: str) -> None:
    """Each push is at another moment of the start, and none may wait for a poll."""
    async with await Engine.open(dsn, settings=PATIENT) as first:
        await first.queues.configure("orders")
        await listening(first)
        for number in range(10):
            forget_others(first)
            async with await Engine.open(dsn, settings=PATIENT) as second:
                # Sooner than the first check of an idle connection.
                waiting = asyncio.create_task(pop_later(second, "orders", seconds=3, auto_ack=True))
                for _ in range(40 * number):
                    await asyncio.sleep(0)
                await push(first, "orders", number)

                assert values(await waiting) == [number]


async def test_an_engine_that_was_forgotten_is_woken_after_its_next_sign(dsn: str) -> None:
    """As a process that was paused for longer than others remember it."""
    async with (
        await Engine.open(dsn, settings=PATIENT) as first,
        await Engine.open(dsn, settings=PATIENT) as second,
    ):
        await first.queues.configure("orders")
        await listening(first, second)
        waiting = asyncio.create_task(pop_later(second, "orders", seconds=10))
        await asleep(second, 1)
        forget_others(first)

        await push(first, "orders", 1)

        assert values(await waiting) == [1]
