"""Pushes, acks and pops of one moment share a transaction, and errors reach only their callers."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any
from uuid import UUID

import msgspec
import pytest

from queen import errors, telemetry
from queen.engine.engine import Engine
from queen.engine.runtime.combiner import Combiner
from queen.meters import Snapshot
from queen.store.messages import Ack, Combined, Pop, Push
from tests.engine.helpers import ack, asleep, item, lease, listening, pop, pop_one, push, values

PUSH = Push(partition_ids=[1], counts=[1], bodies=[b"{}"], ends=[b""], queue_ids={1})
NUMBERED = msgspec.structs.replace(
    PUSH, producers=["p\x1f*"], sequences=[1], digests=[b"digest"], outcomes=[b"outcome"]
)
ACK = Ack(1, UUID(int=1), None, 1)
POP = Pop(
    group_ids=[1],
    ready_since=["now"],  # pyright: ignore[reportArgumentType] - a mark that is set
    due_since=[None],
    partition=None,
    batches=[1],
    partitions=[1],
    leases=[None],
    is_auto=False,
    due="never",
    turn=0,
)


class Recorder:
    """Records calls in place of the store. Rows are the name of the call."""

    def __init__(self, error: Exception | None = None) -> None:
        self.calls: list[str] = []
        self.error = error
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def push(self, push: Push) -> Any:  # noqa: ANN401
        return await self._called("push", push.partition_ids)

    async def ack(self, acks: list[Ack]) -> Any:  # noqa: ANN401
        return await self._called("ack", acks)

    async def pop(self, pop: Pop) -> Any:  # noqa: ANN401
        return await self._called("pop", pop.group_ids)

    async def combine(self, push: Push | None, acks: list[Ack], pops: list[Pop]) -> Combined:
        await self._called("combine", ())
        if self.error is not None:
            raise self.error
        rows: Any = [{"kind": "stored"}]
        return Combined(rows if push else [], list(acks), [list(each.group_ids) for each in pops])  # pyright: ignore[reportArgumentType]

    async def _called(self, name: str, rows: object) -> object:
        self.calls.append(name)
        await self.goes_on.wait()
        return rows


def combiner(recorder: Recorder) -> Combiner:
    return Combiner(recorder)  # pyright: ignore[reportArgumentType]


def counted(shared: Combiner) -> dict[str, float]:
    snapshot = Snapshot()
    shared.fill(snapshot)
    return {each: snapshot.of(telemetry.COMBINED_CALLS, each) for each in ("stored", "split")}


async def together(*calls: Coroutine[Any, Any, Any]) -> list[Any]:
    async with asyncio.timeout(5):
        return await asyncio.gather(*calls, return_exceptions=True)


@pytest.mark.parametrize("sent", [PUSH, NUMBERED], ids=["plain", "numbered"])
async def test_calls_of_one_moment_are_combined_and_get_their_rows(sent: Push) -> None:
    recorder = Recorder()
    shared = combiner(recorder)

    found = await together(shared.pop(POP), shared.ack([ACK]), shared.push(sent))

    assert recorder.calls == ["combine"]
    assert found == [[1], [ACK], [{"kind": "stored"}]]
    assert counted(shared) == {"stored": 1, "split": 0}


async def test_a_lone_call_is_sent_as_it_is() -> None:
    recorder = Recorder()
    shared = combiner(recorder)

    for call in (shared.push(PUSH), shared.ack([ACK]), shared.pop(POP)):
        await together(call)

    assert recorder.calls == ["push", "ack", "pop"]


async def test_calls_that_may_be_long_are_not_combined() -> None:
    recorder = Recorder()
    shared = combiner(recorder)
    large = Push(partition_ids=[1], counts=[1], bodies=[b"x" * 100_000], ends=[b""])
    keyed = Push(partition_ids=[1], counts=[1], bodies=[b""], ends=[b""], keys=[b"k" * 16])

    await together(shared.push(large), shared.push(keyed), shared.ack([ACK]))

    assert sorted(recorder.calls) == ["ack", "push", "push"]


@pytest.mark.parametrize("error", [errors.Overloaded("a lock"), RuntimeError("poison")])
async def test_after_an_error_the_parts_are_sent_one_by_one(error: Exception) -> None:
    recorder = Recorder(error)
    shared = combiner(recorder)

    found = await together(shared.push(PUSH), shared.ack([ACK]), shared.pop(POP))

    assert recorder.calls == ["combine", "push", "ack", "pop"]
    assert found == [[1], [ACK], [1]]
    assert counted(shared) == {"stored": 0, "split": 1}


async def test_after_an_unknown_outcome_no_part_is_sent_again() -> None:
    recorder = Recorder(errors.OutcomeUnknown("lost"))
    shared = combiner(recorder)

    found = await together(shared.push(PUSH), shared.ack([ACK]), shared.pop(POP))

    assert recorder.calls == ["combine"]
    assert [type(each) for each in found] == [errors.OutcomeUnknown] * 3


async def test_after_a_call_of_one_request_the_next_starts_immediately(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("queen.engine.runtime.combiner.PACE_SECONDS", 3_600.0)
    shared = combiner(Recorder())

    for _ in range(3):
        await together(shared.push(PUSH))


async def test_the_more_a_running_call_carries_the_later_the_next_one_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("queen.engine.runtime.combiner.PACE_SECONDS", 0.05)

    async def seconds_until_next(*acks: Ack) -> float:
        recorder = Recorder()
        recorder.goes_on.clear()
        shared = combiner(recorder)
        began = time.monotonic()
        calls = [asyncio.create_task(each) for each in (shared.push(PUSH), shared.ack(acks))]
        await until_called(recorder, 1)
        calls.append(asyncio.create_task(shared.push(PUSH)))
        await until_called(recorder, 2)
        seconds = time.monotonic() - began
        recorder.goes_on.set()
        await asyncio.wait(calls, timeout=5)
        return seconds

    # A timer can end a millisecond early.
    assert await seconds_until_next(ACK) >= 0.09
    assert await seconds_until_next(ACK, ACK) >= 0.14
    assert await seconds_until_next(*[ACK] * 9) >= 0.19


async def test_a_client_whose_calls_follow_each_other_waits_for_two_units_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("queen.engine.runtime.combiner.PACE_SECONDS", 100.0)
    shared = combiner(Recorder())
    await together(shared.ack([ACK] * 9))

    following = asyncio.create_task(shared.ack([ACK] * 9))
    await asyncio.sleep(0)

    timer: Any = shared._timer  # pyright: ignore[reportPrivateUsage]
    assert 100 < timer.when() - asyncio.get_running_loop().time() < 201
    timer.cancel()
    following.cancel()


async def until_called(recorder: Recorder, count: int) -> None:
    async with asyncio.timeout(5):
        while len(recorder.calls) < count:  # noqa: ASYNC110 - a condition, bounded
            await asyncio.sleep(0.001)


async def test_while_a_call_runs_others_gather_for_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("queen.engine.runtime.combiner.PACE_SECONDS", 0.2)
    recorder = Recorder()
    recorder.goes_on.clear()
    shared = combiner(recorder)
    first = asyncio.create_task(shared.push(PUSH))
    for _ in range(5):
        await asyncio.sleep(0)

    others = [asyncio.create_task(each) for each in (shared.ack([ACK]), shared.pop(POP))]
    for _ in range(5):
        await asyncio.sleep(0)
    assert recorder.calls == ["push"]
    recorder.goes_on.set()
    async with asyncio.timeout(5):
        await asyncio.gather(first, *others)

    assert recorder.calls == ["push", "combine"]


# --- with a database


@pytest.fixture
def calls(patient: Engine, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls of push, ack, pop and combine since the start of the test."""
    sent: list[str] = []
    fetch = patient.store.database.fetch

    async def record(call: str, *arguments: object) -> Any:  # noqa: ANN401
        if call in ("push", "ack", "pop", "combine"):
            sent.append(call)
        return await fetch(call, *arguments)

    monkeypatch.setattr(patient.store.database, "fetch", record)
    return sent


