"""Sources of a pop: a queue, a partition, all queues of a namespace or a task."""

import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from queen import Message, Queen, errors
from tests.support.server import SOURCE, Server


async def test_a_pop_of_a_namespace_or_task_covers_its_queues(shared: Queen, name: str) -> None:
    for queue, task in (("orders", "process"), ("stock", "update"), ("bills", "process")):
        await shared.queue(f"{name}-{queue}").namespace(name).task(task).create()
        await shared.queue(f"{name}-{queue}").push({"data": queue})

    by_task = shared.queue().namespace(name).task("process").batch(10).partitions(10)
    processed = await by_task.pop()
    await shared.ack(processed)
    rest = await shared.queue().namespace(name).batch(10).partitions(10).pop()

    assert sorted(message.data for message in processed) == ["bills", "orders"]
    assert [message.data for message in rest] == ["stock"]


async def test_a_pop_of_a_namespace_fills_its_batch(shared: Queen, name: str) -> None:
    for queue in ("orders", "stock"):
        target = shared.queue(f"{name}-{queue}").namespace(name)
        await target.create()
        for partition in "ab":
            await target.partition(partition).push([{"data": n} for n in range(2)])

    one = await shared.queue().namespace(name).batch(5).partitions(1).pop()
    found = await shared.queue().namespace(name).batch(5).pop()
    rest = await shared.queue().namespace(name).batch(5).pop()

    assert [len(one), len(found), len(rest)] == [2, 5, 0]
    assert {message.queue for message in found} == {f"{name}-orders", f"{name}-stock"}
    places = {(message.queue, message.partition) for message in found}
    assert len({message.lease_id for message in found}) == len(places) == 3
    assert [m.data for m in found if m.queue == found[0].queue][:2] == [0, 1]
    (left,) = await shared.queue().namespace(name).group("g").batch(1).pop()
    assert left.data == 0


async def test_a_pop_of_a_queue_takes_one_partition(shared: Queen, name: str) -> None:
    for partition in "ab":
        await shared.queue(name).partition(partition).push([{"data": 1}])

    assert len(await shared.queue(name).batch(10).pop()) == 1


async def test_a_namespace_is_consumed(shared: Queen, name: str) -> None:
    for queue in "ab":
        await shared.queue(f"{name}-{queue}").namespace(name).create()
        await shared.queue(f"{name}-{queue}").push({"data": queue})
    seen: list[str] = []

    async def handler(message: Message[Any]) -> None:
        seen.append(message.queue)

    await shared.queue().namespace(name).group("g").limit(2).consume(handler)

    assert sorted(seen) == [f"{name}-a", f"{name}-b"]


async def test_a_pop_waits_for_the_given_timeout(shared: Queen, name: str) -> None:
    await shared.queue(name).create()
    began = time.monotonic()

    assert await shared.queue(name).wait(True).timeout_millis(300).pop() == []

    # Event loops count in whole milliseconds.
    assert 0.29 <= time.monotonic() - began < 5


async def test_a_push_without_a_queue_name_is_rejected(shared: Queen) -> None:
    with pytest.raises(errors.BadRequest, match="needs a queue name"):
        await shared.queue().namespace("x").push({"data": 1})


async def test_dead_letters_by_group_time_and_page(shared: Queen, name: str) -> None:
    queue = shared.queue(name).config({"retryLimit": 0, "ordered": False})
    await queue.create()
    await queue.push([{"data": n} for n in range(3)])
    messages = await queue.group("g").batch(3).pop()
    await shared.ack(messages, False, {"error": "reason", "group": "g"})
    now = datetime.now(UTC)

    first = await queue.dlq("g").limit(2).get()
    second = await queue.dlq("g").limit(2).cursor(first["nextCursor"]).get()

    assert (len(first["messages"]), len(second["messages"])) == (2, 1)
    assert first["total"] == 3
    assert (await queue.dlq("other").get())["messages"] == []
    assert (await queue.dlq().from_(now + timedelta(hours=1)).get())["messages"] == []
    assert len((await queue.dlq().to(now + timedelta(hours=1)).get())["messages"]) == 3
    await queue.dlq("g").purge()


async def test_failed_messages_are_acked_one_by_one_or_together(shared: Queen, name: str) -> None:
    queue = shared.queue(name).config({"ordered": False, "retryDelay": 0})
    await queue.create()
    await queue.push([{"data": n} for n in range(3)])
    one, *others = await queue.batch(3).pop()

    await shared.ack(one, False, {"error": "reason"})
    await shared.ack(others, True)
    (again,) = await queue.wait(True).pop()

    assert (again.id, again.attempt) == (one.id, 2)


def test_a_log_is_written_if_enabled(process: Server, name: str) -> None:
    code = (
        "import asyncio, sys\nfrom queen import Queen\n"
        "async def main():\n async with Queen(sys.argv[1]) as queen:\n"
        f"  await queen.queue({name!r}).push({{'data': 'a secret'}})\n"
        "asyncio.run(main())"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code, process.base_url],
        env={"PYTHONPATH": str(SOURCE), "QUEEN_CLIENT_LOG": "true"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "[INFO] [queen.client] client.initialized" in answer.stderr
    assert "POST" in answer.stderr
    assert "a secret" not in answer.stderr
