"""One bad request in a shared flush does not affect the others."""

import asyncio
from collections.abc import Awaitable, Generator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Any

import asyncpg
import pytest

from queen.engine.engine import Engine
from queen.engine.push.batches import PushResult
from queen.errors import LeaseLost, OutcomeUnknown, Overloaded, QueenError
from queen.settings import Settings
from queen.store import messages as rows
from queen.wire.messages import Acknowledgment, Pushed, PushItem
from tests.engine.helpers import ack, drain, item, lease, message, pop, pop_one, push

POISON = {
    "bad utf-8": b'"\xff\xfe"',
    "cut utf-8": b'"\xf0\x9f"',
    "encoded surrogate": b'"\xed\xa0\x80"',
    "lone surrogate": b'"\\ud800 and more text behind it"',
    "lone low surrogate": b'"\\udc00 and more text behind it"',
    "depth of 100k": b"[" * 100_000 + b"]" * 100_000,
    "depth of 65": b"[" * 65 + b"]" * 65,
    "not json": b"{'a': 1}",
    "nothing": b"",
    "white space": b"  ",
    "half": b'{"a":',
    "two values": b"1 2",
    "two values like a list": b"1,2",
    "closes a bracket": b"1],[1",
    "not a number": b"NaN",
    "control character": b'"\x00"',
}


async def with_neighbours(
    engine: Engine, offender: Awaitable[PushResult]
) -> list[Pushed] | BaseException:
    """Send the offender in one flush with good pushes, which must all be stored."""
    await push(engine, "orders", "first")
    good = [push(engine, "orders", n) for n in range(20)]
    before, answer, after = await asyncio.gather(
        asyncio.gather(*good[:10]),
        asyncio.gather(offender, return_exceptions=True),
        asyncio.gather(*good[10:]),
    )
    assert [each.status for (each,) in (*before, *after)] == ["queued"] * 20
    first, *others = await drain(engine, "orders")
    assert (first, sorted(others)) == ("first", list(range(20)))
    (outcome,) = answer
    return outcome if isinstance(outcome, BaseException) else list(outcome)


@pytest.mark.parametrize("name", POISON)
async def test_only_a_payload_with_invalid_json_is_rejected(engine: Engine, name: str) -> None:
    bad = PushItem(queue="orders", payload=POISON[name])

    answers = await with_neighbours(engine, engine.push([bad]))

    assert not isinstance(answers, BaseException), repr(answers)
    (answer,) = answers
    assert (answer.status, answer.code) == ("failed", "invalid_item")


async def test_only_a_payload_over_the_limit_is_rejected(engine: Engine) -> None:
    fits = b'"' + b"x" * (2**20 - 2) + b'"'
    over = b'"' + b"x" * (2**20 - 1) + b'"'

    answers = await engine.push(
        [PushItem(queue="large", payload=each) for each in (fits, over, b"1")]
    )

    assert [(each.status, each.code) for each in answers] == [
        ("queued", None),
        ("failed", "payload_too_large"),
        ("queued", None),
    ]


async def test_a_queue_may_have_a_lower_limit(engine: Engine) -> None:
    await engine.queues.configure("orders", {"max_payload_bytes": 5})

    answers = await push(engine, "orders", "abc", "abcd")

    assert [each.code for each in answers] == [None, "payload_too_large"]


async def test_bad_items_of_a_request_do_not_affect_its_good_ones(engine: Engine) -> None:
    payloads = [b"1", *POISON.values(), b"2"]

    answers = await engine.push([PushItem(queue="orders", payload=each) for each in payloads])

    assert [each.code for each in answers] == [None, *["invalid_item"] * len(POISON), None]
    assert [each.offset for each in answers if each.status == "queued"] == [0, 1]
    assert await drain(engine, "orders") == [1, 2]


async def test_two_bad_payloads_do_not_form_a_good_pair(engine: Engine) -> None:
    pairs = [(b'"a', b'b"'), (b"[1", b"2]"), (b'{"a":[1', b"2]}"), (b"1,2", b'"x')]
    for pair in pairs:
        answers = await engine.push([PushItem(queue="orders", payload=each) for each in pair])
        assert [each.code for each in answers] == ["invalid_item"] * 2