async def waiters(engine: Engine, count: int, **fields: Any) -> list[asyncio.Task[Any]]:  # noqa: ANN401
    """Waiting pops whose group has been searched before."""
    await listening(engine)
    await push(engine, "orders", 0)
    await ack(engine, await pop_one(engine, "orders", **fields))
    popping = [
        asyncio.create_task(pop(engine, "orders", wait=True, timeout_seconds=60, **fields))
        for _ in range(count)
    ]
    await asleep(engine, count)
    assert await pop(engine, "orders", **fields) == []
    return popping


async def test_a_waiter_gets_a_message_in_the_transaction_of_its_push(
    patient: Engine, calls: list[str]
) -> None:
    sent: list[list[str]] = []
    # A search that an earlier notification started may still run. Then the push is not combined.
    while ["combine"] not in sent and len(sent) < 10:
        (popping,) = await waiters(patient, 1)
        calls.clear()
        await push(patient, "orders", 1)
        async with asyncio.timeout(5):
            (delivery,) = await popping
        sent.append([*calls])
        assert values(delivery) == [1]
        assert await patient.ack(lease(delivery)) == 1

    assert ["combine"] in sent


async def test_a_numbered_push_serves_its_waiter_and_is_stored_once(
    patient: Engine, calls: list[str]
) -> None:
    sent: list[list[str]] = []
    while ["combine"] not in sent and len(sent) < 10:
        (popping,) = await waiters(patient, 1)
        items, number = [item("orders", "numbered")], len(sent)
        calls.clear()
        first = await patient.push(items, producer_id="p", sequence=number)
        async with asyncio.timeout(5):
            (delivery,) = await popping
        sent.append([*calls])
        again = await patient.push(items, producer_id="p", sequence=number)
        assert (again.is_replayed, list(again)) == (True, list(first))
        assert values(delivery) == ["numbered"]
        assert await patient.ack(lease(delivery)) == 1

    assert ["combine"] in sent


