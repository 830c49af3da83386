"""One of several databases is restored to an earlier state. `queen shard doctor` repairs it."""

from collections.abc import AsyncIterator

import pytest

from tests.cli.shell import Shell
from tests.cluster.operators.backups import Backups, found, move, of_queue, push, repair, taken
from tests.cluster.operators.operations import database_of, execute, value
from tests.cluster.places import ONE, THREE, TWO, named, slot_of
from tests.support.server import Server, until


@pytest.fixture
async def server(databases: dict[str, str]) -> AsyncIterator[Server]:
    async with Server(databases) as server:
        for queue in (ONE, TWO, THREE):
            await push(server, queue, 1)
        yield server


async def has_messages(server: Server, queue: str, count: int) -> bool:
    return len((await server.get("/messages", queue=queue)).body["messages"]) == count


async def test_messages_of_a_slot_that_has_left_are_delivered_once(
    backups: Backups, server: Server, shell: Shell
) -> None:
    """The restored database has them too, and records itself as the owner."""
    await server.post("/configure", {"queue": "a", "namespace": TWO})
    for n in range(3):
        await push(server, "a", n)
    await backups.take("two")
    await move(server, "a", "main")
    assert await of_queue(server, "a") == [0, 1, 2]

    await backups.restore("two")

    problem = {f"slot {slot_of(TWO)}": "has several owners: main at epoch 3, two at epoch 2"}
    assert await found(shell) == problem
    await repair(shell)
    await server.start()
    assert await taken(server, namespace=TWO) == []
    await push(server, "a", 3)
    assert await taken(server, namespace=TWO) == [3]
    await move(server, "a", "two")
    await push(server, "a", 4)
    assert await of_queue(server, "a") == [4]


async def test_a_slot_that_has_arrived_has_no_owner(
    backups: Backups, server: Server, shell: Shell
) -> None:
    """Its messages are lost with the database. After the repair its queues are empty."""
    await backups.take("two")
    await move(server, ONE, "two")

    await backups.restore("two")

    (problem,) = (await found(shell)).items()
    assert problem == (f"slot {slot_of(ONE)}", "has no owner. main has the highest epoch, 2")
    await repair(shell)
    await server.start()
    await push(server, ONE, 2)
    assert await of_queue(server, ONE) == [2]
    assert await database_of(server, ONE) == "two"


async def test_a_slot_that_has_left_and_returned_can_move_again(
    backups: Backups, server: Server, shell: Shell
) -> None:
    await backups.take("two")
    await move(server, TWO, "three", "two")

    await backups.restore("two")

    problem = {f"slot {slot_of(TWO)}": "is in two at epoch 2, but main has recorded epoch 4"}
    assert await found(shell) == problem
    await repair(shell)
    await server.start()
    await move(server, TWO, "three")
    assert await of_queue(server, TWO) == [1]


async def test_the_first_database_finds_queues_that_are_newer(
    backups: Backups, server: Server, shell: Shell
) -> None:
    (other,) = set(named("three", 2)) - {THREE}
    await backups.take("main")
    await server.post("/configure", {"queue": "a", "namespace": TWO})
    await push(server, "a", 1)
    await move(server, THREE, "two")
    await push(server, other, 1)

    await backups.restore("main")

    assert await found(shell) == {
        "queue a": f"is in slot {slot_of(TWO)} of two, but main does not know it",
        f"queue {other}": f"is in slot {slot_of(other)} of three, but main does not know it",
        f"slot {slot_of(THREE)}": "is in two, but main records three",
    }
    await repair(shell)
    await server.start()
    assert await of_queue(server, "a") == [1]
    assert await of_queue(server, other) == [1]
    assert await of_queue(server, THREE) == [1]


async def test_messages_of_an_older_outbox_are_delivered_once(
    backups: Backups, server: Server, shell: Shell, databases: dict[str, str]
) -> None:
    """Some were forwarded after the backup, but it is not known how many. So they are set aside."""
    await execute(databases["main"], f"select queen.enqueue('{TWO}', '2')")
    await until(lambda: has_messages(server, TWO, 2))
    await server.stop()
    await execute(databases["main"], f"select queen.enqueue('{TWO}', '3')")
    await backups.take("main")
    await until(lambda: has_messages(server, TWO, 3))
    assert await of_queue(server, TWO) == [1, 2, 3]

    await backups.restore("main")

    assert await found(shell) == {
        f"outbox of {TWO}": "main has 1 message that two may have stored already"
    }
    await repair(shell)
    await server.start()
    await push(server, TWO, 4)
    assert await of_queue(server, TWO) == [4]
    assert await value(databases["main"], "select error from queen.outbox")
    await execute(databases["main"], "update queen.outbox set error = null")
    await execute(databases["main"], "notify queen, 'outbox'")

    async def is_sent() -> bool:
        return await of_queue(server, TWO) == [3]

    await until(is_sent)


async def test_messages_from_another_database_that_were_lost_are_named(
    backups: Backups, server: Server, shell: Shell, databases: dict[str, str]
) -> None:
    await backups.take("two")
    await execute(databases["main"], f"select queen.enqueue('{TWO}', '2')")

    async def is_stored() -> bool:
        return bool(await value(databases["two"], "select exists (select 1 from queen.producers)"))

    await until(is_stored)

    await backups.restore("two")

    (problem,) = (await found(shell)).items()
    assert problem[0] == f"outbox of {TWO}"
    assert problem[1].startswith("two lacks messages that main has sent, the last at ")


async def test_ids_of_queues_that_have_moved_are_not_used_again(
    backups: Backups, server: Server, shell: Shell, databases: dict[str, str]
) -> None:
    new, newer = [each for each in named("two", 3) if each != TWO]
    await backups.take("two")
    await push(server, new, 1)
    await move(server, new, "main")

    await backups.restore("two")

    problems = await found(shell)
    assert problems["ids of two"].startswith("main has newer ones: queues")
    await repair(shell)
    await server.start()
    await push(server, newer, 1)
    query = "select array_agg(id) from queen.queues where name in ('{}', '{}')"
    ids = [
        *await value(databases["main"], query.format(new, newer)),
        *await value(databases["two"], query.format(new, newer)),
    ]
    assert len(set(ids)) == 2
    await move(server, newer, "main")
    assert await of_queue(server, new) == [1]
    assert await of_queue(server, newer) == [1]


async def test_two_queues_with_one_name_are_found(
    backups: Backups, server: Server, shell: Shell, databases: dict[str, str]
) -> None:
    """A client has pushed before the repair, so the first database has decided again."""
    await backups.take("main")
    await server.post("/configure", {"queue": "a", "namespace": TWO})
    await push(server, "a", 1)
    await backups.restore("main")
    await server.start()
    await push(server, "a", 2)

    problem = f"is in slot {slot_of(TWO)} of two, but main searches for it in slot {slot_of('a')}"
    assert (await found(shell))["queue a"] == problem
    await execute(
        databases["main"], f"update queen.homes set slot = {slot_of(TWO)} where name = 'a'"
    )
    await server.stop()
    await server.start()
    assert await of_queue(server, "a") == [1]