@pytest.mark.parametrize(
    "fields",
    [
        {"transaction_id": ""},
        {"transaction_id": "x" * 256},
        {"transaction_id": "\ud800"},
        {"transaction_id": "nul \0"},
        {"trace_id": "\ud800"},
        {"trace_id": "nul \0"},
        {"trace_id": "x" * 256},
        {"headers": {"\ud800": "x"}},
        {"headers": {"x": "\ud800"}},
        {"headers": {"x": "nul \0"}},
        {"headers": {str(n): "x" for n in range(65)}},
        {"headers": {"x": "y" * 8192}},
        {"available_at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-5)))},
    ],
    ids=range(13),
)
async def test_only_an_item_that_cannot_be_stored_is_rejected(
    engine: Engine, fields: dict[str, Any]
) -> None:
    answers = await with_neighbours(
        engine, engine.push([item("others", "bad", **fields), item("others", "good")])
    )

    assert not isinstance(answers, BaseException), repr(answers)
    bad, good = answers
    assert (bad.status, bad.code) == ("failed", "invalid_item")
    assert (good.status, good.offset) == ("queued", 0)


@pytest.mark.parametrize(
    ("producer_id", "sequence"),
    [("p", 2**63), ("\ud800", 1), ("nul \0", 1), ("", 1), ("x" * 256, 1)],
    ids=["large sequence", "surrogate", "nul", "empty", "long"],
)
async def test_only_a_producer_that_cannot_be_stored_is_rejected(
    engine: Engine, producer_id: str, sequence: int
) -> None:
    refused = await with_neighbours(
        engine, engine.push([item("others", "x")], producer_id=producer_id, sequence=sequence)
    )

    assert isinstance(refused, QueenError), repr(refused)
    assert refused.applied is False


@pytest.mark.parametrize(
    "queue", ["", "\ud800", "x\0", "x\n", "__x", " x", "x" * 256, ".", ".."], ids=range(9)
)
async def test_only_an_invalid_name_is_rejected(engine: Engine, queue: str) -> None:
    refused = await with_neighbours(engine, engine.push([item(queue, "x")]))

    assert isinstance(refused, QueenError), repr(refused)
    assert (refused.code, refused.applied) == ("invalid_name", False)


@pytest.mark.parametrize(
    "forged",
    ["0.99999999999999999999." + "0" * 32, "0.-1." + "0" * 32, "0.1.zz", "", "a.b.c", "0.1"],
)
async def test_only_a_lease_that_never_existed_is_lost(engine: Engine, forged: str) -> None:
    for n in range(6):
        await push(engine, "orders", n, partition=str(n))
    held = [await pop_one(engine, "orders") for _ in range(6)]

    answers = await asyncio.gather(
        *(ack(engine, each) for each in held[:3]),
        engine.ack(forged),
        *(ack(engine, each) for each in held[3:]),
        return_exceptions=True,
    )

    assert isinstance(answers.pop(3), LeaseLost)
    assert answers == [1] * 6


@pytest.mark.parametrize("delay_seconds", [-1.0, float("nan"), 1e300], ids=str)
async def test_only_an_ack_with_an_invalid_delay_is_rejected(
    engine: Engine, delay_seconds: float
) -> None:
    await push(engine, "orders", "a", partition="one")
    await push(engine, "orders", "b", partition="two")
    one = await pop_one(engine, "orders", partition="one")
    two = await pop_one(engine, "orders", partition="two")
    failed = [
        Acknowledgment(
            id=message(each, 0).id, lease_id=lease(each), status="failed", delay_seconds=seconds
        )
        for each, seconds in ((one, delay_seconds), (two, 1.0))
    ]

    bad, good = await asyncio.gather(
        *(engine.acknowledge([each]) for each in failed), return_exceptions=True
    )

    assert not isinstance(good, BaseException), repr(good)
    assert good[0].success
    assert isinstance(bad, QueenError) or (isinstance(bad, list) and not bad[0].success), repr(bad)


async def test_a_request_has_at_most_ten_thousand_items(engine: Engine) -> None:
    answers = await push(engine, "orders", *range(10_000))
    assert answers[-1].offset == 9_999

    with pytest.raises(QueenError) as caught:
        await push(engine, "orders", *range(10_001))
    assert caught.value.code == "too_many_items"
    with pytest.raises(QueenError) as caught:
        await engine.push([])
    assert caught.value.code == "bad_request"


async def test_a_request_without_room_for_all_its_partitions_stores_no_item(dsn: str) -> None:
    async with await Engine.open(dsn, settings=Settings(max_queued_requests=1)) as engine:
        for partition in ("a", "b"):
            await push(engine, "orders", 0, partition=partition)

        with pytest.raises(Overloaded):
            await engine.push([item("orders", 1, partition=each) for each in ("a", "b")])

        assert await drain(engine, "orders") == [0, 0]


@pytest.mark.parametrize("is_other_stored", [False, True])
async def test_a_partition_with_an_unknown_outcome_makes_the_whole_request_unknown(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, is_other_stored: bool
) -> None:
    for partition in ("a", "b"):
        await push(engine, "orders", 0, partition=partition)
    store = engine.store.messages.push
    partition_a = engine.catalogue.partition(("orders", "a", 0))

    async def fail(push: rows.Push) -> list[rows.Record]:
        if partition_a is not None and push.partition_ids == [partition_a.partition_id]:
            raise OutcomeUnknown("the connection was lost")
        if is_other_stored:
            return await store(push)
        raise Overloaded("a lock took too long")

    # One flush per partition.
    monkeypatch.setattr(engine._pusher._batcher, "_max_units", 1)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(engine.store.messages, "push", fail)

    with pytest.raises(OutcomeUnknown):
        await engine.push([item("orders", 1, partition=each) for each in ("b", "a")])


def count(engine: Engine, call: str) -> list[str]:
    """The statements with this name that are sent after this call."""
    sent: list[str] = []

    @contextmanager
    def note(name: str) -> Generator[None]:
        if name == call:
            sent.append(name)
        yield

    engine.store.database.span = note
    return sent


async def refuse(dsn: str, event: str, table: str, when: str) -> None:
    """Make PostgreSQL fail unexpectedly for some rows of a table."""
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        "create function public.refuse() returns trigger language plpgsql as"
        " $$ begin raise exception 'odd' using errcode = 'XX000'; end $$"
    )
    await connection.execute(
        f"create trigger refuse before {event} on queen.{table} for each row"
        f" when ({when}) execute function public.refuse()"
    )
    await connection.close()


