"""Workflows under concurrency: each successor once, no deadlock, a fan-out of 10,000."""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from queen.store.messages import Advance
from tests.sql import calls
from tests.sql.calls import Call, Lease, configure, leases, partition_ids, pop, push, run, subscribe

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

Connect = Callable[[], Awaitable["Connection"]]

START = "select queen.start_workflow($1, 'test', '1', '{}', null, null, null, null, $2, $3, $4)"
LOCK = "select 1 from queen.workflows where id = any ($1) order by id for no key update"
ADVANCE = "select queen.advance_step($1, $2, $3, $4, $5, $6, $7, 1, queen.now())"
MESSAGES = """
select o.payload -> 'workflow' as ours
from queen.outbox o
where o.payload -> 'workflow' ->> 'id' = $1
order by o.id
"""


@pytest.fixture
async def connect(dsn: str) -> AsyncIterator[Connect]:
    """Connections that detect a deadlock immediately."""
    async with AsyncExitStack() as stack:

        async def connect() -> "Connection":
            settings = {"deadlock_timeout": "20ms", "lock_timeout": "20s"}
            connection = await asyncpg.connect(dsn, server_settings=settings)
            stack.push_async_callback(connection.close)
            return connection

        yield connect


def step(name: str, *targets: str, sources: int = 0, **members: Any) -> dict[str, Any]:  # noqa: ANN401
    """A step as an argument of ``queen.start_workflow``."""
    return {
        "name": name,
        "kind": "map" if "items" in members else "message",
        "queue": "work",
        "on_success": targets,
        "needs_all": True,
        "sources": sources,
        **members,
    }


async def start(connection: "Connection", *steps: dict[str, Any]) -> str:
    id_ = uuid4().hex
    items = [json.dumps(each.pop("items")) if "items" in each else None for each in steps]
    templates = [json.dumps({"name": each["name"]}) for each in steps]
    assert await connection.fetchval(START, id_, json.dumps(steps), templates, items)
    return id_


async def messages(connection: "Connection", id_: str) -> list[dict[str, Any]]:
    return [json.loads(row["ours"]) for row in await connection.fetch(MESSAGES, id_)]


async def advance(
    connection: "Connection", message: dict[str, Any], result: object, outcome: str = "success"
) -> str:
    async with connection.transaction():
        await connection.execute(LOCK, [message["id"]])
        answer: str = await connection.fetchval(
            ADVANCE,
            message["id"],
            message["step"],
            message.get("part"),
            message["token"],
            outcome,
            json.dumps(result),
            None if outcome == "success" else "no",
        )
    return answer


async def state(connection: "Connection", id_: str) -> str:
    return await connection.fetchval("select state from queen.workflows where id = $1", id_)


async def test_concurrent_ends_of_parts_start_the_reduce_once(
    connect: Connect,
) -> None:
    connections = [await connect() for _ in range(8)]
    parts = 64
    id_ = await start(
        connections[0], step("map", "reduce", items=list(range(parts))), step("reduce", sources=1)
    )
    sent = await messages(connections[0], id_)
    assert len(sent) == parts
    # Two connections report each part, like a repeat after a lost response.
    todo = sent * 2
    random.Random(7).shuffle(todo)
    answers: list[str] = []

    async def work(connection: "Connection") -> None:
        while todo:
            message = todo.pop()
            answers.append(await advance(connection, message, message["part"] * 10))

    await asyncio.gather(*map(work, connections))

    assert answers.count("advanced") == parts
    assert answers.count("stale") == parts
    (reduce,) = [each for each in await messages(connections[0], id_) if each["step"] == "reduce"]
    assert reduce["results"] == {"map": [part * 10 for part in range(parts)]}


async def test_concurrent_ends_of_branches_start_the_fan_in_once(
    connect: Connect,
) -> None:
    connections = [await connect() for _ in range(8)]
    for _ in range(10):
        branches = [step(f"b{number}", "join") for number in range(8)]
        id_ = await start(connections[0], *branches, step("join", sources=8))
        sent = await messages(connections[0], id_)
        await asyncio.gather(
            *(
                advance(connection, message, message["step"])
                for connection, message in zip(connections, sent, strict=True)
            )
        )
        joins = [each for each in await messages(connections[0], id_) if each["step"] == "join"]
        assert len(joins) == 1
        assert joins[0]["results"] == {f"b{number}": f"b{number}" for number in range(8)}