async def test_waiters_beyond_the_pushed_messages_wait_on(
    patient: Engine, calls: list[str]
) -> None:
    popping = await waiters(patient, 3)
    calls.clear()

    await push(patient, "orders", 1, partition="a")
    done, left = await asyncio.wait(popping, timeout=5, return_when=asyncio.FIRST_COMPLETED)
    assert len(done) == 1
    await push(patient, "orders", 2, partition="b")
    await push(patient, "orders", 3, partition="c")
    async with asyncio.timeout(5):
        found = [values(await each)[0] for each in (*done, *left)]

    assert sorted(found) == [1, 2, 3]


async def test_a_push_takes_one_waiter_more_than_it_has_messages(
    patient: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one finds no message, so the other waiters keep waiting."""
    taken: list[int] = []
    combine = patient.store.messages.combine

    async def record(pushed: Push | None, acks: list[Ack], pops: list[Pop]) -> Combined:
        if pushed is not None:
            taken.extend(len(each.batches) for each in pops)
        return await combine(pushed, acks, pops)

    popping = await waiters(patient, 6)
    monkeypatch.setattr(patient.store.messages, "combine", record)
    for number in range(6):
        # An earlier search may still run. Then the push takes no waiters.
        await push(patient, "orders", number, partition=f"p{number}")
    async with asyncio.timeout(5):
        found = [values(await each)[0] for each in popping]

    assert sorted(found) == list(range(6))
    assert taken
    assert max(taken) == 2


async def test_a_push_with_a_duplicate_still_serves_the_waiter(
    patient: Engine, calls: list[str]
) -> None:
    (popping,) = await waiters(patient, 1)

    await push(patient, "orders", 1, transaction_id="t")
    async with asyncio.timeout(5):
        assert values(await popping) == [1]


async def test_pushes_and_acks_and_pops_of_many_clients_lose_nothing(patient: Engine) -> None:
    await patient.queues.configure("orders")
    taken: list[int] = []

    async def consume() -> None:
        while len(taken) < 200:
            for delivery in await pop(patient, "orders", wait=True, timeout_seconds=0.2):
                taken.extend(values(delivery))
                await ack(patient, delivery)

    async def produce(number: int) -> None:
        for at in range(20):
            await push(patient, "orders", 20 * number + at, partition=f"p{number}")

    async with asyncio.timeout(60):
        await asyncio.gather(*(produce(each) for each in range(10)), *(consume() for _ in range(8)))

    assert sorted(taken) == list(range(200))
    for number in range(10):
        of_partition = [each for each in taken if each // 20 == number]
        assert of_partition == sorted(of_partition)