async def test_the_offender_in_a_flush_is_found_in_few_transactions(
    dsn: str, engine: Engine
) -> None:
    partitions = [str(n) for n in range(256)]
    await asyncio.gather(*(push(engine, "orders", 0, partition=each) for each in partitions))
    await refuse(dsn, "insert", "segments", r"position('\x706f69736f6e'::bytea in new.body) > 0")
    sent = count(engine, "push")

    answers = await asyncio.gather(
        *(push(engine, "orders", "good", partition=each) for each in partitions[:200]),
        push(engine, "orders", "poison", partition=partitions[200]),
        *(push(engine, "orders", "good", partition=each) for each in partitions[201:]),
        return_exceptions=True,
    )

    failed = [at for at, each in enumerate(answers) if isinstance(each, BaseException)]
    assert failed == [200]
    assert len(sent) < 40
    assert (await drain(engine, "orders")).count("good") == 255


async def test_the_offender_among_acks_is_found_in_few_transactions(
    dsn: str, engine: Engine
) -> None:
    partitions = [str(n) for n in range(128)]
    await asyncio.gather(*(push(engine, "orders", 0, partition=each) for each in partitions))
    held = await pop(engine, "orders", batch=128, partitions=128)
    assert len(held) == 128
    await refuse(dsn, "delete", "deliveries", f"old.partition_id = {held[100].partition_id}")
    sent = count(engine, "ack")

    answers = await asyncio.gather(*(ack(engine, each) for each in held), return_exceptions=True)

    failed = [at for at, each in enumerate(answers) if isinstance(each, BaseException)]
    assert failed == [100]
    assert len(sent) < 40