async def test_one_of_two_conflicting_results_settles_a_step(connect: Connect) -> None:
    one, other = await connect(), await connect()
    for _ in range(20):
        id_ = await start(
            one, step("a", "yes", on_failure=["no"]), step("yes", sources=1), step("no", sources=1)
        )
        (message,) = await messages(one, id_)

        answers = await asyncio.gather(
            advance(one, message, 1), advance(other, message, None, "failure")
        )

        assert sorted(answers) == ["advanced", "stale"]
        followed = [each["step"] for each in await messages(one, id_)][1:]
        assert followed in (["yes"], ["no"])


@pytest.mark.nightly
@pytest.mark.timeout(300)
async def test_a_fan_out_of_ten_thousand_ends_in_one_reduce(connect: Connect) -> None:
    connection = await connect()
    began = time.monotonic()
    id_ = await start(
        connection, step("map", "reduce", items=list(range(10_000))), step("reduce", sources=1)
    )
    assert time.monotonic() - began < 20
    sent = await messages(connection, id_)
    assert [each["part"] for each in sent] == list(range(10_000))

    async with connection.transaction():
        await connection.execute(LOCK, [id_])
        for message in random.Random(1).sample(sent, len(sent)):
            await connection.fetchval(
                ADVANCE,
                *(id_, "map", message["part"], message["token"], "success"),
                *(str(message["part"]), None),
            )

    (reduce,) = [each for each in await messages(connection, id_) if each["step"] == "reduce"]
    assert reduce["results"]["map"] == list(range(10_000))


async def _deliver(
    connection: "Connection", group_id: int, partition_id: int, partition: str
) -> Lease:
    await run(connection, push(partition_id))
    (lease,) = leases(await run(connection, pop(group_id, partition=partition)))
    return lease


def _advance_call(steps: Sequence[dict[str, Any]], lent: Sequence[Lease]) -> Call:
    return calls.advance(
        [
            Advance(
                *(each["id"], each["step"], each.get("part"), UUID(each["token"])),
                *("success", "1", None, 1),
            )
            for each in steps
        ],
        lent,
    )


async def test_advances_of_the_same_workflows_in_any_order_do_not_deadlock(
    connect: Connect,
) -> None:
    connections = [await connect() for _ in range(4)]
    first = connections[0]
    await run(first, configure("work", ordered=False))
    (row,) = await run(first, subscribe("work", "workers"))
    group_id = row["group_id"]
    names = [f"p{number}" for number in range(16)]
    rows = await run(first, partition_ids("work", *names))
    ids = [
        await start(first, step("map", "end", items=list(range(16))), step("end", sources=1))
        for _ in range(2)
    ]
    sent = [await messages(first, id_) for id_ in ids]
    work: list[Call] = []
    for number, (name, row) in enumerate(zip(names, rows, strict=True)):
        lease = await _deliver(first, group_id, row["partition_id"], name)
        pair = [sent[0][number], sent[1][number]]
        # Each transaction covers both workflows, in either order.
        work.append(_advance_call(pair if number % 2 else pair[::-1], [lease]))

    async def work_off(connection: "Connection") -> None:
        while work:
            rows = await run(connection, work.pop())
            assert {row["kind"] for row in rows} == {"acked", "advanced"}

    await asyncio.gather(*map(work_off, connections))

    for id_ in ids:
        ends = [each for each in await messages(first, id_) if each["step"] == "end"]
        assert len(ends) == 1


async def test_a_call_with_a_lost_lease_advances_no_step(connect: Connect) -> None:
    connection = await connect()
    await run(connection, configure("work", ordered=False))
    (row,) = await run(connection, subscribe("work", "workers"))
    rows = await run(connection, partition_ids("work", "p"))
    lease = await _deliver(connection, row["group_id"], rows[0]["partition_id"], "p")
    id_ = await start(connection, step("a", "b"), step("b", sources=1))
    sent = await messages(connection, id_)
    call = _advance_call(sent, [(lease[0], uuid4())])

    rows = await run(connection, call)

    assert [(row["kind"], row["code"]) for row in rows] == [("nack", "QN002")]
    assert [each["step"] for each in await messages(connection, id_)] == ["a"]
    assert await state(connection, id_) == "running"


async def test_results_that_are_too_large_for_a_message_fail_the_step(connect: Connect) -> None:
    connection = await connect()
    id_ = await start(connection, step("map", "reduce", items=[1, 2]), step("reduce", sources=1))
    for message in await messages(connection, id_):
        await advance(connection, message, "x" * 5_000_000)

    assert await state(connection, id_) == "failed"
    error = await connection.fetchval("select error from queen.workflows where id = $1", id_)
    assert "the maximum is 8388608" in error
